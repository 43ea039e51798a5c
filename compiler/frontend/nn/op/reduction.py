"""Reductions and order."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.frontend.nn.values import Tensor, tensor
from compiler.relax import op as relax_op

Axes = int | Sequence[int] | None


def _axes(axis: Axes) -> int | tuple[int, ...] | None:
    return axis if axis is None or isinstance(axis, int) else tuple(axis)


def sum(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "sum") -> Tensor:
    """Add the elements along `axis`, all of them for None."""
    return tensor(relax_op.sum(x._expr, _axes(axis), keepdims), name)


def mean(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "mean") -> Tensor:
    """Take the mean along `axis`, of all elements for None."""
    return tensor(relax_op.mean(x._expr, _axes(axis), keepdims), name)


def max(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "max") -> Tensor:
    """Take the largest element along `axis`."""
    return tensor(relax_op.max(x._expr, _axes(axis), keepdims), name)


def min(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "min") -> Tensor:
    """Take the smallest element along `axis`."""
    return tensor(relax_op.min(x._expr, _axes(axis), keepdims), name)


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None, name: str = "cumsum"
) -> Tensor:
    """Take running sums along `axis`."""
    return tensor(relax_op.cumsum(data._expr, axis, dtype, bool(exclusive)), name)


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """Put the elements along `axis` in order."""
    return tensor(relax_op.sort(x._expr, axis, descending), name)


def argsort(
    data: Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32", name: str = "argsort"
) -> Tensor:
    """Tell where the elements along `axis` stand in order."""
    return tensor(relax_op.argsort(data._expr, axis, descending, dtype), name)
