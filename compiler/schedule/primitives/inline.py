"""Primitives that make a block vanish into its neighbours: compute_inline, reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import (
    BlockDataflow,
    Member,
    check_leaf,
    is_parameter,
    scope_around,
    with_allocations,
    with_regions,
)
from compiler.schedule.analysis.expr import subst, subst_tree
from compiler.schedule.analysis.overwrites import check_not_overwritten
from compiler.schedule.core.state import Illegal, StepEffect, replaced
from compiler.schedule.core.step import primitive
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.visit import seq


@primitive("block")
def compute_inline(func: n.PrimFunc, block: str) -> StepEffect:
    """Put a block's expression wherever its result is read, and drop the block and its buffer.

    The block must store one element a point, without reduction, to a buffer that is no argument and that no
    other block writes.

        block B: B[vi] = A[vi] * 2        →   block C: C[vi] = A[vi] * 2 + 1
        block C: C[vi] = B[vi] + 1
    """
    me, scope = scope_around(func, block)
    store = _single_store(me)
    buffer = store.buffer
    _check_private(func, me, scope, buffer)
    if any(isinstance(node, n.BufferLoad) and node.buffer is buffer for node in walk(store.value)):
        raise Illegal(f"block {block!r} reads the buffer {buffer.name!r} that it writes", block)
    points = _point_vars(me, store.indices)
    readers = scope.readers(buffer)
    if not readers:
        raise Illegal(f"no block reads {buffer.name!r}, the result of block {block!r}", block)
    before = [m.name for m in scope.members[: scope.members.index(me)]]
    for reader in readers:
        if reader.name in before:
            raise Illegal(f"block {reader.name!r} reads {buffer.name!r} before block {block!r} writes it", block)
    check_not_overwritten(me, scope, [reader.path for reader in readers])

    def value_at(load: n.BufferLoad) -> PrimExpr:
        values = {var: index for var, index in zip(points, load.indices) if var is not None}
        return subst(store.value, _with_zeros(me, values))

    edits: dict[Stmt, Stmt | None] = {}
    for reader in readers:
        check_leaf(reader)
        old = reader.block
        init = None if old.init is None else _map_loads(old.init, buffer, value_at)
        new = replace(old, body=_map_loads(old.body, buffer, value_at), init=init)
        edits[reader.realize] = tree.with_block(reader.realize, with_regions(new))
    return _merged(func, me, scope, buffer, edits)


@primitive("block")
def reverse_compute_inline(func: n.PrimFunc, block: str) -> StepEffect:
    """Put an elementwise block into the block that makes its input, and drop the buffer between them.

    The block must read one element a point of that buffer, covering all of it; the producer must store one
    element a point, without reduction, and have no other reader.

        block B: B[vi] = A[vi] * 2        →   block B: C[vi] = A[vi] * 2 + 1
        block C: C[vi] = B[vi] + 1
    """
    me, scope = scope_around(func, block)
    store = _single_store(me)
    producer, buffer = _only_producer(me, scope)
    source = _single_store(producer)
    _check_private(func, producer, scope, buffer)
    if len(scope.readers(buffer)) != 1:
        raise Illegal(f"other blocks read {buffer.name!r}, the input of block {block!r}", block)
    loads = [x for x in walk(store) if isinstance(x, n.BufferLoad) and x.buffer is buffer]
    points = _point_vars(me, loads[0].indices)
    if any(not _same_point(load.indices, loads[0].indices) for load in loads[1:]):
        raise Illegal(f"block {block!r} reads {buffer.name!r} at more than one point", block)
    _check_covers(me, buffer, points)
    _check_covers(producer, buffer, _point_vars(producer, source.indices))
    later = scope.members[scope.members.index(producer) + 1 : scope.members.index(me)]
    touched = {r.buffer for r in (*me.block.reads, *me.block.writes)} - {buffer}
    if any(w.buffer in touched for m in later for w in m.block.writes):
        raise Illegal(f"block {block!r} reads what is written after block {producer.name!r}", block)
    written = {w.buffer for w in me.block.writes}
    if any(r.buffer in written for m in later for r in m.block.reads):
        raise Illegal(f"block {block!r} writes what is read after block {producer.name!r}", block)
    at_source = {var: index for var, index in zip(points, source.indices) if var is not None}
    moved = subst_tree(store, _with_zeros(me, at_source))
    body = _map_loads(moved, buffer, lambda load: source.value)
    new = with_regions(replace(producer.block, body=body))
    return _merged(func, me, scope, buffer, {producer.realize: tree.with_block(producer.realize, new)})


# ------------------------------------------------------------------------------------ checks


def _single_store(member: Member) -> n.BufferStore:
    """The store that is all of the block. Raises Illegal when it is anything else."""
    block = member.block
    if block.init is not None or any(iv.iter_type is not IterType.DATA_PAR for iv in block.iter_vars):
        raise Illegal(
            f"block {member.name!r} is a reduction, which is no single expression",
            member.name,
            hint="use compute_at or reverse_compute_at",
        )
    if not isinstance(block.body, n.BufferStore) or block.match_buffers:
        raise Illegal(f"block {member.name!r} is not one store", member.name)
    return block.body


def _check_private(func: n.PrimFunc, member: Member, scope: BlockDataflow, buffer: n.Buffer) -> None:
    """`member` alone writes `buffer`, which exists inside the scope only."""
    if is_parameter(func, buffer):
        raise Illegal(f"block {member.name!r} writes {buffer.name!r}, an argument of the function", member.name)
    if not any(b is buffer for b in scope.block.alloc_buffers):
        raise Illegal(f"buffer {buffer.name!r} is not allocated by block {scope.block.name_hint!r}", member.name)
    others = [m.name for m in scope.writers(buffer) if m.name != member.name]
    if others:
        raise Illegal(f"block {others[0]!r} writes {buffer.name!r} too", member.name)


def _point_vars(member: Member, indices: tuple[PrimExpr, ...]) -> list[n.Var | None]:
    """The iteration variable that each index is, None for the constant 0 of an axis of one element.

    Raises Illegal unless every axis of the block that has more than one iteration is one index.
    """
    own = {iv.var: iv for iv in member.block.iter_vars}
    points: list[n.Var | None] = []
    for index in indices:
        if isinstance(index, n.Var) and index in own and not any(index is p for p in points):
            points.append(index)
        elif ops.is_const(index, 0):
            points.append(None)
        else:
            raise Illegal(f"block {member.name!r} does not access one element for each of its axes", member.name)
    used = {p for p in points if p is not None}
    for var, iv in own.items():
        if var not in used and (iv.dom is None or not ops.is_const(iv.dom.extent, 1)):
            raise Illegal(f"axis {var.name!r} of block {member.name!r} is not an index of its buffer", member.name)
    return points


def _with_zeros(member: Member, values: dict[n.Var, PrimExpr]) -> dict[n.Var, PrimExpr]:
    """`values`, and 0 for the axes of one iteration that are no index."""
    return {iv.var: ops.const(0, iv.var.dtype) for iv in member.block.iter_vars} | values


def _only_producer(me: Member, scope: BlockDataflow) -> tuple[Member, n.Buffer]:
    found = [(m, r.buffer) for r in me.block.reads for m in scope.writers(r.buffer) if m.name != me.name]
    if len(found) != 1:
        what = "no block" if not found else "more than one block"
        raise Illegal(f"{what} makes the input of block {me.name!r}", me.name)
    return found[0]


def _same_point(a: tuple[PrimExpr, ...], b: tuple[PrimExpr, ...]) -> bool:
    return all(x is y or n.same_constant(x, y) for x, y in zip(a, b))


def _check_covers(member: Member, buffer: n.Buffer, points: list[n.Var | None]) -> None:
    extents = {iv.var: iv.dom.extent for iv in member.block.iter_vars if iv.dom is not None}
    for var, size in zip(points, buffer.shape):
        extent = ops.const(1) if var is None else extents[var]
        if extent is not size and (ops.as_int(extent) is None or ops.as_int(extent) != ops.as_int(size)):
            raise Illegal(f"block {member.name!r} does not go over all of {buffer.name!r}", member.name)


# ---------------------------------------------------------------------------------- rewriting


def _map_loads(stmt: Stmt, buffer: n.Buffer, put: Callable[[n.BufferLoad], PrimExpr]) -> Stmt:
    """`stmt` with each load of `buffer` replaced by `put(load)`."""

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        return put(rebuilt) if isinstance(rebuilt, n.BufferLoad) and rebuilt.buffer is buffer else rebuilt

    result = go(stmt)
    assert isinstance(result, Stmt)
    return result


def _merged(
    func: n.PrimFunc, gone: Member, scope: BlockDataflow, buffer: n.Buffer, edits: dict[Stmt, Stmt | None]
) -> StepEffect:
    """The function without block `gone` and `buffer`, the other blocks edited."""
    body = tree.edit(scope.block.body, edits | {gone.realize: None})
    root = scope.path[-1]
    assert isinstance(root, n.BlockRealize)
    emptied = tree.with_block(root, tree.with_block_body(root.block, seq(body)))
    return StepEffect(replaced(func, scope.path, with_allocations(emptied, drop=[buffer])))
