"""Reductions of a tensor along some of its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.errors import IRError
from compiler.te import operation as te
from compiler.te.reduction import Reducer
from compiler.te.tensor import Tensor
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var

Axis = int | Sequence[int] | None


def normal_axes(op: str, axis: Axis, rank: int) -> list[int]:
    """`axis` as sorted dimensions from 0; None is all. Raises IRError when out of range or repeated."""
    given = list(range(rank)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(a + rank if a < 0 else a for a in given)
    if any(not 0 <= a < rank for a in axes) or len(set(axes)) != len(axes):
        raise IRError(f"{op} over axis {axis!r} of a tensor of {rank} dimensions" + at(caller_span()))
    return axes


def _reduction(name: str, reducer: Reducer, what: str) -> Callable[..., Tensor]:
    def build(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        axes = normal_axes(name, axis, data.ndim)
        reduced = [te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes]
        kept = [d for d in range(data.ndim) if d not in axes]
        shape = [ops.const(1) if d in axes else data.shape[d] for d in range(data.ndim)]

        def value(*indices: Var) -> PrimExpr:
            free = iter(indices if not keepdims else [indices[d] for d in kept])
            inner = iter(reduced)
            point = [next(inner).var if d in axes else next(free) for d in range(data.ndim)]
            result: PrimExpr = reducer(data(*point), axis=reduced)
            return result

        result: Tensor = te.compute(
            shape if keepdims else [data.shape[d] for d in kept], value, name=f"T_{name}", tag="comm_reduce"
        )
        return result

    build.__name__ = name
    build.__doc__ = (
        f"{what} along `axis` (a dimension, several, or None for all). With `keepdims` the reduced dimensions "
        "stay, with size 1. Raises IRError when `axis` is out of range."
    )
    return build


sum = _reduction("sum", te.sum, "The sum")
prod = _reduction("prod", te.prod, "The product")
max = _reduction("max", te.max, "The largest value")
min = _reduction("min", te.min, "The smallest value")
