"""Operators of neural networks."""

from __future__ import annotations

from compiler.errors import IRError
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.conv import (
    conv1d,
    conv2d,
    conv2d_nchw,
    conv2d_nhwc,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv2d_nchw,
)
from compiler.topi.elemwise import sigmoid, tanh
from compiler.topi.matrix import batch_matmul, dense, matmul
from compiler.topi.norm import batch_norm, layer_norm, log_softmax, rms_norm, softmax
from compiler.topi.pad import pad
from compiler.topi.pool import adaptive_pool, global_pool, pool1d, pool2d
from compiler.topi.reduction import normal_axes
from compiler.topi.transform import reshape

__all__ = [
    "adaptive_pool", "batch_matmul", "batch_norm", "bias_add", "conv1d", "conv2d", "conv2d_nchw", "conv2d_nhwc",
    "dense", "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc", "flatten", "gelu", "global_pool",
    "group_conv2d_nchw", "layer_norm", "leaky_relu", "log_softmax", "matmul", "pad", "pool1d", "pool2d", "prelu",
    "relu", "rms_norm", "scale_shift_nchw", "scale_shift_nhwc", "sigmoid", "softmax", "tanh", "upsampling",
]  # fmt: skip


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


def flatten(data: Tensor) -> Tensor:
    """`data` as a matrix: the first dimension stays, the others become one."""
    if data.ndim < 1:
        raise IRError("flatten of a tensor without dimensions" + at(caller_span()))
    return reshape(data, (ops.as_int(data.shape[0]), -1)) if data.ndim != 2 else data


def upsampling(
    data: Tensor, scale_h: int, scale_w: int, layout: str = "NCHW", method: str = "nearest_neighbor"
) -> Tensor:
    """Each pixel `scale_h` times down and `scale_w` times across. `layout` is NCHW or NHWC; the nearest neighbour is
    the one method. Raises IRError on another, and on scales that are not positive integers."""
    if layout not in ("NCHW", "NHWC") or method != "nearest_neighbor" or data.ndim != 4:
        raise IRError(f"upsampling of {shape_text(data.shape)} in {layout!r} by {method!r}" + at(caller_span()))
    if any(not isinstance(s, int) or s < 1 for s in (scale_h, scale_w)):
        raise IRError(f"upsampling by {scale_h!r} and {scale_w!r}, not positive integers" + at(caller_span()))
    scales = [{"H": scale_h, "W": scale_w}.get(name, 1) for name in layout]
    shape = [ops.mul(size, s) for size, s in zip(data.shape, scales)]

    def value(*i: Var) -> PrimExpr:
        return data(*(index if s == 1 else ops.floordiv(index, s) for index, s in zip(i, scales)))

    result: Tensor = compute(shape, value, name="upsampling", tag="injective")
    return result
