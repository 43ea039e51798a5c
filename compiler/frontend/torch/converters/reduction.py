"""Reductions: sums, means, extremes and their places, variances, norms; running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.converters.comparison import truth
from compiler.frontend.torch.converters.elementwise import dtype_or, number
from compiler.frontend.torch.dtypes import is_float
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.relax.nodes.dims import int64
from compiler.tir import ops


def axes_of(c: Conversion, dim: Any, ndim: int) -> tuple[int, ...] | None:
    """Axes to reduce; None for all."""
    if dim is None or dim == []:
        return None
    return tuple(c.axis(axis, ndim) for axis in (dim if isinstance(dim, Sequence) else [dim]))


def _reduced(c: Conversion, make: Callable[..., Any], x: Any, dim: Any, keepdim: bool = False) -> Any:
    if c.ndim(x) == 0:
        return x
    return make(x, axes_of(c, dim, c.ndim(x)), bool(keepdim))


def _summed_type(c: Conversion, x: Any, dtype: Any) -> str:
    """The type of a sum: the floats' own, int64 for integers, or the one that is asked for."""
    own = c.dtype(x)
    return dtype_or(dtype, own if is_float(own) else "int64")


@converts("aten.sum.default", "aten.sum.dim_IntList")
def sum_(c: Conversion, self: Any, dtype: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return _reduced(c, op.sum, c.cast(self, _summed_type(c, self, dtype)), dim, keepdim)


@converts("aten.mean.default", "aten.mean.dim")
def mean(c: Conversion, self: Any, dtype: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return _reduced(c, op.mean, c.cast(self, dtype_or(dtype, c.dtype(self))), dim, keepdim)


@converts("aten.prod.default", "aten.prod.dim_int")
def prod(c: Conversion, self: Any, dtype: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return _reduced(c, op.prod, c.cast(self, _summed_type(c, self, dtype)), dim, keepdim)


@converts("aten.amax.default")
def amax(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    return _reduced(c, op.max, self, dim, keepdim)


@converts("aten.amin.default")
def amin(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    return _reduced(c, op.min, self, dim, keepdim)


@converts("aten.max.default")
def max_all(c: Conversion, self: Any) -> Any:
    return _reduced(c, op.max, self, None)


@converts("aten.min.default")
def min_all(c: Conversion, self: Any) -> Any:
    return _reduced(c, op.min, self, None)


def _extreme(c: Conversion, x: Any, dim: Any, keepdim: Any, value: Any, place: Any) -> Any:
    axis = c.axis(dim, c.ndim(x))
    if c.ndim(x) == 0:
        return x, c.tensor(0, "int64")
    return c.emit(value(x, axis, bool(keepdim))), c.cast(place(x, axis, bool(keepdim)), "int64")


@converts("aten.max.dim")
def max_dim(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    return _extreme(c, self, dim, keepdim, op.max, op.argmax)


@converts("aten.min.dim")
def min_dim(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    return _extreme(c, self, dim, keepdim, op.min, op.argmin)


def _place(c: Conversion, make: Callable[..., Any], x: Any, dim: Any, keepdim: Any) -> Any:
    if c.ndim(x) == 0:
        return c.tensor(0, "int64")
    if dim is None:
        flat = c.cast(make(op.flatten(x), 0, False), "int64")
        return c.reshaped(flat, c.out_shape())
    return c.cast(make(x, c.axis(dim, c.ndim(x)), bool(keepdim)), "int64")


@converts("aten.argmax.default")
def argmax(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    return _place(c, op.argmax, self, dim, keepdim)


@converts("aten.argmin.default")
def argmin(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    return _place(c, op.argmin, self, dim, keepdim)


@converts("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(c: Conversion, self: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return c.cast(_reduced(c, op.max, c.cast(truth(c, self), "int8"), dim, keepdim), "bool")


@converts("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(c: Conversion, self: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return c.cast(_reduced(c, op.min, c.cast(truth(c, self), "int8"), dim, keepdim), "bool")


@converts("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(c: Conversion, self: Any, dim: Any = None) -> Any:
    return _reduced(c, op.sum, c.cast(truth(c, self), "int64"), dim)


# ------------------------------------------------------------------------- variances and norms


def _variance(c: Conversion, x: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    """The variance, its sum divided by the number of elements less `correction`."""
    axes = axes_of(c, dim, c.ndim(x))
    whole = op.variance(x, axes, bool(keepdim))
    lost = 1 if correction is None else correction
    if lost == 0:
        return whole
    total: Any = int64(1)
    for axis in range(c.ndim(x)) if axes is None else axes:
        total = ops.mul(total, c.shape(x)[axis])
    known, dtype = ops.as_int(total), c.dtype(x)
    if known is not None:
        ratio = known / (known - lost) if known > lost else float("nan")
        return op.multiply(whole, c.tensor(ratio, dtype))
    count = c.tensor(total, dtype)
    return op.multiply(whole, op.divide(count, op.subtract(count, c.tensor(float(lost), dtype))))


@converts("aten.var.correction")
def var(c: Conversion, self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    return _variance(c, self, dim, correction, keepdim)


@converts("aten.var.dim", "aten.var.default")
def var_unbiased(c: Conversion, self: Any, unbiased: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return _variance(c, self, dim, int(unbiased), keepdim)


@converts("aten.std.correction")
def std(c: Conversion, self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    return op.sqrt(_variance(c, self, dim, correction, keepdim))


@converts("aten.std.dim", "aten.std.default")
def std_unbiased(c: Conversion, self: Any, unbiased: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return op.sqrt(_variance(c, self, dim, int(unbiased), keepdim))


@converts("aten.var_mean.correction")
def var_mean(c: Conversion, self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    return c.emit(_variance(c, self, dim, correction, keepdim)), c.emit(_reduced(c, op.mean, self, dim, keepdim))


@converts("aten.logsumexp.default")
def logsumexp(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    x = c.floating(self)
    axes = axes_of(c, dim, c.ndim(x))
    largest = c.emit(op.max(x, axes, True))
    finite = c.emit(op.where(op.isfinite(largest), largest, number(c, 0.0, x)))
    total = op.add(op.log(op.sum(op.exp(op.subtract(x, finite)), axes, True)), finite)
    return c.reshaped(total, c.out_shape()) if not keepdim else total


@converts("aten.linalg_vector_norm.default")
def vector_norm(c: Conversion, self: Any, ord: Any, dim: Any, keepdim: Any, dtype: Any) -> Any:
    return _norm(c, c.cast(c.floating(self), dtype_or(dtype, c.dtype(c.floating(self)))), ord, dim, keepdim)


@converts("aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def norm(c: Conversion, self: Any, p: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return _norm(c, self, 2 if p is None else p, dim, keepdim)


def _norm(c: Conversion, x: Any, ord: Any, dim: Any, keepdim: Any) -> Any:
    size = op.abs(x)
    if ord in (float("inf"), float("-inf")):
        return _reduced(c, op.max if ord > 0 else op.min, c.emit(size), dim, keepdim)
    if ord == 2:
        return op.sqrt(_reduced(c, op.sum, c.emit(op.multiply(x, x)), dim, keepdim))
    if ord == 1:
        return _reduced(c, op.sum, c.emit(size), dim, keepdim)
    if ord == 0:
        return _reduced(c, op.sum, c.cast(truth(c, x), c.dtype(x)), dim, keepdim)
    powers = c.emit(op.power(size, number(c, float(ord), x)))
    return op.power(_reduced(c, op.sum, powers, dim, keepdim), number(c, 1 / float(ord), x))


# ---------------------------------------------------------------------------------- running sums


@converts("aten.cumsum.default")
def cumsum(c: Conversion, self: Any, dim: Any, dtype: Any) -> Any:
    wanted = _summed_type(c, self, dtype)
    x = c.cast(self, wanted)
    return op.cumsum(x, c.axis(dim, c.ndim(x)), wanted) if c.ndim(x) else x


@converts("aten.cumprod.default")
def cumprod(c: Conversion, self: Any, dim: Any, dtype: Any) -> Any:
    wanted = _summed_type(c, self, dtype)
    x = c.cast(self, wanted)
    return op.cumprod(x, c.axis(dim, c.ndim(x)), wanted) if c.ndim(x) else x
