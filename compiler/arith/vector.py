"""Vectors of integers and of conditions.

A vector of indices is one scalar expression over the lane number. It is simplified as that, and when the
result is again linear in the lane, it is a ramp or a broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.arith.linear import Lin, render
from compiler.dtype import element_of, parse_dtype
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

if TYPE_CHECKING:
    from compiler.arith.normal import Normal

_INDEX = ("int32", "int64")
_ARITHMETIC = (n.Add, n.Sub, n.Mul, n.FloorDiv, n.FloorMod, n.Div, n.Mod, n.Min, n.Max)
_LOGIC = (n.EQ, n.NE, n.LT, n.LE, n.GT, n.GE, n.And, n.Or)


def simplify(normal: Normal, expr: PrimExpr) -> PrimExpr:
    """A vector expression with what is linear in the lane as ramps and broadcasts."""
    if isinstance(expr, n.Ramp | n.Broadcast):
        return normal.rebuild(expr)
    if element_of(expr.dtype) in (*_INDEX, "bool") and isinstance(expr, (*_ARITHMETIC, *_LOGIC, n.Not)):
        lanes = parse_dtype(expr.dtype).lanes
        lane = normal.lane(lanes, _index_dtype(expr))
        scalar = _scalar(expr, lane)
        if scalar is not None:
            vector = _vector(normal, normal.simplify(scalar), lane, lanes)
            if vector is not None:
                return vector
    return normal.rebuild(expr)


def _index_dtype(expr: PrimExpr) -> str:
    """The element dtype of the integers in `expr`."""
    while element_of(expr.dtype) == "bool" and isinstance(expr, n.BinaryOp | n.Not):
        expr = expr.a
    return element_of(expr.dtype)


def _scalar(expr: PrimExpr, lane: n.Var) -> PrimExpr | None:
    """One lane of `expr`; None where it holds more than index arithmetic."""
    match expr:
        case n.Ramp(base, stride):
            if base.dtype != lane.dtype:
                return None
            return n.Add(base, n.Mul(lane, stride))
        case n.Broadcast(value):
            return value
        case n.Not(a):
            inner = _scalar(a, lane)
            return None if inner is None else n.Not(inner)
    if isinstance(expr, (*_ARITHMETIC, *_LOGIC)):
        left, right = _scalar(expr.a, lane), _scalar(expr.b, lane)
        return None if left is None or right is None else type(expr)(left, right)
    return None


def _vector(normal: Normal, expr: PrimExpr, lane: n.Var, lanes: int) -> PrimExpr | None:
    """The vector whose lanes are `expr`, if that is linear in the lane."""
    if expr.dtype not in _INDEX:
        return None if _reads(expr, lane) else n.Broadcast(expr, lanes)
    x = normal.lin(expr)
    own = normal.lin(lane).single()
    rest = dict(x.terms)
    stride = rest.pop(own, 0) if own is not None else 0
    if own is None or any(lane in atom.free for atom in rest):
        return None
    base = render(Lin(rest, x.const), lane.dtype)
    return n.Ramp(base, n.IntImm(lane.dtype, stride), lanes) if stride else n.Broadcast(base, lanes)


def _reads(expr: PrimExpr, var: n.Var) -> bool:
    return any(node is var for node in walk(expr))
