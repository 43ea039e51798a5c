"""Products of quantised tensors: 8-bit integers go into the kernels, int32 sums come out.

Zero points are not subtracted first. Their part of the sums is a product with sums over the other operand, which are
constants for weights.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.frontend.onnx.converters.conv import WindowMoves, channel_vector, conv_window, convolved
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.tir import ops


def int32(g: GraphBuilder, x: RelaxExpr) -> RelaxExpr:
    """Integers as int32."""
    return x if g.info(x).dtype == "int32" else g.emit(op.astype(x, "int32"))


def no_zero(zero: TensorValue | None) -> bool:
    """Whether a zero point is known to be 0."""
    return zero is None or (zero.is_constant and zero.array is not None and not zero.array.any())


def shifted(g: GraphBuilder, x: TensorValue, zero: TensorValue | None, axis: int | None) -> RelaxExpr:
    """Subtract the zero point, one number or one along `axis`, from int32 numbers."""
    data = int32(g, g.expr(x))
    return data if no_zero(zero) or zero is None else g.emit(op.subtract(data, _along(g, zero, g.rank(x), axis)))


def _along(g: GraphBuilder, zero: TensorValue, rank: int, axis: int | None) -> RelaxExpr:
    """A zero point as int32: one number, or numbers along `axis` of a tensor of `rank` dimensions."""
    expr = int32(g, g.expr(zero))
    if g.rank(zero) == 1:
        if g.sizes(zero) == [1]:
            return g.emit(op.reshape(expr, ()))
        if axis is not None:
            return g.emit(op.reshape(expr, tuple([-1 if d == axis % rank else 1 for d in range(rank)])))
    return expr


def centred(
    g: GraphBuilder, x: TensorValue, zero: TensorValue | None, axis: int
) -> tuple[TensorValue, TensorValue | None]:
    """Subtract the zero point from constant integers if the result fits int8; others come back unchanged."""
    if no_zero(zero):
        return x, None
    assert zero is not None
    if not x.is_constant or not zero.is_constant or zero.array is None or x.array is None or zero.array.ndim > 1:
        return x, zero
    shift = zero.array.astype(np.int32)
    if shift.size > 1:
        shift = shift.reshape([-1 if d == axis % x.array.ndim else 1 for d in range(x.array.ndim)])
    found = x.array.astype(np.int32) - shift.reshape(() if shift.size == 1 else shift.shape)
    if found.size and (found.min() < -128 or found.max() > 127):
        return x, zero
    return g.known(found.astype(np.int8), int(TensorProto.INT8)), None


def summed(g: GraphBuilder, x: TensorValue, axes: list[int]) -> RelaxExpr:
    """Sum int32 over axes, which stay as dimensions of size 1. Sums of constants are constants."""
    if x.is_constant and x.array is not None:
        return g.expr(g.known(x.array.astype(np.int32).sum(tuple(axes), dtype=np.int32, keepdims=True)))
    return g.emit(op.sum(int32(g, g.expr(x)), axes, True))


def conv_sums(
    g: GraphBuilder, node: Node, x: TensorValue, w: TensorValue, xz: TensorValue | None, wz: TensorValue | None,
    bias: TensorValue | None = None,
) -> RelaxExpr:  # fmt: skip
    """int32 sums of a convolution of quantised images and filters, and of a bias along the filters."""
    w, wz = centred(g, w, wz, 0)
    added = None if bias is None else channel_vector(g, bias, g.rank(x))
    if no_zero(xz) and no_zero(wz):
        total = convolved(g, node, g.expr(x), w, "int32")
    elif no_zero(wz) and xz is not None and xz.is_constant and xz.array is not None and xz.array.size == 1:
        total, zeros = _padded_sums(g, node, x, w, int(xz.array.reshape(-1)[0]))
        if added is None:
            return g.emit(op.subtract(total, zeros))
        added = g.emit(op.subtract(added, zeros))  # of constants, a constant
    else:
        total = _corrected_sums(g, node, x, w, xz, wz)
    return total if added is None else g.emit(op.add(total, added))


def _corrected_sums(
    g: GraphBuilder, node: Node, x: TensorValue, w: TensorValue, xz: TensorValue | None, wz: TensorValue | None
) -> RelaxExpr:
    """Subtract the contribution of zero points from the sums.
    It is a convolution with ones, which respects the image's border."""
    rank, groups, image = g.rank(x), node.int("group", 1), g.expr(x)
    each = g.emit(op.ones(g.shape_expr([groups, *g.shape(w)[1:]]), "int8"))
    ones = g.emit(op.ones(g.shape_expr([1, *g.shape(x)[1:]]), "int8"))

    def spread(sums: RelaxExpr) -> RelaxExpr:
        outs = ops.as_int(g.shape(w)[0])
        if groups == 1 or outs == groups:
            return sums
        if outs is None:
            node.fail("the number of filters must be known")
        return g.emit(op.repeat(sums, outs // groups, 1))

    total = convolved(g, node, image, w, "int32")
    image_zero = None if xz is None or no_zero(xz) else _along(g, xz, rank, None)
    filter_zero = None if wz is None or no_zero(wz) else _along(g, wz, rank, 1)
    if image_zero is not None:
        beside = convolved(g, node, ones, w, "int32")
        if filter_zero is not None:
            both = spread(convolved(g, node, ones, g.value(each), "int32"))
            beside = g.emit(op.subtract(beside, g.emit(op.multiply(both, filter_zero))))
        total = g.emit(op.subtract(total, g.emit(op.multiply(beside, image_zero))))
    if filter_zero is not None:
        seen = spread(convolved(g, node, image, g.value(each), "int32"))
        total = g.emit(op.subtract(total, g.emit(op.multiply(seen, filter_zero))))
    return total


def _padded_sums(g: GraphBuilder, node: Node, x: TensorValue, w: TensorValue, zero: int) -> tuple[RelaxExpr, RelaxExpr]:
    """Return the sums, and the part of an images' known zero point in them: one number for each filter."""
    rank = g.rank(x)
    window, image = conv_window(g, node, x, w), g.expr(x)
    if any(window.pads):  # what lies around an image is 0, which is the zero point
        half = window.rank
        around = [0] * 4 + [n for d in range(half) for n in (window.pads[d], window.pads[half + d])]
        image = g.emit(op.nn.pad(image, around, "constant", zero))
        window = WindowMoves(half, window.strides, window.dilations, [0] * (2 * half))
    total = convolved(g, node, image, w, "int32", window)
    weights = g.emit(op.reshape(summed(g, w, list(range(1, rank))), (1, -1, *[1] * (rank - 2))))
    return total, g.emit(op.multiply(weights, g.full(zero, "int32")))


def matmul_sums(
    g: GraphBuilder, a: TensorValue, b: TensorValue, az: TensorValue | None, bz: TensorValue | None
) -> RelaxExpr:
    """int32 sums of a product of quantised matrices."""
    a, az = centred(g, a, az, -2)
    b, bz = centred(g, b, bz, -1)
    ranks = g.rank(a), g.rank(b)
    if no_zero(az) and no_zero(bz):
        return g.emit(op.matmul(g.expr(a), g.expr(b), out_dtype="int32"))
    if min(ranks) < 2 or any(zero is not None and g.rank(zero) > 1 for zero in (az, bz)):
        left = shifted(g, a, az, ranks[0] - 2 if ranks[0] > 1 else None)
        return g.emit(op.matmul(left, shifted(g, b, bz, ranks[1] - 1), out_dtype="int32"))
    total = g.emit(op.matmul(g.expr(a), g.expr(b), out_dtype="int32"))
    left_zero = None if az is None or no_zero(az) else _along(g, az, 2, 0)
    right_zero = None if bz is None or no_zero(bz) else _along(g, bz, 2, 1)
    columns = summed(g, b, [ranks[1] - 2])
    if right_zero is not None and left_zero is not None:
        size = g.expr(g.vector([g.shape(b)[-2]]))
        depth = g.emit(op.reshape(int32(g, size), ()))
        columns = g.emit(op.subtract(columns, g.emit(op.multiply(depth, right_zero))))
    if left_zero is not None:
        total = g.emit(op.subtract(total, g.emit(op.multiply(left_zero, columns))))
    if right_zero is not None:
        rows = summed(g, a, [ranks[0] - 1])
        total = g.emit(op.subtract(total, g.emit(op.multiply(rows, right_zero))))
    return total


@converter("MatMulInteger")
def matmul_integer(g: GraphBuilder, node: Node) -> Result:
    """Multiply quantised matrices; the result is int32."""
    return matmul_sums(g, node.value(0), node.value(1), node.optional(2), node.optional(3))


@converter("ConvInteger")
def conv_integer(g: GraphBuilder, node: Node) -> Result:
    """Move quantised filters over quantised images; the result is int32."""
    return conv_sums(g, node, node.value(0), node.value(1), node.optional(2), node.optional(3))


__all__ = ["centred", "conv_sums", "int32", "matmul_sums", "no_zero", "shifted", "summed"]
