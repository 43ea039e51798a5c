"""Axes of a stage in terms of its leaves, and the other way round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from compiler.schedule.core.state import Illegal
from compiler.te.schedule.relations import Fuse, Relation, Singleton, Split, axis_extents
from compiler.te.tensor import ComputeOp
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import IterType, IterVar, PrimExpr, Range, Reduce, Var
from compiler.tir.visit import substitute


def roots_of_leaves(
    roots: Iterable[IterVar], relations: Sequence[Relation], extents: dict[IterVar, PrimExpr]
) -> tuple[dict[Var, PrimExpr], PrimExpr]:
    """Express the axes `roots` in terms of the leaves, with the condition that they lie in their domains."""
    values: dict[Var, PrimExpr] = {}
    inside = ops.const(True)

    def value(axis: IterVar) -> PrimExpr:
        return values.get(axis.var, axis.var)

    for relation in reversed(relations):
        match relation:
            case Split():
                index = value(relation.outer) * extents[relation.inner] + value(relation.inner)
                values[relation.parent.var] = index
                extent = extents[relation.parent]
                covered = ops.as_int(extents[relation.outer] * extents[relation.inner])
                if covered is None or covered != ops.as_int(extent):
                    inside = ops.logical_and(inside, index < extent)
            case Fuse():
                size = extents[relation.inner]
                values[relation.outer.var] = value(relation.fused) // size
                values[relation.inner.var] = value(relation.fused) % size
            case Singleton():
                pass
            case _:
                assert_never(relation)
    return {axis.var: value(axis) + axis.dom.min for axis in roots if axis.dom is not None}, inside


def leaves_of_roots(
    roots: Iterable[IterVar], relations: Sequence[Relation], extents: dict[IterVar, PrimExpr]
) -> dict[Var, PrimExpr]:
    """Express the axes derived from `roots` in terms of `roots`."""
    values: dict[Var, PrimExpr] = {axis.var: axis.var - axis.dom.min for axis in roots if axis.dom is not None}
    for relation in relations:
        match relation:
            case Split() if relation.parent.var in values:
                index, size = values[relation.parent.var], extents[relation.inner]
                values[relation.outer.var], values[relation.inner.var] = index // size, index % size
            case Fuse() if relation.outer.var in values:
                outer, inner = values[relation.outer.var], values[relation.inner.var]
                values[relation.fused.var] = outer * extents[relation.inner] + inner
            case Singleton():
                values[relation.iter.var] = ops.const(0)
            case _:
                pass
    return values


def through_laid_out_cache(
    op: ComputeOp, relations: Sequence[Relation], leaves: Sequence[IterVar], name: str
) -> tuple[ComputeOp, ComputeOp]:
    """Return (cache, copy): `cache` computes what `op` did, `copy` has the name and axes of `op`.

    The cache has the leaves over data as dimensions, and the copy reads it. Raises Illegal for a leaf that runs over
    data and over a reduction.

        C[i] = A[i], i split by 8   →   C.local[io, ii] = A[io*8 + ii]
                                        C[i] = C.local[i // 8, i % 8]
    """
    for relation in relations:
        if isinstance(relation, Fuse) and relation.outer.iter_type is not relation.inner.iter_type:
            raise Illegal(f"a loop of stage {op.name!r} runs over data and over a reduction")
    extents = axis_extents((*op.axis, *op.reduce_axis), relations)
    values, inside = roots_of_leaves(op.axes, relations, extents)
    kept = [leaf for leaf in leaves if leaf.iter_type is not IterType.COMM_REDUCE]
    dims = [
        IterVar(Range.from_extent(extents[leaf], leaf.dtype), Var(f"{leaf.var.name}.c", leaf.dtype), IterType.DATA_PAR)
        for leaf in kept
    ]
    renamed: dict[Var, PrimExpr] = {leaf.var: dim.var for leaf, dim in zip(kept, dims)}
    mapping = {root: substitute(value, renamed) for root, value in values.items()}
    where = substitute(inside, renamed)
    body = tuple(_where(where, substitute(expr, mapping)) for expr in op.body)
    cache = ComputeOp(name, op.tag, op.attrs, op.span, tuple(dims), body)
    places = leaves_of_roots(op.axes, relations, extents)
    point = tuple(places[leaf.var] for leaf in kept)
    copy = ComputeOp(op.name, "", op.attrs, op.span, op.axes, tuple(cache.output(i)(*point) for i in range(len(body))))
    return cache, copy


def _where(condition: PrimExpr, value: PrimExpr) -> PrimExpr:
    """`value` where a condition holds. Elsewhere it is a reduction's unit, or zero."""
    if ops.is_const(condition, 1):
        return value
    if isinstance(value, Reduce):
        inside = ops.logical_and(value.condition, condition)
        return Reduce(value.combiner, value.source, value.axis, inside, value.value_index, value.init, value.span)
    return if_then_else(condition, value, ops.const(0, value.dtype))
