"""LLVM through llvmlite: from IR text to optimised object code or assembly, for any CPU triple."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, assert_never

import llvmlite
import llvmlite.binding as llvm

from compiler.codegen.cpu_names import check_names
from compiler.codegen.effort import Effort
from compiler.codegen.gen import CodegenOptions
from compiler.errors import CodegenError
from compiler.target import Target

# llvmlite's target machines are shared between calls, and LLVM's are not safe to use from two threads.
_lock = threading.Lock()


def options_for(target: Target) -> CodegenOptions:
    return CodegenOptions(target.features, vector_bits=target.vector_bits)


def llvm_version() -> str:
    return ".".join(map(str, llvm.llvm_version_info))


def llvmlite_version() -> str:
    return str(llvmlite.__version__)


def compile_text(text: str, target: Target, effort: Effort = Effort.FULL) -> bytes:
    """Optimise IR text and emit a relocatable ELF object for `target`. Raises CodegenError when LLVM refuses."""
    with _lock:
        return bytes(_machine(target).emit_object(_optimised(text, target, effort)))


def assembly_text(text: str, target: Target, effort: Effort = Effort.FULL) -> str:
    """The assembly of what `compile_text` makes."""
    with _lock:
        return str(_machine(target).emit_assembly(_optimised(text, target, effort)))


def optimised_text(text: str, target: Target, effort: Effort = Effort.FULL) -> str:
    """The IR after optimisation, to be read by people."""
    with _lock:
        return str(_optimised(text, target, effort))


def _optimised(text: str, target: Target, effort: Effort) -> Any:
    module = _parse(text, target)
    match effort:
        case Effort.LIGHT:
            _optimise_lightly(module, _machine(target))
        case Effort.FULL:
            _optimise_fully(module, _machine(target))
        case _:
            assert_never(effort)
    return module


def _parse(text: str, target: Target) -> Any:
    try:
        # a context of its own: the global one would keep every type and constant ever seen
        module = llvm.parse_assembly(text, context=llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM refused the generated code: {error}", detail={"ll": text}) from None
    machine = _machine(target)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module


def _optimise_lightly(module: Any, machine: Any) -> None:
    """Local arrays to registers, and peephole clean-up."""
    with (
        llvm.create_pipeline_tuning_options(speed_level=1) as tuning,
        llvm.create_pass_builder(machine, tuning) as builder,
    ):
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)


def _optimise_fully(module: Any, machine: Any) -> None:
    with (
        llvm.create_pipeline_tuning_options(speed_level=2) as tuning,
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
    triple = target.mtriple or llvm.get_default_triple()
    check_names(target, triple)
    try:
        backend = llvm.Target.from_triple(triple)
        return backend.create_target_machine(
            cpu=target.mcpu or "",
            features=",".join(target.mattr),
            opt=3,
            reloc="pic",
            codemodel="default",
            abiname=str(target.get("mabi") or ""),
        )
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no code generator for {triple!r}: {error}") from None
