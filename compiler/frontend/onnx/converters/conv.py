"""Convolutions and what they share with pooling: strides, dilations, padding by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.frontend.onnx.converters.matmul import product
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import deformable_taps, elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import i64
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.operation import reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr


@dataclass(frozen=True, slots=True)
class WindowMoves:
    """How a window moves over `rank` dimensions. `pads` are the amounts before each, then those after."""

    rank: int
    strides: list[int]
    dilations: list[int]
    pads: list[int]


def window_of(g: GraphBuilder, node: Node, kernel: Sequence[int], sizes: Sequence[PrimExpr]) -> WindowMoves:
    """The window of a node: `kernel` its extents, `sizes` those of what it moves over."""
    rank = len(kernel)
    strides = node.ints("strides") or [1] * rank
    dilations = node.ints("dilations") or [1] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    auto = node.text("auto_pad", "NOTSET")
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        node.fail(f"a window of {rank} dimensions has strides {strides}, dilations {dilations}, pads {pads}")
    if min(strides) < 1 or min(dilations) < 1:
        node.fail(f"strides {strides} and dilations {dilations} must be positive")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        first, last = [], []
        for extent, stride, dilation, size in zip(kernel, strides, dilations, sizes):
            known = ops.as_int(size)
            if known is None:
                if stride != 1:
                    node.fail(f"auto_pad {auto} with a stride needs image sizes that are known")
                known = 1 << 20
            total = max((-(-known // stride) - 1) * stride + (extent - 1) * dilation + 1 - known, 0)
            small, large = total // 2, total - total // 2
            first.append(small if auto == "SAME_UPPER" else large)
            last.append(large if auto == "SAME_UPPER" else small)
        pads = [*first, *last]
    elif auto == "VALID":
        pads = [0] * (2 * rank)
    return WindowMoves(rank, strides, dilations, pads)


_CONV = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSED = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}


@converter("Conv")
def conv(g: GraphBuilder, node: Node) -> Result:
    """Move filters over images, and add a bias."""
    x, w, bias = node.value(0), node.value(1), node.optional(2)
    made = convolved(g, node, g.expr(x), w)
    return made if bias is None else op.add(made, channel_vector(g, bias, g.rank(x)))


def channel_vector(g: GraphBuilder, vector: TensorValue, rank: int) -> RelaxExpr:
    """A vector of one number a channel, shaped so that it broadcasts over images."""
    if vector.is_constant:
        assert vector.array is not None
        return g.expr(g.known(vector.array.reshape(1, -1, *[1] * (rank - 2)), vector.elem))
    return g.emit(op.reshape(g.expr(vector), (1, -1, *[1] * (rank - 2))))


def conv_window(g: GraphBuilder, node: Node, x: RelaxExpr | TensorValue, w: TensorValue) -> WindowMoves:
    """How the filters of a convolution move."""
    kernel = node.ints("kernel_shape") or (g.sizes(w) or [])[2:]
    return window_of(g, node, kernel, g.shape(x)[2:])


def convolved(
    g: GraphBuilder, node: Node, x: RelaxExpr, w: TensorValue, out_dtype: str | None = None,
    window: WindowMoves | None = None,
) -> RelaxExpr:  # fmt: skip
    """The convolution of a node, without its bias; `window` replaces what its attributes say."""
    weight = g.expr(w)
    rank = g.rank(x) - 2
    window = window or conv_window(g, node, x, w)
    rule: Any = _CONV.get(rank)
    if rule is None:
        node.fail(f"a convolution over {rank} dimensions")
    dtype = g.info(x).dtype
    short = out_dtype is None and dtype in ("float16", "bfloat16")
    made = g.emit(
        rule(
            x, weight, strides=window.strides, padding=window.pads, dilation=window.dilations,
            groups=node.int("group", 1), out_dtype="float32" if short else out_dtype,
        )
    )  # fmt: skip
    return g.emit(op.astype(made, dtype)) if short else made  # sums of 16-bit floats are rounded once


@converter("ConvTranspose")
def conv_transpose(g: GraphBuilder, node: Node) -> Result:
    """Add weighted filters to a larger image."""
    x, w, bias = node.value(0), node.value(1), node.optional(2)
    expr, weight = g.expr(x), g.expr(w)
    rank = g.rank(expr) - 2
    kernel = node.ints("kernel_shape") or (g.sizes(w) or [])[2:]
    strides = node.ints("strides") or [1] * rank
    dilations = node.ints("dilations") or [1] * rank
    extra: Any = node.ints("output_padding") or [0] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    sizes = g.shape(expr)[2:]
    wanted, auto = node.ints("output_shape"), node.text("auto_pad", "NOTSET")
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        first, last = [], []
        for d in range(rank):
            size = ops.as_int(sizes[d])
            if size is None:
                node.fail("output_shape and auto_pad need image sizes that are known")
            target = wanted[d - rank] if wanted is not None else size * strides[d]
            total = strides[d] * (size - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1 - target
            if total < 0:
                extra[d] -= total
                total = 0
            small, large = total // 2, total - total // 2
            upper = auto != "SAME_UPPER"
            first.append(large if upper else small)
            last.append(small if upper else large)
        pads = [*first, *last]
        if wanted is not None and auto != "SAME_UPPER":
            pads = [*first, *last]
    plain = rank in _TRANSPOSED and all(bool(stride > gap) for stride, gap in zip(strides, extra))
    if plain:
        made = g.emit(
            _TRANSPOSED[rank](
                expr, weight, strides=strides, padding=pads, output_padding=extra, dilation=dilations,
                groups=node.int("group", 1),
            )
        )  # fmt: skip
    else:
        made = g.te(
            _transposed, expr, weight, strides, dilations, pads, extra, node.int("group", 1), name="conv_transpose"
        )
    return made if bias is None else op.add(made, channel_vector(g, bias, rank + 2))


def _transposed(
    x: Tensor, w: Tensor, strides: list[int], dilations: list[int], pads: list[int], extra: list[int], groups: int
) -> Tensor:
    """A transposed convolution over any number of dimensions, read the other way round."""
    rank = len(strides)
    each = int(ops.as_int(w.shape[1]) or 0)
    inputs = reduce_axis((0, ops.floordiv(ops.as_expr(x.shape[1]), groups)), "c")
    taps = [reduce_axis((0, extent), f"k{d}") for d, extent in enumerate(w.shape[2:])]
    shape: list[Any] = [x.shape[0], each * groups]
    for d in range(rank):
        reach = (ops.as_expr(w.shape[2 + d]) - 1) * dilations[d] + 1
        size = (ops.as_expr(x.shape[2 + d]) - 1) * strides[d] + reach + extra[d] - pads[d] - pads[rank + d]
        shape.append(size)

    def at(*i: PrimExpr) -> Any:
        group = ops.floordiv(i[1], each)
        channel = group * ops.floordiv(ops.as_expr(x.shape[1]), groups) + inputs.var
        inside: list[PrimExpr] = []
        places = []
        for d, tap in enumerate(taps):
            far = i[2 + d] + pads[d] - tap.var * dilations[d]
            place = ops.floordiv(far, strides[d])
            inside += [
                ops.equal(ops.floormod(far, strides[d]), 0), ops.greater_equal(far, 0),
                ops.less(place, ops.as_expr(x.shape[2 + d])),
            ]  # fmt: skip
            places.append(place)
        held = inside[0]
        for more in inside[1:]:
            held = ops.logical_and(held, more)
        value = x(i[0], channel, *places) * w(channel, ops.floormod(i[1], each), *[tap.var for tap in taps])
        return te_sum(intrin.if_then_else(held, value, ops.const(0, x.dtype)), [inputs, *taps])

    return elements(tuple(shape), at, name="conv_transpose")


@converter("DeformConv")
def deformable(g: GraphBuilder, node: Node) -> Result:
    """Move filters over images; each tap is read at a place shifted by an offset."""
    x, w, offset, bias, mask = node.value(0), node.value(1), node.value(2), node.optional(3), node.optional(4)
    kernel = node.ints("kernel_shape") or (g.sizes(w) or [])[2:]
    window = window_of(g, node, kernel, g.shape(x)[2:])
    if window.rank != 2:
        node.fail(f"deformable filters over {window.rank} dimensions")
    groups, offsets = node.int("group", 1), node.int("offset_group", 1)
    given = [] if mask is None else [mask]
    taps = g.te(
        deformable_taps, x, offset, kernel, window.strides, window.dilations, window.pads, offsets, *given,
        name="deformable_taps",
    )  # fmt: skip
    batch, channels, count, height, width = g.shape(taps)
    outs = g.shape(w)[0]
    # The taps of a group are the rows of a matrix, the filters of the group the other one.
    rows = g.emit(op.reshape(taps, g.shape_expr([batch, groups, ops.floordiv(channels, i64(groups)) * count, -1])))
    filters = g.emit(op.reshape(g.expr(w), g.shape_expr([groups, ops.floordiv(outs, i64(groups)), -1])))
    made = g.emit(op.reshape(product(g, filters, rows), g.shape_expr([batch, outs, height, width])))
    return made if bias is None else op.add(made, channel_vector(g, bias, 4))
