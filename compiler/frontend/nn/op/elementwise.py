"""Arithmetic, comparisons and activation functions, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.frontend.nn.values import Tensor, binary, operand, tensor
from compiler.relax import op as relax_op


def _binary(name: str, make: Callable[..., Any]) -> Callable[..., Tensor]:
    def function(a: Any, b: Any, name: str = name) -> Tensor:
        return binary(make, a, b)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`relax.op.{getattr(make, '__name__', name)}` of two tensors, or a tensor and a number."
    return function


def _unary(name: str, make: Callable[..., Any]) -> Callable[..., Tensor]:
    def function(x: Tensor, name: str = name) -> Tensor:
        return tensor(make(x._expr), name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`relax.op.{getattr(make, '__name__', name)}` of a tensor."
    return function


add = _binary("add", relax_op.add)
subtract = _binary("subtract", relax_op.subtract)
multiply = _binary("multiply", relax_op.multiply)
divide = _binary("divide", relax_op.divide)
maximum = _binary("maximum", relax_op.maximum)
minimum = _binary("minimum", relax_op.minimum)
equal = _binary("equal", relax_op.equal)
not_equal = _binary("not_equal", relax_op.not_equal)
less = _binary("less", relax_op.less)
less_equal = _binary("less_equal", relax_op.less_equal)
greater = _binary("greater", relax_op.greater)
greater_equal = _binary("greater_equal", relax_op.greater_equal)

exp = _unary("exp", relax_op.exp)
negative = _unary("negative", relax_op.negative)
relu = _unary("relu", relax_op.nn.relu)
relu6 = _unary("relu6", relax_op.nn.relu6)
rsqrt = _unary("rsqrt", relax_op.rsqrt)
sigmoid = _unary("sigmoid", relax_op.sigmoid)
silu = _unary("silu", relax_op.nn.silu)
sqrt = _unary("sqrt", relax_op.sqrt)
square = _unary("square", relax_op.square)
tanh = _unary("tanh", relax_op.tanh)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """Convert the elements to `dtype`."""
    return x.astype(dtype)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """Take x * (1 + erf(x / sqrt(2))) / 2; `approximate="tanh"` computes it by tanh."""
    return tensor((relax_op.nn.gelu_tanh if approximate == "tanh" else relax_op.nn.gelu)(x._expr), name)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus") -> Tensor:
    """Take log(1 + exp(beta * x)) / beta."""
    return tensor(relax_op.nn.softplus(x._expr, beta, threshold), name)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """Multiply negative elements by the number in `alpha` of their channel."""
    return tensor(relax_op.nn.prelu(x._expr, alpha._expr), name)


def where(condition: Tensor, x1: Any, x2: Any, name: str = "where") -> Tensor:
    """Take elements of `x1` where `condition` holds, else of `x2`."""
    dtype = next(value.dtype for value in (x1, x2) if isinstance(value, Tensor))
    return tensor(relax_op.where(condition.astype("bool")._expr, operand(x1, dtype), operand(x2, dtype)), name)
