"""Keeping what the next iteration needs again in a circular buffer: rolling_buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import (
    BlockDataflow,
    Member,
    check_leaf,
    common_prefix,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.expr import subst, variables
from compiler.schedule.analysis.injective import terms_of
from compiler.schedule.analysis.placement import Box, access, analyzer_of, conditions_outside, hull, is_data, is_exact
from compiler.schedule.core.state import Illegal, StepEffect, realize_at, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.storage import written_buffer
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt


@primitive("block", attrs={"write_buffer_index": (int,)})
def rolling_buffer(func: n.PrimFunc, block: str, write_buffer_index: int) -> StepEffect:
    """Keep only the window of a buffer that one iteration of a loop needs, as a circular buffer.

    Each iteration computes only what is new in the window. The block and all readers of the buffer must stand in the
    loop, with windows of neighbouring iterations that overlap, as compute_at leaves them. Of several such loops it is
    the outermost. Its iterations then run in order, so it cannot be parallel, and the blocks stay where they are.

        for i in 10:                      →   for i in 10:
          for ax0 in 3:                         for ax0 in 3:
            block B: vi = i + ax0                 block B where i < 1 or ax0 >= 2: vi = i + ax0
              B[vi] = A[vi] * 2                     B[vi % 3] = A[vi] * 2
          for r in 3:                           for r in 3:
            block C: C[vi] += B[vi + vr]          block C: C[vi] += B[(vi + vr) % 3]
    """
    me, scope = scope_around(func, block)
    check_leaf(me)
    buffer = written_buffer(func, me.block, write_buffer_index)
    readers = _readers(me, scope, buffer)
    roll = _roll(me, scope, readers, buffer)
    window = ops.const(roll.size, buffer.shape[roll.dim].dtype)
    shape = tuple(window if d == roll.dim else size for d, size in enumerate(buffer.shape))
    circular = replace(buffer, shape=shape, data=n.Var(buffer.data.name, "handle"), strides=())
    edits: dict[Stmt, Stmt | None] = {}
    for member in (me, *readers):
        ordered = _ordered(member, roll.loops)
        new = with_regions(_circulated(ordered.block, buffer, circular, roll))
        predicate = ops.logical_and(ordered.predicate, roll.gained) if member is me else ordered.predicate
        edits[member.realize] = n.BlockRealize(ordered.iter_values, predicate, new, ordered.span)
    whole = realize_at(scope.path)
    body = tree.edit(whole.block.body, edits)
    assert body is not None
    allocated = tuple(circular if b is buffer else b for b in whole.block.alloc_buffers)
    changed = replace(whole.block, body=body, alloc_buffers=allocated)
    return StepEffect(replaced(func, scope.path, tree.with_block(whole, changed)))


@dataclass(frozen=True, slots=True)
class _Roll:
    """Dimension `dim` keeps `size` elements.
    `gained`: where an iteration has not found the element computed. `loops` are those, from the one that rolls inward,
    around the block and its readers."""

    dim: int
    size: int
    gained: PrimExpr
    loops: tuple[n.For, ...]


# ------------------------------------------------------------------------------------ finding


def _readers(me: Member, scope: BlockDataflow, buffer: n.Buffer) -> list[Member]:
    """The blocks that read the buffer, which nothing else uses."""
    for other in scope.members:
        if other is not me and other.writes(buffer):
            raise Illegal(f"block {other.name!r} writes {buffer.name!r} too", other.name)
    if me.reads(buffer):
        raise Illegal(f"block {me.name!r} reads {buffer.name!r}, which it writes", me.name)
    readers = scope.readers(buffer)
    if not readers:
        raise Illegal(f"no block reads {buffer.name!r}, the result of block {me.name!r}", me.name)
    for reader in readers:
        check_leaf(reader)
    if not any(b is buffer for b in scope.block.alloc_buffers):
        raise Illegal(f"buffer {buffer.name!r} is not allocated by block {scope.block.name_hint!r}", me.name)
    return readers


def _roll(me: Member, scope: BlockDataflow, readers: Sequence[Member], buffer: n.Buffer) -> _Roll:
    """The outermost loop around all the blocks whose iterations overlap in one dimension.
    Raises Illegal when there is none, or when what an iteration computes is not the whole window that it reads."""
    shared = common_prefix([m.path for m in (me, *readers)])
    outer = [f for f in me.path[len(scope.path) : shared] if isinstance(f, n.For)]
    below = [f for f in me.path[shared:] if isinstance(f, n.For)]
    region = next(r for r in me.block.writes if r.buffer is buffer)
    analyzer = analyzer_of([f for f in me.path[:shared] if isinstance(f, n.For)])
    made = access(region, me.realize, below)
    box = hull(analyzer, [made], buffer)
    skips = conditions_outside(me.realize, outer, below)
    if skips is None or not ops.is_const(skips, 1) or not is_exact(analyzer, made, box):
        raise Illegal(f"block {me.name!r} skips elements of {buffer.name!r}", me.name)
    for at, loop in enumerate(outer):
        found = _rolling_dim(loop, outer[at + 1 :], box)
        if found is None:
            continue
        dim, step, size = found
        _check_window(analyzer, readers, shared, buffer, dim, box)
        for inner in outer[at:]:
            if inner.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                name = inner.loop_var.name
                raise Illegal(f"loop {name!r} is {inner.kind.value}: its iterations have no order", inner.loop_var)
        index = subst(region.region[dim].min, made.values)
        ahead = analyzer.simplify(ops.sub(index, box[dim][0]))
        gained = ops.logical_or(ops.less(loop.loop_var, ops.add(loop.min, 1)), ops.greater_equal(ahead, size - step))
        return _Roll(dim, size, gained, tuple(outer[at:]))
    raise Illegal(
        f"no loop around block {me.name!r} and all readers of {buffer.name!r} needs elements of it in two iterations",
        me.name,
        hint="compute_at the block in a loop of its reader first",
    )


def _rolling_dim(loop: n.For, inside: Sequence[n.For], box: Box) -> tuple[int, int, int] | None:
    """Return (dimension, step, size) if iterations of `loop` touch windows that move in one dimension.
    A window has `size` elements, each `step` further. The loops `inside` do not move it."""
    moved = [d for d, (low, _) in enumerate(box) if loop.loop_var in variables(low)]
    if len(moved) != 1:
        return None
    low, extent = box[moved[0]]
    inner = {loop.loop_var, *(f.loop_var for f in inside)}
    terms = [(factor, atom) for factor, atom in terms_of(low, 1) if variables(atom) & inner]
    size = ops.as_int(extent)
    if len(terms) != 1 or terms[0][1] is not loop.loop_var or size is None or not 0 < terms[0][0] < size:
        return None
    return moved[0], terms[0][0], size


def _check_window(
    analyzer: Analyzer, readers: Sequence[Member], depth: int, buffer: n.Buffer, dim: int, box: Box
) -> None:
    """Check that the readers of one iteration read only values that are made there."""
    low, extent = box[dim]
    for reader in readers:
        below = [f for f in reader.path[depth:] if isinstance(f, n.For)]
        used = [access(r, reader.realize, below) for r in reader.block.reads if r.buffer is buffer]
        first, count = hull(analyzer, used, buffer)[dim]
        begins = ops.greater_equal(first, low)
        ends = ops.less_equal(ops.add(first, count), ops.add(low, extent))
        if not (analyzer.can_prove(begins) and analyzer.can_prove(ends)):
            raise Illegal(
                f"block {reader.name!r} reads more of {buffer.name!r} than an iteration of the loop makes", reader.name
            )


# ---------------------------------------------------------------------------------- rewriting


def _ordered(member: Member, loops: Sequence[n.For]) -> n.BlockRealize:
    """The block with its axes along `loops` ordered, so that other steps keep the order and the place."""
    along = {f.loop_var for f in loops}
    axes: list[n.IterVar] = []
    for iv, value in zip(member.block.iter_vars, member.realize.iter_values):
        if variables(value) & along:
            if not is_data(iv):
                rule = f"axis {iv.var.name!r} of block {member.name!r} runs along the loop, and is no data axis"
                raise Illegal(rule, member.name)
            iv = replace(iv, iter_type=IterType.OPAQUE)
        axes.append(iv)
    return tree.with_block(member.realize, replace(member.block, iter_vars=tuple(axes)))


def _circulated(block: n.Block, buffer: n.Buffer, circular: n.Buffer, roll: _Roll) -> n.Block:
    """`block` with `circular` in place of `buffer`, where elements `size` apart share a place."""

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.BufferLoad | n.BufferStore) and rebuilt.buffer is buffer:
            indices = list(rebuilt.indices)
            indices[roll.dim] = ops.floormod(indices[roll.dim], roll.size)
            return replace(rebuilt, buffer=circular, indices=tuple(indices))
        return rebuilt

    init = None if block.init is None else go(block.init)
    return replace(block, init=init, body=go(block.body))
