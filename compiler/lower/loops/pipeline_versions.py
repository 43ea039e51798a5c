"""Memory effects of a pipelined loop's statements, and the number of versions in use at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node, Op
from compiler.ir.visit import children
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.ptx import MEMORY
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import substitute


@dataclass(frozen=True, slots=True)
class StatementAccess:
    """An access. `indices` None: anywhere in the memory. `loops`: those around it, within the statement."""

    data: n.Var
    write: bool
    indices: tuple[PrimExpr, ...] | None
    loops: tuple[n.For, ...] = ()


def uses(stmt: Stmt) -> tuple[StatementAccess, ...]:
    """Everything that a statement reads or writes."""
    found: list[StatementAccess] = []

    def look(node: Node, loops: tuple[n.For, ...]) -> None:
        match node:
            case n.For():
                for bound in (node.min, node.extent):
                    look(bound, loops)
                look(node.body, (*loops, node))
                return
            case n.BufferStore():
                found.append(StatementAccess(node.buffer.data, True, node.indices, loops))
            case n.BufferLoad():
                found.append(StatementAccess(node.buffer.data, False, node.indices, loops))
            case n.Call():
                reads, writes = MEMORY.get(getattr(node.op, "name", ""), (None, None))
                for position, argument in enumerate(node.args):
                    if isinstance(argument, n.Var) and argument.dtype == "handle":
                        if reads is None or position in reads:
                            found.append(StatementAccess(argument, False, None))
                        if writes is None or position in writes:
                            found.append(StatementAccess(argument, True, None))
                    elif isinstance(argument, n.BufferLoad) and not (isinstance(node.op, Op) and node.op.pure):
                        found.append(StatementAccess(argument.buffer.data, True, None))  # an element that is updated
            case _:
                pass
        for child in children(node):
            look(child, loops)

    look(stmt, ())
    return tuple(found)


def versions(users: Sequence[tuple[int, int, bool]]) -> int:
    """Return how many versions a buffer needs that lives for one iteration.

    Each user is (stage, order, whether it writes). With v versions an iteration reuses the memory of the iteration v
    before it. So each conflicting use in that earlier iteration must come first. Stages say which step a use runs in,
    the order decides within a step.
    """
    needed = 1
    for stage, order, writes in users:
        for old_stage, old_order, old_writes in users:
            if writes or old_writes:
                behind = old_stage - stage
                needed = max(needed, behind if old_order < order else behind + 1)
    return needed


def apart_in_iterations(
    loop: n.For, data: n.Var, first: Sequence[StatementAccess], second: Sequence[StatementAccess]
) -> bool:
    """Whether different iterations of `loop` use different elements of `data` in the two statements.
    False also means: not shown."""
    pairs = ((a, b) for a in first for b in second if a.data is data is b.data and (a.write or b.write))
    return all(_apart(loop, a, b) for a, b in pairs)


def _apart(loop: n.For, a: StatementAccess, b: StatementAccess) -> bool:
    if a.indices is None or b.indices is None or len(a.indices) != len(b.indices):
        return False
    analyzer = Analyzer()
    later = n.Var(f"{loop.loop_var.name}_later", loop.loop_var.dtype)
    analyzer.bind(loop.loop_var, n.Range(loop.min, loop.extent))
    most = ops.as_int(loop.extent)
    analyzer.bind(later, n.Range(ops.const(1, later.dtype), ops.const((1 << 30) if most is None else max(most - 1, 1))))
    own: dict[n.Var, PrimExpr] = {}
    for inner in a.loops:
        analyzer.bind(inner.loop_var, n.Range(inner.min, inner.extent))
    for inner in b.loops:
        own[inner.loop_var] = var = n.Var(f"{inner.loop_var.name}_later", inner.loop_var.dtype)
        analyzer.bind(var, n.Range(substitute(inner.min, own), substitute(inner.extent, own)))
    for sign in (1, -1):
        there = {**own, loop.loop_var: ops.add(loop.loop_var, ops.mul(later, sign))}
        if not any(_differ(analyzer, x, substitute(y, there)) for x, y in zip(a.indices, b.indices)):
            return False
    return True


def _differ(analyzer: Analyzer, x: PrimExpr, y: PrimExpr) -> bool:
    least, most = analyzer.const_int_bound(ops.sub(x, y))
    return (least is not None and least > 0) or (most is not None and most < 0)
