"""Primitives that move a block into another's loops: compute_at, reverse_compute_at.

Both throw the block's own loops away and make new ones over just the part that belongs to one iteration of
the loop it moves to.
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.arith.analyzer import Analyzer
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import BlockDataflow, Member, check_unordered, is_parameter, scope_around
from compiler.schedule.analysis.expr import variables
from compiler.schedule.analysis.overwrites import check_not_overwritten, reads_apart
from compiler.schedule.analysis.placement import (
    PlacedAccess,
    Side,
    access,
    analyzer_of,
    axis_of,
    clipped,
    conditions_outside,
    hull,
    is_data,
    is_exact,
    made,
    narrow,
    new_nest,
    same_side,
    visited,
    whole_access,
)
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.locations import INLINE_LOCATION, ROOT_LOCATION
from compiler.schedule.core.state import Illegal, StepEffect, loop_at, loop_path, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.inline import compute_inline, reverse_compute_inline
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import Stmt
from compiler.tir.visit import seq


@primitive("block", "loop", attrs={"preserve_unit_loops": (bool,), "index": (int,)})
def compute_at(func: n.PrimFunc, block: str, loop: n.Var, preserve_unit_loops: bool, index: int) -> StepEffect:
    """Compute a block inside `loop`: in each iteration, just the part of its result that is read there.

    All blocks that read the result must be in `loop`. Reduction loops stay inside. The block goes before the
    first statement that reads it (`index` -1), after the last that it depends on (-2), or before statement `index`
    of the loop.

        for i in 64:                      →   for i in 64:
          block B: B[vi] = A[vi] * 2            for ax0 in 3:
        for i in 64:                              block B where i + ax0 < 64: vi = i + ax0
          for j in 3:                           for j in 3:
            block C: reads B[vi + vj]             block C
    """
    if loop is ROOT_LOCATION:
        return StepEffect(func)
    if loop is INLINE_LOCATION:
        return compute_inline(func, block)
    me, scope, path = _move(func, block, loop)
    outputs = [w.buffer for w in me.block.writes]
    _check_sole_writer(func, me, scope, outputs)
    readers = [m for m in scope.members if m is not me and any(m.reads(b) for b in outputs)]
    if not readers:
        raise Illegal(f"no block reads the result of block {block!r}", block)
    for reader in readers:
        if not _under(reader, path):
            raise Illegal(
                f"block {reader.name!r} reads the result of block {block!r} outside loop {loop.name!r}",
                loop,
                hint=f"choose a loop around every reader: {', '.join(m.name for m in readers)}",
            )
    check_not_overwritten(me, scope, [path])
    makers = [maker for maker in _makers(me, scope) if not reads_apart(me, maker)]
    place = _place(path, makers, readers, index, "compute_at")
    analyzer = analyzer_of(f for f in path if isinstance(f, n.For))
    relaxed = _relaxed_threads(path, outputs)
    own = visited(me.realize, tree.loops_of(me.path))
    sides: dict[n.Var, Side] = {}
    for write in me.block.writes:
        uses = [
            access(r, m.realize, [*relaxed, *_loops_below(m, path)])
            for m in readers
            for r in m.block.reads
            if r.buffer is write.buffer
        ]
        narrow(analyzer, own, write, uses, sides)
    nest = new_nest(analyzer, me.block, sides, preserve_unit_loops, domains=own)
    return _moved(func, me, scope, path, nest, place)


@primitive("block", "loop", attrs={"preserve_unit_loops": (bool,), "index": (int,)})
def reverse_compute_at(func: n.PrimFunc, block: str, loop: n.Var, preserve_unit_loops: bool, index: int) -> StepEffect:
    """Compute a block inside the `loop` that makes its input.

    Each iteration computes just what can be computed from it. The values that the block reads must be complete in one
    iteration: no reduction that makes them may run along `loop` or a loop around it. The block goes to the end of the
    loop (`index` -1), right after the last statement it depends on (-2), or before statement `index`.

        for i0 in 13:                     →   for i0 in 13:
          for i1 in 8:                          for i1 in 8:
            block B where i0*8 + i1 < 100         block B where i0*8 + i1 < 100
        for i in 100:                           for ax0 in 8:
          block C: C[vi] = B[vi] + 1              block C where i0*8 + ax0 < 100: vi = i0*8 + ax0
    """
    if loop is ROOT_LOCATION:
        return StepEffect(func)
    if loop is INLINE_LOCATION:
        return reverse_compute_inline(func, block)
    me, scope, path = _move(func, block, loop)
    makers = _makers(me, scope)
    inside = [m for m in makers if _under(m, path)]
    if not inside:
        raise Illegal(f"no block in loop {loop.name!r} makes what block {block!r} reads", loop)
    for outside in makers:
        if outside not in inside:
            _check_nothing_beside(me, outside, inside, loop)
    _check_free_to_rise(me, scope, path, makers)
    place = _place(path, inside, [], index, "reverse_compute_at")
    analyzer = analyzer_of(f for f in path if isinstance(f, n.For))
    own = visited(me.realize, tree.loops_of(me.path))
    sides: dict[n.Var, Side] = {}
    predicate = ops.const(True)
    for maker in inside:
        _check_finished(maker, path)
        predicate = ops.logical_and(predicate, _runs_when(maker, path))
        for write in maker.block.writes:
            for read in own.reads:
                if read.buffer is write.buffer:
                    item = access(write, maker.realize, _loops_below(maker, path))
                    _available(analyzer, own, read, maker, item, sides)
    for iv in own.iter_vars:
        if not is_data(iv) and iv.var in sides and not _is_whole(analyzer, iv, sides.pop(iv.var)):
            raise Illegal(
                f"block {block!r} reduces over axis {iv.var.name!r}, of which an iteration of loop "
                f"{loop.name!r} makes only a part",
                loop,
            )
    nest = new_nest(analyzer, me.block, sides, preserve_unit_loops, predicate, own)
    return _moved(func, me, scope, path, nest, place)


# ------------------------------------------------------------------------------------- moving


def _move(func: n.PrimFunc, block: str, loop: n.Var) -> tuple[Member, BlockDataflow, Path]:
    """The block, its scope, and the path to the loop, which must not be around the block."""
    me, scope = scope_around(func, block)
    check_unordered(me.block)
    path = loop_path(func, loop)
    depth = len(scope.path)
    if path[depth - 1 : depth] != scope.path[-1:] or any(isinstance(p, n.BlockRealize) for p in path[depth:]):
        raise Illegal(f"loop {loop.name!r} is not in the block that holds block {block!r}", loop)
    if loop_at(path) in me.path:
        raise Illegal(f"block {block!r} is in loop {loop.name!r} already", loop)
    return me, scope, path


def _under(member: Member, path: Path) -> bool:
    """Whether a block is in the loop that `path` leads to."""
    return len(member.path) > len(path) and member.path[len(path) - 1] is path[-1]


def _loops_below(member: Member, path: Path) -> list[n.For]:
    return [node for node in member.path[len(path) :] if isinstance(node, n.For)]


def _makers(me: Member, scope: BlockDataflow) -> list[Member]:
    """The blocks that write what `me` reads."""
    read = {r.buffer for r in me.block.reads}
    return [m for m in scope.members if m is not me and any(w.buffer in read for w in m.block.writes)]


def _relaxed_threads(path: Path, outputs: Iterable[n.Buffer]) -> list[n.For]:
    """The loops around the place that share the buffers.
    Threads of a block share "shared" memory, all threads share "global" memory. Each of them needs what any of them
    needs."""
    shared: tuple[str, ...] = ("blockIdx", "threadIdx", "vthread")
    for buffer in outputs:
        memory = buffer.scope.partition(".")[0]
        if memory == "shared":
            shared = tuple(tag for tag in shared if tag != "blockIdx")
        elif memory != "global":
            shared = ()
    return [
        node for node in path
        if isinstance(node, n.For) and node.thread_binding is not None
        and node.thread_binding.thread_tag.startswith(shared)
    ] if shared else []  # fmt: skip


def _place(path: Path, before: list[Member], after: list[Member], index: int, prim: str) -> int:
    """The position among the loop's statements: behind the blocks `before`, in front of those `after`."""
    loop = loop_at(path)
    stmts = loop.body.seq if isinstance(loop.body, n.SeqStmt) else (loop.body,)
    depth = len(path) + isinstance(loop.body, n.SeqStmt)

    def position(member: Member) -> int:
        return next(i for i, stmt in enumerate(stmts) if stmt is member.path[depth])

    first = max((position(m) + 1 for m in before if _under(m, path)), default=0)
    last = min((position(m) for m in after), default=len(stmts))
    if first > last:
        raise Illegal(f"in loop {loop.loop_var.name!r} a block that is read comes after one that reads", loop.loop_var)
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise Illegal(
            f"{index} is no place for the block among the {len(stmts)} statements of loop {loop.loop_var.name!r}",
            loop.loop_var,
            hint=f"places {first} to {last} are legal, -1 is the last of them, -2 the first",
        )
    return index


def _moved(func: n.PrimFunc, me: Member, scope: BlockDataflow, path: Path, nest: Stmt, place: int) -> StepEffect:
    """`nest` as statement `place` of the loop, and the block's old loops gone."""
    loop = loop_at(path)
    stmts = loop.body.seq if isinstance(loop.body, n.SeqStmt) else (loop.body,)
    grown = tree.with_body(loop, seq(*stmts[:place], nest, *stmts[place:]))
    root = scope.path[-1]
    assert isinstance(root, n.BlockRealize)
    body = tree.edit(root.block.body, {loop: grown, me.realize: None})
    return StepEffect(replaced(func, scope.path, tree.with_block(root, tree.with_block_body(root.block, seq(body)))))


# ----------------------------------------------------------------------------------- compute_at


def _check_sole_writer(func: n.PrimFunc, me: Member, scope: BlockDataflow, outputs: list[n.Buffer]) -> None:
    for buffer in outputs:
        if is_parameter(func, buffer):
            raise Illegal(
                f"block {me.name!r} writes {buffer.name!r}, an argument of the function, which must be whole",
                me.name,
                hint="cache_write it, or use reverse_compute_at on a block that reads it",
            )
        others = [m.name for m in scope.writers(buffer) if m is not me]
        if others:
            raise Illegal(f"block {others[0]!r} writes {buffer.name!r} too", me.name)
        if me.reads(buffer):
            raise Illegal(f"block {me.name!r} reads {buffer.name!r}, which it writes", me.name)


# --------------------------------------------------------------------------- reverse_compute_at


def _check_free_to_rise(me: Member, scope: BlockDataflow, path: Path, makers: list[Member]) -> None:
    """Check that `me` stands behind the loop, and that no statement between them prevents the move."""
    order = scope.members
    inside = [i for i, m in enumerate(order) if _under(m, path)]
    mine = order.index(me)
    if mine < inside[0]:
        raise Illegal(f"block {me.name!r} stands before loop {path[-1].loop_var.name!r}", me.name)  # type: ignore[attr-defined]
    written = {w.buffer for w in me.block.writes}
    for maker in makers:
        if order.index(maker) > inside[-1]:
            raise Illegal(f"block {maker.name!r}, which block {me.name!r} reads, stands after the loop", maker.name)
    for other in order[:mine]:
        if any(other.reads(b) or other.writes(b) for b in written):
            raise Illegal(f"block {other.name!r} uses what block {me.name!r} writes before it", me.name)


def _check_finished(maker: Member, path: Path) -> None:
    """No reduction of `maker` runs along the loop of `path` or one around it."""
    around = {node.loop_var for node in path if isinstance(node, n.For)}
    for iv, value in zip(maker.block.iter_vars, maker.realize.iter_values):
        along = variables(value) & around
        if not is_data(iv) and along:
            var = next(iter(along))
            raise Illegal(
                f"the reduction of block {maker.name!r} runs along loop {var.name!r}: its result is not finished there",
                var,
                hint="choose a loop outside all of its reduction loops",
            )


def _check_nothing_beside(me: Member, outside: Member, inside: list[Member], loop: n.Var) -> None:
    """Check that blocks inside write all that a block outside the loop writes.
    Otherwise `me` would miss a part."""
    for begun in outside.block.writes:
        again = [(m, w) for m in inside for w in m.block.writes if w.buffer is begun.buffer]
        if not again or not me.reads(begun.buffer):
            continue
        first = access(begun, outside.realize, tree.loops_of(outside.path))
        if not any(_touches_all(access(w, m.realize, tree.loops_of(m.path)), first) for m, w in again):
            raise Illegal(
                f"block {outside.name!r} outside loop {loop.name!r} makes a part of {begun.buffer.name!r}, which block "
                f"{me.name!r} reads",
                loop,
            )


def _touches_all(item: PlacedAccess, first: PlacedAccess) -> bool:
    """Whether all that `first` touches is touched."""
    analyzer, buffer = Analyzer(), item.region.buffer
    whole, part = (hull(analyzer, [a], buffer) for a in (item, first))
    return is_exact(analyzer, item, whole) and all(
        analyzer.can_prove(ops.less_equal(low, start))
        and analyzer.can_prove(ops.greater_equal(ops.add(low, extent), ops.add(start, count)))
        for (low, extent), (start, count) in zip(made(whole, buffer.shape), made(part, buffer.shape))
    )


def _runs_when(maker: Member, path: Path) -> n.PrimExpr:
    """The condition on the loops around the place for `maker` to make anything there."""
    outside = [node for node in path if isinstance(node, n.For)]
    condition = conditions_outside(maker.realize, outside, _loops_below(maker, path))
    if condition is None:
        raise Illegal(f"block {maker.name!r} skips iterations in the loop", maker.name)
    return condition


def _available(
    analyzer: Analyzer, block: n.Block, read: n.BufferRegion, maker: Member, item: PlacedAccess,
    sides: dict[n.Var, Side],
) -> None:  # fmt: skip
    """Narrow the axes of `block` to what `maker` makes in one iteration.
    Raises Illegal when it cannot be shown that everything it then reads has been made."""
    name, buffer = block.name_hint, read.buffer
    box = hull(analyzer, [item], buffer)
    if not is_exact(analyzer, item, box):
        raise Illegal(f"what block {maker.name!r} makes of {buffer.name!r} in one iteration is no box", maker.name)
    whole = hull(analyzer, [whole_access(item.region, visited(maker.realize, tree.loops_of(maker.path)))], buffer)
    for dim, (index, (low, extent), size) in enumerate(zip(read.region, box, buffer.shape)):
        found = axis_of(index, block)
        if found is None:
            if not _side_is_whole(analyzer, low, extent, size):
                raise Illegal(
                    f"block {name!r} does not read {buffer.name!r} element by element, and an iteration of the loop "
                    "makes only a part of it",
                    name,
                )
            continue
        iv, offset = found
        assert iv.dom is not None
        if not _covers(analyzer, whole[dim], iv, offset):
            raise Illegal(
                f"block {name!r} has iterations that read none of {buffer.name!r}, or what block {maker.name!r} does "
                "not make: they belong to no iteration of the loop",
                name,
            )
        side = clipped((analyzer.simplify(ops.sub(low, offset)), extent), iv.dom, widen=False)
        known = sides.get(iv.var)
        if known is not None and not same_side(analyzer, known, side):
            raise Illegal(
                f"block {name!r} reads elements along axis {iv.var.name!r} that different iterations make", name
            )
        sides[iv.var] = side


def _covers(analyzer: Analyzer, made_in_all: Side, iv: n.IterVar, offset: int) -> bool:
    """Whether v + offset is computed at some time for every v in the domain of `iv`."""
    assert iv.dom is not None
    low, extent = made_in_all
    least, most = ops.add(iv.dom.min, offset), ops.add(ops.add(iv.dom.min, iv.dom.extent), offset)
    return analyzer.can_prove(ops.less_equal(low, least)) and analyzer.can_prove(
        ops.greater_equal(ops.add(low, extent), most)
    )


def _side_is_whole(analyzer: Analyzer, low: n.PrimExpr, extent: n.PrimExpr, size: n.PrimExpr) -> bool:
    return analyzer.can_prove(ops.less_equal(low, 0)) and analyzer.can_prove(
        ops.greater_equal(ops.add(low, extent), size)
    )


def _is_whole(analyzer: Analyzer, iv: n.IterVar, side: Side) -> bool:
    assert iv.dom is not None
    return _side_is_whole(analyzer, side[0], side[1], iv.dom.extent)
