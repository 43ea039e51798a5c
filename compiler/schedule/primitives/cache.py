"""Primitives that put a copy of a buffer between blocks: cache_read, cache_write, cache_inplace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import (
    BlockDataflow,
    Member,
    allocated,
    common_prefix,
    fresh_block_name,
    scope_around,
    swap_buffers,
    with_allocations,
)
from compiler.schedule.analysis.expr import TRUE
from compiler.schedule.analysis.placement import (
    Box,
    PlacedAccess,
    access,
    analyzer_of,
    conditions_outside,
    hull,
    is_exact,
    made,
    needed,
    new_nest,
    whole_access,
)
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.state import Illegal, StepEffect, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.storage import check_scope
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import seq, substitute


def _spelled(inputs: list[str], attrs: dict[str, Any]) -> str:
    block, *chosen = inputs
    consumers = f", consumer_blocks=[{', '.join(chosen)}]" if chosen else ""
    return f"{block}, {', '.join(f'{key}={value!r}' for key, value in attrs.items())}{consumers}"


@primitive(
    "block", "block*", attrs={"read_buffer_index": (int,), "storage_scope": (str,)}, outputs="block", spell=_spelled
)
def cache_read(func: n.PrimFunc, block: str, *consumers: str, read_buffer_index: int, storage_scope: str) -> StepEffect:
    """Copy a buffer that a block reads into a new one in memory `storage_scope`, and read that instead.

    All readers use the copy, or only `consumers` when some are given. The copy is the block A_shared; it covers
    what the readers touch. It goes before the first reader, or before all blocks for an argument. Move it with
    compute_at.

        block C: reads A[vi, vk]          →   block A_shared: A_shared[v0, v1] = A[v0, v1]
                                              block C: reads A_shared[vi, vk]
    """
    me, scope = scope_around(func, block)
    check_scope(storage_scope, block)
    buffer = nth_buffer(me, [r.buffer for r in me.block.reads], read_buffer_index, "reads")
    writers, readers = scope.writers(buffer), scope.readers(buffer)
    if any(m is me for m in writers):
        raise Illegal(f"block {block!r} writes {buffer.name!r} as well as reading it", block)
    if consumers:
        readers = _chosen(readers, consumers, buffer)
    cached = buffer_like(buffer, storage_scope)
    name = fresh_block_name(func, cached.name)
    place = _between(scope, writers, readers)
    box = _touched(place, [(m, r) for m in readers for r in m.block.reads if r.buffer is buffer], buffer)
    copy = _copy_nest(place, buffer, cached, name, box)
    edits: dict[Stmt, Stmt | None] = {m.realize: swap_buffers(m.realize, {buffer: cached}) for m in readers}  # type: ignore[misc]
    first = min(place.statement_of(m) for m in readers) if writers else 0
    return StepEffect(copy_placed(func, scope, place, edits, first, copy, cached), (name,))


@primitive(
    "block", "block*", attrs={"write_buffer_index": (int,), "storage_scope": (str,)}, outputs="block", spell=_spelled
)
def cache_write(
    func: n.PrimFunc, block: str, *consumers: str, write_buffer_index: int, storage_scope: str
) -> StepEffect:
    """Compute into a new buffer in memory `storage_scope`, and copy the finished result to the old one.

    The block keeps its name and writes C_local. The copy is the block C_local, right after it, or last if nothing
    reads the copied buffer. Move either with compute_at or reverse_compute_at. The blocks `consumers` read the new
    buffer; others read the old one.

        block C: C[vi] = C[vi] + A[vi, vk]    →   block C: C_local[vi] = C_local[vi] + A[vi, vk]
                                                  block C_local: C[v0] = C_local[v0]
    """
    me, scope = scope_around(func, block)
    check_scope(storage_scope, block)
    buffer = nth_buffer(me, [w.buffer for w in me.block.writes], write_buffer_index, "writes")
    writers, readers = scope.writers(buffer), scope.readers(buffer)
    if all(m.reads(buffer) and m.block.init is None for m in writers):
        raise Illegal(f"block {block!r} adds to what {buffer.name!r} held before", block)
    cached = buffer_like(buffer, storage_scope)
    name = fresh_block_name(func, cached.name)
    place = _between(scope, writers, readers)
    box = _touched(place, [(m, w) for m in writers for w in m.block.writes if w.buffer is buffer], buffer, True)
    copy = _copy_nest(place, cached, buffer, name, box, place.condition(writers))
    using = [*writers, *(m for m in _chosen(readers, consumers, buffer) if m not in writers)]
    edits: dict[Stmt, Stmt | None] = {m.realize: swap_buffers(m.realize, {buffer: cached}) for m in using}  # type: ignore[misc]
    left = [m for m in readers if m not in using]
    after = max(place.statement_of(m) for m in writers) + 1 if left else len(place.stmts)
    return StepEffect(copy_placed(func, scope, place, edits, after, copy, cached), (name,))


@primitive("block", attrs={"read_buffer_index": (int,), "storage_scope": (str,)}, outputs="block*")
def cache_inplace(func: n.PrimFunc, block: str, read_buffer_index: int, storage_scope: str) -> StepEffect:
    """Let a block that reads and writes one buffer work on a copy of it in memory `storage_scope`.

    The block A_local copies the elements it touches there before it, and A_local_1 copies them back after it. No
    other block in the same loops may use the buffer.

        block C: A[vi] = A[vi] * 2        →   block A_local: A_local[v0] = A[v0]
                                              block C: A_local[vi] = A_local[vi] * 2
                                              block A_local_1: A[v0] = A_local[v0]
    """
    me, scope = scope_around(func, block)
    check_scope(storage_scope, block)
    buffer = nth_buffer(me, [r.buffer for r in me.block.reads], read_buffer_index, "reads")
    if not me.writes(buffer):
        raise Illegal(f"block {block!r} does not write {buffer.name!r}, which it reads", block, hint="use cache_read")
    place = CachePlace(scope.path)
    at = place.statement_of(me)
    for other in scope.members:
        if other is not me and place.statement_of(other) == at and (other.reads(buffer) or other.writes(buffer)):
            raise Illegal(f"block {other.name!r} in the same loops uses {buffer.name!r}, too", other.name)
    cached = buffer_like(buffer, storage_scope)
    first = fresh_block_name(func, cached.name)
    second = fresh_block_name(func, cached.name, [first])
    regions = [(me, r) for r in (*me.block.reads, *me.block.writes) if r.buffer is buffer]
    box = _touched(place, regions, buffer)
    own = swap_buffers(substitute(me.realize, {buffer.data: cached.data}), {buffer: cached})
    assert isinstance(own, Stmt)
    there = _copy_nest(place, buffer, cached, first, box)
    back = _copy_nest(place, cached, buffer, second, box)
    stmt = place.stmts[at]
    changed = seq(there, tree.edit(stmt, {me.realize: own}), back)
    return StepEffect(
        allocated(replaced(func, me.path[: me.path.index(stmt) + 1], changed), scope, [cached]), (first, second)
    )


# ----------------------------------------------------------------------------------- the place


class CachePlace:
    """A statement list in the scope: that of the scope itself, or of a loop in it.
    `path` leads to its owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = path[-1]
        body = tree.inner(self.owner)[0]
        self.stmts: tuple[Stmt, ...] = body.seq if isinstance(body, n.SeqStmt) else (body,)
        self._depth = len(path) + isinstance(body, n.SeqStmt)
        self.outermost = isinstance(self.owner, n.BlockRealize)
        repeated = [node for node in path if isinstance(node, n.BlockRealize) and node.block.iter_vars]
        if self.outermost and repeated:
            name = repeated[-1].block.name_hint
            raise Illegal(f"the copy would be made anew in each iteration of block {name!r}", name, hint="cache first")

    def statement_of(self, member: Member) -> int:
        """The number of the statement that `member` is in."""
        return next(i for i, stmt in enumerate(self.stmts) if stmt is member.path[self._depth])

    def loops_outside(self) -> list[n.For]:
        return [node for node in self.path if isinstance(node, n.For)]

    def loops_inside(self, member: Member) -> list[n.For]:
        return [node for node in member.path[len(self.path) :] if isinstance(node, n.For)]

    def condition(self, writers: Sequence[Member]) -> PrimExpr:
        """Return when all of `writers` run in a visit of the place."""
        if self.outermost:
            return TRUE
        result = TRUE
        for member in writers:
            found = conditions_outside(member.realize, self.loops_outside(), self.loops_inside(member))
            if found is None:
                raise Illegal(f"block {member.name!r} skips iterations in the loop", member.name)
            result = ops.logical_and(result, found)
        return result


def _between(scope: BlockDataflow, writers: Sequence[Member], readers: Sequence[Member]) -> CachePlace:
    """The innermost statement list that has all writers in statements before all readers.
    Without writers, or without readers, it is that of the scope."""
    if not writers or not readers:
        return CachePlace(scope.path)
    shared = common_prefix([m.path for m in (*writers, *readers)])
    path = readers[0].path[:shared]
    while isinstance(path[-1], n.SeqStmt):
        path = path[:-1]
    if not isinstance(path[-1], n.For | n.BlockRealize):
        raise Illegal("the blocks stand in a condition, where no copy can go", readers[0].name)
    place = CachePlace(path)
    first, last = min(map(place.statement_of, readers)), max(map(place.statement_of, writers))
    if last >= first:
        raise Illegal(
            f"block {readers[0].name!r} reads the buffer before block {writers[-1].name!r} has written all of it",
            readers[0].name,
        )
    return place


def _touched(
    place: CachePlace, regions: Sequence[tuple[Member, n.BufferRegion]], buffer: n.Buffer, exactly: bool = False
) -> Box:
    """Return what the regions cover of the buffer while the place is visited once."""
    analyzer = analyzer_of(place.loops_outside())
    accesses: list[PlacedAccess] = []
    for member, region in regions:
        if place.outermost:
            item = whole_access(region, member.block)
        else:
            item = access(region, member.realize, place.loops_inside(member))
        if exactly and not is_exact(analyzer, item, hull(analyzer, [item], buffer)):
            raise Illegal(f"what block {member.name!r} writes of {buffer.name!r} is no box", member.name)
        accesses.append(item)
    box = hull(analyzer, accesses, buffer)
    return made(box, buffer.shape) if exactly else needed(box, buffer.shape)


# ----------------------------------------------------------------------------------- the copy


def _chosen(readers: list[Member], names: Sequence[str], buffer: n.Buffer) -> list[Member]:
    """Those of the readers of a buffer that are called `names`."""
    for name in names:
        if all(m.name != name for m in readers):
            raise Illegal(f"block {name!r} does not read {buffer.name!r}", name)
    return [m for m in readers if m.name in names]


def nth_buffer(me: Member, buffers: list[n.Buffer], index: int, verb: str) -> n.Buffer:
    """The buffer at `index` of those that a block uses; `verb` says how. Raises Illegal."""
    if not 0 <= index < len(buffers):
        names = ", ".join(b.name for b in buffers) or "none"
        raise Illegal(f"block {me.name!r} {verb} no buffer number {index}", me.name, hint=f"it {verb}: {names}")
    return buffers[index]


def buffer_like(buffer: n.Buffer, scope: str) -> n.Buffer:
    """A buffer such as `buffer` in memory `scope`."""
    return n.decl_buffer(buffer.shape, buffer.dtype, f"{buffer.name}_{scope}", scope=scope)


def _copy_nest(
    place: CachePlace, source: n.Buffer, target: n.Buffer, name: str, box: Box, predicate: PrimExpr = TRUE
) -> Stmt:
    """Loops that copy `box` of `source` to `target`, an element an iteration, where `predicate` holds."""
    iter_vars = tuple(
        n.IterVar(n.Range(ops.const(0, size.dtype), size), n.Var(f"v{d}", size.dtype))
        for d, size in enumerate(source.shape)
    )
    point = tuple(iv.var for iv in iter_vars)
    spot = tuple(n.Range(var, ops.const(1, var.dtype)) for var in point)
    block = n.Block(
        iter_vars,
        (n.BufferRegion(source, spot),),
        (n.BufferRegion(target, spot),),
        name,
        n.BufferStore(target, n.BufferLoad(source, point), point),
    )
    sides = {iv.var: side for iv, side in zip(iter_vars, box)}
    return new_nest(analyzer_of(place.loops_outside()), block, sides, preserve_unit_loops=True, predicate=predicate)


def copy_placed(
    func: n.PrimFunc, scope: BlockDataflow, place: CachePlace, edits: dict[Stmt, Stmt | None], position: int,
    copy: Stmt, cached: n.Buffer,
) -> n.PrimFunc:  # fmt: skip
    """Return the function with `copy` as statement `position` of the place.
    The blocks are edited and the buffer allocated."""
    stmts = [tree.edit(stmt, edits) for stmt in place.stmts]
    body = seq(*stmts[:position], copy, *stmts[position:])
    root = scope.path[-1]
    assert isinstance(root, n.BlockRealize)
    if place.outermost:
        whole: Stmt | None = body
    else:
        assert isinstance(place.owner, n.For)
        whole = tree.edit(root.block.body, edits | {place.owner: tree.with_body(place.owner, body)})
    new = tree.with_block(root, tree.with_block_body(root.block, seq(whole)))
    return replaced(func, scope.path, with_allocations(new, add=[cached]))
