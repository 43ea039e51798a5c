"""The virtual machines of a session.

Models that run on the box, with arrays of the session going in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from compiler.errors import TunefarmError
from compiler.runtime.core.device import device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.measure.peaks import Peaks
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.signature import Interface
from compiler.runtime.vm.vm_executable import VMExecutable
from rpc_server.errors import HandleError, ProtocolError, RemoteError
from rpc_server.executor.memories import Memories
from rpc_server.wire import messages
from rpc_server.wire.codec import Buffer
from rpc_server.wire.machine_messages import (
    MOST_NESTED,
    Action,
    ArrayInfo,
    FunctionInfo,
    Item,
    MemoryRef,
    ShapeOf,
    TupleOf,
)

MOST_LETTERS = 200  # of an extent
Answer = tuple[messages.AnyMessage, Sequence[Buffer]]


def _function_info(name: str, found: Interface) -> FunctionInfo:
    arrays = tuple(ArrayInfo(param.dtype, _short(param.shape)) for param in found.params)
    return FunctionInfo(name, tuple(param.name for param in found.params), arrays, found.results)


def _short(shape: tuple[int | str, ...] | None) -> tuple[int | str, ...] | None:
    """The shape, or None when the expression of an extent is too long for a message."""
    fits = shape is not None and all(isinstance(size, int) or len(size) <= MOST_LETTERS for size in shape)
    return shape if fits else None


class Machines:
    """Machines by handle. `module(handle)` finds a module that the session has loaded."""

    def __init__(self, memories: Memories, module: Callable[[int], Module]) -> None:
        self._memories = memories
        self._module = module
        self._machines: dict[int, VirtualMachine] = {}
        self._next = 1

    def open(self, request: messages.OpenMachine) -> messages.MachineOpened:
        """Make a machine of a model. Raises ArtifactError where it cannot run here, or the module is none."""
        executable = VMExecutable(self._module(request.module))
        places = [device(kind, number) for kind, number in request.devices]
        machine = VirtualMachine(executable, places, request.memory or None)
        handle, self._next = self._next, self._next + 1
        self._machines[handle] = machine
        functions = [name for name in executable.program.names if executable.program.function(name) is not None]
        return messages.MachineOpened(
            handle, tuple(_function_info(name, machine.interface(name)) for name in functions)
        )

    def free(self, handle: int) -> None:
        """Forget a machine; harmless for a handle that is none."""
        self._machines.pop(handle, None)

    def use(self, request: messages.UseMachine) -> Answer:
        """Do what is asked of a function. Arrays that it gives are kept for the client."""
        machine, name = self._machine(request.machine), request.function
        args = self._values(request.args)
        match request.action:
            case Action.CALL:
                return self._returned(name, machine[name](*args))
            case Action.SET_INPUT:
                machine.set_input(name, *args)
            case Action.INVOKE:
                machine.invoke_stateful(name)
            case Action.OUTPUTS:
                return self._returned(name, machine.get_outputs(name))
            case Action.SAVE:
                machine.save_function(name, request.saved, *args, include_return=request.include_return)
            case Action.PROFILE:
                peaks = Peaks(*request.peaks) if request.peaks is not None else request.measure_peaks
                return messages.MachineReturned(), (machine.profile(name, *args, peaks=peaks).json().encode(),)
        return messages.MachineReturned(), ()

    def time(self, request: messages.TimeMachine) -> messages.Timings:
        """Time a function as `VirtualMachine.time_evaluator` does."""
        where = device(request.device_type, request.device_id)
        evaluate = self._machine(request.machine).time_evaluator(
            request.function, where, **msgspec.structs.asdict(request.timing)
        )
        result = evaluate(*self._values(request.args))
        return messages.Timings(result.results, result.warnings)

    def _machine(self, handle: int) -> VirtualMachine:
        try:
            return self._machines[handle]
        except KeyError:
            raise HandleError(
                f"the session has no machine {handle}: it was freed, or lost when its executor crashed"
            ) from None

    # -- values ----------------------------------------------------------------------------------
    def _values(self, items: Sequence[Item]) -> list[Any]:
        found, rest = [], iter(items)
        for item in rest:
            found.append(self._value(item, rest, 0))
        return found

    def _value(self, item: Item, rest: Iterator[Item], depth: int) -> Any:
        match item:
            case MemoryRef():
                return self._memories[item.handle].array(item.dtype, item.shape)
            case ShapeOf():
                return ShapeTuple(item.extents)
            case TupleOf():
                if depth >= MOST_NESTED:
                    raise ProtocolError(f"tuples are nested more than {MOST_NESTED} deep")
                try:
                    return tuple([self._value(next(rest), rest, depth + 1) for _ in range(item.items)])
                except TunefarmError:
                    raise
                except (StopIteration, RuntimeError):
                    raise ProtocolError(f"a tuple of {item.items} lacks items") from None
            case _:
                return item

    def _returned(self, name: str, value: Any) -> Answer:
        items: list[Item] = []
        self._add(name, value, items)
        return messages.MachineReturned(tuple(items)), ()

    def _add(self, name: str, value: Any, items: list[Item]) -> None:
        match value:
            case NDArray():
                items.append(self._memories.lend(value))
            case ShapeTuple():
                items.append(ShapeOf(tuple(value)))
            case tuple():
                items.append(TupleOf(len(value)))
                for part in value:
                    self._add(name, part, items)
            case None | bool() | int() | float() | str():
                items.append(value)
            case _:
                raise RemoteError(
                    f"{name} returned a {type(value).__name__}; arrays, tuples, shapes and numbers can travel"
                )
