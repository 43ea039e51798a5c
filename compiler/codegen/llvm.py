"""LLVM through llvmlite: from IR text to optimised object code or assembly, for any CPU triple."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from compiler.codegen.gen import CodegenOptions
from compiler.errors import CodegenError
from compiler.target import Target

# llvmlite's target machines are shared between calls, and LLVM's are not safe to use from two threads.
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of one module. `object_code` is a relocatable ELF file."""

    object_code: bytes
    assembly: str | None = None


def options_for(target: Target) -> CodegenOptions:
    return CodegenOptions(target.features, vector_bits=target.vector_bits)


def llvm_version() -> str:
    return ".".join(map(str, llvm.llvm_version_info))


def llvmlite_version() -> str:
    return str(llvmlite.__version__)


def compile_text(text: str, target: Target, *, assembly: bool = False, level: int = 2) -> Compiled:
    """Optimise IR text and emit code for `target`. Raises CodegenError when LLVM refuses."""
    with _lock:
        module = _parse(text, target)
        machine = _machine(target)
        _optimise(module, machine, level)
        code = machine.emit_object(module)
        return Compiled(bytes(code), machine.emit_assembly(module) if assembly else None)


def optimised_text(text: str, target: Target, *, level: int = 2) -> str:
    """The IR after optimisation, to be read by people."""
    with _lock:
        module = _parse(text, target)
        _optimise(module, _machine(target), level)
        return str(module)


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


def _optimise(module: Any, machine: Any, level: int) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@lru_cache(maxsize=16)
def _machine(target: Target) -> Any:
    """The target machine for a resolved target. Raises CodegenError for a triple LLVM does not know."""
    _initialize()
    triple = target.mtriple or llvm.get_default_triple()
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
