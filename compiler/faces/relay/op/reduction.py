"""Operators that go over axes."""

from __future__ import annotations

from math import prod
from typing import Any

from compiler.faces.relay.op.values import axes_of, emit, rank, shape, tensor
from compiler.faces.relay.table import In, operator
from compiler.relax import op as R


def _reduction(name: str, rule: Any, doc: str) -> None:
    def body(data: In, axis: Any = None, keepdims: bool = False, exclude: bool = False) -> Any:
        return rule(data, axes_of(axis, rank(data, name), exclude, name), keepdims)

    body.__doc__ = f"{doc} over `axis`; with `exclude`, over all others."
    operator(name)(body)


def _over_truth(reduce: Any) -> Any:
    return lambda data, axes, keepdims: R.astype(reduce(R.astype(data, "int8"), axes, keepdims), "bool")


def _logsumexp(data: Any, axes: Any, keepdims: bool) -> Any:
    largest = emit(R.max(data, axes, True))
    total = R.log(R.sum(R.exp(R.subtract(data, largest)), axes, True))
    found = emit(R.add(total, largest))
    return found if keepdims else R.squeeze(found, axes)


for _name, _rule, _doc in (
    ("sum", R.sum, "The sum"), ("max", R.max, "The largest element"), ("min", R.min, "The smallest element"),
    ("mean", R.mean, "The mean"), ("prod", R.prod, "The product"), ("all", _over_truth(R.min), "Whether all hold"),
    ("any", _over_truth(R.max), "Whether any holds"),
    ("logsumexp", _logsumexp, "The logarithm of the sum of exponentials"),
):  # fmt: skip
    _reduction(_name, _rule, _doc)


def _best(name: str, rule: Any, other: Any) -> None:
    def body(
        data: In, axis: Any = None, keepdims: bool = False, exclude: bool = False, select_last_index: bool = False
    ) -> Any:
        ndim = rank(data, name)
        axes = axes_of(axis, ndim, exclude, name)
        if axes is not None and len(axes) > 1:
            raise ValueError(f"relay.{name} goes over one axis or all, not over {axes}")
        place = None if axes is None else axes[0]
        if not select_last_index or place is None:
            return R.astype(rule(data, place, keepdims), "int32")
        size = shape(data, name)[place]
        return R.subtract(R.full((), size - 1, "int32"), R.astype(rule(R.flip(data, place), place, keepdims), "int32"))

    body.__doc__ = "The position along an axis of the first element that is largest (smallest)."
    operator(name)(body)


_best("argmax", R.argmax, R.argmin)
_best("argmin", R.argmin, R.argmax)


def _variance(data: Any, axes: Any, keepdims: bool, unbiased: bool, name: str) -> Any:
    found = R.variance(data, axes, keepdims)
    if not unbiased:
        return found
    info = tensor(data, name)
    sizes = shape(data, name)
    count = prod(int(sizes[at]) for at in (range(info.ndim) if axes is None else axes))
    return R.multiply(found, R.full((), count / (count - 1), info.dtype))


@operator("variance")
def variance(
    data: In, axis: Any = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False,
    with_mean_override: Any = None,
) -> Any:  # fmt: skip
    """The mean of squared distances from the mean; `unbiased` divides by one less."""
    axes = axes_of(axis, rank(data, "variance"), exclude, "variance")
    return _variance(data, axes, keepdims, unbiased, "variance")


@operator("std")
def std(data: In, axis: Any = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False) -> Any:
    """The square root of the variance."""
    axes = axes_of(axis, rank(data, "std"), exclude, "std")
    return R.sqrt(_variance(data, axes, keepdims, unbiased, "std"))


@operator("cumsum")
def cumsum(data: In, axis: Any = None, dtype: str | None = None, exclusive: Any = None) -> Any:
    """Sums of the elements up to each; `exclusive` leaves the element itself out."""
    return R.cumsum(data, axis, dtype or None, bool(exclusive))


@operator("cumprod")
def cumprod(data: In, axis: Any = None, dtype: str | None = None, exclusive: Any = None) -> Any:
    """Products of the elements up to each; `exclusive` leaves the element itself out."""
    return R.cumprod(data, axis, dtype or None, bool(exclusive))


@operator("sort")
def sort(data: In, axis: int = -1, is_ascend: bool = True) -> Any:
    """The elements in order along an axis."""
    return R.sort(data, axis, not is_ascend)


@operator("argsort")
def argsort(data: In, axis: int = -1, is_ascend: bool = True, dtype: str = "int32") -> Any:
    """The positions of the elements in order along an axis."""
    return R.argsort(data, axis, not is_ascend, dtype)


@operator("topk", results=lambda ret_type, **_: 2 if ret_type == "both" else None)
def topk(
    data: In, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int32"
) -> Any:
    """The first `k` elements in order along an axis, and their positions; `ret_type` may name one of both."""
    return R.topk(data, k, axis, ret_type, not is_ascend, dtype)
