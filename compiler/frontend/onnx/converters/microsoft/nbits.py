"""Products with weights of 2, 4 or 8 bits, in blocks that have a scale each."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.frontend.onnx.converters.matmul import product
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import MICROSOFT, Result, converter
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


@converter("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(g: GraphBuilder, node: Node) -> Result:
    """Multiply by a matrix that is held in few bits, block by block along the sums."""
    a, packed, scales = node.value(0), node.value(1), node.value(2)
    depth, width, bits, block = (int(node.required(name)) for name in ("K", "N", "bits", "block_size"))
    if bits not in (2, 4, 8) or block < 1:
        node.fail(f"weights of {bits} bits in blocks of {block}")
    if node.given(4):
        node.fail("the order of groups (g_idx) is not supported")
    blocks = -(-depth // block)
    zero = node.optional(3)
    more = []
    if zero is not None:
        count = -(-blocks * bits // 8) if zero.dtype == "uint8" else blocks
        more = [_by_columns(g, zero, (width, count))]
    held = _by_columns(g, packed, (width, blocks * block * bits // 8))
    by = _by_columns(g, scales, (width, blocks))
    weights = g.te(_unpacked, held, by, depth, bits, block, *more, name="unpacked")
    made = product(g, g.expr(a), weights)
    return op.add(made, g.expr(node.value(5))) if node.given(5) else made


def _by_columns(g: GraphBuilder, value: TensorValue, shape: tuple[int, int]) -> RelaxExpr:
    """Transpose rows, one for each column of the weights, so that columns are neighbours."""
    if value.is_constant and value.array is not None:
        return g.expr(g.known(np.ascontiguousarray(value.array.reshape(shape).T), value.elem))
    return g.emit(op.permute_dims(g.emit(op.reshape(g.expr(value), shape)), [1, 0]))


def _bits(packed: Tensor, column: PrimExpr, place: PrimExpr, bits: int) -> PrimExpr:
    """A number of few bits of a column; the first is in the lowest bits of a byte."""
    each = 8 // bits
    word = packed(ops.floordiv(place, each), column).astype("int32")
    shift = (ops.floormod(place, each) * bits).astype("int32")
    return (word >> shift) & ops.const((1 << bits) - 1, "int32")


def _unpacked(packed: Tensor, scales: Tensor, depth: int, bits: int, block: int, *zero: Tensor) -> Tensor:
    """The weights as a matrix of `depth` rows."""

    def at(k: PrimExpr, n: PrimExpr) -> Any:
        group = ops.floordiv(k, block)
        value = _bits(packed, n, k, bits)
        scale = scales(group, n)
        if zero and zero[0].dtype != "uint8":
            return (value.astype(scale.dtype) - zero[0](group, n).astype(scale.dtype)) * scale
        low = _bits(zero[0], n, group, bits) if zero else ops.const(1 << (bits - 1), "int32")
        return (value - low).astype(scale.dtype) * scale

    return elements((depth, packed.shape[1]), at, name="unpacked")
