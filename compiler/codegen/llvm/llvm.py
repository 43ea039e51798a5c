"""LLVM through llvmlite: from IR text to optimised object code or assembly, for any CPU triple."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, assert_never

import llvmlite
import llvmlite.binding as llvm

from compiler.codegen.llvm.cpu_names import check_names
from compiler.codegen.llvm.effort import Effort
from compiler.codegen.llvm.gen import CodegenOptions
from compiler.errors import CodegenError
from compiler.target.cpu_features import architecture
from compiler.target.target import Target

# llvmlite's target machines are shared between calls, and LLVM's are not safe to use from two threads.
_lock = threading.Lock()


_FAST_MATH = ("nnan", "ninf", "nsz", "arcp", "contract", "reassoc")


def options_for(target: Target) -> CodegenOptions:
    """Return what `target` lets the generator do.
    Float arithmetic may be fused, and is otherwise as written unless the target's fast-math options say more."""
    return CodegenOptions(target.features, fast_math_flags(target), target.vector_bits, _converts_halves(target))


def fast_math_flags(target: Target) -> str:
    """LLVM's flags on float arithmetic."""
    if target.get("fast-math"):
        return "fast"
    wanted = {name: bool(target.get(f"fast-math-{name}", name == "contract")) for name in _FAST_MATH}
    return " ".join(name for name in _FAST_MATH if wanted[name])


_HALF_FEATURES = {"f16c", "avx512f", "fp16", "fullfp16", "zfhmin", "zfh"}


def _converts_halves(target: Target) -> bool:
    arch = architecture(_triple(target))
    return arch == "aarch64" or not _HALF_FEATURES.isdisjoint(target.features)


def llvm_version() -> str:
    return ".".join(map(str, llvm.llvm_version_info))


def llvmlite_version() -> str:
    return str(llvmlite.__version__)


def compile_text(text: str, target: Target, effort: Effort = Effort.FULL) -> bytes:
    """Optimise IR text and emit a relocatable ELF object for `target`.
    Raises CodegenError when LLVM refuses."""
    with _lock:
        return bytes(_machine(target).emit_object(_optimised(text, target, effort)))


def compile_together(texts: Sequence[tuple[str, Effort]], target: Target) -> bytes:
    """Compile several modules, each with its own effort, to one object.
    They may call each other's functions."""
    with _lock:
        context = llvm.create_context()
        first, *others = [_optimised(text, target, effort, context) for text, effort in texts]
        try:
            for other in others:
                first.link_in(other)
        except RuntimeError as error:
            raise CodegenError(f"LLVM could not link parts of a module: {error}") from None
        return bytes(_machine(target).emit_object(first))


def assembly_text(text: str, target: Target, effort: Effort = Effort.FULL) -> str:
    """Compile as `compile_text` does, and return the assembly."""
    with _lock:
        return str(_machine(target).emit_assembly(_optimised(text, target, effort)))


def optimised_assembly(text: str, triple: str, cpu: str) -> str:
    """Optimise IR text in full and return the assembly.
    The machine may be one that is no target by itself, such as a GPU architecture."""
    with _lock:
        machine = _machine_for(triple, cpu)
        module = _parsed(text, machine)
        _optimise_fully(module, machine, 3)
        return str(machine.emit_assembly(module))


@lru_cache(maxsize=16)
def _machine_for(triple: str, cpu: str) -> Any:
    _initialize()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)


def _optimised(text: str, target: Target, effort: Effort, context: Any = None) -> Any:
    module = _parsed(text, _machine(target), context)
    match effort:
        case Effort.LIGHT:
            _optimise_lightly(module, _machine(target))
        case Effort.FULL:
            _optimise_fully(module, _machine(target), _level(target, 2))
        case _:
            assert_never(effort)
    return module


def _parsed(text: str, machine: Any, context: Any = None) -> Any:
    try:
        # a context of its own: the global one would keep every type and constant ever seen
        module = llvm.parse_assembly(text, context=context or llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM refused the generated code: {error}", detail={"ll": text}) from None
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module


def _optimise_lightly(module: Any, machine: Any) -> None:
    """Math functions into their callers, local arrays to registers, and peephole clean-up."""
    with (
        llvm.create_pipeline_tuning_options(speed_level=1) as tuning,
        llvm.create_pass_builder(machine, tuning) as builder,
    ):
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)


def _optimise_fully(module: Any, machine: Any, level: int) -> None:
    with (
        llvm.create_pipeline_tuning_options(speed_level=level) as tuning,
        llvm.create_pass_builder(machine, tuning) as builder,
    ):
        tuning.loop_vectorization = True
        tuning.slp_vectorization = True
        builder.getModulePassManager().run(module, builder)


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@lru_cache(maxsize=16)
def _machine(target: Target) -> Any:
    """The target machine for a resolved target.

    Raises CodegenError for a triple LLVM does not know, TargetError for a CPU or feature."""
    _initialize()
    triple = _triple(target)
    check_names(target, triple)
    try:
        backend = llvm.Target.from_triple(triple)
        return backend.create_target_machine(
            cpu=target.mcpu,
            features=",".join(target.mattr),
            opt=_level(target, 3),
            reloc="pic",
            codemodel="default",
            abiname=str(target.get("mabi") or ""),
        )
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no code generator for {triple!r}: {error}") from None


def _triple(target: Target) -> str:
    """The target's triple; on 32-bit Arm it also says how floats are passed."""
    triple = str(target.triple or llvm.get_default_triple())
    float_abi = target.get("mfloat-abi")
    if float_abi is None or not triple.startswith(("arm", "thumb")):
        return triple
    soft = triple.removesuffix("hf")
    return f"{soft}hf" if float_abi == "hard" else soft


def _level(target: Target, default: int) -> int:
    """The target's opt-level, 0 to 3."""
    return min(max(int(target.get("opt-level", default)), 0), 3)
