"""Comparisons in the direction in which TVM writes them: `1 <= i` for `i >= 1`."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.dtype import is_int
from compiler.ir.base import Node
from compiler.ir.visit import replace, transform, walk
from compiler.tir import nodes as n
from compiler.tir import ops

_TURNED: Mapping[type[Node], type[n.CmpOp]] = {n.GE: n.LE, n.GT: n.LT}
_OPPOSITE: Mapping[type[Node], type[n.CmpOp]] = {n.LT: n.LE, n.LE: n.LT}


def directed(func: n.PrimFunc) -> n.PrimFunc:
    """Return `func` with the comparisons in its blocks as TVM's `create_prim_func` has them.

    The number of an integer comparison stands alone (`1 <= i` for `i - 1 >= 0`), and a negated one is its opposite.
    Comparisons with a result of the block stay: they are the reduction's own.
    """
    made = transform(func, post=_block)
    assert isinstance(made, n.PrimFunc)
    return made


def _block(node: Node) -> Node | None:
    if not isinstance(node, n.Block) or node.name_hint == "root":
        return None
    written = {region.buffer for region in node.writes}

    def turned(part: Node) -> Node | None:
        match part:
            case n.Not(n.LT(a, b) | n.LE(a, b) as inner) if is_int(a.dtype):
                return _alone(_OPPOSITE[type(inner)], b, a)
            case n.GE(a, b) | n.GT(a, b):
                pass
            case n.LT(a, b) | n.LE(a, b):
                return _alone(type(part), a, b)
            case _:
                return None
        own = any(isinstance(load, n.BufferLoad) and load.buffer in written for load in walk(part))
        return None if own else _alone(_TURNED[type(part)], b, a)

    body = transform(node.body, post=turned)
    return None if body is node.body else replace(node, body=body)


def _alone(kind: type[n.CmpOp], a: n.PrimExpr, b: n.PrimExpr) -> n.PrimExpr:
    """Compare; a number that is added to one side of integers goes to the other, where that is a number."""
    match a, b:
        case n.IntImm(), n.Add(term, n.IntImm() as more):
            return kind(ops.sub(a, more), term)
        case n.IntImm(), n.Sub(term, n.IntImm() as less):
            return kind(ops.add(a, less), term)
        case n.Add(term, n.IntImm() as more), n.IntImm():
            return kind(term, ops.sub(b, more))
        case n.Sub(term, n.IntImm() as less), n.IntImm():
            return kind(term, ops.add(b, less))
    return kind(a, b)
