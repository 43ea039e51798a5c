"""The compiler's part of backends: what makes code for a target kind out of lowered functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.artifact import Artifact, EntryPoint
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.lower.blocks.split_preproc import with_prepacked
from compiler.runtime.core.module import Module
from compiler.runtime.load import load_artifact
from compiler.target import entry_points
from compiler.target.backend_table import BackendTable
from compiler.target.target import Target
from compiler.tir import nodes as n

KEPT_BY_BUILDS = ("tir", "ll")
"""The texts that a module built in this process keeps for `get_source`."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """The input of code generation: a module of lowered functions, and a completely resolved target.

    `entries` are in the order of the functions; `symbols` gives each a name that linkers take. `meta` goes into the
    artifact.
    """

    module: IRModule
    entries: tuple[EntryPoint, ...]
    symbols: Mapping[GlobalVar, str]
    target: Target
    meta: Mapping[str, str]


class Backend(ABC):
    """The compiler's side of a target kind.
    A `DeviceBackend` of the runtime loads and runs its artifacts."""

    def complete(self, target: Target) -> Target:
        """Return `target` completely resolved. Raises CodegenError if no code can be made for it."""
        return target

    def checked(self, target: Target) -> Target:
        """Return `target`.
        Raises TargetError for a name in it, such as a CPU's, that the code generator does not know."""
        return target

    def vector_bits(self, target: Target) -> int:
        """Return the width of the vectors that loops become.

        It is the target's, or this machine's if the target is no CPU.
        """
        return target.vector_bits if target.is_cpu else Target.host().vector_bits

    def prepare(self, module: IRModule) -> IRModule:
        """Return `module` as it is to be lowered.

        Operands that are packed ahead of time get entries of their own.
        """
        return with_prepacked(module)

    def default_schedule(self, func: n.PrimFunc) -> n.PrimFunc:
        """Return `func`, which nobody scheduled, so that code can be made of it."""
        return func

    @abstractmethod
    def generate(self, lowered: Lowered, keep: Sequence[str]) -> Artifact:
        """Make the artifact. `keep` names the texts to hold in it. Raises CodegenError."""

    def build(self, lowered: Lowered) -> Module:
        """Make a module for this process."""
        return load_artifact(self.generate(lowered, KEPT_BY_BUILDS))


class _NoBackend(Backend):
    """Stands for a target kind without code generation. Functions for it can be lowered."""

    def complete(self, target: Target) -> Target:
        raise CodegenError(f"there is no code generator for target {target.kind!r}", hint='build for target="llvm"')

    def generate(self, lowered: Lowered, keep: Sequence[str]) -> Artifact:
        raise AssertionError("a target without a code generator is never complete")


BACKENDS: BackendTable[Backend] = BackendTable(
    {
        "llvm": "compiler.driver.backends.llvm:LLVM",
        "stackvm": "compiler.driver.backends.stackvm:STACKVM",
        "cuda": "compiler.driver.backends.cuda:CUDA",
        "nvptx": "compiler.driver.backends.cuda:CUDA",
    },
    entry_points.BACKEND_GROUP,
)
_NONE = _NoBackend()


def backend_of(target: Target) -> Backend:
    """Return the backend of the target's kind.
    A kind without one gets a backend that generates no code."""
    return BACKENDS.find(target.kind) or _NONE
