"""How much of LLVM a function needs.

Most schedules already make vectors and register tiles, and addresses are hoisted as they are written. Then LLVM only
has to turn local arrays into registers. Two kinds of loops gain from more: a scalar innermost loop from the loop
vectorizer, and a loop that accumulates into memory from an accumulator in a register.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.artifact import PREPACK
from compiler.ir.visit import children, walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.graph import RESULTS
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import walk_stmts

UNKNOWN_EXTENT = 16
RARE = 1 / 8  # how often the other side of a condition is taken
SMALL_SHARE = 1 / 16  # of the stores; below it, what LLVM could improve is not worth its time


class Effort(enum.Enum):
    """LIGHT: a few passes, about 1 ms. FULL: LLVM's O2 pipeline, 10 ms and more."""

    LIGHT = "light"
    FULL = "full"


def effort_of(functions: Mapping[str, n.PrimFunc]) -> Effort:
    """Return FULL if a function of the module may gain by it.
    Functions that pack operands ahead do not count, because they run once."""
    heavy = any(effort_for(func) is Effort.FULL for name, func in functions.items() if not name.endswith(PREPACK))
    return Effort.FULL if heavy else Effort.LIGHT


def by_effort(functions: Mapping[str, n.PrimFunc]) -> dict[Effort, dict[str, n.PrimFunc]]:
    """Sort the functions of a module by what each needs, those that pack operands ahead into LIGHT.

    Functions of graphs stay together, because they share the table of constants.
    """
    needs = {name: Effort.LIGHT if name.endswith(PREPACK) else effort_for(func) for name, func in functions.items()}
    graphs = [name for name, func in functions.items() if RESULTS in func.attrs]
    if any(needs[name] is Effort.FULL for name in graphs):
        needs |= dict.fromkeys(graphs, Effort.FULL)
    found: dict[Effort, dict[str, n.PrimFunc]] = {}
    for name, func in functions.items():
        found.setdefault(needs[name], {})[name] = func
    return found


def effort_for(func: n.PrimFunc) -> Effort:
    """Return FULL if much of the work is in innermost loops that LLVM can improve."""
    local = {s.buffer_var for s in walk_stmts(func.body) if isinstance(s, n.Allocate) and s.scope == "local"}
    work = _work(func.body, local, None)
    return Effort.FULL if work.improvable > SMALL_SHARE * work.stores else Effort.LIGHT


@dataclass(frozen=True, slots=True)
class _Work:
    """An estimate of the stores, of elements or vectors, and of how many LLVM could make faster."""

    stores: float = 0.0
    improvable: float = 0.0
    has_loop: bool = False

    def __add__(self, other: _Work) -> _Work:
        return _Work(
            self.stores + other.stores, self.improvable + other.improvable, self.has_loop or other.has_loop
        )


def _work(stmt: Stmt, local: set[n.Var], loop: n.For | None) -> _Work:
    """The work of `stmt`. `loop` is the innermost loop around it that stays a loop."""
    match stmt:
        case n.BufferStore():
            return _Work(1.0, 1.0 if loop is not None and _is_improvable(stmt, local, loop) else 0.0)
        case n.For() if stmt.kind is ForKind.UNROLLED:
            return _scaled(_work(stmt.body, local, loop), _extent(stmt), has_loop=False)
        case n.For():
            inside = _work(stmt.body, local, None)
            if not inside.has_loop:
                inside = _work(stmt.body, local, stmt)
            return _scaled(inside, _extent(stmt), has_loop=True)
        case n.IfThenElse() if stmt.else_case is not None:
            rare = _work(stmt.else_case, local, loop)  # where a tile is cut off, or padding read
            return _work(stmt.then_case, local, loop) + _scaled(rare, RARE, has_loop=rare.has_loop)
    total = _Work()
    for child in children(stmt):
        if isinstance(child, Stmt):
            total += _work(child, local, loop)
    return total


def _scaled(work: _Work, count: float, *, has_loop: bool) -> _Work:
    return _Work(work.stores * count, work.improvable * count, has_loop or work.has_loop)


def _extent(loop: n.For) -> float:
    """Return the loop's iterations; few if the loop continues one of unknown extent."""
    found = ops.as_int(loop.extent)
    if found is not None:
        return found
    return UNKNOWN_EXTENT if isinstance(loop.min, n.IntImm) else UNKNOWN_EXTENT * RARE * RARE


def _is_improvable(store: n.BufferStore, local: set[n.Var], loop: n.For) -> bool:
    """A scalar store, or one that accumulates into the same place of memory in each iteration."""
    if not any(isinstance(index, n.Ramp) for index in store.indices):
        return True
    return store.buffer.data not in local and not any(_mentions(index, loop.loop_var) for index in store.indices)


def _mentions(expr: PrimExpr, var: n.Var) -> bool:
    return any(node is var for node in walk(expr))
