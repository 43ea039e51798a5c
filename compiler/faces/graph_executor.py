"""`GraphModule`: a compiled network with named inputs and numbered outputs.

It runs on the machine that runs graphs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.errors import ArgumentError
from compiler.runtime.core import native
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.files.params import load_param_dict
from compiler.runtime.measure.report import Report
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions, measure
from compiler.runtime.vm.builtins import VMClosure
from compiler.runtime.vm.machine import VirtualMachine, VMInstrumentReturnKind
from compiler.runtime.vm.vm_executable import VMExecutable

ENTRY = "main"


class GraphRuntime:
    """One network on one device: its inputs, and its outputs after a run.
    Indexed, it gives functions by name."""

    def __init__(self, module: VMExecutable | Module, device: Device) -> None:
        """Raise MissingFunctionError for a module without a function "main"."""
        self.device = device
        self.machine = VirtualMachine(module, device)
        interface = self.machine.interface(ENTRY)
        self.infos = {param.name: param for param in interface.params}
        self.names: tuple[str, ...] = tuple(self.infos)
        self.num_outputs = interface.results
        self.inputs: dict[str, NDArray] = {}
        self.outputs: tuple[Any, ...] | None = None
        self.targets: dict[int, NDArray] = {}

    # ------------------------------------------------------------------------------- inputs

    def index(self, key: int | str) -> int:
        """Return an input's number. Raises ArgumentError (a ValueError) for an unknown input."""
        if isinstance(key, str):
            if key in self.names:
                return self.names.index(key)
        elif 0 <= int(key) < len(self.names):
            return int(key)
        raise ArgumentError(f"there is no input {key!r}", hint=f"inputs: {', '.join(self.names) or 'none'}")

    def set_input(self, key: int | str, value: Any, copy: bool = True) -> None:
        """Give an input its value: its elements, or with copy=False the array itself."""
        name = self.names[self.index(key)]
        wanted, shape = self.shape_of(name), tuple(value.shape if isinstance(value, NDArray) else np.shape(value))
        if wanted is not None and shape != wanted:
            raise ArgumentError(f"the input {name} has shape {wanted}; an array of shape {shape} was given")
        if copy:
            kept = self.inputs.get(name)
            given = value if isinstance(value, NDArray) else np.asarray(value, dtype=self._dtype(name))
            if kept is not None and tuple(kept.shape) == tuple(np.shape(given)) and kept.is_writable:
                kept.copyfrom(given)
                return
            value = array(given, self.device)
        elif not isinstance(value, NDArray):
            raise ArgumentError(f"the input {name} shares an array: give a tvm.nd array, not {type(value).__name__}")
        self.inputs[name] = value

    def _dtype(self, name: str) -> Any:
        return self.infos[name].dtype or None

    def get_input(self, key: int | str) -> NDArray:
        """The value of an input; zeros before one was given."""
        name = self.names[self.index(key)]
        if name not in self.inputs:
            shape, dtype = self.shape_of(name), self._dtype(name)
            if shape is None or dtype is None:
                raise ArgumentError(f"the input {name} was not given, and its shape is not known")
            self.inputs[name] = array(np.zeros(shape, dtype), self.device)
        return self.inputs[name]

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of an input, where it is fixed."""
        return self.infos[name].fixed_shape

    # ------------------------------------------------------------------------------ running

    def arguments(self) -> list[NDArray]:
        """The inputs in order."""
        return [self.get_input(name) for name in self.names]

    def run(self) -> None:
        """Compute the outputs."""
        result = self.machine[ENTRY](*self.arguments())
        self.outputs = result if isinstance(result, tuple) else (result,)
        for index, target in self.targets.items():
            target.copyfrom(self.outputs[index])

    def get_output(self, index: int) -> NDArray:
        """An output of the last run."""
        if self.outputs is None:
            raise ArgumentError("there are no outputs before a run", hint="module.run()")
        if not 0 <= index < len(self.outputs):
            raise ArgumentError(f"there are {len(self.outputs)} outputs, counted from 0; {index} is none of them")
        found: NDArray = self.outputs[index]
        return found

    def calls(self) -> list[tuple[str, tuple[NDArray, ...]]]:
        """The kernels that a run calls, each with copies of the arrays that it was given, results last."""
        found: list[tuple[str, tuple[NDArray, ...]]] = []

        def note(func: Any, name: str, before_run: bool, result: Any, *args: Any) -> int:
            arrays = [arg for arg in args if isinstance(arg, NDArray)]
            if not before_run and arrays and not name.startswith("vm."):
                found.append((name, tuple(array(item.numpy()) for item in arrays)))
            return VMInstrumentReturnKind.NO_OP

        self.machine.set_instrument(note)
        try:
            self.run()
        finally:
            self.machine.set_instrument(None)
        return found

    def __getitem__(self, name: str) -> Callable[..., Any]:
        functions: dict[str, Callable[..., Any]] = {
            "run": self.run, "set_input": self.set_input, "get_input": self.get_input,
            "set_input_zero_copy": lambda key, value: self.set_input(key, value, copy=False),
            "get_output": self.get_output, "get_num_inputs": lambda: len(self.names),
            "get_num_outputs": lambda: self.num_outputs, "get_input_index": self.names.index,
        }  # fmt: skip
        if name not in functions:
            raise AttributeError(f"a graph has no function {name!r}; it has: {', '.join(functions)}")
        return functions[name]


def runtime_of(module: Any, device: Device | None = None) -> GraphRuntime:
    """Return what runs a module.
    `lib["default"](dev)` comes back as it is; an executable or a loaded module is put on `device`."""
    if isinstance(module, GraphRuntime):
        return module
    if isinstance(module, VMExecutable | Module):
        return GraphRuntime(module, device or cpu())
    runtime = getattr(module, "runtime_on", None)
    if runtime is not None:
        found: GraphRuntime = runtime(device or cpu())
        return found
    raise ArgumentError(
        f"a {type(module).__name__} is no network",
        hint='GraphModule(lib["default"](dev)), where lib = relay.build(...)',
    )


class GraphModule:
    """A network that is given inputs, run, and asked for outputs."""

    def __init__(self, module: Any) -> None:
        """`module`: what `lib["default"](dev)` gives."""
        self.module = runtime_of(module)

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """Give inputs values.
        Names in `params` that are no inputs are ignored, such as weights of a build."""
        if key is not None:
            self.module.set_input(key, value)
        for name, item in params.items():
            if name in self.module.names:
                self.module.set_input(name, item)

    def set_input_zero_copy(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """Have inputs be these arrays, which runs read as they then are."""
        if key is not None:
            self.module.set_input(key, value, copy=False)
        for name, item in params.items():
            if name in self.module.names:
                self.module.set_input(name, item, copy=False)

    def set_output_zero_copy(self, key: int, value: NDArray) -> None:
        """Have each run write an output to `value`."""
        if not isinstance(value, NDArray):
            raise ArgumentError(f"an output goes to a tvm.nd array, not to {type(value).__name__}")
        self.module.targets[int(key)] = value

    def run(self, **input_dict: Any) -> None:
        """Run with these inputs, and those given before."""
        if input_dict:
            self.set_input(**input_dict)
        self.module.run()

    def get_num_outputs(self) -> int:
        """The number of outputs."""
        return self.module.num_outputs

    def get_num_inputs(self) -> int:
        """The number of inputs."""
        return len(self.module.names)

    def get_input(self, index: int | str, out: NDArray | None = None) -> NDArray:
        """An input, written to `out` where that is given."""
        return _written(self.module.get_input(index), out)

    def get_input_index(self, name: str) -> int:
        """The number of an input, -1 for a name that is none."""
        return self.module.names.index(name) if name in self.module.names else -1

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...] | None], dict[str, str | None]]:
        """The shapes and the element types of the inputs, by name."""
        names = self.module.names
        return {n: self.module.shape_of(n) for n in names}, {n: self.module._dtype(n) for n in names}

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """An output of the last run, written to `out` where that is given."""
        return _written(self.module.get_output(index), out)

    def debug_get_output(self, node: int | str, out: NDArray) -> NDArray:
        """Run up to a kernel, by its number or name, and write its result to `out`."""
        calls = self.module.calls()
        names = [name for name, _ in calls]
        place = names.index(node) if isinstance(node, str) and node in names else node
        if isinstance(place, str) or not 0 <= place < len(calls):
            raise ArgumentError(f"a run calls no kernel {node!r}", hint=f"it calls: {', '.join(names)}")
        return _written(calls[place][1][-1], out)

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Give inputs the values that `save_param_dict` wrote."""
        self.set_input(None, None, **load_param_dict(params_bytes))

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Have the inputs that `params_bytes` names be the arrays of another module."""
        for name in load_param_dict(params_bytes):
            if name in self.module.names:
                self.module.set_input(name, other.module.get_input(name), copy=False)

    def __getitem__(self, key: str) -> Callable[..., Any]:
        return self.module[key]

    def benchmark(
        self, device: Device, func_name: str = "run", repeat: int = 5, number: int = 5,
        min_repeat_ms: int | None = None, limit_zero_time_iterations: int = 100, end_to_end: bool = False,
        cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1, **kwargs: Any,
    ) -> BenchmarkResult:  # fmt: skip
        """Seconds a run, over `repeat` measurements of `number` runs each.

        `end_to_end` counts copying the inputs to the device and the outputs back. `kwargs` are inputs.
        """
        if func_name != "run":
            raise ArgumentError(f"there is no {func_name!r} to measure", hint='func_name is "run"')
        self.set_input(**kwargs)
        runtime = self.module
        arguments = runtime.arguments()
        least = min_repeat_ms or 0
        if end_to_end:
            held = [item.numpy() for item in arguments]

            def whole() -> None:
                for name, value in zip(runtime.names, held):
                    runtime.set_input(name, value)
                runtime.run()
                for index in range(runtime.num_outputs):
                    runtime.get_output(index).numpy()

            options = TimingOptions(
                number=number, repeat=repeat, min_repeat_ms=least, cooldown_interval_ms=cooldown_interval_ms,
                repeats_to_cooldown=repeats_to_cooldown,
            )  # fmt: skip
            return measure(lambda count: _taken(whole, count), options, threads=native.threads())
        evaluate = runtime.machine.time_evaluator(
            ENTRY, device, number, repeat, least, cooldown_interval_ms, repeats_to_cooldown
        )
        return evaluate(*arguments)

    def profile(self, **input_dict: Any) -> Report:
        """The time of each kernel of one run."""
        self.set_input(**input_dict)
        return self.module.machine.profile(ENTRY, *self.module.arguments())


class GraphModuleDebug(GraphModule):
    """A network that shows its kernels' results.
    They are printed and go to no files, so `dump_root` is not used."""

    def __init__(self, module: Any, device: Any = None, graph_json_str: Any = None, dump_root: Any = None) -> None:
        super().__init__(module)

    def run_individual(
        self, number: int, repeat: int = 1, min_repeat_ms: int = 0, limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:  # fmt: skip
        """The seconds that each kernel of a run takes, for each of `repeat` runs."""
        runs = [self.profile().calls for _ in range(repeat)]
        return [[_seconds(call) for call in calls] for calls in zip(*runs)]

    def get_node_output(self, index: int) -> NDArray:
        """The result of a kernel, by its number."""
        calls = self.module.calls()
        if not 0 <= index < len(calls):
            raise ArgumentError(f"a run calls {len(calls)} kernels, counted from 0; {index} is none of them")
        return calls[index][1][-1]


def _seconds(call: Any) -> float:
    return float(call["Duration (us)"].microseconds) * 1e-6


def create(graph_json_str: Any, libmod: Any, device: Device | list[Device]) -> GraphModule:
    """A module of what `lib.get_graph_json()` and `lib.get_lib()` give."""
    return GraphModule(runtime_of(libmod, device[0] if isinstance(device, list) else device))


def create_debug(
    graph_json_str: Any, libmod: Any, device: Device | list[Device], dump_root: str | None = None
) -> GraphModuleDebug:
    """Make a module, as `create` does, that shows the results of single kernels."""
    return GraphModuleDebug(create(graph_json_str, libmod, device).module, device, graph_json_str, dump_root)


def _written(value: NDArray, out: NDArray | None) -> NDArray:
    return value if out is None else out.copyfrom(value)


def _taken(call: Callable[[], None], count: int) -> int:
    """Nanoseconds for `count` calls."""
    began = time.perf_counter_ns()
    for _ in range(count):
        call()
    return time.perf_counter_ns() - began


def _default(module: Module) -> PackedFunc:
    return VMClosure("default", lambda device: GraphRuntime(module, device))


Module.offer("default", _default)
