"""One session inside its executor: memories and modules by handle, and what each request does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from compiler.errors import ArgumentError
from compiler.runtime.core.cpu_function import CPUFunction
from compiler.runtime.core.cpu_module import CPUModule
from compiler.runtime.core.device import Device, device
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.host import HostBuffer
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.registry import get_global_func
from compiler.runtime.core.special_modules import system_lib
from compiler.runtime.load import load_module
from rpc_server.errors import HandleError, ProtocolError, RemoteError
from rpc_server.executor.session_files import SessionFiles
from rpc_server.executor.trial import Trials
from rpc_server.wire.codec import Buffer
from rpc_server.wire.messages import (
    Allocate,
    AnyMessage,
    ArrayRef,
    Call,
    CopyMemory,
    Data,
    Done,
    EntryInfo,
    FindFunction,
    FreeHandles,
    LinkModule,
    LoadModule,
    Measure,
    ModuleLoaded,
    Need,
    OpenSystemLibrary,
    PutFile,
    Raw,
    ReadFile,
    ReadMemory,
    RemoveFile,
    Returned,
    SyncDevice,
    TimeFunction,
    Timings,
    Value,
    WriteMemory,
)

Fetch = Callable[[str], memoryview | None]
Phase = Callable[[str, float | None], None]
Answer = tuple[AnyMessage, Sequence[Buffer]]


class Memory:
    """Device memory that a client reads and writes in chunks.

    Device APIs move whole allocations. Host memory is reached directly; another device's goes through a copy
    on the host, filled or flushed when a transfer reaches its start or end.
    """

    def __init__(self, place: Device, nbytes: int) -> None:
        if nbytes < 0:
            raise ArgumentError(f"{nbytes} bytes cannot be allocated")
        self.device = place
        self.nbytes = nbytes
        self.handle = place.api.allocate(place, nbytes)
        self._staging: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        self._views: dict[tuple[str, tuple[int, ...]], NDArray] = {}

    def write(self, offset: int, data: memoryview) -> None:
        self._check(offset, len(data))
        source = np.frombuffer(data, np.uint8)
        if isinstance(self.handle, HostBuffer):
            self.handle.data[offset : offset + len(data)] = source
            return
        staging = self._stage()
        staging[offset : offset + len(data)] = source
        if offset + len(data) == self.nbytes:
            self.device.api.copy_from_host(self.device, self.handle, staging.data)
            self._staging = None

    def read(self, offset: int, nbytes: int) -> Buffer:
        """The bytes, not copied where that is possible."""
        self._check(offset, nbytes)
        if isinstance(self.handle, HostBuffer):
            return self.handle.data[offset : offset + nbytes].data
        staging = self._stage()
        if offset == 0:
            self.device.api.copy_to_host(self.device, self.handle, staging.data)
        part = bytes(staging[offset : offset + nbytes].data)
        if offset + nbytes == self.nbytes:
            self._staging = None
        return part

    def array(self, dtype: str, shape: tuple[int, ...]) -> NDArray:
        """The memory as an array. Raises ArgumentError when it does not hold just that many bytes."""
        view = self._views.get((dtype, shape))
        if view is None:
            if min(shape, default=1) < 0 or prod(shape) * storage_dtype(dtype).itemsize != self.nbytes:
                raise ArgumentError(f"{self.nbytes} bytes of remote memory are no {dtype} array of shape {shape}")
            view = self._views[dtype, shape] = NDArray(shape, dtype, self.device, self.handle, owner=self)
        return view

    def free(self) -> None:
        self.device.api.free(self.device, self.handle)

    def _check(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise ProtocolError(f"bytes {offset} to {offset + nbytes} of a memory of {self.nbytes}")

    def _stage(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        if self._staging is None:
            self._staging = np.empty(self.nbytes, np.uint8)
        return self._staging


class ExecutorSession:
    """`fetch(digest)` gets a blob; `phase(name, timeout)` says what a long call does now."""

    def __init__(self, folder: str, fetch: Fetch, phase: Phase) -> None:
        self._files = SessionFiles(folder)
        self._fetch = fetch
        self._trials = Trials(folder, fetch, phase)
        self._memories: dict[int, Memory] = {}
        self._modules: dict[int, Module] = {}
        self._next_module = 1

    def handle(self, request: AnyMessage, buffers: list[memoryview]) -> Answer:
        """Do what a request asks. Raises TunefarmError for what is the request's fault."""
        match request:
            case Call():
                return Returned(self._call(request)), ()
            case WriteMemory():
                self._memory(request.handle).write(request.offset, _only(buffers))
            case ReadMemory():
                memory = self._memory(request.handle)
                return Data(memory.nbytes), (memory.read(request.offset, request.nbytes),)
            case Allocate():
                self._allocate(request)
            case FreeHandles():
                self._free(request)
            case CopyMemory():
                self._copy(request)
            case SyncDevice():
                place = device(request.device_type, request.device_id)
                place.sync()
            case TimeFunction():
                return self._time(request), ()
            case Measure():
                return self._trials.run(request.request), ()
            case PutFile():
                data = self._fetch(request.digest)
                if data is None:
                    return Need((request.digest,)), ()
                self._files.write(request.name, data)
            case ReadFile():
                size, part = self._files.read(request.name, request.offset, request.nbytes)
                return Data(size), (part,)
            case RemoveFile():
                self._files.remove(request.name)
            case LoadModule():
                return self._load(request), ()
            case OpenSystemLibrary():
                return self._keep(system_lib()), ()
            case LinkModule():
                self._read_module(request.name).export_library(str(self._files.path(request.output)))
            case FindFunction():
                get_global_func(request.function)
            case _:
                raise ProtocolError(f"{type(request).__name__} is no request to an executor")
        return Done(), ()

    # --- memory -------------------------------------------------------------------------------------------

    def _memory(self, handle: int) -> Memory:
        try:
            return self._memories[handle]
        except KeyError:
            raise HandleError(
                f"the session has no array {handle}: it was freed, or lost when its executor crashed"
            ) from None

    def _allocate(self, request: Allocate) -> None:
        if request.handle in self._memories:
            raise ProtocolError(f"array handle {request.handle} is in use")
        place = device(request.device_type, request.device_id)
        self._memories[request.handle] = Memory(place, request.nbytes)

    def _free(self, request: FreeHandles) -> None:
        for handle in request.memories:
            if (memory := self._memories.pop(handle, None)) is not None:
                memory.free()
        for handle in request.modules:
            self._modules.pop(handle, None)

    def _copy(self, request: CopyMemory) -> None:
        source, target = self._memory(request.source), self._memory(request.target)
        if not 0 <= request.nbytes <= min(source.nbytes, target.nbytes):
            raise ProtocolError(f"cannot copy {request.nbytes} bytes from {source.nbytes} to {target.nbytes}")
        if source.device == target.device:
            place = source.device
            place.api.copy_within(place, source.handle, target.handle, request.nbytes)
        else:
            target.write(0, memoryview(source.read(0, request.nbytes)))

    # --- functions ----------------------------------------------------------------------------------------

    def _load(self, request: LoadModule) -> ModuleLoaded:
        return self._keep(self._read_module(request.name))

    def _read_module(self, name: str) -> Module:
        self._files.read(name, 0, 0)  # raises for one that is not there
        return load_module(str(self._files.path(name)))

    def _keep(self, module: Module) -> ModuleLoaded:
        """A handle for a module; those it imports lend it their functions."""
        handle = self._next_module
        self._next_module += 1
        self._modules[handle] = module
        holders = (*reversed(module._closure()), module)
        functions = {name: found for found in holders for name in found.get_function_list()}
        entries = tuple(_entry_info(found.get_function(name), name) for name, found in functions.items())
        target = module.artifact.target if isinstance(module, CPUModule) else ""
        return ModuleLoaded(handle, target, entries)

    def _module(self, handle: int) -> Module:
        try:
            return self._modules[handle]
        except KeyError:
            raise HandleError(
                f"the session has no module {handle}: it was freed, or lost when its executor crashed"
            ) from None

    def _call(self, request: Call) -> Value:
        function: Callable[..., Any]
        if request.module is None:
            function = get_global_func(request.function)
        else:
            function = self._module(request.module).get_function(request.function, query_imports=True)
        return _result(request.function, function(*self._arguments(request.args)))

    def _time(self, request: TimeFunction) -> Timings:
        evaluator = self._module(request.module).time_evaluator(
            request.function,
            device(request.device_type, request.device_id),
            number=request.number,
            repeat=request.repeat,
            min_repeat_ms=request.min_repeat_ms,
            limit_zero_time_iterations=request.limit_zero_time_iterations,
            cooldown_interval_ms=request.cooldown_interval_ms,
            repeats_to_cooldown=request.repeats_to_cooldown,
            f_preproc=request.f_preproc,
        )
        result = evaluator(*self._arguments(request.args))
        return Timings(result.results, result.warnings)

    def _arguments(self, values: tuple[Value, ...]) -> list[Any]:
        return [self._argument(value) for value in values]

    def _argument(self, value: Value) -> Any:
        match value:
            case ArrayRef():
                return self._memory(value.handle).array(value.dtype, value.shape)
            case Raw():
                return value.data
            case _:
                return value


def _only(buffers: list[memoryview]) -> memoryview:
    if len(buffers) != 1:
        raise ProtocolError(f"one buffer is expected, {len(buffers)} came")
    return buffers[0]


def _entry_info(function: PackedFunc, name: str) -> EntryInfo:
    arguments = function.entry.args if isinstance(function, CPUFunction) else ()
    return EntryInfo(name, tuple((arg.name, arg.dtype, arg.shape) for arg in arguments))


def _result(name: str, value: Any) -> Value:
    """A function's result, if it is of a kind that travels."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return Raw(bytes(value))
        case np.generic():
            plain = value.item()
            if isinstance(plain, bool | int | float | str):
                return plain
    raise RemoteError(f"{name} returned a {type(value).__name__}; numbers, strings, bytes and None can travel")
