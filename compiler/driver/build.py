"""From a schedule, a function or a module to a lowered module, an artifact, or a module that runs.

`compile_artifact` is the pure core: IR and a target in, bytes out. `lower` and `build` have TVM's signatures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from compiler.artifact import ArgSpec, Artifact, EntryPoint, ImplicitArg, MadeResult
from compiler.codegen.llvm.llvm import llvm_version, llvmlite_version
from compiler.codegen.llvm.module import parameters, written_buffers
from compiler.driver.backend import Lowered, backend_of
from compiler.driver.pipeline import is_lowered, lower_module
from compiler.errors import CodegenError, IRError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.lower.blocks.shape_vars import extent_text, names_for, own_strides, shape_vars
from compiler.runtime.core.module import Module
from compiler.schedule.core.schedule import Schedule as TirSchedule
from compiler.target.target import Target
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.graph import CELLS, CHECKS, CONSTANTS, FLOPS, RESULTS, WRITTEN

DEFAULT_NAME = "default_function"
SOURCES = ("tir", "ll", "asm")


class InputError(IRError, kind="build_input"):
    """Something that cannot be lowered or built was passed. A ValueError, as TVM has it."""


# ------------------------------------------------------------------------------------- lower


def lower(
    inp: Any,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, n.Buffer] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """Lower a te or TensorIR schedule, a PrimFunc or an IRModule to loops over flat buffers.

    A te schedule comes with its `args`. `name` names the function of a schedule or a PrimFunc; `binds` chooses the
    buffer of a tensor; `simple_mode` leaves out passes that only make code faster, for a shorter text. Vector widths
    are those of the current target, else of this machine. Raises InputError (a ValueError) for any other input or a
    schedule without args, ScheduleError for an illegal schedule, LoweringError.
    """
    target = Target.current_or_default().resolved()
    module = _as_module(inp, args, name, binds)
    return lower_module(module, backend_of(target).vector_bits(target), simple=simple_mode)


def _as_module(
    inp: Any, args: Sequence[Any] | None, name: str, binds: Mapping[Tensor, n.Buffer] | None = None
) -> IRModule:
    match inp:
        case Schedule():
            if args is None:
                raise InputError("a schedule needs args", hint="pass its tensors in calling order: [A, B, C]")
            return IRModule.from_expr(schedule_to_func(inp, args, name, binds))
        case TirSchedule():
            _check_args(inp.func, args)
            alone = len(inp.mod) == 1
            return IRModule({name: inp.func.with_attr("global_symbol", name)}) if alone else inp.mod
        case n.PrimFunc():
            _no_args(inp, args)
            return IRModule({name: inp.with_attr("global_symbol", name)})
        case IRModule():
            _no_args(inp, args)
            return inp
    raise InputError(
        f"expected a Schedule, PrimFunc or IRModule, got {type(inp).__name__} {repr(inp)[:60]}",
        hint="for example te.create_schedule(C.op) with args=[A, B, C]",
    )


def _check_args(func: n.PrimFunc, args: Sequence[Any] | None) -> None:
    """A TensorIR schedule has its parameters; tensors given with it must be what they stand for."""
    if args is None:
        return
    buffers = [func.buffer_map.get(param) for param in func.params]
    wanted = [None if b is None else (tuple(map(ops.as_int, b.shape)), b.dtype) for b in buffers]
    given = [(tuple(map(ops.as_int, t.shape)), t.dtype) if isinstance(t, Tensor) else None for t in args]
    if given != wanted:
        raise InputError(
            f"args do not fit the schedule's function: it takes {wanted}, got {given}",
            hint="pass the tensors it was made of, in the same order, or leave args out",
        )


def _no_args(inp: Any, args: Sequence[Any] | None) -> None:
    if args is not None:
        raise InputError(f"args go with a schedule, not with a {type(inp).__name__}, which has its own parameters")


# ------------------------------------------------------------------------------------- build


def build(
    inputs: Any, args: Sequence[Any] | None = None, target: Any = None, target_host: Any = None, runtime: Any = None,
    name: str = DEFAULT_NAME, binds: Mapping[Tensor, n.Buffer] | None = None,
) -> Module:  # fmt: skip
    """Compile for a CPU or an NVIDIA GPU and load into this process.

    Target "stackvm" runs in the interpreter instead.

    `inputs` is a te schedule (with `args`), a TensorIR schedule, a PrimFunc, an IRModule (these may be lowered
    already), or a dict of target to IRModule. In a dict, modules beyond the first are `imported_modules` of the
    first. `target` defaults to the current target, else this machine; `target_host` is the CPU beside a GPU.
    `runtime` is ignored; it is accepted for compatibility with TVM. Raises InputError (a ValueError) for other inputs,
    CodegenError for a target this version makes no code for. What this machine cannot run (another CPU's code, calls
    of functions it does not have) can be saved and exported; getting a function of it raises ArtifactError.
    """
    modules = _by_target(inputs, args, target, target_host, name, binds)
    first, *others = [backend_of(chosen).build(_lowered(module, chosen)) for chosen, module in modules]
    for other in others:
        first.import_module(other)
    return first


def _by_target(
    inputs: Any, args: Sequence[Any] | None, target: Any, target_host: Any, name: str,
    binds: Mapping[Tensor, n.Buffer] | None,
) -> list[tuple[Target, IRModule]]:  # fmt: skip
    host = None if target_host is None else Target(target_host)
    if not isinstance(inputs, Mapping) or isinstance(inputs, IRModule):
        chosen = Target.current_or_default().resolved() if target is None else Target(target)
        return [(_with_host(chosen, host), _as_module(inputs, args, name, binds))]
    if not inputs:
        raise InputError("a dict of target to IRModule is empty")
    if args is not None:
        raise InputError("args go with a schedule, not with a dict of target to IRModule")
    if target is not None:
        raise InputError("with a dict of target to IRModule, the targets are its keys: leave out `target`")
    found: list[tuple[Target, IRModule]] = []
    for key, module in inputs.items():
        if not isinstance(key, str | Target):
            raise InputError(f"a key of the dict must be a target or its name, not a {type(key).__name__}")
        if not isinstance(module, IRModule):
            raise InputError(f"the value for target {str(key)!r} must be an IRModule, not a {type(module).__name__}")
        found.append((_with_host(Target(key), host), module))
    return found


def _with_host(target: Target, host: Target | None) -> Target:
    return target if host is None or target.is_cpu else Target(target, host=host)


# ---------------------------------------------------------------------------------- artifact


def compile_artifact(
    mod_or_func: IRModule | n.PrimFunc,
    target: Target | str | Mapping[str, Any],
    name: str = DEFAULT_NAME,
    keep: Sequence[str] = ("tir", "ll"),
    prefix: str = "",
) -> Artifact:
    """Lower, generate and optimise code for a CPU, or PTX for an NVIDIA GPU (target "cuda -arch=sm_90").

    `name` names the entry point of a PrimFunc; an IRModule's functions keep their names. `keep` lists the
    texts to hold in the artifact: "tir" (lowered), "ll" (before LLVM optimises), "asm". `prefix` begins the
    kernels' linker symbols, so that one may be called as a C function is. Raises InputError
    (a ValueError), TargetError, LoweringError or CodegenError.
    """
    if not isinstance(mod_or_func, IRModule | n.PrimFunc):
        found = f"{type(mod_or_func).__name__} {repr(mod_or_func)[:60]}"
        raise InputError(f"compile_artifact: expected a PrimFunc or IRModule, got {found}")
    unknown = sorted(set(keep) - set(SOURCES))
    if unknown:
        raise InputError(f"keep names {', '.join(unknown)}", hint=f"it may hold: {', '.join(SOURCES)}")
    chosen = Target(target)
    return backend_of(chosen).generate(_lowered(_as_module(mod_or_func, None, name), chosen, prefix), keep)


def _lowered(module: IRModule, target: Target, prefix: str = "") -> Lowered:
    """The functions of `module` as code is generated from them."""
    backend = backend_of(target)
    chosen = backend.complete(target)
    prepared = backend.prepare(module)
    lowered = _ready(prepared, backend.vector_bits(chosen))
    symbols = _symbols(lowered, prefix)
    return Lowered(lowered, _entries(prepared, lowered, symbols), symbols, chosen, _versions())


def _ready(module: IRModule, vector_bits: int) -> IRModule:
    """The module lowered. Raises CodegenError where the pass context left something out that code needs."""
    lowered = lower_module(module, vector_bits)
    context = PassContext.active()
    if context is None:
        return lowered
    for name, func in n.prim_funcs(lowered).items():
        if not is_lowered(func):
            raise CodegenError(
                f"{name.name_hint} is not lowered all the way: a pass that code generation needs was skipped or undone",
                hint=f"look at disabled_pass and instruments of {context!r}",
            )
    return lowered


def _symbols(module: IRModule, prefix: str) -> dict[GlobalVar, str]:
    """A linker symbol for each function.
    Raises InputError when there is none, one is no PrimFunc, or two collide."""
    if not len(module):
        raise InputError("the module has no functions")
    symbols: dict[GlobalVar, str] = {}
    for name, func in module.items():
        if not isinstance(func, n.PrimFunc):
            raise InputError(f"code is made of TensorIR functions; {name.name_hint} is a {type(func).__name__}")
        symbol = re.sub(r"[^A-Za-z0-9_.$]", "_", name.name_hint)
        symbol = f"_{symbol}" if not symbol or symbol[0].isdigit() else symbol
        symbol = f"{'model_' if RESULTS in func.attrs else prefix}{symbol}"  # so that C can call a graph's "main"
        if symbol in symbols.values():
            raise InputError(f"two functions of the module have the symbol {symbol!r}")
        symbols[name] = symbol
    return symbols


def _entries(module: IRModule, lowered: IRModule, symbols: Mapping[GlobalVar, str]) -> tuple[EntryPoint, ...]:
    """Return what can be called: the lowered functions, with their original arguments.

    Passes may add or drop arguments.
    """
    before = n.prim_funcs(module)
    return tuple(_entry(g.name_hint, symbols[g], before.get(g, f), f) for g, f in n.prim_funcs(lowered).items())


def _entry(name: str, symbol: str, func: n.PrimFunc, lowered: n.PrimFunc) -> EntryPoint:
    specs: list[ArgSpec] = []
    outputs: list[int] = []
    written = written_buffers(lowered)
    bound = shape_vars(func, strided=True)
    scalars = [param.var for param in parameters(func) if param.buffer is None]
    names = names_for([*scalars, *(found.var for found in bound)])
    for position, param in enumerate(parameters(func)):
        if param.buffer is None:
            specs.append(ArgSpec(names[param.var], param.var.dtype, None))
            continue
        buffer = param.buffer
        shape = tuple(extent_text(d, names) if (size := ops.as_int(d)) is None else size for d in buffer.shape)
        specs.append(ArgSpec(buffer.name, buffer.dtype, shape, own_strides(buffer)))
        if buffer.data in written or param.var in written:
            outputs.append(position)
    results = func.attrs.get(RESULTS)
    if results is None and WRITTEN in func.attrs:  # it passes its arrays on to kernels, and says what those write
        outputs = [*map(int, func.attrs[WRITTEN])]
    if results is not None:  # which says itself what it writes
        outputs = [*map(int, func.attrs.get(WRITTEN, ())), *range(len(specs) - int(results), len(specs))]
    implicit = tuple(ImplicitArg(names[v.var], v.var.dtype, extent_text(v.value, names)) for v in bound)
    made = EntryPoint(name, symbol, tuple(specs), tuple(outputs), implicit, flops=str(func.attrs.get(FLOPS, "")))
    if results is None:
        return made
    checks, constants = func.attrs.get(CHECKS, ()), func.attrs.get(CONSTANTS, 0)
    cells = tuple(MadeResult(int(index), str(dtype), int(ndim)) for index, dtype, ndim in func.attrs.get(CELLS, ()))
    return replace(
        made, results=int(results), checks=tuple(map(str, checks)), constants=int(constants), made=cells
    )


def _versions() -> dict[str, str]:
    return {"tunefarm": _own_version(), "llvm": llvm_version(), "llvmlite": llvmlite_version()}


@cache
def _own_version() -> str:
    try:
        return version("tunefarm")
    except PackageNotFoundError:  # used from a source tree that is not installed
        return "unknown"
