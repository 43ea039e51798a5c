"""A virtual machine on the box, as its client has it.

`relax.VirtualMachine(remote_module, remote.cpu())`.

Arrays go to the box once. Results stay there until `numpy()` fetches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.errors import ArgumentError, DeviceError
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import MissingFunctionError
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.measure.peaks import Peaks
from compiler.runtime.measure.report import Report
from compiler.runtime.measure.timing import BenchmarkResult
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.signature import Interface, SignatureParameter
from rpc_server.client.remote import RPCDevice, RPCModule, lent_array
from rpc_server.errors import ProtocolError
from rpc_server.wire import messages
from rpc_server.wire.codec import expect, only_buffer
from rpc_server.wire.machine_messages import (
    MOST_NESTED,
    Action,
    ArrayInfo,
    Item,
    Items,
    MemoryRef,
    ModelTiming,
    ShapeOf,
    TupleOf,
)

if TYPE_CHECKING:
    from rpc_server.client.session import RPCSession


class RemoteModelFunction(PackedFunc):
    """A function of a model on the box."""

    def __init__(self, machine: RemoteMachine, name: str) -> None:
        self.name = name
        self._machine = machine

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call and wait. Raises what the box raised."""
        return self._machine._use(Action.CALL, self.name, args, kwargs)


class RemoteMachine(VirtualMachine):
    """Runs a model on a box, as `VirtualMachine` runs one here.

    Instruments and closures stay with the machine, so they are not offered here. Raises ArtifactError if the box
    cannot run the model, and SessionClosed once its session is over.
    """

    def __init__(
        self,
        rt_mod: RPCModule,
        device: Device | list[Device],
        memory_cfg: str | dict[Device, str] | None = None,
        profile: bool = False,
    ) -> None:
        devices = [device] if isinstance(device, Device) else list(device)
        self._session: RPCSession = rt_mod.session
        for place in devices:
            if not isinstance(place, RPCDevice) or place.session is not self._session:
                raise DeviceError(f"the model is on {self._session.address}, {place} is not", hint="pass remote.cpu()")
        memory = memory_cfg or ""
        if isinstance(memory, Mapping):
            if len(set(memory.values())) > 1:
                raise ArgumentError("a remote machine uses one memory allocator on all devices", hint='pass "naive"')
            memory = next(iter(memory.values()), "")
        places = tuple((place.device_type, place.device_id) for place in devices)
        opened = expect(
            messages.MachineOpened, self._session.request(messages.OpenMachine(rt_mod.handle, places, memory)).body
        )
        self._remote = rt_mod
        self._place = devices[0]
        self._handle = opened.handle
        self._params = {function.name: function.params for function in opened.functions}
        self._infos = {function.name: function for function in opened.functions}
        self._saved_names: set[str] = set()
        self._given: dict[str, tuple[Any, ...]] = {}  # arrays that inputs are made of, kept on the box as long

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._session.free_later(messages.FreeHandles(machines=(self._handle,)))

    def __getitem__(self, key: str) -> PackedFunc:
        """A function of the model, or one that `save_function` made. Raises MissingFunctionError."""
        if key not in self._params and key not in self._saved_names:
            known = ", ".join([*self._params, *self._saved_names])
            raise MissingFunctionError(f"the model has no function {key!r}", hint=f"it has: {known or 'none'}")
        return RemoteModelFunction(self, key)

    def interface(self, name: str) -> Interface:
        """Return what a function takes and gives. Raises MissingFunctionError."""
        if name not in self._infos:
            raise MissingFunctionError(f"the model has no function {name!r}", hint=f"it has: {', '.join(self._params)}")
        info = self._infos[name]
        arrays = info.arrays or (ArrayInfo(),) * len(info.params)
        params = (SignatureParameter(given, array.dtype, array.shape) for given, array in zip(info.params, arrays))
        return Interface(tuple(params), info.results)

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        raise DeviceError("closures stay on the box", hint="call a function of the model that calls the closure")

    def set_instrument(self, instrument: Callable[..., Any] | str | None) -> None:
        raise DeviceError("calls on a box cannot be watched from here", hint="`profile` says what each of them took")

    # -- saved functions and state ---------------------------------------------------------------
    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **kwargs: Any
    ) -> None:
        """Keep a call with its arguments on the box under a name."""
        given = self._arguments_of(func_name, args, kwargs)
        items = self._items(given)
        self._request(Action.SAVE, func_name, items, saved_name, include_return)
        self._saved_names.add(saved_name)
        self._given[f"saved {saved_name}"] = given

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set a function's arguments, which go to the box now."""
        given = self._arguments_of(func_name, args, kwargs)
        self._request(Action.SET_INPUT, func_name, self._items(given))
        self._given[func_name] = given

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the arguments that were set."""
        self._request(Action.INVOKE, func_name)

    def get_outputs(self, func_name: str) -> Any:
        """The result of the last `invoke_stateful`: arrays on the box."""
        return self._result(self._request(Action.OUTPUTS, func_name))

    # -- measuring -------------------------------------------------------------------------------
    def time_evaluator(
        self, func_name: str, dev: Device, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1, f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """Time as `VirtualMachine.time_evaluator` does; the calls and the clock are on the box."""
        timing = ModelTiming(number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown, f_preproc)

        def evaluate(*args: Any, **kwargs: Any) -> BenchmarkResult:
            given = self._arguments_of(func_name, args, kwargs) if func_name in self._params else args
            request = messages.TimeMachine(
                self._handle, func_name, self._items(given), dev.device_type, dev.device_id, timing
            )
            reply = expect(messages.Timings, self._session.request(request).body)
            return BenchmarkResult(reply.seconds, reply.warnings)

        return evaluate

    def profile(self, func_name: str, *args: Any, peaks: Peaks | bool = False) -> Report:
        """Profile as `VirtualMachine.profile` does, on the box; `peaks=True` measures what the box can do."""
        given = self._arguments_of(func_name, args, {})
        rates = (peaks.flops, peaks.bytes) if isinstance(peaks, Peaks) else None
        request = messages.UseMachine(
            self._handle, Action.PROFILE, func_name, self._items(given), measure_peaks=peaks is True, peaks=rates
        )
        reply = self._session.request(request)
        return Report.from_json(bytes(only_buffer(reply)).decode("utf-8", "replace"))

    # -- values ----------------------------------------------------------------------------------
    def _use(self, action: Action, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = self._arguments_of(name, args, kwargs) if name in self._params else tuple(args)
        return self._result(self._request(action, name, self._items(given)))

    def _request(
        self, action: Action, name: str, items: Items = (), saved: str = "", include_return: bool = True
    ) -> messages.MachineReturned:
        request = messages.UseMachine(self._handle, action, name, items, saved, include_return)
        return expect(messages.MachineReturned, self._session.request(request).body)

    def _arguments_of(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call by position, arrays on the box."""
        if name not in self._params:
            raise MissingFunctionError(f"the model has no function {name!r}", hint=f"it has: {', '.join(self._params)}")
        names = self._params[name]
        given = [*args]
        for position, parameter in enumerate(names[len(args) :], len(args)):
            if parameter not in kwargs:
                raise ArgumentError(f"{name} lacks {parameter}", hint=f"its arguments: {', '.join(names)}")
            assert position == len(given)
            given.append(kwargs[parameter])
        if unknown := [key for key in kwargs if key not in names[len(args) :]]:
            raise ArgumentError(f"{name}: {unknown[0]!r} is no argument of it, or is given twice")
        return tuple([self._on_box(value) for value in given])

    def _on_box(self, value: Any) -> Any:
        match value:
            case ShapeTuple():
                return value
            case tuple() | list():
                return tuple([self._on_box(item) for item in value])
            case NDArray() if isinstance(value.device, RPCDevice) and value.device.session is self._session:
                return value
            case NDArray() | np.ndarray() | np.generic():
                return array(value.numpy() if isinstance(value, NDArray) else value, self._place)
        return value

    def _items(self, values: Sequence[Any]) -> Items:
        return tuple(item for value in values for item in _flat(value))

    def _result(self, reply: messages.MachineReturned) -> Any:
        rest = iter(reply.value)
        try:
            return self._value(next(rest), rest, 0)
        except StopIteration:
            raise ProtocolError("the box's answer lacks values") from None

    def _value(self, item: Item, rest: Iterator[Item], depth: int) -> Any:
        match item:
            case MemoryRef():
                return lent_array(self._session, item)
            case ShapeOf():
                return ShapeTuple(item.extents)
            case TupleOf():
                if depth >= MOST_NESTED:
                    raise ProtocolError(f"the box's answer has tuples more than {MOST_NESTED} deep")
                return tuple([self._value(next(rest), rest, depth + 1) for _ in range(item.items)])
            case _:
                return item


def _flat(value: Any) -> Iterator[Item]:
    match value:
        case NDArray():
            yield MemoryRef(value.handle, value.dtype, value.shape, value.device.device_type, value.device.device_id)
        case ShapeTuple():
            yield ShapeOf(tuple(value))
        case tuple():
            yield TupleOf(len(value))
            for item in value:
                yield from _flat(item)
        case None | bool() | int() | float() | str():
            yield value
        case _:
            raise ArgumentError(f"a {type(value).__name__} cannot be passed to a model on a box")
