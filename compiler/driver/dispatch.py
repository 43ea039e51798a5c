"""Several kernels for different sizes as one artifact with one entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.artifact import LINKED, ArgSpec, Artifact, EntryPoint, ImplicitArg
from compiler.codegen.llvm.dispatch import dispatch_text
from compiler.codegen.llvm.effort import Effort
from compiler.codegen.llvm.llvm import compile_text
from compiler.errors import CodegenError
from compiler.size_rule import SizeRule
from compiler.target.target import Target


@dataclass(frozen=True)
class DispatchedEntry:
    """The entry that callers see: arguments whose extents name sizes, and which of them are written."""

    name: str
    args: tuple[ArgSpec, ...]
    outputs: tuple[int, ...]
    implicit: tuple[ImplicitArg, ...]
    flops: str = ""


def dispatch_artifact(
    entry: DispatchedEntry, rule: SizeRule, kernels: Sequence[Artifact], target: Target | str
) -> Artifact:
    """Link kernels to one artifact whose entry calls the one that `rule` picks, by its place.

    Each kernel is an artifact of one entry with a symbol of its own. One made for constant sizes takes the entry's
    arguments; any other takes the implicit ones too, in the same order. Raises CodegenError where that does not hold,
    and for another target than a CPU.
    """
    resolved = Target(target)
    if not resolved.is_cpu:
        raise CodegenError(f"kernels are dispatched on CPUs, not on {resolved.kind}")
    symbols = [_checked(entry, kernel) for kernel in kernels]
    if len({*symbols, entry.name}) != len(symbols) + 1:
        raise CodegenError(f"two kernels of {entry.name} have one symbol")
    sizes = [(arg.name, arg.dtype) for arg in entry.implicit]
    text = dispatch_text(entry.name, entry.args, sizes, rule, symbols)
    objects = [code for kernel in kernels for code in (kernel.blobs["object"], *kernel.linked)]
    blobs = {"object": compile_text(text, resolved, Effort.LIGHT)}
    blobs |= {f"{LINKED}{at}": code for at, code in enumerate(objects)}
    features = {feature for kernel in kernels for feature in kernel.cpu_features}
    made = EntryPoint(entry.name, entry.name, entry.args, entry.outputs, entry.implicit, flops=entry.flops)
    meta = dict(kernels[0].meta) if kernels else {}
    return Artifact(str(resolved), tuple(sorted(features)), (made,), blobs, meta)


def _checked(entry: DispatchedEntry, kernel: Artifact) -> str:
    """The kernel's symbol. Raises CodegenError where the entry's slots are not what it takes."""
    if len(kernel.entries) != 1:
        raise CodegenError(f"a kernel of {entry.name} has {len(kernel.entries)} entries")
    [own] = kernel.entries
    same = [(a.dtype, a.shape is None) for a in own.args] == [(a.dtype, a.shape is None) for a in entry.args]
    implicit = [(arg.dtype, arg.value) for arg in own.implicit]
    if not same or (implicit and implicit != [(arg.dtype, arg.value) for arg in entry.implicit]):
        raise CodegenError(f"the kernel {own.symbol} does not take what {entry.name} is called with")
    return own.symbol
