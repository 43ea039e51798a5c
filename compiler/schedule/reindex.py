"""Giving a block a buffer indexed by its own axes: reindex."""

from __future__ import annotations

from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import expr_key
from compiler.ir.base import Node
from compiler.schedule.cache import Place, copy_placed
from compiler.schedule.dataflow import (
    Member,
    Scope,
    check_leaf,
    fresh_block_name,
    scope_around,
    with_regions,
)
from compiler.schedule.expr import subst, variables
from compiler.schedule.injective import undetermined
from compiler.schedule.layout import region_of
from compiler.schedule.state import Effect, Illegal
from compiler.schedule.step import primitive
from compiler.schedule.tree import with_block
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.visit import map_children, replace, walk

Indices = tuple[PrimExpr, ...]


def _spelled(inputs: list[str], attrs: dict[str, Any]) -> str:
    return f"{inputs[0]}, {(attrs['buffer_index_type'], attrs['buffer_index'])!r}"


@primitive(
    "block", attrs={"buffer_index": (int,), "buffer_index_type": (str,)}, outputs="block", spell=_spelled
)
def reindex(func: n.PrimFunc, block: str, buffer_index: int, buffer_index_type: str) -> Effect:
    """Let a block use a buffer through a copy whose indices are the block's own axes, those that the access mentions.

    The copy is a block of its own: before the block for one it reads ("read"), after it for one it writes ("write").
    All accesses of the buffer in the block must be at one place; a write may not put two elements in one.

        block C: ... A[vi + vr] ...       →   block A_reindex: A_reindex[vi, vr] = A[vi + vr]
                                              block C: ... A_reindex[vi, vr] ...
    """
    me, scope = scope_around(func, block)
    check_leaf(me)
    buffer = region_of(me.block, buffer_index_type, buffer_index).buffer
    indices = only_place(me, buffer)
    axes = [iv for iv in me.block.iter_vars if any(iv.var in variables(i) for i in indices)]
    _check_inside(me, buffer, indices)
    place = Place(scope.path)
    at = place.statement_of(me)
    if buffer_index_type == "read":
        _check_readable(me, scope, place, buffer, at)
    else:
        _check_writable(me, scope, place, buffer, indices)
        at += 1
    shape = tuple(iv.dom.extent for iv in axes if iv.dom is not None) or (ops.const(1),)
    cached = n.decl_buffer(shape, buffer.dtype, f"{buffer.name}_reindex", scope=buffer.scope)
    name = fresh_block_name(func, cached.name)
    own: Indices = tuple(ops.sub(iv.var, iv.dom.min) for iv in axes if iv.dom is not None) or (ops.const(0),)
    copy = _copy(axes, buffer, indices, cached, own, name, buffer_index_type == "read")
    edited = with_block(me.realize, with_regions(redirected(me.block, buffer, cached, own)))
    new = copy_placed(func, scope, place, {me.realize: edited}, at, copy, cached)
    return Effect(new, (name,))


def only_place(me: Member, buffer: n.Buffer) -> Indices:
    """The indices at which the block uses `buffer`, the same in every access."""
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
    """Every point of the axes is inside the buffer: the copy visits all of them, without the block's conditions."""
    analyzer = Analyzer()
    for iv in me.block.iter_vars:
        if iv.dom is not None:
            analyzer.bind(iv.var, iv.dom)
    for index, size in zip(indices, buffer.shape):
        if not (analyzer.can_prove(ops.greater_equal(index, 0)) and analyzer.can_prove(ops.less(index, size))):
            raise Illegal(f"index {index!r} of {buffer.name!r} in block {me.name!r} may lie outside of it", me.name)


def _check_readable(me: Member, scope: Scope, place: Place, buffer: n.Buffer, at: int) -> None:
    for writer in scope.writers(buffer):
        if writer is me:
            raise Illegal(f"block {me.name!r} also writes {buffer.name!r}", me.name)
        if place.statement_of(writer) >= at:
            raise Illegal(f"block {writer.name!r} writes {buffer.name!r} in the same loops, or later", me.name)


def _check_writable(me: Member, scope: Scope, place: Place, buffer: n.Buffer, indices: Indices) -> None:
    others = [m for m in scope.members if m is not me and (m.writes(buffer) or m.reads(buffer))]
    mine = scope.members.index(me)
    for other in others:
        shares = place.statement_of(other) == place.statement_of(me)
        if other.writes(buffer) or shares or scope.members.index(other) < mine:
            raise Illegal(f"block {other.name!r} uses {buffer.name!r} too, before all of it is copied back", me.name)
    if me.block.init is None and me.reads(buffer):
        raise Illegal(f"block {me.name!r} adds to what {buffer.name!r} held before", me.name)
    loops = [
        n.For(iv.var, iv.dom.min, iv.dom.extent, n.ForKind.SERIAL, n.Evaluate(ops.const(0)))
        for iv in me.block.iter_vars
        if iv.dom is not None and iv.iter_type is IterType.DATA_PAR
    ]
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


def _copy(
    axes: list[n.IterVar], buffer: n.Buffer, indices: Indices, cached: n.Buffer, own: Indices, name: str, reading: bool
) -> Stmt:
    """Loops that copy between the buffer at `indices` and the new one."""
    fresh: dict[n.Var, PrimExpr] = {}
    iter_vars: list[n.IterVar] = []
    loops: list[n.For] = []
    for d, iv in enumerate(axes):
        assert iv.dom is not None
        var, loop = n.Var(f"v{d}", iv.var.dtype), n.Var(f"ax{d}", iv.var.dtype)
        fresh[iv.var] = var
        iter_vars.append(n.IterVar(iv.dom, var))
        loops.append(n.For(loop, iv.dom.min, iv.dom.extent, n.ForKind.SERIAL, n.Evaluate(ops.const(0))))
    there, here = tuple(subst(i, fresh) for i in indices), tuple(subst(i, fresh) for i in own)
    store = (
        n.BufferStore(cached, n.BufferLoad(buffer, there), here)
        if reading
        else n.BufferStore(buffer, n.BufferLoad(cached, here), there)
    )
    block = with_regions(n.Block(tuple(iter_vars), (), (), name, store))
    body: Stmt = n.BlockRealize(tuple(f.loop_var for f in loops), ops.const(True), block)
    for around in reversed(loops):
        body = replace(around, body=body)
    return body
