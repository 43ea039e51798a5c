"""Loops over the rows of a tensor, for operators whose rows are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.ir_builder import BufferVar, IRBuilder
from compiler.tir.nodes import PrimExpr
from compiler.topi.checks import product, unravel

_LINE = 8  # numbers in a cache line, so that rows of different threads share none


@dataclass(frozen=True, slots=True)
class RowInteger:
    """A mutable int64 of one row."""

    buffer: BufferVar
    row: PrimExpr
    place: int

    @property
    def value(self) -> PrimExpr:
        return self.buffer[self.row, self.place]

    def set(self, value: Any) -> None:
        self.buffer[self.row, self.place] = int64(value)


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its number, and the point of the tensor at position `k` of it."""

    number: n.Var
    at: Callable[[Any], tuple[PrimExpr, ...]]
    cells: tuple[RowInteger, ...]


def int64(value: Any) -> PrimExpr:
    return ops.cast("int64", value)


@contextmanager
def rows(ib: IRBuilder, shape: Sequence[PrimExpr], axis: int, cells: int = 0) -> Iterator[Row]:
    """Loop in parallel over the rows of a tensor of `shape` along `axis`.
    Each row has `cells` mutable numbers."""
    outer = [size for d, size in enumerate(shape) if d != axis]
    count = int64(product(outer))
    store = ib.allocate("int64", (count, -(-cells // _LINE) * _LINE), "cells") if cells else None
    with ib.for_range(ops.const(0, "int64"), count, "row", kind="parallel") as row:
        point = [ib.let("p", index) for index in unravel(row, outer)]

        def at(k: Any) -> tuple[PrimExpr, ...]:
            return (*point[:axis], ops.as_expr(k), *point[axis:])

        held = tuple(RowInteger(store, row, c) for c in range(cells)) if store is not None else ()
        yield Row(row, at, held)


@contextmanager
def points(ib: IRBuilder, shape: Sequence[PrimExpr]) -> Iterator[tuple[n.Var, ...]]:
    """Loops over all points of `shape`, in row-major order."""
    if not shape:
        yield ()
        return
    with ib.for_range(ops.const(0, shape[0].dtype), shape[0], "i") as i, points(ib, shape[1:]) as rest:
        yield (i, *rest)
