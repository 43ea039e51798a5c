"""Conjunctions: conditions taken apart and put together."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.ir.base import Op
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

TRUE = ops.const(True)
_LIKELY = Op.get("tir.likely")


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """Split `condition` into the parts of its conjunction.
    Hints, and constants that are true, are left out."""
    match condition:
        case n.And():
            return conjuncts(condition.a) + conjuncts(condition.b)
        case n.Call() if condition.op is _LIKELY:
            return conjuncts(condition.args[0])
        case n.IntImm() if condition.value:
            return []
    return [condition]


def conjunction(parts: Iterable[PrimExpr]) -> PrimExpr:
    """All of `parts`; true without any."""
    result = TRUE
    for part in parts:
        result = ops.binary(n.And, result, part)
    return result


def is_true(condition: PrimExpr) -> bool:
    return isinstance(condition, n.IntImm) and bool(condition.value)


def guarded(condition: PrimExpr, body: n.Stmt) -> n.Stmt:
    """`body` where `condition` holds."""
    return body if is_true(condition) else n.IfThenElse(condition, body)
