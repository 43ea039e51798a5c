"""Functions of numbers that are composed of others.

Each is an expression, with no operator of its own.
"""

from __future__ import annotations

import math
from typing import Any

from compiler.dtype import parse_dtype, with_lanes
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr

_LN2 = math.log(2)


def _number(x: Any) -> PrimExpr:
    expr = ops.as_expr(x)
    parsed = parse_dtype(expr.dtype)
    return expr if parsed.is_float else ops.cast(with_lanes("float32", parsed.lanes), expr)


def _huge(dtype: str) -> float:
    """Return a number so large that x² + 1 equals x² in `dtype`, but far below overflow of x²."""
    return {16: 2.0**7, 32: 2.0**14}.get(parse_dtype(dtype).bits, 2.0**28)


def asinh(x: Any) -> PrimExpr:
    """The number whose sinh is x: exact to a few units in the last place, at 0 and for large x too."""
    x = _number(x)
    size, huge = intrin.abs(x), _huge(x.dtype)
    near = ops.minimum(size, huge)
    square = ops.mul(near, near)
    root = ops.add(intrin.sqrt(ops.add(square, 1.0)), 1.0)
    small = intrin.log1p(ops.add(near, ops.div(square, root)))
    return intrin.copysign(intrin.select(ops.less(size, huge), small, ops.add(intrin.log(size), _LN2)), x)


def acosh(x: Any) -> PrimExpr:
    """The number at least 0 whose cosh is x; NaN below 1."""
    x = _number(x)
    huge = _huge(x.dtype)
    over = ops.sub(ops.minimum(x, huge), 1.0)
    small = intrin.log1p(ops.add(over, intrin.sqrt(ops.add(ops.mul(over, 2.0), ops.mul(over, over)))))
    return intrin.select(ops.greater_equal(x, huge), ops.add(intrin.log(x), _LN2), small)


def atanh(x: Any) -> PrimExpr:
    """The number whose tanh is x; infinite at -1 and 1, NaN outside them."""
    x = _number(x)
    size = intrin.abs(x)
    half = ops.mul(intrin.log1p(ops.div(ops.mul(size, 2.0), ops.sub(1.0, size))), 0.5)
    return intrin.copysign(half, x)


def logaddexp(a: Any, b: Any) -> PrimExpr:
    """log(exp(a) + exp(b)) without overflow on the way."""
    x, y = ops.match_types(a, b)
    x, y = _number(x), _number(y)
    gap = intrin.select(ops.equal(x, y), ops.const(0.0, x.dtype), intrin.abs(ops.sub(x, y)))
    return ops.add(ops.maximum(x, y), intrin.log1p(intrin.exp(ops.neg(gap))))


def infinity(dtype: str) -> PrimExpr:
    """Positive infinity of a float type."""
    return ops.const(math.inf, dtype)
