"""Elementwise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import is_float
from compiler.te.broadcast import broadcast_shape, element
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import composed, ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr
from compiler.topi.broadcast import truth
from compiler.topi.checks import refusal


def _unary(name: str, scalar: Callable[[Any], PrimExpr], what: str) -> Callable[[Tensor], Tensor]:
    def build(x: Tensor) -> Tensor:
        result: Tensor = compute(x.shape, lambda *i: scalar(x(*i)), name=f"T_{name}", tag="elemwise")
        return result

    build.__name__ = name
    build.__doc__ = f"{what}, elementwise."
    return build


exp = _unary("exp", intrin.exp, "e to the power x")
log = _unary("log", intrin.log, "the natural logarithm of x")
sqrt = _unary("sqrt", intrin.sqrt, "the square root of x")
rsqrt = _unary("rsqrt", intrin.rsqrt, "1 / sqrt(x)")
tanh = _unary("tanh", intrin.tanh, "the hyperbolic tangent of x")
sigmoid = _unary("sigmoid", intrin.sigmoid, "1 / (1 + exp(-x))")
erf = _unary("erf", intrin.erf, "the error function of x")
sin = _unary("sin", intrin.sin, "the sine of x")
cos = _unary("cos", intrin.cos, "the cosine of x")
tan = _unary("tan", intrin.tan, "the tangent of x")
sinh = _unary("sinh", intrin.sinh, "the hyperbolic sine of x")
cosh = _unary("cosh", intrin.cosh, "the hyperbolic cosine of x")
asin = _unary("asin", intrin.asin, "the angle whose sine is x")
acos = _unary("acos", intrin.acos, "the angle whose cosine is x")
atan = _unary("atan", intrin.atan, "the angle whose tangent is x")
exp2 = _unary("exp2", intrin.exp2, "2 to the power x")
exp10 = _unary("exp10", intrin.exp10, "10 to the power x")
log2 = _unary("log2", intrin.log2, "the logarithm of x to base 2")
log10 = _unary("log10", intrin.log10, "the logarithm of x to base 10")
log1p = _unary("log1p", intrin.log1p, "the natural logarithm of 1 + x")
floor = _unary("floor", lambda x: _whole(x, intrin.floor), "x rounded down")
ceil = _unary("ceil", lambda x: _whole(x, intrin.ceil), "x rounded up")
round = _unary("round", lambda x: _whole(x, intrin.nearbyint), "x rounded to the nearest integer, halves to the even")
nearbyint = _unary("nearbyint", lambda x: _whole(x, intrin.nearbyint), "the same as `round`")
asinh = _unary("asinh", composed.asinh, "the number whose hyperbolic sine is x")
acosh = _unary("acosh", composed.acosh, "the number whose hyperbolic cosine is x")
atanh = _unary("atanh", composed.atanh, "the number whose hyperbolic tangent is x")
square = _unary("square", lambda x: ops.mul(x, x), "x * x")
trunc = _unary("trunc", lambda x: _whole(x, intrin.trunc), "x rounded towards zero")
abs = _unary("abs", intrin.abs, "the absolute value of x")
negative = _unary("negative", ops.neg, "-x")
logical_not = _unary("logical_not", lambda x: ops.logical_not(truth(x)), "whether x is zero (or false)")
bitwise_not = _unary("bitwise_not", intrin.bitwise_not, "x with every bit the other way")
sign = _unary("sign", lambda x: _sign(x), "-1, 0 or 1: the sign of x")
isnan = _unary("isnan", intrin.isnan, "whether x is no number")
isinf = _unary("isinf", intrin.isinf, "whether x is an infinity")
isfinite = _unary("isfinite", intrin.isfinite, "whether x is finite")


def _sign(x: PrimExpr) -> PrimExpr:
    zero, one = const(0, x.dtype), const(1, x.dtype)
    not_negative = intrin.select(x > zero, one, zero)
    return not_negative if x.dtype.startswith("uint") else intrin.select(x < zero, const(-1, x.dtype), not_negative)


def _whole(x: PrimExpr, rounded: Callable[[Any], PrimExpr]) -> PrimExpr:
    """Integers are whole as they are."""
    return rounded(x) if is_float(x.dtype) else x


def identity(x: Tensor) -> Tensor:
    """A copy of x."""
    result: Tensor = compute(x.shape, lambda *i: x(*i), name="T_identity", tag="elemwise")
    return result


def cast(x: Tensor, dtype: str) -> Tensor:
    """x converted to `dtype`."""
    result: Tensor = compute(x.shape, lambda *i: x(*i).astype(dtype), name="T_cast", tag="elemwise")
    return result


def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor:
    """Return x limited to [a_min, a_max], numbers or expressions.
    Integers are limited to those inside the type's range."""
    low, high = _bound(a_min, x.dtype), _bound(a_max, x.dtype)
    result: Tensor = compute(
        x.shape, lambda *i: ops.maximum(ops.minimum(x(*i), high), low), name="T_clip", tag="elemwise"
    )
    return result


def _bound(value: Any, dtype: str) -> PrimExpr:
    if not isinstance(value, int | float) or is_float(dtype):
        return const(value, dtype) if isinstance(value, int | float) else ops.cast(dtype, value)
    least, most = ops.as_int(ops.min_value(dtype)), ops.as_int(ops.max_value(dtype))
    assert least is not None
    assert most is not None
    return const(least if value < least else most if value > most else int(value), dtype)


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of x as values of `dtype`, which is as wide. Raises IRError when it is not."""
    result: Tensor = compute(
        x.shape, lambda *i: intrin.reinterpret(dtype, x(*i)), name="T_reinterpret", tag="elemwise"
    )
    return result


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of several tensors, with broadcasting.
    Raises IRError for none, and when shapes do not broadcast."""
    if not xs:
        raise refusal("elemwise_sum", "needs at least one tensor")
    shape: tuple[PrimExpr, ...] = ()
    for x in xs:
        shape = broadcast_shape("elemwise_sum", shape, x.shape)

    def value(*i: Any) -> PrimExpr:
        total = element(xs[0], i)
        for x in xs[1:]:
            total = ops.add(total, element(x, i))
        return total

    result: Tensor = compute(shape, value, name="T_elemwise_sum", tag="elemwise")
    return result
