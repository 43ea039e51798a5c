"""From a graph module to an executable: `relax.build` and `tvm.compile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from compiler.artifact import Artifact
from compiler.driver.build import InputError, build, compile_artifact
from compiler.driver.kernel_schedules import scheduled, sized_kernels
from compiler.driver.sized_kernels import SizedKernels, with_sized_kernels
from compiler.interp.interpreter import run as interpret
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import Pass
from compiler.relax.nodes import Function
from compiler.relax.transform.bind_params import bind_params
from compiler.relax.transform.codegen.run_codegen import EXTERNAL
from compiler.relax.transform.devices.kernel_targets import TARGET, with_kernel_targets
from compiler.relax.transform.fold_constant import use_evaluator
from compiler.relax.transform.packing.attach_layout_free_buffers import attach_layout_free_buffers
from compiler.relax.transform.pipeline import get_pipeline
from compiler.relax.vm_codegen.bytecode import write_functions
from compiler.relax.vm_codegen.native.functions import NativeFunctions, native_functions
from compiler.relax.vm_codegen.work import flops_text
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.runtime.vm.bytecode import Native
from compiler.runtime.vm.exec_builder import ExecBuilder
from compiler.runtime.vm.vm_executable import VMExecutable
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.intrin.graph import FLOPS

EXEC_MODES = ("bytecode", "compiled")
_ONE_OF_A_TYPE = "the devices of a module may have one target for CPUs and one for GPUs"
SMALL = 256
"""Constants of fewer elements are computed in the interpreter, which begins at once."""


def build_graph(
    mod: IRModule | Function, target: Any = None, params: Mapping[str, Any] | None = None,
    relax_pipeline: str | Pass | Callable[[IRModule], IRModule] | None = "default",
    tir_pipeline: str | Pass | Callable[[IRModule], IRModule] | None = "default", exec_mode: str = "bytecode", *,
    system_lib: bool | None = None,
) -> VMExecutable:  # fmt: skip
    """Compile a graph module to an executable, to be run by a `VirtualMachine`.

    `params` are values of parameters of "main", by name; they become constants. `relax_pipeline` and `tir_pipeline` are
    passes, or names of pipelines; None runs none, for what is lowered already. `target` defaults to the current target,
    else this machine. The `exec_mode` "compiled" makes machine code of functions, where that is possible. `stats` lists
    the other functions, which run as "bytecode". `system_lib` is ignored; it is accepted for compatibility with TVM.
    Raises InputError (a ValueError), LoweringError, CodegenError.
    """
    module = _module(mod)
    if exec_mode not in EXEC_MODES:
        raise InputError(f"exec_mode is {exec_mode!r}", hint=f"it may be {' or '.join(EXEC_MODES)}")
    chosen = Target.current_or_default().resolved() if target is None else Target(target)
    sized: dict[GlobalVar, SizedKernels] = {}
    with chosen:
        if params:
            module = bind_params(module, None, func_name="main", params=params)
        if relax_pipeline in ("default", "default_build") and tir_pipeline == "default":
            module = with_kernel_targets(unscheduled(module, chosen))
            kernels = {name: func for name, func in module.items() if isinstance(func, n.PrimFunc)}
            sized = sized_kernels({g: func for g, func in kernels.items() if TARGET not in func.attrs}, chosen)
            module = module.with_functions({**module.functions, **_scheduled(kernels, chosen)})
            relax_pipeline, tir_pipeline = "scheduled", None
        module = _run(relax_pipeline, module, get_pipeline)
        kernels = {name: func for name, func in module.items() if isinstance(func, n.PrimFunc)}
        if tir_pipeline not in (None, "default"):
            made = _run(tir_pipeline, module.with_functions(kernels), _tir_pipeline)
            kernels = n.prim_funcs(made)
        elif tir_pipeline is not None:
            kernels = _scheduled(kernels, chosen)
    builder = ExecBuilder()
    kernels = {name: func.with_attr(FLOPS, flops_text(func)) for name, func in kernels.items()}
    graphs = {name: func for name, func in module.items() if not isinstance(func, n.PrimFunc)}
    module = module.with_functions({**graphs, **kernels})
    constants = write_functions(module, builder)
    own = NativeFunctions({}, ())
    on_cpus = all(own.is_cpu for own in _by_target(kernels, chosen))
    if exec_mode == "compiled" and chosen.is_cpu and on_cpus:
        own = native_functions(module, lambda constant: constants.operand(constant).index)
    elif exec_mode == "compiled":
        names = [name.name_hint for name in graphs]
        own = NativeFunctions({}, tuple(f"{name}: kernels of another device than a CPU" for name in names))
    entries = {GlobalVar(name): function.func for name, function in own.functions.items()}
    kernels = with_sized_kernels(kernels, sized)
    artifacts = _compiled(module.with_functions({**kernels, **entries}), chosen)
    native = {name: Native(name, function.results) for name, function in own.functions.items()}
    executable = VMExecutable(builder.program(artifacts, str(chosen), native=native, interpreted=own.interpreted))
    for external in module.attrs.get(EXTERNAL, ()):
        executable.mod.import_module(external)
    return executable


def unscheduled(mod: IRModule | Function, target: Target, params: Mapping[str, Any] | None = None) -> IRModule:
    """Return the graph as kernels that a build for `target` schedules.
    Constants named in the attribute `layout_free_buffers` may be kept in another layout."""
    module = _module(mod)
    with target:
        if params:
            module = bind_params(module, None, func_name="main", params=params)
        module = get_pipeline("fused")(module)
        return attach_layout_free_buffers(module, PassContext.current(), constants_only=True)


def compile_module(
    mod: Any, target: Any = None, *, relax_pipeline: Any = "default", tir_pipeline: Any = "default"
) -> VMExecutable | Module:
    """Compile a module: graphs for a `VirtualMachine`, kernels alone to a module that runs.

    A function by itself keeps its `global_symbol` as name. Functions of graphs are machine code where they can be, as
    `build_graph` has it with the `exec_mode` "compiled". Raises what `relax.build` and `build` raise.
    """
    graph = isinstance(mod, Function) or (
        isinstance(mod, IRModule) and any(isinstance(func, Function) for func in mod.values())
    )
    if graph:
        return build_graph(mod, target, None, relax_pipeline, tir_pipeline, exec_mode="compiled")
    if isinstance(mod, IRModule) and tir_pipeline not in (None, "default"):
        mod = _run(tir_pipeline, mod, _tir_pipeline)
    return build(IRModule.from_expr(mod) if isinstance(mod, n.PrimFunc) else mod, target=target)


def _module(mod: Any) -> IRModule:
    if isinstance(mod, Function):
        return IRModule.from_expr(mod)
    if isinstance(mod, IRModule):
        return mod
    what = f"{type(mod).__name__} {repr(mod)[:60]}"
    raise InputError(f"expected an IRModule or a graph function, got {what}", hint="a BlockBuilder's get() gives one")


def _run(pipeline: Any, module: IRModule, named: Callable[[str], Pass]) -> IRModule:
    if pipeline is None:
        return module
    found = named(pipeline) if isinstance(pipeline, str) else pipeline
    if not callable(found):
        raise InputError(f"a pipeline is {found!r}, which is no pass")
    made = found(module)
    if not isinstance(made, IRModule):
        raise InputError(f"the pipeline gave {type(made).__name__}, no IRModule")
    return made


def _tir_pipeline(name: str) -> Pass:
    raise InputError(f"there is no pipeline of kernels {name!r}", hint='"default", None or a pass')


def _by_target(kernels: Mapping[GlobalVar, Any], target: Target) -> dict[Target, dict[GlobalVar, Any]]:
    """The functions of each target: what their attribute says, else `target`."""
    found: dict[Target, dict[GlobalVar, Any]] = {}
    for name, func in kernels.items():
        own = func.attrs.get(TARGET, target)
        chosen = target if own.kind == target.kind else own
        found.setdefault(chosen, {})[name] = func.without_attr(TARGET) if TARGET in func.attrs else func
    return found


def _scheduled(kernels: Mapping[GlobalVar, n.PrimFunc], target: Target) -> dict[GlobalVar, n.PrimFunc]:
    """The kernels with schedules, each for its own target, which it keeps."""
    made: dict[GlobalVar, n.PrimFunc] = {}
    for own, funcs in _by_target(kernels, target).items():
        made |= scheduled(funcs, own)
    return {
        name: made[name].with_attr(TARGET, func.attrs[TARGET]) if TARGET in func.attrs else made[name]
        for name, func in kernels.items()
    }


def _compiled(kernels: IRModule, target: Target) -> dict[str, Artifact]:
    """The kernels as one artifact for each type of device that they are for."""
    made: dict[str, Artifact] = {}
    for own, funcs in _by_target(kernels.functions, target).items():
        kind = "cpu" if own.is_cpu else "cuda"
        if kind in made:
            raise InputError(f"kernels for {own} and for another target of a {kind} device", hint=_ONE_OF_A_TYPE)
        made[kind] = compile_artifact(kernels.with_functions(funcs), own, keep=(), prefix="kernel_")
    return made


def evaluate(func: n.PrimFunc, arrays: Sequence[Any]) -> None:
    """Run a kernel on numpy arrays, the results last.
    Larger kernels are compiled, small ones interpreted."""
    if sum(item.size for item in arrays) < SMALL:
        interpret(func, *arrays)
        return
    given = [array(item) for item in arrays]
    _folding(func)["folded"](*given)
    for held, made in zip(arrays, given):
        if held.flags.writeable:
            held[...] = made.numpy()


@lru_cache(maxsize=64)
def _folding(func: n.PrimFunc) -> Module:
    """The kernel, compiled once for all constants that it is run on."""
    return load_artifact(compile_artifact(func, Target.host(), "folded", keep=()))


use_evaluator(evaluate)
