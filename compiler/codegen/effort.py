"""How much of LLVM a function needs.

Where the schedule already made vectors and register tiles, and addresses were hoisted as they were written, LLVM
only has to turn local arrays into registers. A scalar innermost loop gains from its loop vectorizer, and a loop
that accumulates into memory from having the accumulator moved to a register.
"""

from __future__ import annotations

import enum

from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, Stmt
from compiler.tir.visit import children, free_vars, walk


class Effort(enum.Enum):
    """LIGHT: a few passes, about 1 ms. FULL: LLVM's O2 pipeline, 10 ms and more."""

    LIGHT = "light"
    FULL = "full"


def effort_for(func: n.PrimFunc) -> Effort:
    """FULL when some innermost loop is left for LLVM to improve."""
    local = {s.buffer_var for s in walk(func.body) if isinstance(s, n.Allocate) and s.scope == "local"}
    return Effort.FULL if _needs_llvm(func.body, local) else Effort.LIGHT


def _needs_llvm(stmt: Stmt, local: set[n.Var]) -> bool:
    for loop in _innermost_loops(stmt):
        for node in walk(loop.body):
            if not isinstance(node, n.BufferStore):
                continue
            if not any(isinstance(i, n.Ramp) for i in node.indices):
                return True
            if node.buffer.data not in local and not any(loop.loop_var in free_vars(i) for i in node.indices):
                return True
    return False


def _innermost_loops(stmt: Stmt) -> list[n.For]:
    """The loops that stay loops and hold no other such loop."""
    inside = [loop for child in children(stmt) if isinstance(child, Stmt) for loop in _innermost_loops(child)]
    if not inside and isinstance(stmt, n.For) and stmt.kind is not ForKind.UNROLLED:
        return [stmt]
    return inside
