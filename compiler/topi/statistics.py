"""Statistics along dimensions: mean, variance, standard deviation, logsumexp."""

from __future__ import annotations

from collections.abc import Callable

from compiler.dtype import parse_dtype
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import need_floats, product
from compiler.topi.reduction import Axis, normal_axes, sum
from compiler.topi.reduction import max as largest


def mean(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean along `axis`.
    That of integers is rounded towards zero (as in TVM). 16-bit floats are summed as float32."""
    axes = normal_axes("mean", axis, data.ndim)
    total = sum(_wide(data), axes, keepdims)
    count = product([data.shape[d] for d in axes])

    def value(*i: Var) -> PrimExpr:
        if parse_dtype(total.dtype).is_float:
            return (total(*i) / ops.cast(total.dtype, count)).astype(data.dtype)
        return ops.truncdiv(total(*i), ops.cast(total.dtype, count)).astype(data.dtype)

    result: Tensor = compute(total.shape, value, name="T_mean", tag="elemwise")
    return result


def variance(data: Tensor, axis: Axis = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """Return the mean of the squares about the mean, the count less `correction`.
    float16 and bfloat16 as in `mean`."""
    need_floats("variance", data)
    return _narrow(_variance(data, axis, keepdims, correction), data.dtype)


def std(data: Tensor, axis: Axis = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """The square root of the variance."""
    need_floats("std", data)
    found = _variance(data, axis, keepdims, correction)
    root: Tensor = compute(found.shape, lambda *i: intrin.sqrt(found(*i)), name="T_std", tag="elemwise")
    return _narrow(root, data.dtype)


def _variance(data: Tensor, axis: Axis, keepdims: bool, correction: float) -> Tensor:
    axes = normal_axes("variance", axis, data.ndim)
    wide = _wide(data)
    count = ops.cast(wide.dtype, product([data.shape[d] for d in axes]))
    total = sum(wide, axes, True)
    squares = _about(wide, total, axes, lambda x, t: (x - t / count) * (x - t / count), "T_squares")
    spread = sum(squares, axes, keepdims)
    divisor = ops.maximum(count - const(float(correction), wide.dtype), const(0.0, wide.dtype)) if correction else count
    result: Tensor = compute(spread.shape, lambda *i: spread(*i) / divisor, name="T_variance", tag="elemwise")
    return result


def logsumexp(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(data))) along `axis`, the largest value taken out first so that exp cannot overflow."""
    need_floats("logsumexp", data)
    axes = normal_axes("logsumexp", axis, data.ndim)
    wide = _wide(data)
    top = largest(wide, axes, True)
    powers = _about(wide, top, axes, lambda x, t: intrin.exp(x - t), "T_logsumexp_exp")
    total = sum(powers, axes, keepdims)
    shift = largest(wide, axes, keepdims)

    def value(*i: Var) -> PrimExpr:
        return (intrin.log(total(*i)) + shift(*i)).astype(data.dtype)

    result: Tensor = compute(total.shape, value, name="T_logsumexp", tag="elemwise")
    return result


def _about(
    data: Tensor, kept: Tensor, axes: list[int], value: Callable[[PrimExpr, PrimExpr], PrimExpr], name: str
) -> Tensor:
    """`value(element, kept at its row)`, elementwise; `kept` has size 1 along `axes`."""

    def element(*i: Var) -> PrimExpr:
        point = [ops.const(0) if d in axes else index for d, index in enumerate(i)]
        return value(data(*i), kept(*point))

    result: Tensor = compute(data.shape, element, name=name, tag="broadcast")
    return result


def _wide(data: Tensor) -> Tensor:
    """float16 and bfloat16 as float32: sums of many need more digits."""
    parsed = parse_dtype(data.dtype)
    if not parsed.is_float or parsed.bits != 16:
        return data
    result: Tensor = compute(data.shape, lambda *i: data(*i).astype("float32"), name="T_wide", tag="elemwise")
    return result


def _narrow(data: Tensor, dtype: str) -> Tensor:
    if data.dtype == dtype:
        return data
    result: Tensor = compute(data.shape, lambda *i: data(*i).astype(dtype), name="T_narrow", tag="elemwise")
    return result
