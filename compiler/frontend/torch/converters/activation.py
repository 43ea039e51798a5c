"""Activation functions, softmax, and dropout, which does nothing when a model infers."""

from __future__ import annotations

from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.converters.elementwise import dtype_or, number
from compiler.frontend.torch.table import converts
from compiler.relax import op


@converts("aten.relu.default")
def relu(c: Conversion, self: Any) -> Any:
    return op.nn.relu(self)


@converts("aten.relu6.default")
def relu6(c: Conversion, self: Any) -> Any:
    return op.nn.relu6(self)


@converts("aten.silu.default")
def silu(c: Conversion, self: Any) -> Any:
    return op.nn.silu(self)


@converts("aten.gelu.default")
def gelu(c: Conversion, self: Any, approximate: Any) -> Any:
    return op.nn.gelu_tanh(self) if approximate == "tanh" else op.nn.gelu(self)


@converts("aten.selu.default")
def selu(c: Conversion, self: Any) -> Any:
    return op.nn.selu(self)


@converts("aten.leaky_relu.default")
def leaky_relu(c: Conversion, self: Any, negative_slope: Any) -> Any:
    return op.nn.leakyrelu(self, float(negative_slope))


@converts("aten.elu.default")
def elu(c: Conversion, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    below = op.multiply(
        op.subtract(op.exp(op.multiply(self, number(c, input_scale, self))), number(c, 1.0, self)),
        number(c, alpha * scale, self),
    )
    above = self if scale == 1 else op.multiply(self, number(c, scale, self))
    return op.where(op.greater(self, number(c, 0.0, self)), above, below)


@converts("aten.celu.default")
def celu(c: Conversion, self: Any, alpha: Any) -> Any:
    return elu(c, self, alpha, 1.0, 1.0 / alpha)


@converts("aten.hardtanh.default")
def hardtanh(c: Conversion, self: Any, min_val: Any, max_val: Any) -> Any:
    if (min_val, max_val) == (0, 6):
        return op.nn.relu6(self)
    return op.clip(self, min_val, max_val)


def _hard_sigmoid(c: Conversion, x: Any) -> Any:
    """A line from 0 at -3 to 1 at 3."""
    shifted = op.clip(op.add(x, number(c, 3.0, x)), 0.0, 6.0)
    return op.multiply(shifted, number(c, 1.0 / 6.0, x))


@converts("aten.hardsigmoid.default")
def hardsigmoid(c: Conversion, self: Any) -> Any:
    return _hard_sigmoid(c, self)


@converts("aten.hardswish.default")
def hardswish(c: Conversion, self: Any) -> Any:
    return op.multiply(self, _hard_sigmoid(c, self))


@converts("aten.softplus.default")
def softplus(c: Conversion, self: Any, beta: Any, threshold: Any) -> Any:
    return op.nn.softplus(self, float(beta), float(threshold))


@converts("aten.mish.default")
def mish(c: Conversion, self: Any) -> Any:
    return op.multiply(self, op.tanh(op.nn.softplus(self)))


@converts("aten.log_sigmoid.default")
def log_sigmoid(c: Conversion, self: Any) -> Any:
    return op.negative(op.nn.softplus(op.negative(self), 1.0, 40.0))


@converts("aten.log_sigmoid_forward.default")
def log_sigmoid_forward(c: Conversion, self: Any) -> Any:
    return c.emit(log_sigmoid(c, self)), None


@converts("aten.softsign.default")
def softsign(c: Conversion, self: Any) -> Any:
    return op.divide(self, op.add(op.abs(self), number(c, 1.0, self)))


@converts("aten.threshold.default")
def threshold(c: Conversion, self: Any, threshold: Any, value: Any) -> Any:
    return op.where(op.greater(self, number(c, threshold, self)), self, number(c, value, self))


@converts("aten.hardshrink.default")
def hardshrink(c: Conversion, self: Any, lambd: Any) -> Any:
    return op.where(op.greater(op.abs(self), number(c, lambd, self)), self, number(c, 0.0, self))


@converts("aten.softshrink.default")
def softshrink(c: Conversion, self: Any, lambd: Any) -> Any:
    zero = number(c, 0.0, self)
    smaller = op.maximum(op.subtract(op.abs(self), number(c, lambd, self)), zero)
    return op.multiply(op.sign(self), smaller)


@converts("aten.tanhshrink.default")
def tanhshrink(c: Conversion, self: Any) -> Any:
    return op.subtract(self, op.tanh(self))


@converts("aten.logit.default", "aten.special_logit.default")
def logit(c: Conversion, self: Any, eps: Any) -> Any:
    x = c.floating(self)
    if eps is not None:
        x = c.emit(op.clip(x, float(eps), 1.0 - float(eps)))
    return op.log(op.divide(x, op.subtract(number(c, 1.0, x), x)))


@converts("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(c: Conversion, self: Any, weight: Any) -> Any:
    ndim = c.ndim(self)
    if c.ndim(weight) == ndim:
        slope = weight
    else:
        slope = c.reshaped(weight, [1, -1, *([1] * (ndim - 2))] if ndim > 1 else [1])
    return op.where(op.greater(self, number(c, 0.0, self)), self, op.multiply(self, slope))


@converts("aten.glu.default")
def glu(c: Conversion, self: Any, dim: Any) -> Any:
    first, gate = c.items(op.split(self, 2, c.axis(dim, c.ndim(self))), 2)
    return op.multiply(first, op.sigmoid(gate))


# --------------------------------------------------------------------------------------- softmax


@converts("aten.softmax.int", "aten.special_softmax.int")
def softmax(c: Conversion, self: Any, dim: Any, dtype: Any) -> Any:
    x = c.cast(self, dtype_or(dtype, c.dtype(self)))
    return op.nn.softmax(x, int(dim)) if c.ndim(x) else op.ones_like(x)


@converts("aten._softmax.default", "aten._safe_softmax.default")
def plain_softmax(c: Conversion, self: Any, dim: Any) -> Any:
    return c.cast(softmax(c, self, dim, None), c.out_dtype())


@converts("aten.log_softmax.int", "aten.special_log_softmax.int")
def log_softmax(c: Conversion, self: Any, dim: Any, dtype: Any) -> Any:
    return op.nn.log_softmax(c.cast(self, dtype_or(dtype, c.dtype(self))), int(dim))


@converts("aten._log_softmax.default")
def plain_log_softmax(c: Conversion, self: Any, dim: Any) -> Any:
    return c.cast(op.nn.log_softmax(self, int(dim)), c.out_dtype())


# --------------------------------------------------------------------------------------- dropout


@converts("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
          "aten.feature_alpha_dropout.default")  # fmt: skip
def dropout(c: Conversion, input: Any, p: Any, train: Any) -> Any:
    if train and p:
        c.refuse("dropout of a model that trains is random; export it after model.eval()")
    return input


@converts("aten.native_dropout.default")
def native_dropout(c: Conversion, input: Any, p: Any, train: Any) -> Any:
    return dropout(c, input, p, train), None


