"""Activations, biases and scales: elementwise operators of neural networks."""

from __future__ import annotations

from compiler.errors import IRError
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
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
    """x where positive, else x times its channel's slope. Raises IRError unless `slope` has the size of `axis`."""
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
                f"{shape_text(data.shape)} needs {shape_text([data.shape[dim]])}" + at(caller_span())
            )
    return dim
