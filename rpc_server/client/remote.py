"""Remote devices, arrays and modules: the runtime's interfaces over a session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.errors import ArgumentError, ArtifactError, DeviceError
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions
from rpc_server.errors import ProtocolError
from rpc_server.wire import messages
from rpc_server.wire.codec import expect
from rpc_server.wire.machine_messages import MemoryRef

if TYPE_CHECKING:
    from rpc_server.client.session import RPCSession
    from rpc_server.client.session_channel import PendingCall


@dataclass(frozen=True)
class RPCDevice(Device):
    """A device of a session's box: `nd.array(x, remote.cpu())` puts an array there."""

    session: RPCSession = field(kw_only=True)

    def __str__(self) -> str:
        return f"remote {self.device_type}({self.device_id}) at {self.session.address}"

    __repr__ = __str__

    @property
    def api(self) -> RemoteAPI:
        return self.session.device_api

    def host_memory(self, nbytes: int) -> memoryview | None:
        return self.session.host_memory.take(nbytes)


class RemoteAPI:
    """The runtime's DeviceAPI over a session. Handles are numbers drawn here, so allocating needs no wait.

    It knows no session: each device brings its own. A reference back would keep an unused session, and the device
    leased for it, until the cyclic collector runs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_handle = 1

    def exist(self, device: Device) -> bool:
        try:
            self.sync(device)
        except DeviceError:
            return False
        return True

    def allocate(self, device: Device, nbytes: int) -> int:
        with self._lock:
            handle = self._next_handle
            self._next_handle += 1
        _session_of(device).request(messages.AllocateMemory(handle, nbytes, device.device_type, device.device_id))
        return handle

    def free(self, device: Device, handle: int) -> None:
        _session_of(device).free_later(messages.FreeHandles(memories=(handle,)))

    def copy_from_host(self, device: Device, handle: int, data: memoryview) -> None:
        _session_of(device).write_memory(handle, data)

    def copy_to_host(self, device: Device, handle: int, out: memoryview) -> None:
        _session_of(device).read_memory(handle, out)

    def copy_within(self, device: Device, source: int, target: int, nbytes: int) -> None:
        _session_of(device).request(messages.CopyMemory(source, target, nbytes))

    def sync(self, device: Device, stream: Any = None) -> None:
        _session_of(device).request(messages.SyncDevice(device.device_type, device.device_id))

    def attribute(self, device: Device, name: str) -> Any:
        return None

    def create_stream(self, device: Device) -> Any:
        return None

    def free_stream(self, device: Device, stream: Any) -> None:
        return None

    def set_stream(self, device: Device, stream: Any) -> None:
        if stream is not None:
            raise DeviceError(f"{device} has no streams to choose from")


def _session_of(device: Device) -> RPCSession:
    assert isinstance(device, RPCDevice)
    return device.session


class RemoteFunction(PackedFunc):
    """A function on the box; `module` None: a global one. Arguments are arrays of the session, and values."""

    def __init__(self, session: RPCSession, name: str, module: RPCModule | None = None) -> None:
        self.name = name
        self._session = session
        self._module = module

    def __call__(self, *args: Any) -> Any:
        """Call and wait. Raises what the box raised: ArgumentError, DeadlineExceeded, ExecutorCrashed, …"""
        return _returned(self._session, self._session.request(self._request(args)).body)

    def submit(self, *args: Any) -> RemoteCall:
        """Call without waiting: `result()` of what comes back waits, and raises what the box raised.

        Calls submitted one after the other run in that order and travel together: tens of thousands a second. The
        arguments must live until the result is there.
        """
        return RemoteCall(self._session, self._session.submit(self._request(args)), args)

    def _request(self, args: tuple[Any, ...]) -> messages.Call:
        handle = None if self._module is None else self._module.handle
        return messages.Call(handle, self.name, encode_arguments(self._session, self.name, args))


class RemoteCall:
    """A call under way."""

    def __init__(self, session: RPCSession, pending: PendingCall, args: tuple[Any, ...]) -> None:
        self._session = session
        self._pending: PendingCall | None = pending
        self._args = args
        self._value: Any = None

    def cancel(self) -> None:
        """Stop this call, and with it all that its session has under way (see `RPCSession.cancel`).
        Harmless once its result was collected."""
        if self._pending is not None:
            self._session.cancel()

    def result(self) -> Any:
        """Wait for the call's end and return its result, the same each time. Raises the box's error."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._value = _returned(self._session, pending.wait().body)
            self._args = ()
        return self._value


def _returned(session: RPCSession, reply: messages.AnyMessage) -> Any:
    """The result of a call. An array, function or module is on the box until nobody here holds it."""
    if isinstance(reply, messages.ModuleLoaded):
        module = session.module_of(reply)
        return module.get_function(messages.RETURNED_FUNCTION) if module.holds_returned_function else module
    if isinstance(reply, messages.MachineReturned):
        match reply.value:
            case [MemoryRef() as lent]:
                return lent_array(session, lent)
        raise ProtocolError("the box's answer is no array")
    value = expect(messages.Returned, reply).value
    return value.data if isinstance(value, messages.Raw) else value


def lent_array(session: RPCSession, lent: MemoryRef) -> NDArray:
    """An array that is on the box; the box frees it with the last user of it here."""
    return NDArray(lent.shape, lent.dtype, RPCDevice(lent.device_type, lent.device_id, session=session), lent.handle)


class RPCModule(Module):
    """A module loaded on the box."""

    type_key = "rpc"

    def __init__(self, session: RPCSession, loaded: messages.ModuleLoaded, machine_type: type[Any]) -> None:
        """`machine_type` runs it if it is a model."""
        super().__init__()
        self.session = session
        self.machine_type = machine_type
        self.handle = loaded.handle
        self.target = loaded.target
        self.entries = loaded.entries

    @property
    def holds_returned_function(self) -> bool:
        """Whether it stands for a function that a call returned."""
        return self.get_function_list() == [messages.RETURNED_FUNCTION]

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.session.free_later(messages.FreeHandles(modules=(self.handle,)))

    def __repr__(self) -> str:
        return f"<RPCModule {', '.join(self.get_function_list())} at {self.session.address}>"

    def get_function_list(self) -> list[str]:
        return [entry.name for entry in self.entries]

    def _find(self, name: str) -> PackedFunc | None:
        if not self.entries:  # a model: its functions are its machine's
            return self._offered(name)
        return RemoteFunction(self.session, name, self) if name in self.get_function_list() else None

    def import_module(self, module: Module) -> None:
        raise ArtifactError("a remote module cannot import", hint="import before saving and uploading it")

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        if not isinstance(dev, RPCDevice) or dev.session is not self.session:
            raise DeviceError(f"the module is on {self.session.address}, {dev} is not", hint="pass remote.cpu()")
        function = self.get_function(func_name)

        def evaluate(*args: Any) -> BenchmarkResult:
            request = messages.TimeFunction(
                module=self.handle,
                function=function.name,
                args=encode_arguments(self.session, function.name, args),
                device_type=dev.device_type,
                device_id=dev.device_id,
                **asdict(options),
            )
            reply = expect(messages.Timings, self.session.request(request).body)
            return BenchmarkResult(reply.seconds, reply.warnings)

        return evaluate

    def get_source(self, fmt: str = "") -> str:
        raise ArtifactError("a remote module's source is not sent", hint="keep the module it was built from")

    def save(self, file_name: str, fmt: str = "") -> None:
        raise ArtifactError("a remote module cannot be saved", hint="`remote.download(name)` gets its file")


def encode_arguments(session: RPCSession, name: str, args: tuple[Any, ...]) -> tuple[messages.Value, ...]:
    """Arguments as they travel. Raises ArgumentError for one that is not on the session's box."""
    return tuple(_encode(session, name, index, arg) for index, arg in enumerate(args))


def _encode(session: RPCSession, name: str, index: int, arg: Any) -> messages.Value:
    match arg:
        case NDArray():
            if isinstance(arg.device, RPCDevice) and arg.device.session is session:
                return messages.ArrayRef(arg.handle, arg.dtype, arg.shape)
            raise ArgumentError(
                f"{name}: argument {index} is on {arg.device}, not on {session.address}",
                hint="`nd.array(x, remote.cpu())` puts a copy there",
            )
        case None | bool() | int() | float() | str():
            return arg
        case bytes() | bytearray():
            return messages.Raw(bytes(arg))
        case np.bool_() | np.integer() | np.floating():
            return arg.item()
        case _:
            raise ArgumentError(
                f"{name}: argument {index} is a {type(arg).__module__}.{type(arg).__qualname__}, "
                f"which cannot be passed to a remote function",
                hint="`nd.array(x, remote.cpu())` makes a remote array" if hasattr(arg, "shape") else None,
            )
