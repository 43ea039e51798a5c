"""`VirtualMachine`: runs an executable on devices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from compiler.artifact import Artifact
from compiler.errors import ArgumentError, ArtifactError
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.module import MissingFunctionError, Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.registry import get_global_func
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.load import load_artifact
from compiler.runtime.measure.profiling import Profiler, argument_shapes
from compiler.runtime.measure.report import Report
from compiler.runtime.measure.timing import BenchmarkResult, EvaluatorOptions, measure
from compiler.runtime.vm.builtins import BUILTINS, NEED_MACHINE, VMClosure, VMError, as_array
from compiler.runtime.vm.bytecode import VMFunction
from compiler.runtime.vm.executable import Program
from compiler.runtime.vm.interpreter import Code, Instrument, InstrumentReturn, Resolver
from compiler.runtime.vm.memory import ALLOCATORS, MachineMemory
from compiler.runtime.vm.signature import check_value
from compiler.runtime.vm.vm_executable import VMExecutable, VMModule

VMInstrumentReturnKind = InstrumentReturn
_MOST_NESTED = 2000


class VMFunctionHandle(PackedFunc):
    """A function of the executable, called with arrays, numbers, shapes and tuples."""

    def __init__(self, machine: VirtualMachine, function: VMFunction) -> None:
        self.name = function.name
        self._machine = machine
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._machine._invoke(self._function, self._machine._arguments(self._function, args, kwargs))


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

    def __init__(
        self,
        rt_mod: Module | VMExecutable,
        device: Device | list[Device],
        memory_cfg: str | dict[Device, str] | None = None,
        profile: bool = False,
    ) -> None:
        self._executable = VMExecutable(rt_mod) if not isinstance(rt_mod, VMExecutable) else rt_mod
        self.module: VMModule = self._executable.mod
        self._program: Program = self._executable.program
        self._devices = _devices(device)
        self.memory = MachineMemory(_pooled(self._devices, memory_cfg))
        self._kernels = _load_kernels(self._program.kernels, self._devices)
        self._resolver = Resolver(self._program, self, self._find)
        self._code: dict[str, Code] = {}
        self._instrument: Instrument | None = None
        self._saved: dict[str, VMClosure] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}
        self._nesting = threading.local()

    # -- calling ---------------------------------------------------------------------------------
    def __getitem__(self, key: str) -> PackedFunc:
        """A function of the executable, or one that `save_function` made. Raises MissingFunctionError."""
        saved = self._saved.get(key)
        return saved if saved is not None else VMFunctionHandle(self, self._function(key))

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call a closure that a function returned."""
        return self.call(closure, tuple(map(as_array, args)))

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call a function of the executable, a closure or anything that can be called; a str is a name."""
        if isinstance(function, str):
            function = self._find(function)
        if not callable(function):
            raise ArgumentError(f"a {type(function).__name__} cannot be called")
        return function(*args)

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
            known = ", ".join([*self._program.names, *self._saved])
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
        code = self._code.get(function.name)
        if code is None:
            code = self._code[function.name] = Code(function, self._resolver)
        depth = getattr(self._nesting, "depth", 0)
        if depth >= _MOST_NESTED:
            raise VMError(f"{function.name}: calls are nested more than {_MOST_NESTED:,} deep")
        self._nesting.depth = depth + 1
        try:
            if self._instrument is not None:
                return code.run_watched(args, self._instrument)
            return code.run(args)
        finally:
            self._nesting.depth = depth

    def _find(self, name: str) -> Callable[..., Any]:
        """What a name in the executable stands for: a function of it, a kernel, one of the machine's, a global one."""
        function = self._program.function(name)
        if function is not None:
            return lambda *args: self._invoke(function, self._counted(function, args))
        for kernels in self._kernels:
            if kernels.implements_function(name):
                return kernels.get_function(name)
        if (own := BUILTINS.get(name)) is not None:
            return own
        for module in self.module.imported_modules:
            if module.implements_function(name, query_imports=True):
                return module.get_function(name, query_imports=True)
        found = get_global_func(name, allow_missing=True)
        if found is None:
            raise VMError(
                f"the executable calls {name!r}, which is neither a kernel nor a registered function",
                hint=f'register it with `@register_func("{name}")`',
            )
        return found

    @staticmethod
    def _counted(function: VMFunction, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(args) != function.num_inputs:
            raise VMError(f"{function.name} takes {function.num_inputs} arguments, {len(args)} given")
        return args

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
        """The result of the last `invoke_stateful`: an array, or a tuple. Raises ArgumentError where there is none."""
        self._function(func_name)
        if func_name not in self._outputs:
            raise ArgumentError(f"{func_name!r} was not invoked", hint=f'vm.invoke_stateful("{func_name}")')
        return self._outputs[func_name]

    # -- watching and measuring ------------------------------------------------------------------
    def set_instrument(self, instrument: Callable[..., Any] | str | None) -> None:
        """Have `instrument(func, func_symbol, before_run, ret_value, *args)` called before and after each call.

        It may return `VMInstrumentReturnKind.SKIP_RUN` before a call to leave it out. None takes it away again.
        """
        self._instrument = get_global_func(instrument) if isinstance(instrument, str) else instrument

    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that takes `func_name`'s arguments and measures it, as `Module.time_evaluator` does.

        "invoke_stateful" measures the function whose name it is then given.
        """
        options = EvaluatorOptions(
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
            f_preproc=f_preproc,
        )
        if func_name == "invoke_stateful":
            return lambda name: self._measured(partial(self.invoke_stateful, name), dev, options, ())
        if func_name in self._saved:
            return lambda *args: self._measured(self._saved[func_name], dev, options, args)
        function = self._function(func_name)

        def evaluate(*args: Any, **kwargs: Any) -> BenchmarkResult:
            values = self._arguments(function, args, kwargs)
            return self._measured(lambda: self._invoke(function, values), dev, options, values)

        return evaluate

    def _measured(
        self, call: Callable[..., Any], dev: Device, options: EvaluatorOptions, args: tuple[Any, ...]
    ) -> BenchmarkResult:
        return measure_calls(call, dev, options, args)

    def profile(self, func_name: str, *args: Any) -> Report:
        """Run a function once and report each call that it makes: time, share, shapes."""
        function = self._function(func_name)
        values = self._arguments(function, args)
        device = self._devices[0]
        before, running = self._instrument, []
        with Profiler(self._devices, configuration={"Executor": "VM"}) as profiler:

            def note(called: Any, name: str, before_run: bool, result: Any, *given: Any) -> int:
                if before_run:
                    timer = profiler.measure(name, device, argument_shapes(given))
                    timer.__enter__()
                    running.append(timer)
                else:
                    running.pop().__exit__(None, None, None)
                return InstrumentReturn.NO_OP

            self._instrument = note
            try:
                self._invoke(function, values)
            finally:
                self._instrument = before
        return profiler.report()
