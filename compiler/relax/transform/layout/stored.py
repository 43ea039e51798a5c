"""Move a tensor from one layout to another, with as few moves as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.arith.index_map import IndexMap
from compiler.ir.base import Op, RelaxExpr
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Var
from compiler.relax.op.core.layout import Layout
from compiler.relax.op.movement.dimensions import expand_dims
from compiler.relax.op.movement.layout_transform import layout_transform
from compiler.relax.op.movement.manipulate import permute_dims
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Emit = Callable[[RelaxExpr], Any]
"""What becomes of the last move: it is bound to a name, or given as it is."""


def moved(rewriter: PyExprMutator, value: RelaxExpr, source: Layout, target: Layout, emit: Emit) -> Any:
    """Convert the tensor `value` from the layout `source` to `target`.

    A target of more dimensions takes new ones of size 1 before those of the tensor, which must lie as written.
    """
    builder = rewriter.builder_
    missing = target.ndim - source.ndim
    if missing > 0:
        value = builder.emit(expand_dims(value, list(range(missing))))
        source = Layout.identity(target.ndim)
    if source == target:
        return value
    if source.is_permutation and target.is_permutation:
        places = [axis for axis, _ in source.dims]
        return permuted(rewriter, value, [places.index(axis) for axis, _ in target.dims], emit)
    return emit(layout_transform(value, between(source, target)))


def permuted(rewriter: PyExprMutator, value: RelaxExpr, order: list[int], emit: Emit) -> Any:
    """Permute the dimensions of `value`. Two permutations in a row become one, or none."""
    before = rewriter.lookup_binding(value) if isinstance(value, Var) else None
    if isinstance(before, Call) and isinstance(before.op, Op) and before.op.name == "relax.permute_dims":
        inner, axes = before.args[0], before.attrs["axes"]
        first = list(reversed(range(len(order)))) if axes is None else [a % len(order) for a in axes]
        value, order = inner, [first[axis] for axis in order]
    if order == list(range(len(order))):
        return value
    return emit(permute_dims(value, order))


def between(source: Layout, target: Layout) -> IndexMap:
    """Return the map of indices from the layout `source` to the layout `target`."""
    indices = tuple([n.Var(f"i{place}", "int64") for place in range(len(source.dims))])
    whole: dict[int, PrimExpr] = {}
    blocks = {axis: factor for axis, factor in source.dims if factor}
    for index, (axis, factor) in zip(indices, source.dims):
        part = index if factor or axis not in blocks else ops.mul(index, blocks[axis])
        whole[axis] = ops.add(whole[axis], part) if axis in whole else part
    wanted = {axis: factor for axis, factor in target.dims if factor}
    places = []
    for axis, factor in target.dims:
        if factor:
            places.append(ops.floormod(whole[axis], factor))
        else:
            places.append(ops.floordiv(whole[axis], wanted[axis]) if axis in wanted else whole[axis])
    return IndexMap(indices, tuple(places))
