"""Hooks for arithmetic in TensorIR: `compiler.arith` fills them in when it is loaded."""

from __future__ import annotations

from typing import Protocol

from compiler.errors import IRError
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

Regions = tuple[n.BufferRegion, ...]


class Arithmetic(Protocol):
    """Arithmetic for parts that a text leaves out."""

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        """A shorter expression of the same value."""

    def accesses(self, block: n.Block) -> tuple[Regions, Regions]:
        """Return what a block reads and writes, from its body."""


_arithmetic: list[Arithmetic] = []


def provide(arithmetic: Arithmetic) -> None:
    """Set the arithmetic with which texts are read."""
    _arithmetic[:] = [arithmetic]


def arithmetic() -> Arithmetic:
    """The arithmetic provided. Raises IRError before there is one."""
    if not _arithmetic:
        raise IRError("TensorIR text needs arithmetic, which is not loaded", hint="import compiler.arith")
    return _arithmetic[0]
