"""From a Relay program to a module for `GraphModule`, or to a function that runs at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler.driver.graph import build_graph
from compiler.errors import ArgumentError
from compiler.faces.graph_executor import GraphModule, GraphRuntime
from compiler.faces.relay import nodes as relay
from compiler.faces.relay import text as _text  # noqa: F401  (how expressions are printed)
from compiler.faces.relay.nodes import Expr
from compiler.faces.relay.translate import to_relax
from compiler.ir.module import IRModule
from compiler.relax.interp import run as interpret
from compiler.relax.nodes import Function
from compiler.relax.transform.bind_params import bind_params
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.vm.builtins import VMClosure
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.vm_executable import VMExecutable
from compiler.target.target import Target


class GraphExecutorFactoryModule:
    """The result of `relay.build`: `lib["default"](dev)` runs it, `export_library` writes it.

    Weights that were given to the build are in it as constants.
    """

    def __init__(
        self, executable: VMExecutable, name: str, module: IRModule, params: Mapping[str, Any], target: Target
    ) -> None:
        self.executable = executable
        self.target = [target]
        self.libmod_name = name
        self.ir_mod = module
        self._params = {key: relay.const(value).data for key, value in params.items()}

    def runtime_on(self, device: Device) -> GraphRuntime:
        """The network on a device."""
        return GraphRuntime(self.executable, device)

    def __getitem__(self, name: str) -> PackedFunc:
        if name in (self.libmod_name, "default"):
            return VMClosure(name, self.runtime_on)
        if name == "debug_create":
            return VMClosure(name, lambda graph, device: self[graph](device))
        raise AttributeError(f"the module has no function {name!r}; it has {self.libmod_name!r}")

    def get_lib(self) -> GraphExecutorFactoryModule:
        """The compiled code: this module, for `graph_executor.create`."""
        return self

    get_executable = get_lib

    def get_executor_config(self) -> str:
        """Return the network as JSON, which is what a graph executor is configured by."""
        return self.get_graph_json()

    @property
    def lib(self) -> GraphExecutorFactoryModule:
        """The compiled code."""
        return self

    @property
    def module(self) -> GraphExecutorFactoryModule:
        """The module itself."""
        return self

    def get_params(self) -> dict[str, NDArray]:
        """The weights that were given to the build, by name."""
        return dict(self._params)

    @property
    def params(self) -> dict[str, NDArray]:
        """The weights that were given to the build, by name."""
        return self.get_params()

    def get_graph_json(self) -> str:
        """The inputs, calls and outputs of the network as JSON."""
        main = self.ir_mod["main"]
        assert isinstance(main, Function)
        nodes: list[dict[str, Any]] = [{"op": "null", "name": p.name_hint, "inputs": []} for p in main.params]
        places: dict[Any, int] = {param: place for place, param in enumerate(main.params)}
        for block in main.body.blocks:
            for binding in block.bindings:
                value = binding.value
                used = [places[a] for a in getattr(value, "args", ()) if a in places] or [
                    places[a] for a in (value, getattr(value, "tuple_value", None)) if a in places
                ]
                name = getattr(getattr(value, "op", None), "name", type(value).__name__)
                places[binding.var] = len(nodes)
                nodes.append({"op": "tvm_op", "name": f"{name}_{len(nodes)}", "inputs": [[at, 0, 0] for at in used]})
        heads = [[places[main.body.body], 0, 0]] if main.body.body in places else []
        arguments = list(range(len(main.params)))
        return json.dumps({"nodes": nodes, "arg_nodes": arguments, "heads": heads}, indent=2)

    @property
    def graph_json(self) -> str:
        """The network as JSON."""
        return self.get_graph_json()

    def export_library(self, file_name: str, fcompile: Any = None, **kwargs: Any) -> Any:
        """Write the network, with its weights, to a file that `runtime.load_module` reads."""
        if Path(file_name).suffix == ".so":
            return self.executable.export_library(file_name, fcompile, **kwargs)
        self.executable.save(file_name, "tunefarm")
        return None

    def __iter__(self) -> Iterator[Any]:
        """Unpack it as older programs do: graph, code, weights."""
        return iter((self.get_graph_json(), self, self.get_params()))


def build(
    ir_mod: IRModule | Expr, target: Any = None, target_host: Any = None, executor: Any = None, runtime: Any = None,
    workspace_memory_pools: Any = None, constant_memory_pools: Any = None, params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> GraphExecutorFactoryModule:  # fmt: skip
    """Compile a module of Relay or relax, or a function of Relay, for `graph_executor.GraphModule`.

    `params`: weights of "main" by name. `target`: a target, or a dict with one. `executor`, `runtime`, `target_host`
    and the pools of memory are ignored; they are accepted for compatibility with TVM. Raises IRError, InputError,
    LoweringError, CodegenError.
    """
    given = dict(params or {})
    names = _names(ir_mod)
    bound = {name: value for name, value in given.items() if name in names}
    module = _bound(ir_mod, bound) if _is_relax(ir_mod) else to_relax(ir_mod, bound)
    chosen = _target(target)
    executable = build_graph(module, chosen, exec_mode="compiled")
    made_for = Target.current(allow_none=True) if chosen is None else Target(chosen)
    return GraphExecutorFactoryModule(executable, mod_name, module, given, made_for or Target("llvm"))


def _is_relax(ir_mod: IRModule | Expr) -> bool:
    """Whether a module is one of relax already, as the frontends give it."""
    return isinstance(ir_mod, IRModule) and isinstance(ir_mod.get("main"), Function)


def _bound(ir_mod: IRModule | Expr, params: Mapping[str, Any]) -> IRModule:
    assert isinstance(ir_mod, IRModule)
    return bind_params(ir_mod, None, func_name="main", params=params) if params else ir_mod


def _names(ir_mod: IRModule | Expr) -> set[str]:
    main = ir_mod["main"] if isinstance(ir_mod, IRModule) else ir_mod.as_function()
    return {param.name_hint for param in getattr(main, "params", ())}


def _target(target: Any) -> Any:
    if isinstance(target, Mapping):
        if len(target) != 1:
            raise ArgumentError(f"a network is built for one target, not for {len(target)}")
        return next(iter(target.values()))
    return target


class Executor:
    """An executor of TVM by name. The name is ignored: networks run on tunefarm's own machine."""

    def __init__(self, name: str = "graph", options: Mapping[str, Any] | None = None) -> None:
        if name not in ("graph", "aot"):
            raise ArgumentError(f"there is no executor {name!r}", hint='"graph" or "aot"')
        self.name = name
        self.options = dict(options or {})

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    def __repr__(self) -> str:
        return f"Executor({self.name!r}, {self.options!r})"


class ProgramExecutor:
    """Runs expressions and modules: compiled, or with kind "debug" by the interpreter."""

    def __init__(self, kind: str, mod: IRModule | None, device: Device, target: Any, params: Any) -> None:
        if kind not in ("debug", "graph", "vm", "aot"):
            raise ArgumentError(f"there is no executor {kind!r}", hint='"debug", "graph", "vm" or "aot"')
        self.kind, self.mod, self.device, self.target, self.params = kind, mod, device, target, params

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """`expr`, or the module's "main", as a Python function; an expression without variables as its value."""
        if expr is None and self.mod is None:
            raise ArgumentError("there is nothing to evaluate", hint="give an expression, or create it with a module")
        module = self.mod if expr is None else IRModule({**_functions(self.mod), "main": expr.as_function()})
        assert module is not None
        bound = {key if isinstance(key, str) else key.name_hint: value for key, value in (binds or {}).items()}
        run = self._callable(to_relax(module, {**(self.params or {}), **bound}))
        names = _names(module) - bound.keys() - dict(self.params or {}).keys()
        return run() if expr is not None and not isinstance(expr, relay.Function) and not names else run

    def _callable(self, module: IRModule) -> Callable[..., Any]:
        main = module["main"]
        assert isinstance(main, Function)
        order = [param.name_hint for param in main.params]
        machine = None
        if self.kind != "debug":
            machine = VirtualMachine(build_graph(module, self.target, exec_mode="compiled"), self.device)

        def call(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *(kwargs[name] for name in order[len(args) :] if name in kwargs)]
            # A copy, where it is no array yet: memory of the program's may not be aligned.
            values = [value if isinstance(value, NDArray) else array(relay.const(value).data) for value in given]
            if machine is not None:
                return machine["main"](*values)
            return _arrays(interpret(module, *(value.numpy() for value in values)))

        return call


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Device | None = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> ProgramExecutor:
    """Return what runs Relay programs. Raises ArgumentError for an unknown kind."""
    return ProgramExecutor(kind, mod, device or cpu(), target, params)


def _functions(mod: IRModule | None) -> dict[Any, Any]:
    return {} if mod is None else dict(mod.functions)


def _arrays(value: Any) -> Any:
    return tuple(map(_arrays, value)) if isinstance(value, tuple | list) else array(value)


__all__ = ["Executor", "GraphExecutorFactoryModule", "GraphModule", "ProgramExecutor", "build", "create_executor"]
