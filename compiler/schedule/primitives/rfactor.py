"""Splitting one reduction in two so that its parts can run side by side: rfactor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ir.visit import replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import (
    Member,
    allocated,
    check_leaf,
    fresh_block_name,
    own_nest,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.expr import conjunction, conjuncts, subst, variables
from compiler.schedule.analysis.reductions import Reductions, reductions_of
from compiler.schedule.core.state import Illegal, StepEffect, loop_at, loop_path, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.loops import loop_roles
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import ForKind, IterType, IterVar, PrimExpr, Range, Stmt
from compiler.tir.visit import seq


def _spelled(inputs: list[str], attrs: dict[str, Any]) -> str:
    order = "" if attrs.get("factor_first") else ", factor_first=False"
    return f"{inputs[0]}, factor_axis={attrs['factor_axis']}{order}"


@primitive(
    "loop",
    attrs={"factor_axis": (int,), "factor_first": (bool,)},
    outputs="block",
    spell=_spelled,
    defaults={"factor_first": False},
)
def rfactor(func: n.PrimFunc, loop: n.Var, factor_axis: int, factor_first: bool = False) -> StepEffect:
    """Reduce each iteration of `loop` separately, into a new buffer; then reduce those partial results.

    The iterations become dimension `factor_axis` of the new buffer (negative: counted from the end). They are the
    first axis of both blocks with `factor_first`, as in Apache TVM, and otherwise the one after the data axes. The
    combiner must be +, *, min or max, or a choice by comparing values, such as the maximum and its place; the loop
    must run along reduction axes only. Several values that are reduced together get a new buffer each. Returns the
    block C_rf, which makes the partial results.

        for i:                                →   for i:
          for ko:                                   for ko:
            for ki:                                   for ki:
              block C: C[vi] += A[vi, ko*4+ki]          block C_rf: C_rf[vki, vi] += A[vi, vko*4 + vki]
                                                  for i:
                                                    for ki:
                                                      block C: C[vi] += C_rf[vki, vi]
    """
    inside = tree.realizes(loop_at(loop_path(func, loop)))
    if len(inside) != 1:
        raise Illegal(f"loop {loop.name!r} holds {len(inside)} blocks, not one", loop)
    me, scope = scope_around(func, inside[0].block.name_hint)
    check_leaf(me)
    reduction = reductions_of(me)
    depth = own_nest(me)
    split = _split_axes(me, loop, depth)
    rank = len(reduction.targets[0].shape)
    axis = factor_axis + rank + 1 if factor_axis < 0 else factor_axis
    if not 0 <= axis <= rank:
        raise Illegal(f"factor_axis {factor_axis} is outside the {rank + 1} dimensions of the new buffer", loop)
    partial = [_with_factor(target, axis, split.factor.extent) for target in reduction.targets]
    name = fresh_block_name(func, f"{me.name}_rf")
    first = tree.replace_at(me.path[depth:], _partial(me, reduction, split, partial, axis, name, factor_first))
    final = _final(me, reduction, split, partial, axis, factor_first)
    changed = replaced(func, me.path[: depth + 1], seq(first, final))
    return StepEffect(allocated(changed, scope, partial), (name,))


# ----------------------------------------------------------------------------------- analysis


@dataclass(frozen=True, slots=True)
class _Split:
    """The loops of the block's own nest by their role, and the conditions of its predicate likewise."""

    own: tuple[n.For, ...]
    factor: n.For
    data: tuple[n.For, ...]
    rest: tuple[n.For, ...]
    on_data: tuple[PrimExpr, ...]
    on_reduction: tuple[PrimExpr, ...]


def _split_axes(me: Member, loop: n.Var, depth: int) -> _Split:
    loops = [f for f in me.path[depth:] if isinstance(f, n.For)]
    data, reduced = loop_roles(me.realize)
    if loop not in reduced or loop in data:
        raise Illegal(f"loop {loop.name!r} does not run along reduction axes only", loop)
    own = {f.loop_var for f in loops}
    if reduced - own:
        outer = next(iter(reduced - own))
        raise Illegal(f"loop {outer.name!r} along a reduction axis also holds other blocks", outer)
    for f in loops:
        if f.loop_var in reduced and (f.loop_var in data or not ops.is_const(f.min, 0)):
            raise Illegal(f"loop {f.loop_var.name!r} runs along a data axis and a reduction axis at once", f.loop_var)
    conditions = conjuncts(me.realize.predicate)
    everywhere = {f.loop_var for f in tree.loops_of(me.path)}
    for condition in conditions:
        if variables(condition) & reduced and variables(condition) & (everywhere - reduced):
            raise Illegal(f"a condition of block {me.name!r} mixes reduction loops and others", me.name)
    return _Split(
        tuple(loops),
        next(f for f in loops if f.loop_var is loop),
        tuple(f for f in loops if f.loop_var in data),
        tuple(f for f in loops if f.loop_var in reduced and f.loop_var is not loop),
        tuple(c for c in conditions if not variables(c) & reduced),
        tuple(c for c in conditions if variables(c) & reduced),
    )


# ---------------------------------------------------------------------------------- rewriting


def _with_factor(target: n.Buffer, axis: int, extent: PrimExpr) -> n.Buffer:
    shape = (*target.shape[:axis], extent, *target.shape[axis:])
    return n.decl_buffer(shape, target.dtype, f"{target.name}_rf", scope=target.scope)


def _axis(loop: n.For, kind: IterType) -> IterVar:
    var = n.Var(f"v_{loop.loop_var.name}", loop.loop_var.dtype)
    return IterVar(Range(ops.const(0, var.dtype), loop.extent), var, kind)


def _partial(
    me: Member, reduction: Reductions, split: _Split, buffers: list[n.Buffer], axis: int, name: str, factor_first: bool
) -> n.BlockRealize:
    """The block of partial results, in the loops that the reduction had.
    Its reduction axes are those of the loops. Where a condition skips an iteration, it combines the unit, so that every
    partial result is set."""
    factor = _axis(split.factor, IterType.DATA_PAR)
    rest = [_axis(f, IterType.COMM_REDUCE) for f in split.rest]
    by_loop: dict[n.Var, PrimExpr] = {split.factor.loop_var: factor.var}
    by_loop.update((f.loop_var, iv.var) for f, iv in zip(split.rest, rest))
    values: dict[n.Var, PrimExpr] = {}
    kept: list[tuple[IterVar, PrimExpr]] = []
    for iv, value in zip(me.block.iter_vars, me.realize.iter_values):
        if iv.iter_type is IterType.COMM_REDUCE:
            values[iv.var] = subst(value, by_loop)
        else:
            fresh = n.Var(iv.var.name, iv.var.dtype)
            values[iv.var] = fresh
            kept.append((replace(iv, var=fresh), value))
    condition = subst(conjunction(split.on_reduction), by_loop)
    units = [subst(unit, values) for unit in reduction.units]
    sources = tuple(if_then_else(condition, subst(s, values), unit) for s, unit in zip(reduction.sources, units))
    indices = [subst(index, values) for index in reduction.point]
    indices.insert(axis, factor.var)
    point = tuple(indices)
    combined = reduction.combine(tuple(buffer[point] for buffer in buffers), sources) if rest else sources
    body = reduction.stores(buffers, point, combined)
    init = seq(*(n.BufferStore(buffer, unit, point) for buffer, unit in zip(buffers, units))) if rest else None
    axes = [
        *_ordered((factor, split.factor.loop_var), kept, factor_first),
        *zip(rest, (f.loop_var for f in split.rest)),
    ]
    block = with_regions(n.Block(tuple(iv for iv, _ in axes), (), (), name, body, init, span=me.block.span))
    return n.BlockRealize(tuple(value for _, value in axes), conjunction(split.on_data), block)


def _ordered(
    factor: tuple[IterVar, PrimExpr], kept: list[tuple[IterVar, PrimExpr]], factor_first: bool
) -> list[tuple[IterVar, PrimExpr]]:
    return [factor, *kept] if factor_first else [*kept, factor]


def _final(
    me: Member, reduction: Reductions, split: _Split, buffers: list[n.Buffer], axis: int, factor_first: bool
) -> Stmt:
    """The nest that reduces the partial results, with the block's name."""
    own_loops = {f.loop_var for f in split.own}
    fresh = {f.loop_var: n.Var(f.loop_var.name, f.loop_var.dtype) for f in (*split.data, split.factor)}
    factor = _axis(split.factor, IterType.COMM_REDUCE)
    kept = [(iv, subst(v, fresh)) for iv, v in zip(me.block.iter_vars, me.realize.iter_values)
            if iv.iter_type is not IterType.COMM_REDUCE]  # fmt: skip
    axes = _ordered((factor, fresh[split.factor.loop_var]), kept, factor_first)
    point = list(reduction.point)
    point.insert(axis, factor.var)
    own = tuple(target[reduction.point] for target in reduction.targets)
    values = reduction.combine(own, tuple(buffer[tuple(point)] for buffer in buffers))
    starts = zip(reduction.targets, reduction.inits)
    block = n.Block(
        tuple(iv for iv, _ in axes),
        (), (), me.name,
        reduction.stores(reduction.targets, reduction.point, values),
        seq(*(n.BufferStore(target, start, reduction.point) for target, start in starts)),
        annotations=me.block.annotations, span=me.block.span,
    )  # fmt: skip
    bindings = tuple(value for _, value in axes)
    gone = own_loops - fresh.keys()  # along no axis at all: what is made once need not be made again
    predicate = subst(conjunction(c for c in split.on_data if not variables(c) & gone), fresh)
    body: Stmt = n.BlockRealize(bindings, predicate, with_regions(block))
    for loop in reversed((*split.data, split.factor)):
        body = n.For(fresh[loop.loop_var], loop.min, subst(loop.extent, fresh), ForKind.SERIAL, body)
    return body
