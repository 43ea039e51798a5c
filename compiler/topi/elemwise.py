"""Elementwise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import intrin, ops
from compiler.tir.nodes import PrimExpr


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
floor = _unary("floor", intrin.floor, "x rounded down")
ceil = _unary("ceil", intrin.ceil, "x rounded up")
round = _unary("round", intrin.round, "x rounded to the nearest integer")
trunc = _unary("trunc", intrin.trunc, "x rounded towards zero")
abs = _unary("abs", intrin.abs, "the absolute value of x")
negative = _unary("negative", ops.neg, "-x")


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


def full(shape: Any, dtype: str, fill_value: float) -> Tensor:
    """A tensor of `fill_value`."""
    result: Tensor = compute(shape, lambda *i: const(fill_value, dtype), name="T_full", tag="elemwise")
    return result
