"""Activations, biases and scales: elementwise operators of neural networks."""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.errors import IRError
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.reduction import normal_axes


def relu(x: Tensor) -> Tensor:
    """max(x, 0), elementwise."""
    result: Tensor = compute(x.shape, lambda *i: ops.maximum(x(*i), const(0, x.dtype)), name="T_relu", tag="elemwise")
    return result


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x where positive, else alpha * x."""

    def value(*i: Var) -> PrimExpr:
        return intrin.select(x(*i) > const(0, x.dtype), x(*i), x(*i) * const(alpha, x.dtype))

    result: Tensor = compute(x.shape, value, name="T_leaky_relu", tag="elemwise")
    return result


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """x where positive, else x times its channel's slope.
    Raises IRError unless `slope` has the size of `axis`."""
    dim = _channel("prelu", x, axis, slope)

    def value(*i: Var) -> PrimExpr:
        return intrin.select(x(*i) > const(0, x.dtype), x(*i), x(*i) * slope(i[dim]))

    result: Tensor = compute(x.shape, value, name="T_prelu", tag="broadcast")
    return result


def gelu(x: Tensor) -> Tensor:
    """x * (1 + erf(x / sqrt(2))) / 2, elementwise."""

    def value(*i: Var) -> PrimExpr:
        half, root = const(0.5, x.dtype), const(0.5**0.5, x.dtype)
        return x(*i) * (half + half * intrin.erf(x(*i) * root))

    result: Tensor = compute(x.shape, value, name="T_gelu", tag="elemwise")
    return result


def _elementwise(name: str, scalar: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    result: Tensor = compute(x.shape, lambda *i: scalar(x(*i)), name=f"T_{name}", tag="elemwise")
    return result


def gelu_tanh(x: Tensor) -> Tensor:
    """gelu by tanh: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³))) / 2."""

    def scalar(v: PrimExpr) -> PrimExpr:
        half, root, cube = const(0.5, x.dtype), const(math.sqrt(2 / math.pi), x.dtype), const(0.044715, x.dtype)
        return v * (half + half * intrin.tanh(root * (v + cube * v * v * v)))

    return _elementwise("gelu_tanh", scalar, x)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), elementwise."""
    return _elementwise("silu", lambda v: v * intrin.sigmoid(v), x)


def selu(x: Tensor) -> Tensor:
    """The self-normalising unit: scale * (x where positive, else alpha * (exp(x) - 1))."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805

    def scalar(v: PrimExpr) -> PrimExpr:
        zero = const(0.0, x.dtype)
        low = const(alpha, x.dtype) * (intrin.exp(ops.minimum(v, zero)) - const(1.0, x.dtype))
        return const(scale, x.dtype) * (ops.maximum(v, zero) + low)

    return _elementwise("selu", scalar, x)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha * (exp(x) - 1)."""

    def scalar(v: PrimExpr) -> PrimExpr:
        zero = const(0.0, x.dtype)
        low = const(alpha, x.dtype) * (intrin.exp(ops.minimum(v, zero)) - const(1.0, x.dtype))
        return intrin.select(v > zero, v, low)

    return _elementwise("elu", scalar, x)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above `threshold`."""

    def scalar(v: PrimExpr) -> PrimExpr:
        scaled = v * const(beta, x.dtype)
        near = intrin.log1p(intrin.exp(ops.minimum(scaled, const(threshold, x.dtype)))) / const(beta, x.dtype)
        return intrin.select(scaled > const(threshold, x.dtype), v, near)

    return _elementwise("softplus", scalar, x)


def relu6(x: Tensor) -> Tensor:
    """x limited to [0, 6]."""
    return _elementwise("relu6", lambda v: ops.minimum(ops.maximum(v, const(0, x.dtype)), const(6, x.dtype)), x)


def hard_sigmoid(x: Tensor, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """alpha * x + beta limited to [0, 1]."""

    def scalar(v: PrimExpr) -> PrimExpr:
        line = v * const(alpha, x.dtype) + const(beta, x.dtype)
        return ops.maximum(ops.minimum(line, const(1.0, x.dtype)), const(0.0, x.dtype))

    return _elementwise("hard_sigmoid", scalar, x)


def hard_swish(x: Tensor) -> Tensor:
    """x * hard_sigmoid(x)."""

    def scalar(v: PrimExpr) -> PrimExpr:
        line = ops.maximum(ops.minimum(v + const(3.0, x.dtype), const(6.0, x.dtype)), const(0.0, x.dtype))
        return v * line * const(1 / 6, x.dtype)

    return _elementwise("hard_swish", scalar, x)


def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """data plus its channel's bias. Raises IRError unless `bias` has the size of `axis`."""
    dim = _channel("bias_add", data, axis, bias)
    result: Tensor = compute(data.shape, lambda *i: data(*i) + bias(i[dim]), name="T_bias_add", tag="broadcast")
    return result


def scale_shift_nchw(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """data * scale[c] + shift[c] of images in NCHW layout."""
    return _scale_shift(data, scale, shift, 1)


def scale_shift_nhwc(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """data * scale[c] + shift[c] of images in NHWC layout."""
    return _scale_shift(data, scale, shift, 3)


def _scale_shift(data: Tensor, scale: Tensor, shift: Tensor, axis: int) -> Tensor:
    dim = _channel("scale_shift", data, axis, scale, shift)
    result: Tensor = compute(
        data.shape, lambda *i: data(*i) * scale(i[dim]) + shift(i[dim]), name="ScaleShift", tag="scale_shift,broadcast"
    )
    return result


def _channel(op: str, data: Tensor, axis: int, *vectors: Tensor) -> int:
    (dim,) = normal_axes(op, axis, data.ndim)
    for vector in vectors:
        if shape_text(vector.shape) != shape_text([data.shape[dim]]):
            raise IRError(
                f"{op}: {vector.name!r} is {shape_text(vector.shape)}, axis {dim} of {data.name!r} "
                f"{shape_text(data.shape)} needs {shape_text([data.shape[dim]])}" + here()
            )
    return dim
