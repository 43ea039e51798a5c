"""Reductions of a tensor along some of its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te import operation as te
from compiler.te.reduction import Reducer
from compiler.te.tensor import Tensor
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import IterVar, PrimExpr, Var
from compiler.topi.broadcast import truth

Axis = int | Sequence[int] | None
Scalar = Callable[[PrimExpr], PrimExpr]
Point = Callable[[Sequence[Var]], list[PrimExpr]]


def normal_axes(op: str, axis: Axis, rank: int) -> list[int]:
    """`axis` as sorted dimensions from 0; None is all. Raises IRError when out of range or repeated."""
    given = list(range(rank)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(a + rank if a < 0 else a for a in given)
    if [a for a in axes if not 0 <= a < rank] or len(set(axes)) != len(axes):
        raise IRError(f"{op} over axis {axis!r} of a tensor of {rank} dimensions" + here())
    return axes


def _indexing(data: Tensor, axes: list[int], keepdims: bool) -> tuple[list[PrimExpr], list[IterVar], Point]:
    """The result's shape, the axes to reduce over, and the point of `data` for the result's indices."""
    reduced = [te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes]
    kept = [d for d in range(data.ndim) if d not in axes]
    shape = [ops.const(1) if d in axes else data.shape[d] for d in range(data.ndim)]

    def point(indices: Sequence[Var]) -> list[PrimExpr]:
        free = iter(indices if not keepdims else [indices[d] for d in kept])
        inner = iter(reduced)
        return [next(inner).var if d in axes else next(free) for d in range(data.ndim)]

    return (shape if keepdims else [data.shape[d] for d in kept]), reduced, point


def _reduction(name: str, reducer: Reducer, what: str, source: Scalar = lambda x: x) -> Callable[..., Tensor]:
    def build(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        axes = normal_axes(name, axis, data.ndim)
        shape, reduced, point = _indexing(data, axes, keepdims)

        def value(*indices: Var) -> PrimExpr:
            one = source(data(*point(indices)))
            result: PrimExpr = reducer(one, axis=reduced) if reduced else one
            return result

        result: Tensor = te.compute(shape, value, name=f"T_{name}", tag="comm_reduce" if reduced else "elemwise")
        return result

    build.__name__ = name
    build.__doc__ = (
        f"{what} along `axis` (a dimension, several, or None for all). With `keepdims` the reduced dimensions "
        "stay, with size 1. Raises IRError when `axis` is out of range."
    )
    return build


def _accumulated(name: str, reducer: Reducer, what: str) -> Callable[..., Tensor]:
    """A reduction that rounds once: float16 and bfloat16 are accumulated as float32."""
    whole = _reduction(name, reducer, what)
    widened = _reduction(name, reducer, what, lambda x: ops.cast("float32", x))

    def build(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        if data.dtype not in ("float16", "bfloat16"):
            return whole(data, axis, keepdims)
        total = widened(data, axis, keepdims)
        result: Tensor = te.compute(
            total.shape, lambda *i: ops.cast(data.dtype, total(*i)), name=f"T_{name}_rounded", tag="elemwise"
        )
        return result

    build.__name__ = name
    build.__doc__ = f"{whole.__doc__} Floats of 16 bits are accumulated as float32."
    return build


sum = _accumulated("sum", te.sum, "The sum")
prod = _accumulated("prod", te.prod, "The product")
max = _reduction("max", te.max, "The largest value")
min = _reduction("min", te.min, "The smallest value")

_and = te.comm_reducer(ops.logical_and, lambda dtype: ops.const(True), "all")
_or = te.comm_reducer(ops.logical_or, lambda dtype: ops.const(False), "any")
all = _reduction("all", _and, "Whether every value is true", truth)
any = _reduction("any", _or, "Whether some value is true", truth)


def _arg_reduction(
    name: str, better: Callable[[Any, Any], PrimExpr], start: Callable[[str], PrimExpr], what: str
) -> Callable[..., Tensor]:
    def build(
        data: Tensor, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False
    ) -> Tensor:
        axes = normal_axes(name, axis, data.ndim)
        shape, reduced, point = _indexing(data, axes, keepdims)
        if not reduced:
            first: Tensor = te.compute(shape, lambda *i: ops.const(0), name=f"T_{name}", tag="injective")
            return first
        no_index = -1 if select_last_index else 2**31 - 1

        def combine(x: Any, y: Any) -> tuple[PrimExpr, PrimExpr]:
            later = (x[0] > y[0]) if select_last_index else (x[0] < y[0])
            first = ops.logical_or(better(x[1], y[1]), ops.logical_and(ops.equal(x[1], y[1]), later))
            return intrin.select(first, x[0], y[0]), intrin.select(first, x[1], y[1])

        reducer = te.comm_reducer(combine, lambda i, v: (ops.const(no_index, i), start(v)), name)

        def value(*indices: Var) -> Any:
            at_point = point(indices)
            position: PrimExpr = ops.const(0)
            for d in axes:
                position = ops.add(ops.mul(position, data.shape[d]), at_point[d])
            return reducer((position, data(*at_point)), axis=reduced)

        found = te.compute(shape, value, name=f"T_{name}_red_temp", tag="comm_reduce_idx")
        result: Tensor = te.compute(shape, lambda *i: found[0](*i), name=f"T_{name}_red", tag="injective")
        return result

    build.__name__ = name
    build.__doc__ = (
        f"Where {what} stands along `axis`, as int32; over several axes, or None for all, the position counts in "
        "row-major order. Of equal values the first, or with `select_last_index` the last. Raises IRError when "
        "`axis` is out of range."
    )
    return build


argmax = _arg_reduction("argmax", ops.greater, ops.min_value, "the largest value")
argmin = _arg_reduction("argmin", ops.less, ops.max_value, "the smallest value")
