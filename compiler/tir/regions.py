"""The regions that a block body reads and writes: one region a buffer.

A buffer touched at one point has that point as its region. Points that differ by constants, as a stencil's do, span
a box. Along a dimension where that is unknown, the region is the whole dimension.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from compiler.ir.base import GlobalVar, Node
from compiler.ir.visit import children, walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Points = dict[n.Buffer, list[tuple[PrimExpr, ...]]]


def read_regions(stmts: Sequence[n.Stmt], own: Sequence[n.Buffer] = ()) -> tuple[n.BufferRegion, ...]:
    """Regions of the buffers that `stmts` load, in order of first use, leaving out those in `own`."""
    points: Points = {}
    for stmt in stmts:
        for node in walk(stmt):
            if isinstance(node, n.BufferLoad) and node.buffer not in own:
                points.setdefault(node.buffer, []).append(node.indices)
    return tuple(_region(buffer, found) for buffer, found in points.items())


def write_regions(stmts: Sequence[n.Stmt]) -> tuple[n.BufferRegion, ...]:
    """Regions of the buffers that `stmts` store to, in order of first use."""
    points: Points = {}
    for stmt in stmts:
        for node in walk(stmt):
            if isinstance(node, n.BufferStore):
                points.setdefault(node.buffer, []).append(node.indices)
    return tuple(_region(buffer, found) for buffer, found in points.items())


def _region(buffer: n.Buffer, points: list[tuple[PrimExpr, ...]]) -> n.BufferRegion:
    dims = zip(zip(*points), buffer.shape)
    return n.BufferRegion(buffer, tuple(_interval(indices, extent) for indices, extent in dims))


def _interval(indices: Sequence[PrimExpr], extent: PrimExpr) -> n.Range:
    """The least interval that holds every index, or the whole dimension."""
    if any(isinstance(node, n.BufferLoad) for index in indices for node in walk(index)):
        return n.Range(ops.const(0, extent.dtype), extent)
    first = linear(indices[0])
    low = high = first[1]
    least = indices[0]
    for index in indices[1:]:
        terms, offset = linear(index)
        if terms != first[0]:
            return n.Range(ops.const(0, extent.dtype), extent)
        if offset < low:
            low, least = offset, index
        high = high if high > offset else offset
    return n.Range(least, ops.const(high - low + 1, least.dtype))


# ----------------------------------------------------------------------------- linear form

Linear = tuple[dict[Hashable, int], int]


def linear(expr: PrimExpr) -> Linear:
    """Return (coefficient of each atom, constant) of `expr`.
    Whatever is not a sum or a multiple is an atom."""
    match expr:
        case n.IntImm():
            return {}, expr.value
        case n.Add(a, b):
            return _combine(linear(a), linear(b), 1)
        case n.Sub(a, b):
            return _combine(linear(a), linear(b), -1)
        case n.Mul(a, n.IntImm(value=factor)) | n.Mul(n.IntImm(value=factor), a):
            terms, offset = linear(a)
            return {k: c * factor for k, c in terms.items() if c * factor}, offset * factor
    return {_key(expr): 1}, 0


def _combine(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a[0])
    for key, coefficient in b[0].items():
        terms[key] = terms.get(key, 0) + sign * coefficient
    return {k: c for k, c in terms.items() if c}, a[1] + sign * b[1]


def _key(expr: Node) -> Hashable:
    """Return a key that is equal for equal expressions over the same variables and buffers."""
    match expr:
        case n.Var():
            return id(expr)
        case n.IntImm() | n.FloatImm() | n.StringImm():
            return type(expr).__name__, expr.dtype, expr.value
    extra: Hashable = getattr(expr, "dtype", None)
    if isinstance(expr, n.Call):
        extra = expr.dtype, expr.op.name_hint if isinstance(expr.op, GlobalVar) else expr.op.name
    if isinstance(expr, n.BufferLoad):
        extra = id(expr.buffer)
    return type(expr).__name__, extra, tuple(map(_key, children(expr)))
