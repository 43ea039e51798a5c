"""Giving a block a buffer indexed by its own axes: reindex, reindex_cache_read, reindex_cache_write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import expr_key
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.schedule.analysis.dataflow import (
    BlockDataflow,
    Member,
    check_leaf,
    fresh_block_name,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.expr import subst, variables
from compiler.schedule.analysis.injective import undetermined
from compiler.schedule.analysis.tree import with_block
from compiler.schedule.core.map_text import read_map
from compiler.schedule.core.state import Illegal, StepEffect
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.block_axes import nest_over_axes
from compiler.schedule.primitives.cache import CachePlace, copy_placed
from compiler.schedule.primitives.layout import region_of
from compiler.schedule.primitives.storage import check_scope
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr, Stmt

Indices = tuple[PrimExpr, ...]


def _spelled(inputs: list[str], attrs: dict[str, Any]) -> str:
    return f"{inputs[0]}, {(attrs['buffer_index_type'], attrs['buffer_index'])!r}"


@primitive("block", attrs={"buffer_index": (int,), "buffer_index_type": (str,)}, outputs="block", spell=_spelled)
def reindex(func: n.PrimFunc, block: str, buffer_index: int, buffer_index_type: str) -> StepEffect:
    """Let a block use a buffer through a copy whose indices are axes of the block.

    They are those that the access mentions. The copy is a block of its own: before the block for one it reads ("read"),
    after it for one it writes ("write"). All accesses of the buffer in the block must have the same indices; a write
    may not put two elements in one place.

        block C: ... A[vi + vr] ...       →   block A_reindex: A_reindex[vi, vr] = A[vi + vr]
                                              block C: ... A_reindex[vi, vr] ...
    """
    me, scope = scope_around(func, block)
    check_leaf(me)
    buffer = region_of(me.block, buffer_index_type, buffer_index).buffer
    axes = _mentioned(me, only_place(me, buffer))
    shape = tuple(iv.dom.extent for iv in axes if iv.dom is not None) or (ops.const(1),)
    cached = n.decl_buffer(shape, buffer.dtype, f"{buffer.name}_reindex", scope=buffer.scope)
    own: Indices = tuple(ops.sub(iv.var, iv.dom.min) for iv in axes if iv.dom is not None) or (ops.const(0),)
    return _through_copy(func, me, scope, _Copy(buffer, cached, own, axes, buffer_index_type == "read"))


@primitive("block", attrs={"read_buffer_index": (int,), "storage_scope": (str,), "index_map": (str,)}, outputs="block")
def reindex_cache_read(
    func: n.PrimFunc, block: str, read_buffer_index: int, storage_scope: str, index_map: str
) -> StepEffect:
    """Let a block read a buffer through a copy of its own in memory `storage_scope`.

    The copy holds the element for iteration v of the block at `index_map`(v), a map of all of the block's axes.

    The copy is the block B_shared, before the block. All reads of the buffer in the block must have the same
    indices. The map may not send two iterations of the copied axes to one place.

        index_map = lambda i, j, k: (j, k)

        block C: ... B[vk, vj] ...        →   block B_shared: B_shared[v0, v1] = B[v1, v0]
                                              block C: ... B_shared[vj, vk] ...
    """
    return _reindex_cache(func, block, ("read", read_buffer_index), storage_scope, index_map)


@primitive("block", attrs={"write_buffer_index": (int,), "storage_scope": (str,), "index_map": (str,)}, outputs="block")
def reindex_cache_write(
    func: n.PrimFunc, block: str, write_buffer_index: int, storage_scope: str, index_map: str
) -> StepEffect:
    """Let a block write a new buffer in memory `storage_scope`, and copy the result to the old one.

    The new buffer holds the element of iteration v of the block at `index_map`(v), a map of all of the block's
    axes.

    The copy is the block C_local, after the block. The map may not mention reduction axes, nor send two elements to
    one place.

        index_map = lambda i, j, k: (j // 4, i, j % 4)

        block C: C[vi, vj] += ...         →   block C: C_local[vj // 4, vi, vj % 4] += ...
                                              block C_local: C[v0, v1] = C_local[v1 // 4, v0, v1 % 4]
    """
    return _reindex_cache(func, block, ("write", write_buffer_index), storage_scope, index_map)


def _reindex_cache(
    func: n.PrimFunc, block: str, which: tuple[str, int], storage_scope: str, index_map: str
) -> StepEffect:
    me, scope = scope_around(func, block)
    check_leaf(me)
    check_scope(storage_scope, block)
    buffer = region_of(me.block, *which).buffer
    chosen = read_map(index_map, [iv.var.dtype for iv in me.block.iter_vars])
    doms = [iv.dom for iv in me.block.iter_vars if iv.dom is not None]
    analyzer = Analyzer()
    for iv, dom in zip(me.block.iter_vars, doms):
        analyzer.bind(iv.var, dom)
    places = chosen.map_indices([ops.sub(iv.var, dom.min) for iv, dom in zip(me.block.iter_vars, doms)], analyzer)
    for place in places:
        low = analyzer.const_int_bound(place)[0]
        if low is None or low < 0:
            raise Illegal(f"the index map goes below 0: {place!r}", block)
    axes = _mentioned(me, (*only_place(me, buffer), *places))
    shape = chosen.map_shape([dom.extent for dom in doms])
    cached = n.decl_buffer(shape, buffer.dtype, f"{buffer.name}_{storage_scope}", scope=storage_scope)
    reduced = next((iv.var.name for iv in axes if iv.iter_type is IterType.COMM_REDUCE), None)
    if which[0] == "write" and reduced is not None:
        raise Illegal(f"the index map mentions the reduction axis {reduced!r} of block {block!r}", block)
    lost = undetermined(places, loops := _as_loops(axes), loops)
    if lost:
        axis = lost[0].loop_var.name
        raise Illegal(f"the index map puts what block {block!r} has along axis {axis!r} in one place", block)
    return _through_copy(func, me, scope, _Copy(buffer, cached, tuple(places), axes, which[0] == "read"))


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy that a block uses. Each iteration of `axes` uses element `own` of `cached`."""

    buffer: n.Buffer
    cached: n.Buffer
    own: Indices
    axes: list[n.IterVar]
    reading: bool


def _through_copy(func: n.PrimFunc, me: Member, scope: BlockDataflow, copy: _Copy) -> StepEffect:
    """`func` with the copy beside the block, which then uses that."""
    indices = only_place(me, copy.buffer)
    _check_inside(me, copy.buffer, indices)
    place = CachePlace(scope.path)
    at = place.statement_of(me)
    if copy.reading:
        _check_readable(me, scope, place, copy.buffer, at)
    else:
        _check_writable(me, scope, place, copy.buffer, indices)
        at += 1
    name = fresh_block_name(func, copy.cached.name)
    nest = _nest(copy, indices, name)
    edited = with_block(me.realize, with_regions(redirected(me.block, copy.buffer, copy.cached, copy.own)))
    return StepEffect(copy_placed(func, scope, place, {me.realize: edited}, at, nest, copy.cached), (name,))


def _mentioned(me: Member, indices: Indices) -> list[n.IterVar]:
    """The block's axes that the indices mention."""
    used = {var for index in indices for var in variables(index)}
    return [iv for iv in me.block.iter_vars if iv.var in used]


def _as_loops(axes: list[n.IterVar]) -> list[n.For]:
    return [
        n.For(iv.var, iv.dom.min, iv.dom.extent, n.ForKind.SERIAL, n.Evaluate(ops.const(0)))
        for iv in axes
        if iv.dom is not None
    ]


def only_place(me: Member, buffer: n.Buffer) -> Indices:
    """Return the indices at which the block uses `buffer`. They must be the same in every access."""
    found: list[Indices] = []
    for stmt in (me.block.init, me.block.body):
        for node in walk(stmt) if stmt is not None else ():
            if isinstance(node, n.BufferLoad | n.BufferStore) and node.buffer is buffer:
                found.append(node.indices)
    keys = {tuple(map(expr_key, indices)) for indices in found}
    if len(keys) != 1:
        raise Illegal(f"block {me.name!r} uses {buffer.name!r} at {len(keys)} different places", me.name)
    own = {iv.var for iv in me.block.iter_vars}
    if any(variables(i) - own or any(isinstance(e, n.BufferLoad) for e in walk(i)) for i in found[0]):
        raise Illegal(f"the indices of {buffer.name!r} in block {me.name!r} are not made of its axes alone", me.name)
    return found[0]


def _check_inside(me: Member, buffer: n.Buffer, indices: Indices) -> None:
    """Check that every point of the axes is inside the buffer.
    The copy visits all of them, without the block's conditions."""
    analyzer = Analyzer()
    for iv in me.block.iter_vars:
        if iv.dom is not None:
            analyzer.bind(iv.var, iv.dom)
    for index, size in zip(indices, buffer.shape):
        if not (analyzer.can_prove(ops.greater_equal(index, 0)) and analyzer.can_prove(ops.less(index, size))):
            raise Illegal(f"index {index!r} of {buffer.name!r} in block {me.name!r} may lie outside of it", me.name)


def _check_readable(me: Member, scope: BlockDataflow, place: CachePlace, buffer: n.Buffer, at: int) -> None:
    for writer in scope.writers(buffer):
        if writer is me:
            raise Illegal(f"block {me.name!r} also writes {buffer.name!r}", me.name)
        if place.statement_of(writer) >= at:
            raise Illegal(f"block {writer.name!r} writes {buffer.name!r} in the same loops, or later", me.name)


def _check_writable(me: Member, scope: BlockDataflow, place: CachePlace, buffer: n.Buffer, indices: Indices) -> None:
    others = [m for m in scope.members if m is not me and (m.writes(buffer) or m.reads(buffer))]
    mine = scope.members.index(me)
    for other in others:
        shares = place.statement_of(other) == place.statement_of(me)
        if other.writes(buffer) or shares or scope.members.index(other) < mine:
            raise Illegal(f"block {other.name!r} uses {buffer.name!r} too, before all of it is copied back", me.name)
    if me.block.init is None and me.reads(buffer):
        raise Illegal(f"block {me.name!r} adds to what {buffer.name!r} held before", me.name)
    loops = _as_loops([iv for iv in me.block.iter_vars if iv.iter_type is IterType.DATA_PAR])
    lost = undetermined(indices, loops, loops)
    if lost:
        axis = lost[0].loop_var.name
        raise Illegal(f"block {me.name!r} writes one element of {buffer.name!r} all along axis {axis!r}", me.name)


def redirected(block: n.Block, old: n.Buffer, new: n.Buffer, own: Indices) -> n.Block:
    """`block` with `new` at its own axes in place of `old`."""

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.BufferLoad | n.BufferStore) and rebuilt.buffer is old:
            return replace(rebuilt, buffer=new, indices=own)
        return rebuilt

    init = None if block.init is None else go(block.init)
    return replace(block, init=init, body=go(block.body))


def _nest(copy: _Copy, indices: Indices, name: str) -> Stmt:
    """Loops that copy between the buffer at `indices` and the new one."""
    fresh = {iv.var: n.Var(f"v{d}", iv.var.dtype) for d, iv in enumerate(copy.axes)}
    there, here = tuple(subst(i, fresh) for i in indices), tuple(subst(i, fresh) for i in copy.own)
    store = (
        n.BufferStore(copy.cached, n.BufferLoad(copy.buffer, there), here)
        if copy.reading
        else n.BufferStore(copy.buffer, n.BufferLoad(copy.cached, here), there)
    )
    axes = tuple(n.IterVar(iv.dom, fresh[iv.var]) for iv in copy.axes)
    return nest_over_axes(with_regions(n.Block(axes, (), (), name, store)))
