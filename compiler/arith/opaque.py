"""Integer terms into which the normal form does not look: loads, calls, casts, selections.

Their children are simplified, and their bounds are noted where they can be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.arith.bounds import ANY, Bounds, either, truncated_quotient, truncated_remainder
from compiler.arith.divide import div_const
from compiler.arith.linear import Lin, scaled
from compiler.dtype import parse_dtype
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

if TYPE_CHECKING:
    from compiler.arith.normal import Normal

TYPES = (n.Cast, n.Select, n.Call, n.BufferLoad, n.ProducerLoad, n.Let, n.Reduce)
_MAX_SHIFT = 62


def lin(normal: Normal, expr: PrimExpr) -> Lin:
    """The normal form of an expression of one of `TYPES`, or of a division about which nothing is known."""
    if isinstance(expr, n.Call):
        shifted = _shift(normal, expr)
        if shifted is not None:
            return shifted
    simple = normal.rebuild(expr)
    if type(simple) is not type(expr):
        return normal.lin(simple)
    lo, hi = _bounds(normal, simple)
    return normal.atoms.opaque(simple, lo, hi)


def _shift(normal: Normal, expr: n.Call) -> Lin | None:
    """Shifts by constants, as the multiplication or floor division they are."""
    name = getattr(expr.op, "name", "")
    if name not in ("tir.shift_left", "tir.shift_right"):
        return None
    amount = ops.as_int(normal.simplify(expr.args[1]))
    if amount is None or not 0 <= amount <= _MAX_SHIFT:
        return None
    value = normal.lin(expr.args[0])
    if name == "tir.shift_left":
        return scaled(value, 1 << amount)
    return normal.finish(div_const(normal.atoms, value, 1 << amount))


def _bounds(normal: Normal, expr: PrimExpr) -> Bounds:
    match expr:
        case n.Cast():
            return _cast_bounds(normal, expr)
        case n.Select(_, yes, no):
            return either(normal.lin(yes).bounds(), normal.lin(no).bounds())
        case n.Call():
            return _call_bounds(normal, expr)
        case n.Div(a, b):
            return truncated_quotient(normal.lin(a).bounds(), normal.lin(b).bounds())
        case n.Mod(a, b):
            return truncated_remainder(normal.lin(a).bounds(), normal.lin(b).bounds())
    return ANY


def _cast_bounds(normal: Normal, expr: n.Cast) -> Bounds:
    source = parse_dtype(expr.value.dtype)
    if source.code == "bool":
        return 0, 1
    if source.is_float or source.code == "handle":
        return ANY
    if expr.value.dtype in ("int32", "int64"):
        lo, hi = normal.lin(expr.value).bounds()
        limit = 1 << (parse_dtype(expr.dtype).bits - 1)
        return (lo, hi) if source.bits <= parse_dtype(expr.dtype).bits or -limit <= lo <= hi < limit else ANY
    if source.bits >= parse_dtype(expr.dtype).bits:
        return ANY
    if source.is_signed:
        return -(1 << (source.bits - 1)), (1 << (source.bits - 1)) - 1
    return 0, (1 << source.bits) - 1


def _call_bounds(normal: Normal, expr: n.Call) -> Bounds:
    name = getattr(expr.op, "name", "")
    if name == "tir.if_then_else":
        return either(normal.lin(expr.args[1]).bounds(), normal.lin(expr.args[2]).bounds())
    if name == "tir.bitwise_and":
        limits = [normal.lin(a).bounds() for a in expr.args]
        highs = [hi for lo, hi in limits if lo >= 0]
        return (0, min(highs)) if highs else ANY
    if name in ("tir.popcount", "tir.clz"):
        return 0, 64
    return ANY
