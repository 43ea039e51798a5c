"""Elementwise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr
from compiler.topi.broadcast import truth


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
floor = _unary("floor", intrin.floor, "x rounded down")
ceil = _unary("ceil", intrin.ceil, "x rounded up")
round = _unary("round", intrin.round, "x rounded to the nearest integer")
trunc = _unary("trunc", intrin.trunc, "x rounded towards zero")
abs = _unary("abs", intrin.abs, "the absolute value of x")
negative = _unary("negative", ops.neg, "-x")
logical_not = _unary("logical_not", lambda x: ops.logical_not(truth(x)), "whether x is zero (or false)")
bitwise_not = _unary("bitwise_not", intrin.bitwise_not, "x with every bit the other way")
sign = _unary("sign", lambda x: _sign(x), "-1, 0 or 1: the sign of x")
isnan = _unary("isnan", lambda x: ops.not_equal(x, x), "whether x is no number")
isinf = _unary("isinf", lambda x: ops.greater(intrin.abs(x), ops.max_value(x.dtype)), "whether x is an infinity")
isfinite = _unary("isfinite", lambda x: ops.less_equal(intrin.abs(x), ops.max_value(x.dtype)), "whether x is finite")


def _sign(x: PrimExpr) -> PrimExpr:
    zero, one = const(0, x.dtype), const(1, x.dtype)
    not_negative = intrin.select(x > zero, one, zero)
    return not_negative if x.dtype.startswith("uint") else intrin.select(x < zero, const(-1, x.dtype), not_negative)


def identity(x: Tensor) -> Tensor:
    """A copy of x."""
    result: Tensor = compute(x.shape, lambda *i: x(*i), name="T_identity", tag="elemwise")
    return result


def cast(x: Tensor, dtype: str) -> Tensor:
    """x converted to `dtype`."""
    result: Tensor = compute(x.shape, lambda *i: x(*i).astype(dtype), name="T_cast", tag="elemwise")
    return result


def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """x limited to [a_min, a_max]."""
    low, high = const(a_min, x.dtype), const(a_max, x.dtype)
    result: Tensor = compute(
        x.shape, lambda *i: ops.maximum(ops.minimum(x(*i), high), low), name="T_clip", tag="elemwise"
    )
    return result
