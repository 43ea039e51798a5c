"""The axes of a block: reorder_block_iter_var, transform_block_layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.arith.index_map import IndexMap
from compiler.errors import IRError
from compiler.ir.visit import replace
from compiler.schedule.analysis.dataflow import Member, check_leaf, own_nest, scope_around, with_regions
from compiler.schedule.analysis.expr import relocated, subst, variables
from compiler.schedule.analysis.placement import new_nest
from compiler.schedule.core.map_text import read_map
from compiler.schedule.core.state import Illegal, StepEffect, block_path, realize_at, replaced
from compiler.schedule.core.step import primitive
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt


@primitive("block", attrs={"new_order": (tuple,)})
def reorder_block_iter_var(func: n.PrimFunc, block: str, new_order: tuple[int, ...]) -> StepEffect:
    """Put the axes of a block in another order: the new first axis is the old number `new_order[0]`.

    The loops stay as they are.

        block C: vi = i, vj = j, vk = k   →   block C: vj = j, vk = k, vi = i        new_order = [1, 2, 0]
    """
    path = block_path(func, block)
    realize = realize_at(path)
    axes = realize.block.iter_vars
    if any(type(p) is not int for p in new_order) or sorted(new_order) != list(range(len(axes))):
        raise Illegal(f"{list(new_order)} is no order of the {len(axes)} axes of block {block!r}", block)
    ordered = replace(realize.block, iter_vars=tuple(axes[p] for p in new_order))
    values = tuple(realize.iter_values[p] for p in new_order)
    return StepEffect(replaced(func, path, n.BlockRealize(values, realize.predicate, ordered, realize.span)))


@primitive("block", attrs={"index_map": (str,)})
def transform_block_layout(func: n.PrimFunc, block: str, index_map: str) -> StepEffect:
    """Give a block new axes, at `index_map` of its old ones, and a new loop for each.

    What it computes stays. The block must stand in its own loops, one an axis. The map must send exactly one iteration
    to each place. A new axis may not mix data axes and reduction axes.

        index_map = lambda i, j: (j // 4, i, j % 4)

        for i, j in 5, 8:                 →   for ax0, ax1, ax2 in 2, 5, 4:
          block B: B[vi, vj] = A[vi, vj]        block B: B[v1, v0*4 + v2] = A[v1, v0*4 + v2]
    """
    me, _ = scope_around(func, block)
    check_leaf(me)
    loops = loops_by_axis(me)
    for loop in loops.values():
        if loop.kind is not ForKind.SERIAL or loop.annotations:
            name = loop.loop_var.name
            hint = "transform the block first, then say how its loops run"
            raise Illegal(f"loop {name!r} is {loop.kind.value} or annotated, which would be lost", loop.loop_var, hint)
    axes = me.block.iter_vars
    new = laid_out(axes, read_map(index_map, [iv.var.dtype for iv in axes]), me.name)
    if not ops.is_const(new.beyond, 0):
        raise Illegal(f"the index map has places without an iteration: those where {new.beyond!r}", block)
    init = None if me.block.init is None else relocated(me.block.init, new.was, new.analyzer)
    body = relocated(me.block.body, new.was, new.analyzer)
    changed = replace(me.block, iter_vars=new.axes, init=init, body=body)
    return StepEffect(replaced(func, me.path[: own_nest(me) + 1], nest_over_axes(with_regions(changed))))


@dataclass(frozen=True, slots=True)
class NewAxes:
    """New axes in place of old ones, and where they leave the old domain.
    `was` expresses each old axis in the new ones, `beyond` says where they lie outside."""

    axes: tuple[n.IterVar, ...]
    was: Mapping[n.Var, PrimExpr]
    beyond: PrimExpr

    @property
    def analyzer(self) -> Analyzer:
        """An analyzer that knows the domains of the new axes."""
        found = Analyzer()
        for iv in self.axes:
            assert iv.dom is not None
            found.bind(iv.var, iv.dom)
        return found


def laid_out(axes: Sequence[n.IterVar], index_map: IndexMap, block: str | None) -> NewAxes:
    """The axes at `index_map` of `axes`, which start at 0, of a block.
    Raises Illegal where the map has no way back, or would make one axis of data and reduction."""
    extents = [iv.dom.extent for iv in axes if iv.dom is not None]
    try:
        back, beyond = index_map.non_surjective_inverse(extents)
        sizes = index_map.map_shape(extents)
    except IRError as error:
        raise Illegal(error.message, block) from None
    kinds = {var: iv.iter_type for var, iv in zip(index_map.initial_indices, axes)}
    new: list[n.IterVar] = []
    for d, (place, size) in enumerate(zip(index_map.final_indices, sizes)):
        of = {kinds[var] for var in variables(place)} or {IterType.DATA_PAR}
        if len(of) > 1:
            raise Illegal(f"the index map makes one axis, {place!r}, of data and reduction axes", block)
        new.append(n.IterVar(n.Range(ops.const(0, size.dtype), size), n.Var(f"v{d}", size.dtype), of.pop()))
    at = {var: iv.var for var, iv in zip(back.initial_indices, new)}
    was = {iv.var: subst(value, at) for iv, value in zip(axes, back.final_indices)}
    return NewAxes(tuple(new), was, subst(beyond, at))


def nest_over_axes(block: n.Block) -> Stmt:
    """`block` in loops of its own, one an axis."""
    return new_nest(Analyzer(), block, {}, preserve_unit_loops=True)


def loops_by_axis(me: Member) -> dict[n.Var, n.For]:
    """The loop that each axis is bound to, outermost first.
    Raises Illegal unless the block's own loops are one an axis, over all of it, and no condition stands in them."""
    axes = {value: iv for iv, value in zip(me.block.iter_vars, me.realize.iter_values) if isinstance(value, n.Var)}
    loops = [f for f in me.path[own_nest(me) :] if isinstance(f, n.For)]
    found: dict[n.Var, n.For] = {}
    analyzer = Analyzer()
    for loop in loops:
        iv = axes.get(loop.loop_var)
        if iv is None or iv.dom is None or not analyzer.can_prove_equal(loop.extent, iv.dom.extent):
            name = loop.loop_var.name
            hint = "do this before splitting, fusing or moving"
            raise Illegal(f"loop {name!r} does not run over one axis of block {me.name!r}", loop.loop_var, hint=hint)
        if not ops.is_const(loop.min, 0) or not ops.is_const(iv.dom.min, 0):
            raise Illegal(f"axis {iv.var.name!r} of block {me.name!r} does not start at 0", loop.loop_var)
        if loop.thread_binding is not None:
            raise Illegal(f"loop {loop.loop_var.name!r} is bound to a thread", loop.loop_var, hint="do this first")
        found[iv.var] = loop
    if len(found) != len(me.block.iter_vars) or not ops.is_const(me.realize.predicate, 1):
        raise Illegal(f"block {me.name!r} does not run once for each point of its axes in loops of its own", me.name)
    return found
