"""Split one reduction in two, so that its parts can run side by side."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.schedule.core.state import Illegal
from compiler.te.schedule.relations import Fuse, Relation, Singleton, Split, axis_extents
from compiler.te.schedule.relayout import roots_of_leaves
from compiler.te.tensor import ComputeOp
from compiler.tir import ops
from compiler.tir.nodes import IterType, IterVar, PrimExpr, Range, Reduce, Var
from compiler.tir.visit import substitute


def rfactor(
    op: ComputeOp, relations: Sequence[Relation], leaves: Sequence[IterVar], factor: IterVar, factor_axis: int = 0
) -> tuple[ComputeOp, ComputeOp]:
    """(partial, final) of the reduction `op`, whose stage has `relations` and `leaves`.

    `partial` reduces over every reduction leaf but `factor`, whose iterations are its dimension
    `factor_axis`; `final` reduces that over `factor`. Raises Illegal.

        C[i] = sum(k) A[i, k], k split by 4   →   C.rf[ki, i] = sum(ko) A[i, ko*4 + ki]
                                                  C[i] = sum(ki) C.rf[ki, i]
    """
    _check(op, relations, factor)
    if not 0 <= factor_axis <= len(op.axes):
        raise Illegal(f"{op.name!r} has no place {factor_axis} for the factored axis, only 0 to {len(op.axes)}")
    extents = axis_extents((*op.axis, *op.reduce_axis), relations)
    values, inside = roots_of_leaves(op.reduce_axis, _over_reductions(relations), extents)
    reduced = [leaf for leaf in leaves if leaf.iter_type is IterType.COMM_REDUCE]
    axes = tuple(IterVar(axis.dom, Var(axis.var.name, axis.dtype), axis.iter_type) for axis in op.axes)
    factored = _axis(factor, extents[factor], IterType.DATA_PAR)
    left = sorted((leaf for leaf in reduced if leaf is not factor), key=lambda leaf: leaf.dom is None)
    inner = tuple(_kept(leaf, extents[leaf]) for leaf in left)
    renamed: dict[Var, PrimExpr] = {old.var: new.var for old, new in zip(op.axes, axes)}
    renamed[factor.var] = factored.var
    mapping = renamed | {root: substitute(value, renamed) for root, value in values.items()}
    dims = (*axes[:factor_axis], factored, *axes[factor_axis:])
    condition = substitute(inside, renamed)
    partial = ComputeOp(
        f"{op.name}.rf",
        op.tag,
        op.attrs,
        op.span,
        dims,
        tuple(_partial(expr, mapping, inner, condition) for expr in op.body if isinstance(expr, Reduce)),
    )
    return partial, _final(op, partial, factor, extents[factor], factor_axis)


def _check(op: ComputeOp, relations: Sequence[Relation], factor: IterVar) -> None:
    if op.reduction is None or factor.iter_type is not IterType.COMM_REDUCE:
        raise Illegal(
            f"axis {factor.var.name!r} of stage {op.name!r} is not reduced over",
            hint="factor a reduction axis, or a part of one",
        )
    for relation in relations:
        if isinstance(relation, Fuse) and relation.outer.iter_type is not relation.inner.iter_type:
            raise Illegal(
                f"a loop of stage {op.name!r} runs over data and over a reduction",
                hint="call rfactor first, then schedule both stages",
            )


def _over_reductions(relations: Sequence[Relation]) -> list[Relation]:
    """The relations between reduction axes. Those between data axes are forgotten: both stages begin anew."""
    kinds = {Split: "parent", Fuse: "fused", Singleton: "iter"}
    return [r for r in relations if getattr(r, kinds[type(r)]).iter_type is IterType.COMM_REDUCE]


def _axis(old: IterVar, extent: PrimExpr, kind: IterType) -> IterVar:
    return IterVar(Range.from_extent(extent, old.dtype), Var(old.var.name, old.dtype), kind)


def _kept(leaf: IterVar, extent: PrimExpr) -> IterVar:
    """Return a reduction leaf as an axis of the partial reduction; the program can still name it."""
    return leaf if leaf.dom is not None else IterVar(Range.from_extent(extent, leaf.dtype), leaf.var, leaf.iter_type)


def _partial(reduce: Reduce, mapping: dict[Var, PrimExpr], axes: tuple[IterVar, ...], inside: PrimExpr) -> PrimExpr:
    condition = ops.logical_and(substitute(reduce.condition, mapping), inside)
    source = tuple(substitute(expr, mapping) for expr in reduce.source)
    if not axes:  # nothing left to reduce: one iteration keeps the block a reduction
        axes = (IterVar(Range.from_extent(1), Var("k"), IterType.COMM_REDUCE),)
    return Reduce(reduce.combiner, source, axes, condition, reduce.value_index, (), reduce.span)


def _final(op: ComputeOp, partial: ComputeOp, factor: IterVar, extent: PrimExpr, factor_axis: int) -> ComputeOp:
    axis = IterVar(
        Range.from_extent(extent, factor.dtype), Var(f"{factor.var.name}.v", factor.dtype), IterType.COMM_REDUCE
    )
    point: list[PrimExpr] = [a.var for a in op.axes]
    point.insert(factor_axis, axis.var)
    first = op.reduction
    assert first is not None
    sources = tuple(partial.output(i)(*point) for i in range(partial.num_outputs))
    body = tuple(
        Reduce(first.combiner, sources, (axis,), ops.const(True), index, first.init, first.span)
        for index in range(len(op.body))
    )
    return ComputeOp(op.name, op.tag, op.attrs, op.span, op.axes, body)
