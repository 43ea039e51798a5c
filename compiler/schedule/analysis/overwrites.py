"""Reading later than before: whether what a block reads is still there."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.schedule.analysis.dataflow import BlockDataflow, Member, common_prefix
from compiler.schedule.analysis.placement import Box, access, analyzer_of, hull
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.state import Illegal
from compiler.tir import nodes as n
from compiler.tir import ops


def apart(analyzer: Analyzer, one: Box, two: Box) -> bool:
    """Whether the boxes share nothing: along some dimension one ends before the other begins."""
    return any(
        any(map(analyzer.can_prove, (ops.less_equal(ops.add(a, length), b), ops.less_equal(ops.add(b, other), a))))
        for (a, length), (b, other) in zip(one, two)
    )


def check_not_overwritten(me: Member, scope: BlockDataflow, places: Sequence[Path]) -> None:
    """Raise Illegal if a block after `me` writes what `me` reads, before the place it is to move to.
    That place is the statements that hold `places`. A block that writes another part in each iteration of their common
    loops is no obstacle."""
    order = scope.members
    last = max(_end(me, scope, place) for place in places)
    for other in order[order.index(me) + 1 : last]:
        for read in me.block.reads:
            if other.writes(read.buffer) and not _apart_in_iteration(me, other, read.buffer):
                raise Illegal(
                    f"block {other.name!r} writes {read.buffer.name!r}, which block {me.name!r} reads before it",
                    other.name,
                )


def reads_apart(me: Member, maker: Member) -> bool:
    """Whether `maker` writes nothing that `me` reads in the same iteration of the loops around them both."""
    return all(_apart_in_iteration(me, maker, w.buffer) for w in maker.block.writes if me.reads(w.buffer))


def _end(me: Member, scope: BlockDataflow, place: Path) -> int:
    """One past the last block of the statement that holds `place`, but not `me`."""
    branch = place[min(common_prefix([me.path, place]), len(place) - 1)]
    return 1 + max(i for i, m in enumerate(scope.members) if any(node is branch for node in m.path))


def _apart_in_iteration(me: Member, other: Member, buffer: n.Buffer) -> bool:
    depth = common_prefix([me.path, other.path])
    analyzer = analyzer_of(node for node in me.path[:depth] if isinstance(node, n.For))
    boxes: list[Box] = []
    for member, regions in ((me, me.block.reads), (other, other.block.writes)):
        moving = [node for node in member.path[depth:] if isinstance(node, n.For)]
        uses = [access(r, member.realize, moving) for r in regions if r.buffer is buffer]
        boxes.append(hull(analyzer, uses, buffer))
    return apart(analyzer, *boxes)
