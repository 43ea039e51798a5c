"""One session inside its executor: memories and modules by handle, and what each request does."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from compiler.runtime.core.code.cpu_function import CPUFunction
from compiler.runtime.core.code.cpu_module import CPUModule
from compiler.runtime.core.code.special_modules import system_lib
from compiler.runtime.core.device import device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc, packed
from compiler.runtime.core.registry import get_global_func
from compiler.runtime.load import load_module
from compiler.runtime.measure.timing import TimingOptions
from compiler.runtime.vm.vm_executable import VMModule
from rpc_server.errors import HandleError, ProtocolError, RemoteError
from rpc_server.executor.machines import Machines
from rpc_server.executor.memories import Memories
from rpc_server.executor.session_files import SessionFiles
from rpc_server.executor.trial import Trials
from rpc_server.wire import messages
from rpc_server.wire.codec import Buffer

Fetch = Callable[[str], memoryview | None]
Phase = Callable[[str, float | None], None]
Answer = tuple[messages.AnyMessage, Sequence[Buffer]]


class ExecutorSession:
    """`fetch(digest)` gets a blob; `phase(name, timeout)` says what a long call does now."""

    def __init__(self, folder: str, fetch: Fetch, phase: Phase) -> None:
        self._files = SessionFiles(folder)
        self._fetch = fetch
        self._trials = Trials(folder, fetch, phase)
        self._memories = Memories()
        self._machines = Machines(self._memories, self._module)
        self._modules: dict[int, Module] = {}
        self._functions: dict[int, PackedFunc] = {}  # that calls returned; their handles are like modules'
        self._next_module = 1

    def handle(self, request: messages.AnyMessage, buffers: list[memoryview]) -> Answer:
        """Do what a request asks. Raises TunefarmError for what is the request's fault."""
        match request:
            case messages.Call():
                return self._call(request), ()
            case messages.WriteMemory():
                self._memories[request.handle].write(request.offset, _only(buffers))
            case messages.ReadMemory():
                memory = self._memories[request.handle]
                return messages.Data(memory.nbytes), (memory.read(request.offset, request.nbytes),)
            case messages.AllocateMemory():
                self._memories.allocate(request)
            case messages.FreeHandles():
                self._free(request)
            case messages.CopyMemory():
                self._memories.copy(request)
            case messages.SyncDevice():
                place = device(request.device_type, request.device_id)
                place.sync()
            case messages.TimeFunction():
                return self._time(request), ()
            case messages.OpenMachine():
                return self._machines.open(request), ()
            case messages.UseMachine():
                return self._machines.use(request)
            case messages.TimeMachine():
                return self._machines.time(request), ()
            case messages.Measure():
                return self._trials.run(request.request), ()
            case messages.PutFile():
                data = self._fetch(request.digest)
                if data is None:
                    return messages.Need((request.digest,)), ()
                self._files.write(request.name, data)
            case messages.ReadFile():
                size, part = self._files.read(request.name, request.offset, request.nbytes)
                return messages.Data(size), (part,)
            case messages.RemoveFile():
                self._files.remove(request.name)
            case messages.LoadModule():
                return self._load(request), ()
            case messages.OpenSystemLibrary():
                return self._keep(system_lib()), ()
            case messages.LinkModule():
                self._read_module(request.name).export_library(str(self._files.path(request.output)))
            case messages.FindFunction():
                _global_function(request.function)
            case _:
                raise ProtocolError(f"{type(request).__name__} is no request to an executor")
        return messages.Done(), ()

    def _free(self, request: messages.FreeHandles) -> None:
        for handle in request.memories:
            self._memories.free(handle)
        for handle in request.modules:
            self._modules.pop(handle, None)
            self._functions.pop(handle, None)
        for handle in request.machines:
            self._machines.free(handle)

    # --- functions ----------------------------------------------------------------------------------------

    def _load(self, request: messages.LoadModule) -> messages.ModuleLoaded:
        return self._keep(self._read_module(request.name))

    def _read_module(self, name: str) -> Module:
        self._files.read(name, 0, 0)  # raises for one that is not there
        return load_module(str(self._files.path(name)))

    def _keep(self, module: Module) -> messages.ModuleLoaded:
        """A handle for a module; those it imports lend it their functions."""
        handle = self._next_module
        self._next_module += 1
        self._modules[handle] = module
        holders = (*reversed(module._closure()), module)
        functions = {name: found for found in holders for name in found.get_function_list()}
        is_model = isinstance(module, VMModule)  # whose functions a machine runs
        entries = () if is_model else tuple(_entry_info(f.get_function(name), name) for name, f in functions.items())
        target = module.artifact.target if isinstance(module, CPUModule) else ""
        return messages.ModuleLoaded(handle, target, entries)

    def _keep_function(self, function: PackedFunc) -> messages.ModuleLoaded:
        """Give a function a handle, as the only one of a module: so a client calls and frees it."""
        handle = self._next_module
        self._next_module += 1
        self._functions[handle] = function
        return messages.ModuleLoaded(handle, "", (messages.EntryInfo(messages.RETURNED_FUNCTION, ()),))

    def _module(self, handle: int) -> Module:
        try:
            return self._modules[handle]
        except KeyError:
            raise HandleError(
                f"the session has no module {handle}: it was freed, or lost when its executor crashed"
            ) from None

    def _call(self, request: messages.Call) -> messages.Returned | messages.ModuleLoaded | messages.MachineReturned:
        """Call a function.
        What it returns travels, but arrays, functions and modules stay here, under a handle."""
        function: Callable[..., Any]
        if request.module is None:
            function = _global_function(request.function)
        elif request.module in self._functions:
            function = self._functions[request.module]
        else:
            function = self._module(request.module).get_function(request.function, query_imports=True)
        value = function(*self._arguments(request.args))
        if isinstance(value, Module):
            return self._keep(value)
        if isinstance(value, NDArray):
            return messages.MachineReturned((self._memories.lend(value),))
        if callable(value) and not isinstance(value, type):
            return self._keep_function(packed(value))
        return messages.Returned(_result(request.function, value))

    def _time(self, request: messages.TimeFunction) -> messages.Timings:
        options = {option.name: getattr(request, option.name) for option in fields(TimingOptions)}
        where = device(request.device_type, request.device_id)
        evaluator = self._module(request.module).time_evaluator(request.function, where, **options)
        result = evaluator(*self._arguments(request.args))
        return messages.Timings(result.results, result.warnings)

    def _arguments(self, values: tuple[messages.Value, ...]) -> list[Any]:
        return [self._argument(value) for value in values]

    def _argument(self, value: messages.Value) -> Any:
        match value:
            case messages.ArrayRef():
                return self._memories[value.handle].array(value.dtype, value.shape)
            case messages.Raw():
                return value.data
            case _:
                return value


def _global_function(name: str) -> Callable[..., Any]:
    """Return a registered function. Raises RegistryError."""
    if name.startswith("rpc.test."):
        importlib.import_module("rpc_server.executor.example_functions")
    return get_global_func(name)


def _only(buffers: list[memoryview]) -> memoryview:
    if len(buffers) != 1:
        raise ProtocolError(f"one buffer is expected, {len(buffers)} came")
    return buffers[0]


def _entry_info(function: PackedFunc, name: str) -> messages.EntryInfo:
    arguments = function.entry.args if isinstance(function, CPUFunction) else ()
    return messages.EntryInfo(name, tuple((arg.name, arg.dtype, arg.shape) for arg in arguments))


def _result(name: str, value: Any) -> messages.Value:
    """A function's result, if it is of a kind that travels."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return messages.Raw(bytes(value))
        case np.generic():
            plain = value.item()
            if isinstance(plain, bool | int | float | str):
                return plain
    raise RemoteError(
        f"{name} returned a {type(value).__name__}; numbers, texts, bytes, None, arrays, functions and modules can be"
        " returned"
    )
