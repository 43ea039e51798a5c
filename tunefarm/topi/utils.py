"""Shapes and numbers as Python has them, and a walk over the operations of a computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tunefarm.autotvm.utils import get_const_int, get_const_tuple
from tunefarm.te import ComputeOp, Schedule

__all__ = ["equal_const_int", "get_const_int", "get_const_tuple", "traverse_inline"]


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is this integer, not one that is known at run time only."""
    try:
        return get_const_int(expr) == value
    except (TypeError, ValueError):
        return False


def traverse_inline(s: Schedule, final_op: Any, callback: Callable[[Any], None]) -> None:
    """Call `callback` on each operation that `final_op` needs.
    Those that only index and compute are inlined before."""
    seen: set[int] = set()

    def visit(op: Any) -> None:
        if id(op) in seen:
            return
        seen.add(id(op))
        if op.tag in ("injective", "elemwise", "broadcast") and op not in s.outputs and isinstance(op, ComputeOp):
            s[op].compute_inline()
        for tensor in op.input_tensors:
            visit(tensor.op)
        callback(op)

    visit(final_op)
