"""Splitting a block that pads into one that fills and one that copies: decompose_padding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Op
from compiler.ir.visit import replace, walk
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import (
    BlockDataflow,
    Member,
    fresh_block_name,
    own_nest,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.expr import conjunction, conjuncts, relocated, subst, variables
from compiler.schedule.analysis.placement import analyzer_of
from compiler.schedule.core.state import Illegal, StepEffect, loop_path, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.loops import loop_roles
from compiler.schedule.primitives.reduction import check_separable, init_nest
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.regions import linear
from compiler.tir.visit import seq

Bounds = dict[n.Var, tuple[int, int]]  # [low, high) of an axis


@primitive("block", "loop", outputs="block")
def decompose_padding(func: n.PrimFunc, block: str, loop: n.Var) -> StepEffect:
    """Let a block that pads write its constant first, before `loop`, and then only the values inside.

    The block must be one store of `T.if_then_else(inside, value, constant)`. It keeps its name. Its axes and loops
    shrink to the bounds that `inside` gives as constants; its other conditions stay. The result is the block that
    writes the constant.

        for i in 10:                          →   for i in 10:
          block P: P[vi] = T.if_then_else(          block P_pad_const: P[vi] = 0
            vi >= 1 and vi < 9, A[vi - 1], 0)     for i in 8:
                                                    block P: P[vi + 1] = A[vi]
    """
    me, scope = scope_around(func, block)
    inside, value, constant = _padding(me)
    store = me.block.body
    assert isinstance(store, n.BufferStore)
    _check_alone(me, scope, store)
    around = tree.loops_of(me.path)
    position = next((i for i, f in enumerate(around) if f.loop_var is loop), None)
    if position is None:
        loop_path(func, loop)
        raise Illegal(f"loop {loop.name!r} is not around block {block!r}", loop)
    data, _ = loop_roles(me.realize)
    check_separable(me.realize, around, position, data, "constant")
    fill_name = fresh_block_name(func, f"{block}_pad_const")
    filling = replace(me.block, init=replace(store, value=constant))
    fill = init_nest(tree.with_block(me.realize, filling), around[position:], data, fill_name)
    depth = me.path.index(around[position])
    bounds, rest = _bounds(me, inside)
    shrinking = {f.loop_var for f in me.path[max(depth, own_nest(me)) :] if isinstance(f, n.For)}
    body: Stmt = replace(store, value=value)
    if rest:  # in the block: other steps take a block's predicate to be about its axes' domains alone
        body = n.IfThenElse(conjunction(rest), body)
    copying = tree.with_block(me.realize, replace(me.block, body=body))
    narrowed, loops = _narrowed(copying, around, bounds, shrinking)
    copy: Stmt = narrowed
    for node, child in zip(reversed(me.path[depth:-1]), reversed(me.path[depth + 1 :])):
        copy = tree.replace_at((node, child), copy)
        if isinstance(copy, n.For) and copy.loop_var in loops:
            copy = replace(copy, extent=loops[copy.loop_var])
    return StepEffect(replaced(func, me.path[: depth + 1], seq(fill, copy)), (fill_name,))


# ------------------------------------------------------------------------------------ checks


def _padding(me: Member) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """The condition, the value and the constant of a block that pads. Raises Illegal for any other block."""
    block, store = me.block, me.block.body
    if isinstance(store, n.BufferStore) and block.init is None and not block.match_buffers:
        match store.value:
            case n.Call(args=(PrimExpr() as inside, PrimExpr() as value, n.IntImm() | n.FloatImm() as constant)) if (
                store.value.op is Op.get("tir.if_then_else")
                and all(iv.iter_type is IterType.DATA_PAR for iv in block.iter_vars)
                and store.predicate is None
            ):
                if any(isinstance(e, n.BufferLoad) for e in walk(inside)):
                    raise Illegal(f"the condition of block {me.name!r} reads memory", me.name)
                return inside, value, constant
    raise Illegal(f"block {me.name!r} is not one store of T.if_then_else(inside, value, constant)", me.name)


def _check_alone(me: Member, scope: BlockDataflow, store: n.BufferStore) -> None:
    """Check that no other block would see the constant in place of a value."""
    buffer = store.buffer
    if me.reads(buffer):
        raise Illegal(f"block {me.name!r} reads {buffer.name!r}, which it writes", me.name)
    mine = scope.members.index(me)
    for at, other in enumerate(scope.members):
        if other is not me and (other.writes(buffer) or (other.reads(buffer) and at < mine)):
            raise Illegal(f"block {other.name!r} uses {buffer.name!r} before, or writes it too", other.name)


# ------------------------------------------------------------------------------ what is inside


def _bounds(me: Member, inside: PrimExpr) -> tuple[Bounds, list[PrimExpr]]:
    """The constant bounds that `inside` sets to axes, and its other conditions."""
    domains = {iv.var: iv.dom for iv in me.block.iter_vars if iv.dom is not None}
    found: Bounds = {}
    rest: list[PrimExpr] = []
    for condition in conjuncts(inside):
        bound = _bound(condition, domains)
        if bound is None:
            rest.append(condition)
            continue
        axis, low, high = bound
        start, size = ops.as_int(domains[axis].min), ops.as_int(domains[axis].extent)
        assert start is not None
        assert size is not None
        was = found.get(axis, (start, start + size))
        found[axis] = max(was[0], was[0] if low is None else low), min(was[1], was[1] if high is None else high)
    for axis, (low, high) in found.items():
        if low >= high:
            rule = f"no value of axis {axis.name!r} of block {me.name!r} is inside: it is padding all over"
            raise Illegal(rule, me.name)
    return found, rest


def _bound(condition: PrimExpr, domains: Mapping[n.Var, n.Range]) -> tuple[n.Var, int | None, int | None] | None:
    """(axis, low, high) for a condition low <= axis or axis < high; None for another."""
    match condition:
        case n.LT(a, b) | n.GT(b, a):
            slack = 1
        case n.LE(a, b) | n.GE(b, a):
            slack = 0
        case _:
            return None
    terms, offset = linear(ops.sub(b, a))  # coefficient * axis + offset >= slack
    axes = [v for v in variables(condition) if v in domains]
    if len(terms) != 1 or len(axes) != 1 or id(axes[0]) not in terms:
        return None
    axis, factor = axes[0], terms[id(axes[0])]
    if ops.as_int(domains[axis].min) is None or ops.as_int(domains[axis].extent) is None:
        return None
    if factor > 0:
        return axis, -((offset - slack) // factor), None
    return axis, None, (offset - slack) // -factor + 1


def _narrowed(
    realize: n.BlockRealize, around: Iterable[n.For], bounds: Bounds, shrinking: set[n.Var]
) -> tuple[n.BlockRealize, dict[n.Var, PrimExpr]]:
    """The block with its axes from 0 over the inside, and the new extents of loops of `shrinking`.
    These run over just that. If a loop runs over more, the block gets a condition."""
    loops = {f.loop_var: f for f in around}
    shifted: dict[n.Var, PrimExpr] = {}  # what a loop variable that now starts at 0 was
    extents: dict[n.Var, PrimExpr] = {}
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        if iv.var in bounds and isinstance(value, n.Var) and value in shrinking and _spans(loops[value], iv):
            low, high = bounds[iv.var]
            shifted[value] = ops.add(value, low)
            extents[value] = ops.const(high - low, value.dtype)
    values = dict(zip((iv.var for iv in realize.block.iter_vars), (subst(v, shifted) for v in realize.iter_values)))
    analyzer = analyzer_of(replace(f, extent=extents.get(v, f.extent)) for v, f in loops.items())
    sides = [
        side
        for axis, (low, high) in bounds.items()
        for side in (ops.greater_equal(values[axis], low), ops.less(values[axis], high))
    ]
    conditions = _needed([subst(c, shifted) for c in conjuncts(realize.predicate)], sides, analyzer)
    conditions = _needed(sides, conditions, analyzer) + conditions
    axes = tuple(_narrow_axis(iv, bounds) for iv in realize.block.iter_vars)
    moved = {axis: ops.add(axis, low) for axis, (low, _) in bounds.items()}
    block = replace(realize.block, iter_vars=axes, body=relocated(realize.block.body, moved, Analyzer()))
    starts = (analyzer.simplify(ops.sub(v, bounds[axis][0])) if axis in bounds else v for axis, v in values.items())
    return n.BlockRealize(tuple(starts), conjunction(conditions), with_regions(block), realize.span), extents


def _needed(conditions: list[PrimExpr], given: list[PrimExpr], analyzer: Analyzer) -> list[PrimExpr]:
    """Those of `conditions` that do not follow from the ranges of the loops and `given`."""
    with analyzer.constraint(conjunction(given)):
        return [c for c in conditions if not analyzer.can_prove(c)]


def _narrow_axis(iv: n.IterVar, bounds: Bounds) -> n.IterVar:
    if iv.var not in bounds:
        return iv
    low, high = bounds[iv.var]
    return replace(iv, dom=n.Range(ops.const(0, iv.var.dtype), ops.const(high - low, iv.var.dtype)))


def _spans(loop: n.For, axis: n.IterVar) -> bool:
    """Whether the loop runs over the domain of the axis, no more and no less, and may run over another."""
    assert axis.dom is not None
    same = ops.as_int(loop.extent) == ops.as_int(axis.dom.extent)
    return same and ops.is_const(loop.min, 0) and ops.is_const(axis.dom.min, 0) and loop.thread_binding is None
