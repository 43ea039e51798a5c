"""Gradients of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from compiler.relax.op.core.backward import Backward, Gradients

Rule = Callable[[Backward], Gradients]


def _scaled(factor: Callable[[Backward, Any, Any], Any]) -> Rule:
    """An operator of one tensor: the gradient times `factor(use, argument, result)`."""

    def rule(use: Backward) -> Gradients:
        return (use.multiply(use.grad, factor(use, use.arg(0), use.result)),)

    return rule


def _over(divisor: Callable[[Backward, Any, Any], Any]) -> Rule:
    """An operator of one tensor: the gradient divided by `divisor(use, argument, result)`."""

    def rule(use: Backward) -> Gradients:
        return (use.divide(use.grad, divisor(use, use.arg(0), use.result)),)

    return rule


def _one_less(use: Backward, value: Any) -> Any:
    """1 - value."""
    return use.subtract(use.ones_like(value), value)


absolute = _scaled(lambda use, x, y: use.sign(x))
square = _scaled(lambda use, x, y: use.multiply(x, 2.0))
acos = _over(lambda use, x, y: use.negative(use.sqrt(_one_less(use, use.square(x)))))
acosh = _over(lambda use, x, y: use.sqrt(use.subtract(use.square(x), 1.0)))
asin = _over(lambda use, x, y: use.sqrt(_one_less(use, use.square(x))))
asinh = _over(lambda use, x, y: use.sqrt(use.add(use.square(x), 1.0)))
atan = _over(lambda use, x, y: use.add(use.square(x), 1.0))
atanh = _over(lambda use, x, y: _one_less(use, use.square(x)))
cos = _scaled(lambda use, x, y: use.negative(use.sin(x)))
cosh = _scaled(lambda use, x, y: use.sinh(x))
sin = _scaled(lambda use, x, y: use.cos(x))
sinh = _scaled(lambda use, x, y: use.cosh(x))
tan = _scaled(lambda use, x, y: use.add(use.square(y), 1.0))
tanh = _scaled(lambda use, x, y: _one_less(use, use.square(y)))
exp = _scaled(lambda use, x, y: y)
log = _over(lambda use, x, y: x)
sqrt = _over(lambda use, x, y: use.multiply(y, 2.0))
rsqrt = _scaled(lambda use, x, y: use.multiply(use.divide(y, x), -0.5))
sigmoid = _scaled(lambda use, x, y: use.multiply(y, _one_less(use, y)))
erf = _scaled(lambda use, x, y: use.multiply(use.exp(use.negative(use.square(x))), 2 / math.sqrt(math.pi)))


def negative(use: Backward) -> Gradients:
    return (use.negative(use.grad),)


def clip(use: Backward) -> Gradients:
    """The gradient passes where nothing was cut off."""
    return use.chosen(use.equal(use.result, use.arg(0)), use.grad), None, None


def astype(use: Backward) -> Gradients:
    return (use.astype(use.grad, use.info(use.arg(0)).dtype) if use.is_float(0) else None,)


# ---------------------------------------------------------------------------------- two tensors


def add(use: Backward) -> Gradients:
    return use.fitted(use.grad, 0), use.fitted(use.grad, 1)


def subtract(use: Backward) -> Gradients:
    return use.fitted(use.grad, 0), use.fitted(use.negative(use.grad), 1)


def multiply(use: Backward) -> Gradients:
    a, b = use.call.args
    return use.fitted(use.multiply(use.grad, b), 0), use.fitted(use.multiply(use.grad, a), 1)


def divide(use: Backward) -> Gradients:
    if not use.is_float(0):
        return None, None
    share = use.divide(use.grad, use.arg(1))
    return use.fitted(share, 0), use.fitted(use.negative(use.multiply(share, use.result)), 1)


def remainder(use: Backward) -> Gradients:
    """x1 - floor(x1 / x2) * x2; the quotient is constant nearly everywhere."""
    if not use.is_float(0):
        return None, None
    whole = use.floor_divide(*use.call.args)
    return use.fitted(use.grad, 0), use.fitted(use.negative(use.multiply(use.grad, whole)), 1)


def power(use: Backward) -> Gradients:
    a, b = use.call.args
    if not use.is_float(0):
        return None, None
    base = use.multiply(b, use.power(a, use.subtract(b, 1.0)))
    exponent = use.multiply(use.result, use.log(a))
    return use.fitted(use.multiply(use.grad, base), 0), use.fitted(use.multiply(use.grad, exponent), 1)


def maximum(use: Backward) -> Gradients:
    """Give the gradient to the first tensor's element where both are equal."""
    first = use.greater_equal(*use.call.args)
    return use.fitted(use.chosen(first, use.grad), 0), use.fitted(use.chosen(use.logical_not(first), use.grad), 1)


def minimum(use: Backward) -> Gradients:
    """Give the gradient to the first tensor's element where both are equal."""
    first = use.less_equal(*use.call.args)
    return use.fitted(use.chosen(first, use.grad), 0), use.fitted(use.chosen(use.logical_not(first), use.grad), 1)


def log_add_exp(use: Backward) -> Gradients:
    shares = [use.multiply(use.grad, use.exp(use.subtract(x, use.result))) for x in use.call.args]
    return use.fitted(shares[0], 0), use.fitted(shares[1], 1)


def atan2(use: Backward) -> Gradients:
    y, x = use.call.args
    share = use.divide(use.grad, use.add(use.square(y), use.square(x)))
    return use.fitted(use.multiply(share, x), 0), use.fitted(use.negative(use.multiply(share, y)), 1)


def fma(use: Backward) -> Gradients:
    a, b, _ = use.call.args
    return use.multiply(use.grad, b), use.multiply(use.grad, a), use.grad


def where(use: Backward) -> Gradients:
    condition = use.arg(0)
    if not use.is_float(1):
        return None, None, None
    other = use.chosen(use.logical_not(condition), use.grad)
    return None, use.fitted(use.chosen(condition, use.grad), 1), use.fitted(other, 2)


# --------------------------------------------------------------------------------- activations


def relu(use: Backward) -> Gradients:
    return (use.chosen(use.greater(use.arg(0), use.zeros_like(use.arg(0))), use.grad),)


def relu6(use: Backward) -> Gradients:
    return (use.chosen(use.equal(use.result, use.arg(0)), use.grad),)


def gelu(use: Backward) -> Gradients:
    """(1 + erf(x / sqrt 2)) / 2 + x * density(x)."""
    x = use.arg(0)
    below = use.multiply(use.add(use.erf(use.multiply(x, math.sqrt(0.5))), 1.0), 0.5)
    density = use.multiply(use.exp(use.multiply(use.square(x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return (use.multiply(use.grad, use.add(below, use.multiply(x, density))),)


def gelu_tanh(use: Backward) -> Gradients:
    x, factor, cubic = use.arg(0), math.sqrt(2 / math.pi), 0.044715
    squared = use.square(x)
    inner = use.multiply(use.multiply(x, use.add(use.multiply(squared, cubic), 1.0)), factor)
    turned = use.tanh(inner)
    slope = use.multiply(use.add(use.multiply(squared, 3 * cubic), 1.0), factor)
    steep = use.multiply(use.multiply(use.multiply(x, 0.5), _one_less(use, use.square(turned))), slope)
    return (use.multiply(use.grad, use.add(use.multiply(use.add(turned, 1.0), 0.5), steep)),)


def silu(use: Backward) -> Gradients:
    share = use.sigmoid(use.arg(0))
    return (use.multiply(use.grad, use.add(share, use.multiply(use.result, _one_less(use, share)))),)


def selu(use: Backward) -> Gradients:
    x, alpha, scale = use.arg(0), 1.6732632423543772, 1.0507009873554805
    below = use.multiply(use.exp(x), alpha * scale)
    above = use.multiply(use.ones_like(x), scale)
    return (use.multiply(use.grad, use.where(use.greater(x, use.zeros_like(x)), above, below)),)


def leakyrelu(use: Backward) -> Gradients:
    x = use.arg(0)
    below = use.multiply(use.grad, use.attrs["alpha"])
    return (use.where(use.greater(x, use.zeros_like(x)), use.grad, below),)


def softplus(use: Backward) -> Gradients:
    x, beta, threshold = use.arg(0), use.attrs["beta"], use.attrs["threshold"]
    raised = use.multiply(x, beta)
    bent = use.multiply(use.grad, use.sigmoid(raised))
    return (use.where(use.greater(raised, use.multiply(use.ones_like(x), threshold)), use.grad, bent),)


def prelu(use: Backward) -> Gradients:
    x, alpha = use.call.args
    (axis,) = use.axes(use.attrs["axis"], x)
    rank = use.rank(x)
    weights = use.expand_dims(alpha, [d for d in range(rank) if d != axis]) if rank > 1 else alpha
    above = use.greater(x, use.zeros_like(x))
    data = use.where(above, use.grad, use.multiply(use.grad, weights))
    each = use.chosen(use.logical_not(above), use.multiply(use.grad, x))
    others = [d for d in range(rank) if d != axis]
    return data, use.sum(each, others) if others else each
