"""Quantisation: linear, per tensor, per axis and in blocks.

Products of quantised tensors stay in integers.
"""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from compiler.frontend.onnx.converters.cast import plain_numbers, small_float
from compiler.frontend.onnx.converters.conv import channel_vector
from compiler.frontend.onnx.converters.integers import conv_sums, int32, matmul_sums
from compiler.frontend.onnx.element_types import SMALL_FLOATS, SMALL_INTS, dtype_of
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import i64
from compiler.frontend.onnx.values import Deferred, Quantized, TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_RANGES = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535),
    "int32": (-(2**31), 2**31 - 1),
}  # fmt: skip


def _spread(g: GraphBuilder, value: TensorValue, x: RelaxExpr, axis: int, block: int) -> RelaxExpr:
    """Scales or zero points shaped so that they broadcast over `x`; in blocks, each repeated."""
    rank, held = g.rank(x), g.rank(value)
    expr = plain_numbers(g, value)
    if held == 0:
        return expr
    if held == 1 and rank != 1:
        if g.sizes(value) == [1]:
            return g.emit(op.reshape(expr, ()))
        shape = [1] * rank
        shape[axis] = -1
        return g.emit(op.reshape(expr, tuple(shape)))
    if block or (held == rank and any(_differ(a, b) for a, b in zip(g.shape(expr), g.shape(x)))):
        if g.sizes(value) == [1]:
            return expr
        return g.te(_blocks, expr, g.shape(x), axis, block, name="blocks")
    return expr


def _differ(a: PrimExpr, b: PrimExpr) -> bool:
    first, second = ops.as_int(a), ops.as_int(b)
    return first is not None and second is not None and first != second


def _blocks(scale: Tensor, shape: Any, axis: int, block: int) -> Tensor:
    if not block:
        size, count = ops.as_expr(shape[axis]), ops.as_expr(scale.shape[axis])
        block = -(-int(ops.as_int(size) or 1) // int(ops.as_int(count) or 1))

    def at(*i: PrimExpr) -> Any:
        return scale(*[ops.floordiv(p, i64(block)) if d == axis else p for d, p in enumerate(i)])

    return elements(tuple(shape), at, name="blocks")


@converter("QuantizeLinear")
def quantize(g: GraphBuilder, node: Node) -> Result:
    """Divide by a scale, round to even, add a zero point, and limit to the type's range."""
    x, scale, zero = node.value(0), node.value(1), node.optional(2)
    elem = zero.elem if zero is not None else node.int("output_dtype", 0) or int(TensorProto.UINT8)
    precision = node.int("precision", 0)
    data = g.expr(x)
    rank = g.rank(data)
    axis = node.int("axis", 1) % rank if rank else 0
    block = node.int("block_size", 0)
    kind = dtype_of(precision) if precision else (scale.dtype if scale.elem not in SMALL_FLOATS else "float32")
    if kind in ("float16", "bfloat16") and not precision:
        kind = "float32" if x.dtype == "float32" else kind
    plain = elem not in SMALL_FLOATS and elem not in SMALL_INTS and dtype_of(elem) in ("int8", "uint8")
    if plain and x.dtype == scale.dtype == "float32" and not block and g.rank(scale) <= 1 and rank and not precision:
        low = g.expr(zero) if zero is not None else g.full(0, dtype_of(elem))
        where = axis if g.rank(scale) == 1 else -1
        return g.value(op.quantize(data, g.expr(scale), int32(g, low), where, dtype_of(elem)), elem)
    if g.info(data).dtype != kind:
        data = g.emit(op.astype(data, kind))
    by = _spread(g, scale, data, axis, block)
    by = by if g.info(by).dtype == kind else g.emit(op.astype(by, kind))
    ratio = g.emit(op.divide(data, by))
    if elem in SMALL_FLOATS:
        return g.value(small_float(g, ratio, elem, bool(node.int("saturate", 1))), elem)
    if g.info(ratio).dtype in ("float16", "bfloat16"):
        ratio = g.emit(op.astype(ratio, "float32"))
    whole = g.emit(op.round(ratio))
    dtype = dtype_of(elem)
    least, most = _limits(elem)
    if zero is not None:
        shift = _spread(g, zero, data, axis, block)
        whole = g.emit(op.add(whole, g.emit(op.astype(shift, g.info(whole).dtype))))
    return g.value(op.astype(g.emit(op.clip(whole, least, most)), dtype), elem)


def _limits(elem: int) -> tuple[int, int]:
    if elem in SMALL_INTS:
        low, high, _ = SMALL_INTS[elem]
        return low, high
    return _RANGES[dtype_of(elem)]


@converter("DequantizeLinear")
def dequantize(g: GraphBuilder, node: Node) -> Result:
    """Subtract a zero point and multiply by a scale."""
    x, scale, zero = node.value(0), node.value(1), node.optional(2)
    rank = g.rank(x)
    axis = node.int("axis", 1) % rank if rank else 0
    block = node.int("block_size", 0)
    to = node.int("output_dtype", 0) or (
        scale.elem if scale.elem != TensorProto.FLOAT8E8M0 else int(TensorProto.FLOAT)
    )  # fmt: skip
    wanted = dtype_of(to)
    plain = x.elem not in SMALL_FLOATS and x.elem not in SMALL_INTS and x.dtype in ("int8", "uint8", "int32")
    if plain and wanted == scale.dtype == "float32" and not block and g.rank(scale) <= 1 and rank:
        where = axis if g.rank(scale) == 1 else -1
        low = g.expr(zero) if zero is not None else g.full(0, x.dtype)

        def floats() -> RelaxExpr:
            return g.emit(op.dequantize(g.expr(x), g.expr(scale), low, where, "float32"))

        held = Quantized(x, scale, zero, None if where < 0 or g.sizes(scale) == [1] else where)
        return TensorValue("float32", to, deferred=Deferred(floats, g.shape(x)), integers=held)
    data = plain_numbers(g, x)
    if g.info(data).dtype not in ("float32", "float16", "bfloat16"):
        data = int32(g, data)
        if zero is not None:
            data = g.emit(op.subtract(data, int32(g, _spread(g, zero, data, axis, block))))
    elif zero is not None:
        data = g.emit(op.subtract(data, _spread(g, zero, data, axis, block)))
    by = _spread(g, scale, data, axis, block)
    data = g.emit(op.astype(data, "float32"))
    by = by if g.info(by).dtype == "float32" else g.emit(op.astype(by, "float32"))
    made = g.emit(op.multiply(data, by))
    return made if wanted == "float32" else op.astype(made, wanted)


@converter("DynamicQuantizeLinear")
def dynamic_quantize(g: GraphBuilder, node: Node) -> Result:
    """Quantise to uint8 by the range of the elements. Scale and zero point are results too."""
    x = g.expr(node.value(0))
    zero = g.full(0, "float32")
    high = g.emit(op.maximum(g.emit(op.max(x)), zero))
    low = g.emit(op.minimum(g.emit(op.min(x)), zero))
    scale = g.emit(op.divide(g.emit(op.subtract(high, low)), g.full(255, "float32")))
    safe = g.emit(op.where(g.emit(op.equal(scale, zero)), g.full(1, "float32"), scale))
    shift = g.emit(op.round(g.emit(op.clip(g.emit(op.divide(g.emit(op.subtract(zero, low)), safe)), 0, 255))))
    whole = g.emit(op.add(g.emit(op.round(g.emit(op.divide(x, safe)))), shift))
    made = g.emit(op.astype(g.emit(op.clip(whole, 0, 255)), "uint8"))
    return [made, scale, g.emit(op.astype(shift, "uint8"))]


def requantized(
    g: GraphBuilder, total: RelaxExpr, scale: RelaxExpr, out_scale: TensorValue, zero: TensorValue, axis: int
) -> TensorValue:
    """int32 sums scaled, rounded and shifted into the range of the zero point's type."""
    by = g.expr(out_scale)
    rank = g.rank(total)
    along = tuple(-1 if d == axis else 1 for d in range(rank))
    if g.rank(by) == 1 and rank > 1:
        by = g.emit(op.reshape(by, () if g.sizes(out_scale) == [1] else along))
    factor = g.emit(op.divide(scale, by))
    if g.info(factor).dtype != "float32":
        factor = g.emit(op.astype(factor, "float32"))
    made = g.emit(op.multiply(g.emit(op.astype(total, "float32")), factor))
    shift = g.emit(op.astype(plain_numbers(g, zero), "float32"))
    if g.rank(shift) == 1 and rank > 1:
        shift = g.emit(op.reshape(shift, () if g.sizes(zero) == [1] else along))
    low, high = _limits(zero.elem)
    whole = g.emit(op.clip(g.emit(op.add(g.emit(op.round(made)), shift)), low, high))
    return g.value(op.astype(whole, zero.dtype), zero.elem)


@converter("QLinearMatMul")
def qlinear_matmul(g: GraphBuilder, node: Node) -> Result:
    """Multiply quantised matrices, and quantise the result."""
    a, sa, za, b, sb, zb, sy, zy = (node.value(k) for k in range(8))
    total = matmul_sums(g, a, b, za, zb)
    scales = []
    for value, side, axis in ((sa, a, -2), (sb, b, -1)):
        expr = g.expr(value)
        if g.rank(value) == 1:
            rank = g.rank(side)
            shape = () if g.sizes(value) == [1] else tuple(-1 if d == axis % rank else 1 for d in range(rank))
            expr = g.emit(op.reshape(expr, shape))
        scales.append(expr)
    return requantized(g, total, g.emit(op.multiply(*scales)), sy, zy, g.rank(total) - 1)


@converter("QLinearConv")
def qlinear_conv(g: GraphBuilder, node: Node) -> Result:
    """Move quantised filters over quantised images, and quantise the result."""
    x, sx, zx, w, sw, zw, sy, zy = (node.value(k) for k in range(8))
    bias = node.optional(8)
    total = conv_sums(g, node, x, w, zx, zw, bias)
    rank = g.rank(x)
    by = g.expr(sw)
    if g.rank(sw) == 1:
        by = g.emit(op.reshape(by, ())) if g.sizes(sw) == [1] else channel_vector(g, sw, rank)
    first = g.expr(sx)
    if g.rank(sx) == 1:
        first = g.emit(op.reshape(first, ()))
    return requantized(g, total, g.emit(op.multiply(first, by)), sy, zy, 1)


__all__ = ["requantized"]
