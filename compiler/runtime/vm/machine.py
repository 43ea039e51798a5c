"""`VirtualMachine`: runs an executable on devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from compiler.artifact import Artifact
from compiler.errors import ArgumentError, ArtifactError
from compiler.runtime.core import native
from compiler.runtime.core.code.cpu_function import CPUCall, CPUFunction
from compiler.runtime.core.code.cpu_module import CPUModule
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.module import MissingFunctionError, Module
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.registry import get_global_func
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.load import load_artifact
from compiler.runtime.measure.peaks import Peaks, measured_peaks
from compiler.runtime.measure.preprocess import preprocessor
from compiler.runtime.measure.report import Report
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions, measure
from compiler.runtime.vm import data_builtins as data_builtins  # registers functions of the machine
from compiler.runtime.vm import kv_cache as kv_cache
from compiler.runtime.vm import number_builtins as number_builtins
from compiler.runtime.vm.builtins import BUILTINS, VMClosure, VMError, as_array
from compiler.runtime.vm.bytecode import VMFunction
from compiler.runtime.vm.executable import Program
from compiler.runtime.vm.interpreter import FunctionCode, GraphFunction, Instrument, InstrumentReturn, Resolver
from compiler.runtime.vm.memory import ALLOCATORS, MachineMemory
from compiler.runtime.vm.native_function import NativeFunction, signature
from compiler.runtime.vm.profile import ProfileTimer, report
from compiler.runtime.vm.results import ResultMemory
from compiler.runtime.vm.signature import Interface, ObjectInfo, check_value, interface
from compiler.runtime.vm.vm_executable import VMExecutable, VMModule

VMInstrumentReturnKind = InstrumentReturn


class VMFunctionHandle(GraphFunction):
    """A function of the executable, called with arrays, numbers, shapes and tuples."""

    def __init__(self, machine: VirtualMachine, function: VMFunction) -> None:
        self.name = function.name
        self.function = function
        self.native: NativeFunction | None = machine._native(function)
        self._machine = machine
        self._code: FunctionCode | None = None

    @property
    def code(self) -> FunctionCode:
        """The decoded instructions."""
        if self._code is None:
            self._code = FunctionCode(self.function, self._machine._resolver)
        return self._code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine = self._machine
        if self.function.name in machine._inputs:
            raise ArgumentError(
                f"arguments were set for {self.function.name!r}", hint=f'vm.invoke_stateful("{self.function.name}")'
            )
        native = self.native
        if native is not None and machine._instrument is None and not kwargs:
            try:
                known = native.look_up(tuple(map(signature, args)))
            except AttributeError:  # not all of them are arrays
                known = None
            if known is not None:
                return native.again(args, known)
        try:
            return self.run(machine._arguments(self.function, args, kwargs))
        except RecursionError:
            raise VMError(f"{self.name}: closures and watched calls are nested too deep") from None

    def run(self, args: Sequence[Any]) -> Any:
        instrument = self._machine._instrument
        if instrument is not None:
            return self.code.run_watched(args, instrument)
        return self.code.run(args) if self.native is None else self.native(*args)


class MachineModule(VMModule):
    """The module of a machine: its functions and the saved ones run where the machine runs.

    It holds its machine, which does not hold it.
    """

    type_key = "relax.VirtualMachine"

    def __init__(self, machine: VirtualMachine, executable: VMModule) -> None:
        super().__init__(executable.program)
        self._machine = machine
        self._imports = executable._imports  # one list for both

    def get_function_list(self) -> list[str]:
        return self._machine.function_names()

    def _find(self, name: str) -> PackedFunc | None:
        return self._machine[name] if name in self.get_function_list() else super()._find(name)

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        return self._machine._evaluator(func_name, dev, options)


class VirtualMachine:
    """Runs an executable. `vm["main"](x, y)` calls a function with arrays; numpy arrays are copied in.

    rt_mod: an executable, or a module that holds one. device: where it runs, one or several; the CPU is there in any
    case. memory_cfg: "pooled" (memory is kept for the next call; the default) or "naive", for all devices or each.
    profile: accepted for compatibility with TVM; `profile()` works without it. Raises ArtifactError where this machine
    cannot run the kernels.

    Calls from several threads run side by side; `set_input` and `invoke_stateful` are for one thread at a time.
    """

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    def __new__(
        cls,
        rt_mod: Module | VMExecutable,
        device: Device | list[Device],
        memory_cfg: str | dict[Device, str] | None = None,
        profile: bool = False,
    ) -> VirtualMachine:
        """A machine for the module: on the box that holds the module, if it is remote."""
        kind = rt_mod.machine_type if isinstance(rt_mod, Module) else None
        made: VirtualMachine = object.__new__(kind or cls)
        return made

    def __init__(
        self,
        rt_mod: Module | VMExecutable,
        device: Device | list[Device],
        memory_cfg: str | dict[Device, str] | None = None,
        profile: bool = False,
    ) -> None:
        self._executable = VMExecutable(rt_mod) if not isinstance(rt_mod, VMExecutable) else rt_mod
        self._program: Program = self._executable.program
        self._devices = _devices(device)
        self.memory = MachineMemory(_pooled(self._devices, memory_cfg))
        self._kernels = _load_kernels(self._program.kernels, self._devices)
        self._results = ResultMemory()
        _use_constants(self._kernels, self._program)
        self._resolver = Resolver(self._program, self, self._find, self._devices)
        self._instrument: Instrument | None = None
        functions = map(self._program.function, self._program.names)
        self._own = {function.name: VMFunctionHandle(self, function) for function in functions if function is not None}
        self._saved: dict[str, VMClosure] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    @property
    def module(self) -> MachineModule:
        """The functions of the executable and the saved ones as a module, which runs them on this machine."""
        return MachineModule(self, self._executable.mod)

    # -- calling ---------------------------------------------------------------------------------
    def __getitem__(self, key: str) -> PackedFunc:
        """A function of the executable, or one that `save_function` made. Raises MissingFunctionError."""
        found = self._saved.get(key) or self._own.get(key)
        return self._own[self._function(key).name] if found is None else found

    def interface(self, name: str) -> Interface:
        """Return what a function takes and gives. Raises MissingFunctionError."""
        function = self._function(name)
        return interface(function.param_names, function.signature)

    def function_names(self) -> list[str]:
        """The functions of the executable, and those that `save_function` made."""
        return [*self._program.names, *self._saved]

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call a closure that a function returned."""
        return self.call(closure, tuple(map(as_array, args)))

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call a function of the executable, a closure or anything that can be called; a str is a name."""
        if isinstance(function, str):
            function = self._find(function)
        if not callable(function):
            raise ArgumentError(f"a {type(function).__name__} cannot be called")
        return function.run(args) if isinstance(function, GraphFunction) else function(*args)

    def device(self, index: int) -> Device:
        """A device by its number in the executable; -1 is the host."""
        if index == -1:
            return cpu()
        if not 0 <= index < len(self._devices):
            raise ArgumentError(
                f"the executable wants device {index}; the machine has {len(self._devices)}",
                hint="VirtualMachine(executable, [first device, second device, …])",
            )
        return self._devices[index]

    def _function(self, name: str) -> VMFunction:
        function = self._program.function(name)
        if function is None:
            known = ", ".join(self.function_names())
            raise MissingFunctionError(f"the executable has no function {name!r}", hint=f"it has: {known or 'none'}")
        return function

    def _arguments(
        self, function: VMFunction, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> tuple[Any, ...]:
        """The arguments of a call, by position and name. Raises ArgumentError naming what is wrong with them."""
        names = function.param_names
        if kwargs:
            given = dict(zip(names, args))
            for name, value in kwargs.items():
                if name in given or name not in names:
                    why = "is given twice" if name in given else "is no argument of it"
                    raise ArgumentError(f"{function.name}: {name!r} {why}", hint=f"its arguments: {', '.join(names)}")
                given[name] = value
            missing = [name for name in names if name not in given]
            if missing:
                raise ArgumentError(f"{function.name} lacks {', '.join(missing)}")
            args = [given[name] for name in names]
        if len(args) != len(names):
            takes = f"{len(names)} argument{'s' * (len(names) != 1)}"
            raise ArgumentError(
                f"{function.name} takes {takes}, {len(args)} given", hint=f"its arguments: {', '.join(names) or 'none'}"
            )
        values = tuple(arg if arg.__class__ is NDArray else as_argument(arg) for arg in args)
        if function.signature is not None and function.signature.params is not None:
            known: dict[str, int] = {}
            for name, value, info in zip(names, values, function.signature.params):
                check_value(value, info, f"{function.name}: argument {name!r}", known)
        return values

    def _invoke(self, function: VMFunction, args: tuple[Any, ...]) -> Any:
        return self._own[function.name].run(args)

    def _native(self, function: VMFunction) -> NativeFunction | None:
        """A function's machine code, where it has any."""
        if function.native is None:
            return None
        code = next(m for m in self._kernels if m.implements_function(function.native.entry))[function.native.entry]
        result = ObjectInfo() if function.signature is None else function.signature.result
        assert isinstance(code, CPUFunction)
        return NativeFunction(function.name, function.native, code, result, self._results)

    def _find(self, name: str) -> Callable[..., Any]:
        """Return what a name in the executable stands for.
        It is a function of it, a kernel, one of the machine's, or a global one."""
        if (of_graph := self._own.get(name)) is not None:
            return of_graph
        for kernels in self._kernels:
            if kernels.implements_function(name):
                return kernels.get_function(name)
        if (own := BUILTINS.get(name)) is not None:
            return own
        for module in self._executable.mod.imported_modules:
            if module.implements_function(name, query_imports=True):
                return module.get_function(name, query_imports=True)
        found = get_global_func(name, allow_missing=True)
        if found is None:
            raise VMError(
                f"the executable calls {name!r}, which is neither a kernel nor a registered function",
                hint=f'register it with `@register_func("{name}")`',
            )
        return found

    # -- saved functions and state ---------------------------------------------------------------
    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **kwargs: Any
    ) -> None:
        """Keep a call with its arguments under a name: `vm[saved_name]()` makes it, with few look-ups.

        `include_return=False` drops the result. A saved name may be replaced; the name of a function of the
        executable may not. Raises ArgumentError.
        """
        if self._program.function(saved_name) is not None:
            raise ArgumentError(f"{saved_name!r} is a function of the executable; save under another name")
        function = self._function(func_name)
        values = self._arguments(function, args, kwargs)

        def run() -> Any:
            result = self._invoke(function, values)
            return result if include_return else None

        self._saved[saved_name] = VMClosure(saved_name, run)

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set a function's arguments, for `invoke_stateful`. Raises ArgumentError for what does not fit."""
        self._inputs[func_name] = self._arguments(self._function(func_name), args, kwargs)

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the arguments that were set; `get_outputs` gives its result.

        Raises ArgumentError (a ValueError) where none were set.
        """
        function = self._function(func_name)
        if func_name not in self._inputs:
            raise ArgumentError(f"no arguments were set for {func_name!r}", hint=f'vm.set_input("{func_name}", …)')
        self._outputs[func_name] = self._invoke(function, self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """The result of the last `invoke_stateful`: an array, or a tuple.
        Raises ArgumentError where there is none."""
        self._function(func_name)
        if func_name not in self._outputs:
            raise ArgumentError(f"{func_name!r} was not invoked", hint=f'vm.invoke_stateful("{func_name}")')
        return self._outputs[func_name]

    # -- watching and measuring ------------------------------------------------------------------
    def set_instrument(self, instrument: Callable[..., Any] | str | None) -> None:
        """Have `instrument(func, func_symbol, before_run, ret_value, *args)` called around each call.

        It may return `VMInstrumentReturnKind.SKIP_RUN` before a call to leave it out. None removes the instrument.
        """
        self._instrument = get_global_func(instrument) if isinstance(instrument, str) else instrument

    def time_evaluator(
        self, func_name: str, dev: Device, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1, f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """A function that takes `func_name`'s arguments and measures it, as `Module.time_evaluator` does.

        A function that is machine code is called in a native loop, other ones from Python. For "invoke_stateful", its
        argument is the name of the function to measure.
        """
        options = TimingOptions(
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
            f_preproc=f_preproc,
        )
        return self._evaluator(func_name, dev, options)

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        if func_name == "invoke_stateful":
            return lambda name: self._measured(partial(self.invoke_stateful, name), dev, options, ())
        if func_name in self._saved:
            return lambda *args: self._measured(self._saved[func_name], dev, options, args)
        function = self._function(func_name)

        def evaluate(*args: Any, **kwargs: Any) -> BenchmarkResult:
            values = self._arguments(function, args, kwargs)
            native = self._own[function.name].native
            if native is not None and self._instrument is None and dev.device_type == "cpu":
                return self._measured_natively(native.bind(values), options, values)
            return self._measured(lambda: self._invoke(function, values), dev, options, values)

        return evaluate

    def bound(self, func_name: str, *args: Any, **kwargs: Any) -> CPUCall | None:
        """Return a call of a function's machine code, to be timed in a native loop.
        None without machine code, or if calls are watched."""
        function = self._function(func_name)
        native = self._own[function.name].native
        if native is None or self._instrument is not None:
            return None
        return native.bind(self._arguments(function, args, kwargs))

    def _measured_natively(self, call: CPUCall, options: TimingOptions, args: tuple[Any, ...]) -> BenchmarkResult:
        """Measure as kernels are measured: in a native loop, into the same results."""
        preprocess = preprocessor(options.f_preproc)
        prepare = (lambda: None) if preprocess is None else (lambda: preprocess(*args))
        return measure(call.timed, options, prepare=prepare, threads=call.threads)

    def _measured(
        self, call: Callable[..., Any], dev: Device, options: TimingOptions, args: tuple[Any, ...]
    ) -> BenchmarkResult:
        preprocess = preprocessor(options.f_preproc)

        def run(number: int) -> int:
            began = time.perf_counter_ns()
            for _ in range(number):
                call(*args) if saved else call()
            dev.sync()
            return time.perf_counter_ns() - began

        saved = isinstance(call, VMClosure)
        return measure(
            run, options, prepare=lambda: None if preprocess is None else preprocess(*args), threads=native.threads()
        )

    def profile(self, func_name: str, *args: Any, peaks: Peaks | bool = False) -> Report:
        """Run a function and report its kernels' calls: time, share, shapes, arithmetic, bytes a second.

        With `peaks` it also reports how near each is to the machine's peak. True measures the peaks first, for the CPU
        alone. The function runs seven times in all. Four runs tell its unwatched time; of three watched runs each call
        has the median.
        """
        function = self._function(func_name)
        values = self._arguments(function, args)

        def watched(timer: ProfileTimer) -> None:
            before, self._instrument = self._instrument, timer
            try:
                self._invoke(function, values)
            finally:
                self._instrument = before

        known = peaks if isinstance(peaks, Peaks) else None
        if peaks is True and self._devices[0].device_type == "cpu":
            known = measured_peaks()
        return report(watched, lambda: self._invoke(function, values), self._devices, known)


def as_argument(value: Any) -> Any:
    """A value as functions of a graph take it: numpy arrays as arrays, lists as tuples."""
    if isinstance(value, list) or (isinstance(value, tuple) and not isinstance(value, ShapeTuple)):
        return tuple(as_argument(item) for item in value)
    if isinstance(value, np.generic):
        return array(value)
    return as_array(value)


def _devices(device: Device | Sequence[Device]) -> list[Device]:
    devices = [device] if isinstance(device, Device) else list(device)
    if not devices or not all(isinstance(one, Device) for one in devices):
        raise ArgumentError("a machine needs a device, or several", hint="relax.VirtualMachine(executable, tvm.cpu())")
    return devices if any(one.device_type == "cpu" for one in devices) else [*devices, cpu()]


def _pooled(devices: Sequence[Device], wanted: str | Mapping[Device, str] | None) -> dict[Device, bool]:
    named = wanted if isinstance(wanted, Mapping) else dict.fromkeys(devices, wanted or "pooled")
    for device, allocator in named.items():
        if allocator not in ALLOCATORS:
            raise ArgumentError(
                f"{device}: there is no allocator {allocator!r}", hint=f"there are: {', '.join(ALLOCATORS)}"
            )
    return {device: named.get(device, "pooled") == "pooled" for device in devices}


def _load_kernels(kernels: Mapping[str, Artifact], devices: Sequence[Device]) -> list[Module]:
    """The kernels as modules.
    Raises ArtifactError for kernels of a type of device that the machine has not."""
    there = {device.device_type for device in devices}
    for kind in kernels:
        if kind not in there:
            raise ArtifactError(
                f"the executable has kernels for {kind}, and the machine runs on {', '.join(sorted(there))}",
                hint=f"VirtualMachine(executable, tvm.{kind}(0))",
            )
    return [load_artifact(artifact) for artifact in kernels.values()]


def _use_constants(kernels: Sequence[Module], program: Program) -> None:
    """Tell machine code made of graphs where the executable's arrays are."""
    arrays = {index: held for index, held in enumerate(program.constants) if isinstance(held, NDArray)}
    for module in kernels:
        if isinstance(module, CPUModule):
            module.use_constants(arrays)
