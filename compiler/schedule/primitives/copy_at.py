"""Primitives that copy, in each iteration of a loop, just what it uses of a buffer: read_at, write_at."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.ir.visit import walk
from compiler.schedule.analysis.dataflow import Member, fresh_block_name, scope_around, swap_buffers
from compiler.schedule.analysis.expr import subst, variables
from compiler.schedule.analysis.placement import Box, access, analyzer_of, hull, is_exact
from compiler.schedule.core.state import Illegal, StepEffect, loop_at, loop_path
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.cache import CachePlace, buffer_like, copy_placed, nth_buffer
from compiler.schedule.primitives.loops import loop_roles
from compiler.schedule.primitives.storage import check_scope
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt

AUTO_COPY = "auto_copy"  # the annotation of a block that only copies a box


@primitive("loop", "block", attrs={"read_buffer_index": (int,), "storage_scope": (str,)}, outputs="block")
def read_at(func: n.PrimFunc, loop: n.Var, block: str, read_buffer_index: int, storage_scope: str) -> StepEffect:
    """Copy what an iteration of `loop` reads of a buffer into memory `storage_scope`, and read that.

    The copy A_shared is one block at the loop. Its axes are the loops that decide where the copied part begins. All
    reads must lie inside the buffer, and nothing in the loop may write it.

        for i in 4:                       →   for i in 4:
          for j in 8:                           block A_shared: v0 = i, for ax0 in 8: A_shared[v0*8+ax0] = A[v0*8+ax0]
            block C: reads A[vi]                for j in 8:
                                                  block C: reads A_shared[vi]
    """
    place, me, users, buffer = _used(func, loop, block, read_buffer_index, storage_scope, "reads")
    if any(m.writes(buffer) for m in _within(func, place, me)):
        raise Illegal(f"loop {loop.name!r} also writes {buffer.name!r}", loop, hint="use write_at")
    analyzer = analyzer_of(place.loops_outside())
    items = [(m, r) for m in users for r in m.block.reads if r.buffer is buffer]
    box = hull(analyzer, [access(r, m.realize, place.loops_inside(m)) for m, r in items], buffer)
    position = min(map(place.statement_of, users))
    return _copied(func, place, me, users, analyzer, (buffer, buffer_like(buffer, storage_scope)), box, position, True)


@primitive("loop", "block", attrs={"write_buffer_index": (int,), "storage_scope": (str,)}, outputs="block")
def write_at(func: n.PrimFunc, loop: n.Var, block: str, write_buffer_index: int, storage_scope: str) -> StepEffect:
    """Let an iteration of `loop` write to a new buffer in memory `storage_scope`, and copy it from there.

    The copy C_local is one block at the end of the loop. The iteration must write whole results, and a whole
    rectangle.

        for i in 4:                       →   for i in 4:
          for j in 8:                           for j in 8:
            block C: writes C[vi]                 block C: writes C_local[vi]
                                                block C_local: v0 = i, for ax0 in 8: C[v0*8+ax0] = C_local[v0*8+ax0]
    """
    place, me, users, buffer = _used(func, loop, block, write_buffer_index, storage_scope, "writes")
    outside = {f.loop_var for f in place.loops_outside()}
    analyzer = analyzer_of(place.loops_outside())
    box = hull(analyzer, _accesses(place, users, buffer), buffer)
    for m in users:
        if loop_roles(m.realize)[1] & outside or (m.reads(buffer) and m.block.init is None):
            raise Illegal(f"block {m.name!r} is not finished in an iteration of loop {loop.name!r}", loop)
        for item in _accesses(place, [m], buffer):
            if variables(m.realize.predicate) or not is_exact(analyzer, item, hull(analyzer, [item], buffer)):
                raise Illegal(f"what block {m.name!r} writes of {buffer.name!r} is no box", loop)
    if len(users) > 1 or any(m.reads(buffer) for m in _within(func, place, me) if m not in users):
        raise Illegal(f"other blocks in loop {loop.name!r} use {buffer.name!r}", loop)
    position = max(map(place.statement_of, users)) + 1
    return _copied(func, place, me, users, analyzer, (buffer_like(buffer, storage_scope), buffer), box, position, False)


# ----------------------------------------------------------------------------------- analysis


def _used(
    func: n.PrimFunc, loop: n.Var, block: str, index: int, storage_scope: str, verb: str
) -> tuple[CachePlace, Member, list[Member], n.Buffer]:
    """The loop's statements, the block, the blocks in the loop that use its buffer alike, and that buffer."""
    path = loop_path(func, loop)
    me, _ = scope_around(func, block)
    check_scope(storage_scope, block)
    regions = me.block.reads if verb == "reads" else me.block.writes
    buffer = nth_buffer(me, [r.buffer for r in regions], index, verb)
    if not any(node is loop_at(path) for node in me.path):
        raise Illegal(f"block {block!r} is not in loop {loop.name!r}", loop)
    place = CachePlace(path)
    uses = Member.reads if verb == "reads" else Member.writes
    return place, me, [m for m in _within(func, place, me) if uses(m, buffer)], buffer


def _within(func: n.PrimFunc, place: CachePlace, me: Member) -> list[Member]:
    """The blocks beside `me` that are in the loop."""
    members = scope_around(func, me.name)[1].members
    return [m for m in members if any(node is place.owner for node in m.path)]


def _accesses(place: CachePlace, users: Sequence[Member], buffer: n.Buffer):  # type: ignore[no-untyped-def]
    return [access(w, m.realize, place.loops_inside(m)) for m in users for w in m.block.writes if w.buffer is buffer]


# ----------------------------------------------------------------------------------- rewriting


def _copied(
    func: n.PrimFunc, place: CachePlace, me: Member, users: Sequence[Member], analyzer: Analyzer,
    buffers: tuple[n.Buffer, n.Buffer], box: Box, position: int, reads: bool,
) -> StepEffect:  # fmt: skip
    """The function with a copy of `box` between the buffers as statement `position` of the loop."""
    source, target = buffers
    own, cached = buffers if reads else (target, source)
    for (low, extent), size in zip(box, own.shape):
        inside = analyzer.can_prove(ops.greater_equal(low, 0)) and analyzer.can_prove(ops.add(low, extent) <= size)
        if not inside:
            raise Illegal(f"what loop {place.loops_outside()[-1].loop_var.name!r} uses of {own.name!r} reaches outside")
    name = fresh_block_name(func, cached.name)
    scope = scope_around(func, me.name)[1]
    loops = {f.loop_var: f for f in place.path[len(scope.path) :] if isinstance(f, n.For)}
    copy = _copy_block(loops, source, target, box, name)
    edits: dict[Stmt, Stmt | None] = {m.realize: swap_buffers(m.realize, {own: cached}) for m in users}  # type: ignore[misc]
    return StepEffect(copy_placed(func, scope, place, edits, position, copy, cached), (name,))


def _copy_block(loops: dict[n.Var, n.For], source: n.Buffer, target: n.Buffer, box: Box, name: str) -> Stmt:
    """One block that copies `box`, with an axis for each of `loops` that the box hangs on."""
    axes: dict[n.Var, n.IterVar] = {}
    for side in box:
        for node in (node for expr in side for node in walk(expr)):
            if isinstance(node, n.Var) and node in loops and node not in axes:
                dom = n.Range(loops[node].min, loops[node].extent)
                axes[node] = n.IterVar(dom, n.Var(f"v{len(axes)}", node.dtype))
    moved: dict[n.Var, PrimExpr] = {loop: iv.var for loop, iv in axes.items()}
    sides = [(subst(low, moved), subst(extent, moved)) for low, extent in box]
    region = tuple(n.Range(low, extent) for low, extent in sides)
    spots = [n.Var(f"ax{d}", low.dtype) for d, (low, _) in enumerate(sides)]
    point = tuple(ops.add(low, spot) for spot, (low, _) in zip(spots, sides))
    body: Stmt = n.BufferStore(target, n.BufferLoad(source, point), point)
    for spot, (_, extent) in zip(reversed(spots), reversed(sides)):
        body = n.For(spot, ops.const(0, spot.dtype), extent, ForKind.SERIAL, body)
    block = n.Block(
        tuple(axes.values()),
        (n.BufferRegion(source, region),),
        (n.BufferRegion(target, region),),
        name,
        body,
        annotations={AUTO_COPY: 1},
    )
    return n.BlockRealize(tuple(axes), ops.const(True), block)
