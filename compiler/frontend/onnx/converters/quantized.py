"""Operators between DequantizeLinear and QuantizeLinear: they stay in integers, down to the kernels.

A tensor that was dequantised knows its integers (`TensorValue.integers`). Products of such tensors are int32 sums,
which QuantizeLinear scales and rounds. What only moves elements moves the integers. The floats are made where something
else asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from compiler.frontend.onnx.converters.integers import conv_sums, int32, matmul_sums, no_zero
from compiler.frontend.onnx.converters.matmul import turned
from compiler.frontend.onnx.converters.quantize import requantized
from compiler.frontend.onnx.element_types import SMALL_FLOATS, SMALL_INTS, dtype_of
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, find, on_integers
from compiler.frontend.onnx.values import Deferred, Quantized, Sums, TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op

FLOAT = int(TensorProto.FLOAT)


def _quantized(node: Node, index: int) -> Quantized | None:
    """The 8-bit integers that an input stands for."""
    value = node.inputs[index] if node.given(index) else None
    found = value.integers if isinstance(value, TensorValue) else None
    return found if isinstance(found, Quantized) and found.data.dtype in ("int8", "uint8") else None


def of_sums(g: GraphBuilder, total: RelaxExpr, scale: RelaxExpr, axis: int) -> TensorValue:
    """Scale int32 sums. The floats are made where something asks for them."""

    def floats() -> RelaxExpr:
        return g.emit(op.multiply(g.emit(op.astype(total, "float32")), scale))

    return TensorValue(
        "float32", FLOAT, deferred=Deferred(floats, g.shape(total)), integers=Sums(total, scale, axis)
    )  # fmt: skip


def of_integers(g: GraphBuilder, data: TensorValue, held: Quantized) -> TensorValue:
    """Integers that stand for floats by the scale and zero point of `held`; there is one scale."""

    def floats() -> RelaxExpr:
        zero = g.expr(held.zero) if held.zero is not None else g.full(0, data.dtype)
        return g.emit(op.dequantize(g.expr(data), g.expr(held.scale), zero, -1, "float32"))

    made = Quantized(data, held.scale, held.zero, None)
    return TensorValue("float32", FLOAT, deferred=Deferred(floats, g.shape(data)), integers=made)


def _factor(g: GraphBuilder, a: Quantized, b: Quantized, shape: Sequence[int]) -> TensorValue:
    """The scale of products of two tensors; one along an axis is given `shape`."""
    first, second = a.scale, b.scale
    wanted: tuple[int, ...] = () if b.axis is None else tuple(shape)
    if first.is_constant and second.is_constant and first.array is not None and second.array is not None:
        return g.known((first.array.reshape(()) * second.array.reshape(wanted)).astype(np.float32))
    left = g.emit(op.reshape(g.expr(first), ()))
    return g.value(op.multiply(left, g.emit(op.reshape(g.expr(second), wanted))))


def _bias(g: GraphBuilder, bias: TensorValue | None, factor: TensorValue, wanted: Sequence[int]) -> Any:
    """A bias in the unit of the sums.
    None without a bias; False for a bias that does not fit the unit."""
    if bias is None:
        return None
    held = bias.integers
    if not factor.is_constant or factor.array is None:
        return False
    unit = factor.array.reshape(-1)
    if isinstance(held, Quantized) and held.data.dtype == "int32" and no_zero(held.zero) and held.scale.is_constant:
        assert held.scale.array is not None
        own = held.scale.array.reshape(-1)
        if own.size in (1, unit.size) and np.allclose(own, unit, rtol=1e-4, atol=0):
            return held.data
    if not bias.is_constant or bias.array is None or bias.array.ndim != 1:
        return False
    whole = np.rint(bias.array.astype(np.float64) / unit)
    if not np.all(np.isfinite(whole)) or np.abs(whole).max(initial=0) >= 2**30:
        return False
    return g.known(whole.astype(np.int32))


@on_integers("Conv")
def conv(g: GraphBuilder, node: Node) -> Result | None:
    """Move quantised filters over quantised images."""
    x, w = _quantized(node, 0), _quantized(node, 1)
    if x is None or w is None or x.axis is not None or w.axis not in (None, 0):
        return None
    rank = g.rank(x.data)
    shape = (1, -1, *[1] * (rank - 2))
    factor = _factor(g, x, w, shape)
    bias = _bias(g, node.optional(2), factor, shape)
    if bias is False:
        return None
    total = conv_sums(g, node, x.data, w.data, x.zero, w.zero, bias)
    return of_sums(g, total, g.expr(factor), 1)


@on_integers("MatMul")
def matmul(g: GraphBuilder, node: Node) -> Result | None:
    """Multiply quantised matrices."""
    a, b = _quantized(node, 0), _quantized(node, 1)
    if a is None or b is None or a.axis is not None:
        return None
    rank = g.rank(b.data)
    if rank < 2 or g.rank(a.data) < 2 or b.axis not in (None, rank - 1):
        return None
    total = matmul_sums(g, a.data, b.data, a.zero, b.zero)
    return of_sums(g, total, g.expr(_factor(g, a, b, (-1,))), g.rank(total) - 1)


@on_integers("Gemm")
def gemm(g: GraphBuilder, node: Node) -> Result | None:
    """Multiply quantised matrices, and add a bias."""
    a, b, c = _quantized(node, 0), _quantized(node, 1), node.optional(2)
    transposed = node.int("transB", 0)
    plain = not node.int("transA", 0) and node.float("alpha", 1.0) == 1.0 and node.float("beta", 1.0) == 1.0
    if a is None or b is None or not plain or a.axis is not None or b.axis not in (None, 0 if transposed else 1):
        return None
    factor = _factor(g, a, b, (-1,))
    bias = _bias(g, c, factor, (-1,))
    if bias is False:
        return None
    right = b.data
    if transposed and right.is_constant and right.array is not None:
        right = g.known(turned(right.array), right.elem)
    elif transposed:
        right = g.value(op.permute_dims(g.expr(right), [1, 0]), right.elem)
    total = matmul_sums(g, a.data, right, a.zero, b.zero)
    if bias is not None:
        total = g.emit(op.add(total, g.expr(bias)))
    return of_sums(g, total, g.expr(factor), 1)


@on_integers("GlobalAveragePool")
def global_mean(g: GraphBuilder, node: Node) -> Result | None:
    """Sum images of integers; the mean's divisor is part of the scale."""
    x = _quantized(node, 0)
    if x is None or x.axis is not None:
        return None
    sizes, rank = g.sizes(x.data), g.rank(x.data)
    known = x.scale.is_constant and x.scale.array is not None
    zero = x.zero.array if x.zero is not None and x.zero.is_constant else None
    if sizes is None or not known or (x.zero is not None and zero is None):
        return None
    assert x.scale.array is not None
    count = int(np.prod(sizes[2:]))
    total = g.emit(op.sum(int32(g, g.expr(x.data)), list(range(2, rank)), True))
    if zero is not None and zero.any():
        total = g.emit(op.subtract(total, g.full(int(zero.reshape(-1)[0]) * count, "int32")))
    scale = g.known((x.scale.array.reshape(()) / count).astype(np.float32))
    return of_sums(g, total, g.expr(scale), 1)


@on_integers("Relu")
def relu(g: GraphBuilder, node: Node) -> Result | None:
    """Replace what stands for negative numbers by what stands for 0."""
    value = node.value(0)
    match value.integers:
        case Sums(total, scale, axis):
            return of_sums(g, g.emit(op.maximum(total, g.full(0, "int32"))), scale, axis)
        case Quantized(axis=None) as held if held.zero is not None and held.zero.is_constant:
            assert held.zero.array is not None
            low = g.full(int(held.zero.array.reshape(-1)[0]), held.data.dtype)
            return of_integers(g, g.value(op.maximum(g.expr(held.data), low), held.data.elem), held)
    return None


@on_integers(
    "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Squeeze",
    "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
def moved(g: GraphBuilder, node: Node) -> Result | None:
    """Move integers, or choose among them, as the floats that they stand for."""
    held = _quantized(node, 0)
    rule = find(node.domain, node.op, node.opset)
    if held is None or held.axis is not None or rule is None or node.wanted(1):
        return None
    made: Any = rule(g, replace(node, inputs=[held.data, *node.inputs[1:]]))
    if isinstance(made, list | tuple):
        made = made[0]
    if isinstance(made, RelaxExpr):
        made = g.value(made, held.data.elem)
    return of_integers(g, made, held)


@on_integers("Concat")
def concat(g: GraphBuilder, node: Node) -> Result | None:
    """Put integers of one scale and zero point together."""
    parts = [_quantized(node, k) for k in range(len(node.inputs))]
    held = [part for part in parts if part is not None and part.axis is None]
    if len(held) < len(parts) or not held:
        return None
    first = held[0]
    if not all(_same(first, part.scale, part.zero, part.data.elem) for part in held):
        return None
    made = op.concat([g.expr(part.data) for part in held], int(node.required("axis")))
    return of_integers(g, g.value(made, first.data.elem), first)


def _same(held: Quantized, scale: TensorValue, zero: TensorValue | None, elem: int) -> bool:
    """Whether integers have this scale, zero point and type."""
    if held.data.elem != elem or held.axis is not None:
        return False
    if scale is not held.scale:
        a, b = held.scale.array, scale.array
        if a is None or b is None or a.size != 1 or b.size != 1 or float(a.reshape(())) != float(b.reshape(())):
            return False
    if zero is held.zero or (no_zero(zero) and no_zero(held.zero)):
        return True
    c = held.zero.array if held.zero is not None else np.zeros(1)
    d = zero.array if zero is not None else np.zeros(1)
    return c is not None and d is not None and c.size == d.size == 1 and int(c.reshape(())) == int(d.reshape(()))


@on_integers("QuantizeLinear")
def quantize(g: GraphBuilder, node: Node) -> Result | None:
    """Scale and round int32 sums. Integers of the same scale are passed on unchanged."""
    x, scale, zero = node.value(0), node.value(1), node.optional(2)
    elem = zero.elem if zero is not None else node.int("output_dtype", 0) or int(TensorProto.UINT8)
    small = elem in SMALL_FLOATS or elem in SMALL_INTS
    if small or node.int("precision", 0) or node.int("block_size", 0) or scale.dtype != "float32":
        return None
    match x.integers:
        case Quantized() as held if _same(held, scale, zero, elem):
            return held.data
        case Sums(total, factor, axis) if g.sizes(scale) in ([], [1]) and dtype_of(elem) in ("int8", "uint8"):
            low = zero if zero is not None else g.known(np.zeros((), dtype_of(elem)), elem)
            return requantized(g, total, factor, scale, low, axis)
    return None


__all__ = ["of_integers", "of_sums"]
