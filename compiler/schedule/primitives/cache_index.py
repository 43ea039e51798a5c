"""Keeping positions that are costly to compute in a buffer: cache_index."""

from __future__ import annotations

from collections.abc import Hashable

from compiler.arith.linear import expr_key
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import (
    Member,
    allocated,
    check_leaf,
    fresh_block_name,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.expr import subst, variables
from compiler.schedule.core.state import Illegal, StepEffect, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.block_axes import nest_over_axes
from compiler.schedule.primitives.cache import CachePlace
from compiler.schedule.primitives.storage import check_scope
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import seq


@primitive("block", attrs={"storage_scope": (str,), "cse_thresh": (int,)}, outputs="block*")
def cache_index(func: n.PrimFunc, block: str, storage_scope: str, cse_thresh: int) -> StepEffect:
    """Compute the indices of a block's reads before the block, into buffers in memory `storage_scope`.

    Each index that is more than an axis or a constant gets a buffer along the axes that it mentions, and a block that
    fills it. These blocks, index_0, index_1, ..., are the result. `cse_thresh` keeps to indices that occur at least so
    many times. The indices of writes stay as they are.

        block C: C[vi] = A[vi * 3 % 7]    →   block index_0: index_var_0[v0] = v0 * 3 % 7
                                              block C: C[vi] = A[index_var_0[vi]]
    """
    me, scope = scope_around(func, block)
    check_leaf(me)
    check_scope(storage_scope, block)
    if cse_thresh < 0:
        raise Illegal(f"cse_thresh is a count, got {cse_thresh}", block)
    found = _indices(me)
    chosen = [expr for expr, count in found.values() if count >= cse_thresh]
    if not chosen:
        raise Illegal(f"block {block!r} has no index to keep that occurs {max(cse_thresh, 1)} times", block)
    place = CachePlace(scope.path)
    buffers: list[n.Buffer] = []
    nests: list[Stmt] = []
    names: list[str] = []
    kept: dict[Hashable, n.BufferLoad] = {}
    for number, index in enumerate(chosen):
        axes = [iv for iv in me.block.iter_vars if iv.var in variables(index)]
        shape = tuple(iv.dom.extent for iv in axes if iv.dom is not None)
        buffer = n.decl_buffer(shape, index.dtype, f"index_var_{number}", scope=storage_scope)
        at = tuple(ops.sub(iv.var, iv.dom.min) for iv in axes if iv.dom is not None)
        names.append(fresh_block_name(func, f"index_{number}", names))
        nests.append(_filling(axes, n.BufferStore(buffer, index, at), names[-1]))
        buffers.append(buffer)
        kept[expr_key(index)] = n.BufferLoad(buffer, at)
    edited = tree.with_block(me.realize, with_regions(_reading(me, kept)))
    stmt = place.stmts[place.statement_of(me)]
    changed = seq(*nests, tree.edit(stmt, {me.realize: edited}))
    replacing = replaced(func, me.path[: me.path.index(stmt) + 1], changed)
    return StepEffect(allocated(replacing, scope, buffers), tuple(names))


def _indices(me: Member) -> dict[Hashable, tuple[PrimExpr, int]]:
    """The indices of what the block only reads, from its axes, in order; each with its number of uses."""
    own = {iv.var for iv in me.block.iter_vars}
    found: dict[Hashable, tuple[PrimExpr, int]] = {}
    for stmt in (me.block.init, me.block.body):
        for node in walk(stmt) if stmt is not None else ():
            for index in node.indices if isinstance(node, n.BufferLoad) and not me.writes(node.buffer) else ():
                used = variables(index)
                if isinstance(index, n.Var) or not used or not used <= own:
                    continue
                if any(isinstance(part, n.BufferLoad | n.Ramp) for part in walk(index)):
                    continue
                key = expr_key(index)
                found[key] = index, found.get(key, (index, 0))[1] + 1
    return found


def _filling(axes: list[n.IterVar], store: n.BufferStore, name: str) -> Stmt:
    """Loops that store along `axes`, in a block with axes of its own."""
    fresh = {iv.var: n.Var(f"v{d}", iv.var.dtype) for d, iv in enumerate(axes)}
    moved = n.BufferStore(store.buffer, subst(store.value, fresh), tuple(subst(i, fresh) for i in store.indices))
    own = tuple(n.IterVar(iv.dom, fresh[iv.var]) for iv in axes)
    return nest_over_axes(with_regions(n.Block(own, (), (), name, moved)))


def _reading(me: Member, kept: dict[Hashable, n.BufferLoad]) -> n.Block:
    """The block with the indices that are in buffers loaded from there."""

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.BufferLoad) and not me.writes(rebuilt.buffer):
            indices = tuple(kept.get(expr_key(index), index) for index in rebuilt.indices)
            if any(a is not b for a, b in zip(indices, rebuilt.indices)):
                return replace(rebuilt, indices=indices)
        return rebuilt

    init = None if me.block.init is None else go(me.block.init)
    return replace(me.block, init=init, body=go(me.block.body))
