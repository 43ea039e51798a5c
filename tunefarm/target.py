"""What code is built for."""

from compiler.target import Target, TargetKind, cuda, list_kinds, llvm

__all__ = [
    "Target",
    "TargetKind",
    "cuda",
    "list_kinds",
    "llvm",
]  # fmt: skip
