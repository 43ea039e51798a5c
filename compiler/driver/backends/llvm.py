"""Machine code for CPUs, made by LLVM."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.artifact import Artifact
from compiler.codegen.llvm.cpu_names import check_names
from compiler.codegen.llvm.effort import Effort, by_effort, effort_of
from compiler.codegen.llvm.llvm import assembly_text, compile_text, compile_together, options_for
from compiler.codegen.llvm.module import called_symbols, llvm_text
from compiler.driver.backend import KEPT_BY_BUILDS, Backend, Lowered
from compiler.errors import ArtifactError
from compiler.ir.module import IRModule
from compiler.lower.blocks.split_preproc import with_prepacked
from compiler.runtime.core.code.cpu_function import Code
from compiler.runtime.core.code.cpu_module import CPUModule, load_code
from compiler.runtime.core.loader import NotLoaded
from compiler.target.cpu_features import host_cpu
from compiler.target.target import Target
from compiler.tir import nodes as n


class BuiltModule(CPUModule):
    """A module built in this process. It makes its assembly when asked for it."""

    def __init__(self, artifact: Artifact, code: Code, effort: Effort) -> None:
        super().__init__(artifact, code)
        self._effort = effort

    def __repr__(self) -> str:
        return f"<CPUModule {', '.join(self.get_function_list())}>"  # how it came to be does not matter to users

    def get_source(self, fmt: str = "") -> str:
        """ "ll" (LLVM IR before optimisation, the default), "asm" or "tir" (lowered)."""
        if fmt.lower() in ("asm", "s"):
            return assembly_text(super().get_source("ll"), Target(self.artifact.target), self._effort)
        return super().get_source(fmt)


class LLVMBackend(Backend):
    """CPUs: an object file for the target's triple, CPU and features."""

    def complete(self, target: Target) -> Target:
        return target.resolved()

    def checked(self, target: Target) -> Target:
        check_names(target, target.triple or host_cpu().triple)
        return target

    def prepare(self, module: IRModule) -> IRModule:
        """See `Backend.prepare`. Functions call each other in machine code."""
        return with_prepacked(module, calling=True)

    def generate(self, lowered: Lowered, keep: Sequence[str]) -> Artifact:
        module, target, effort = lowered.module, lowered.target, _effort(lowered)
        blobs: dict[str, bytes] = {}
        if effort is Effort.FULL and not {"ll", "asm"} & set(keep):
            blobs["object"] = compile_together(_texts(lowered), target)
        else:
            functions = {lowered.symbols[g]: f for g, f in n.prim_funcs(module).items()}
            text = llvm_text(functions, options_for(target), _names(lowered))
            blobs["object"] = compile_text(text, target, effort)
            if "ll" in keep:
                blobs["ll"] = text.encode()
            if "asm" in keep:
                blobs["asm"] = assembly_text(text, target, effort).encode()
        if "tir" in keep:
            blobs["tir"] = module.script().encode()
        return Artifact(str(target), tuple(sorted(target.features)), lowered.entries, blobs, lowered.meta)

    def build(self, lowered: Lowered) -> BuiltModule:
        """Build a module. It can be saved and exported even if it cannot run here."""
        artifact, effort = self.generate(lowered, KEPT_BY_BUILDS), _effort(lowered)
        try:
            return BuiltModule(artifact, load_code(artifact), effort)
        except ArtifactError as error:
            return BuiltModule(artifact, NotLoaded(error), effort)


def _names(lowered: Lowered) -> dict[str, str]:
    return {name.name_hint: symbol for name, symbol in lowered.symbols.items()}


def _texts(lowered: Lowered) -> list[tuple[str, Effort]]:
    """Split the module's functions into LLVM modules, one for each effort.
    Thus one function that needs LLVM's full pipeline does not run it for all."""
    symbols, options = _names(lowered), options_for(lowered.target)
    funcs = {name.name_hint: func for name, func in n.prim_funcs(lowered.module).items()}
    parts = by_effort(funcs)
    called = {effort: {s for f in part.values() for s in called_symbols(f, symbols)} for effort, part in parts.items()}
    found = []
    for effort, part in parts.items():
        shared = frozenset(s for other, calls in called.items() if other is not effort for s in calls)
        found.append((llvm_text({symbols[name]: f for name, f in part.items()}, options, symbols, shared), effort))
    return found


def _effort(lowered: Lowered) -> Effort:
    return effort_of({name.name_hint: func for name, func in n.prim_funcs(lowered.module).items()})


LLVM = LLVMBackend()
