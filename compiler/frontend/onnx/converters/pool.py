"""Pooling: the largest, mean or norm of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import parse_dtype
from compiler.frontend.onnx.converters.conv import WindowMoves, window_of
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements, max_pool_places, unpooled
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import i64, multiplied
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.nodes.dims import simplified
from compiler.te.operation import max as te_max
from compiler.te.operation import reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Select

_BYTES = ("int8", "uint8")
_MAX = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


def _window(g: GraphBuilder, node: Node, x: RelaxExpr) -> tuple[list[int], WindowMoves]:
    kernel = node.ints("kernel_shape")
    if kernel is None or min(kernel, default=0) < 1:
        node.fail(f"kernel_shape is {kernel}")
    return kernel, window_of(g, node, kernel, g.shape(x)[2:])


def _sizes(g: GraphBuilder, node: Node, x: RelaxExpr, kernel: Sequence[int], window: WindowMoves) -> list[Any]:
    """The extents of the result. With ceil_mode a last window may end outside, but not begin there."""
    ceil, found = bool(node.int("ceil_mode", 0)), []
    for d, size in enumerate(g.shape(x)[2:]):
        reach = (kernel[d] - 1) * window.dilations[d] + 1
        first, last, stride = window.pads[d], window.pads[window.rank + d], window.strides[d]
        if not ceil:
            found.append(simplified(ops.floordiv(size + (first + last - reach), i64(stride)) + 1))
            continue
        count = simplified(ops.floordiv(size + (first + last - reach + stride - 1), i64(stride)) + 1)
        known, extent = ops.as_int(count), ops.as_int(size)
        if known is not None and extent is not None and (known - 1) * stride >= extent + first:
            count = i64(known - 1)
        found.append(count)
    return found


@converter("MaxPool")
def max_pool(g: GraphBuilder, node: Node) -> Result:
    """Take the largest element of each window, and where it stands."""
    x = g.expr(node.value(0))
    kernel, window = _window(g, node, x)
    sizes = _sizes(g, node, x, kernel, window)
    if node.wanted(1):
        order = node.int("storage_order", 0)
        return g.items(g.te(_max_with_places, x, kernel, window, sizes, order, name="max_pool_places"))
    rule: Any = _MAX.get(window.rank)
    dtype = node.value(0).dtype
    simple = not node.int("ceil_mode", 0) and rule is not None and (parse_dtype(dtype).is_float or dtype in _BYTES)
    if simple:
        pooled: RelaxExpr = rule(
            x, pool_size=kernel, strides=window.strides, padding=window.pads, dilation=window.dilations
        )
        return pooled
    return g.te(_max_kernel, x, kernel, window, sizes, name="max_pool")


def _read(
    x: Tensor, window: WindowMoves, i: Sequence[PrimExpr], taps: Sequence[Any]
) -> tuple[list[PrimExpr], PrimExpr]:
    """The place of a tap, and whether it lies inside."""
    places, inside = [], []
    for d, tap in enumerate(taps):
        place = i[2 + d] * window.strides[d] + tap * window.dilations[d] - window.pads[d]
        inside += [ops.greater_equal(place, 0), ops.less(place, ops.as_expr(x.shape[2 + d]))]
        places.append(place)
    held = inside[0]
    for more in inside[1:]:
        held = ops.logical_and(held, more)
    return places, held


def _taps(kernel: Sequence[int]) -> list[Any]:
    return [reduce_axis((i64(0), i64(extent)), f"k{d}") for d, extent in enumerate(kernel)]


def _max_kernel(x: Tensor, kernel: Sequence[int], window: WindowMoves, sizes: Sequence[Any]) -> Tensor:
    taps = _taps(kernel)

    def at(*i: PrimExpr) -> Any:
        places, inside = _read(x, window, i, [tap.var for tap in taps])
        least = ops.min_value(x.dtype)
        return te_max(intrin.if_then_else(inside, x(i[0], i[1], *places), least), taps)

    return elements((*x.shape[:2], *sizes), at, name="max_pool")


def _max_with_places(
    x: Tensor, kernel: Sequence[int], window: WindowMoves, sizes: Sequence[Any], order: int
) -> list[Tensor]:
    """The largest elements and their places in the flat tensor, the first of equal ones."""
    return max_pool_places(x, kernel, window.strides, window.dilations, window.pads, sizes, order)


@converter("AveragePool")
def average_pool(g: GraphBuilder, node: Node) -> Result:
    """Take the mean of each window."""
    x = g.expr(node.value(0))
    kernel, window = _window(g, node, x)
    sizes = _sizes(g, node, x, kernel, window)
    rule: Any = _MEAN.get(window.rank)
    count_pad = bool(node.int("count_include_pad", 0))
    if rule is not None and not node.int("ceil_mode", 0):
        pooled: RelaxExpr = rule(
            x, pool_size=kernel, strides=window.strides, padding=window.pads, dilation=window.dilations,
            count_include_pad=count_pad,
        )  # fmt: skip
        return pooled
    return g.te(_mean_kernel, x, kernel, window, sizes, count_pad, name="average_pool")


def _mean_kernel(
    x: Tensor, kernel: Sequence[int], window: WindowMoves, sizes: Sequence[Any], count_pad: bool
) -> Tensor:
    taps = _taps(kernel)

    def summed(*i: PrimExpr) -> Any:
        places, inside = _read(x, window, i, [tap.var for tap in taps])
        return te_sum(intrin.if_then_else(inside, x(i[0], i[1], *places), ops.const(0, x.dtype)), taps)

    total = elements((*x.shape[:2], *sizes), summed, name="sums")

    def at(*i: PrimExpr) -> Any:
        count: PrimExpr = i64(1)
        for d, extent in enumerate(kernel):
            start = i[2 + d] * window.strides[d] - window.pads[d]
            low: PrimExpr = i64(-window.pads[d] if count_pad else 0)
            size = ops.as_expr(x.shape[2 + d]).astype("int64")
            high = size + (window.pads[window.rank + d] if count_pad else 0)
            # The taps k with low <= start + k * dilation < high.
            step = window.dilations[d]
            first = ops.maximum(ops.floordiv(low - start + (step - 1), i64(step)), i64(0))
            last = ops.minimum(ops.floordiv(high - start + (step - 1), i64(step)), i64(extent))
            count = count * ops.maximum(last - first, i64(1))
        return total(*i) / count.astype(x.dtype)

    return elements((*x.shape[:2], *sizes), at, name="means")


@converter("LpPool")
def lp_pool(g: GraphBuilder, node: Node) -> Result:
    """Take the p-norm of each window."""
    x, p = g.expr(node.value(0)), node.int("p", 2)
    kernel, window = _window(g, node, x)
    sizes = _sizes(g, node, x, kernel, window)
    return g.te(_norm_kernel, x, kernel, window, sizes, p, name="lp_pool")


def _power(value: PrimExpr, p: int) -> PrimExpr:
    if p == 1:
        return intrin.abs(value)
    if p == 2:
        return value * value
    return intrin.power(intrin.abs(value), ops.const(float(p), value.dtype))


def _root(value: PrimExpr, p: int) -> PrimExpr:
    if p == 1:
        return value
    return intrin.sqrt(value) if p == 2 else intrin.power(value, ops.const(1.0 / p, value.dtype))


def _norm_kernel(x: Tensor, kernel: Sequence[int], window: WindowMoves, sizes: Sequence[Any], p: int) -> Tensor:
    taps = _taps(kernel)

    def summed(*i: PrimExpr) -> Any:
        places, inside = _read(x, window, i, [tap.var for tap in taps])
        return te_sum(intrin.if_then_else(inside, _power(x(i[0], i[1], *places), p), ops.const(0, x.dtype)), taps)

    total = elements((*x.shape[:2], *sizes), summed, name="sums")
    return elements(total.shape, lambda *i: _root(total(*i), p), name="norms")


def _over_image(rule: Callable[..., RelaxExpr]) -> Any:
    def convert(g: GraphBuilder, node: Node) -> Result:
        x = g.expr(node.value(0))
        return rule(x, list(range(2, g.rank(x))), True)

    return convert


converter("GlobalMaxPool")(_over_image(op.max))
converter("GlobalAveragePool")(_over_image(op.mean))


@converter("GlobalLpPool")
def global_lp_pool(g: GraphBuilder, node: Node) -> Result:
    """Take the p-norm of each whole image."""
    x, p = g.expr(node.value(0)), node.int("p", 2)
    axes = list(range(2, g.rank(x)))
    dtype = node.value(0).dtype
    size = g.emit(op.abs(x))
    if p == 1:
        return op.sum(size, axes, True)
    total = g.emit(op.sum(g.emit(op.power(size, g.full(p, dtype))), axes, True))
    return op.power(total, g.full(1 / p, dtype))


@converter("MaxUnpool")
def max_unpool(g: GraphBuilder, node: Node) -> Result:
    """Put elements back where they stood before pooling; the rest is 0."""
    x, places = node.value(0), node.value(1)
    kernel: Any = node.ints("kernel_shape") or []
    strides, pads = node.ints("strides") or [1] * len(kernel), node.ints("pads") or [0] * (2 * len(kernel))
    given = node.optional(2)
    dims = g.shape(x)
    own = list(dims[:2]) + [
        simplified((size - 1) * strides[d] + (kernel[d] - pads[d] - pads[len(kernel) + d]))
        for d, size in enumerate(dims[2:])
    ]
    if given is None:
        sizes: list[Any] = own
    else:
        known = g.known_ints(given)
        sizes = known if known is not None else list(g.sizes_at_run_time(g.expr(given), g.rank(x)))
    return g.te(unpooled, x, places, own, sizes, name="max_unpool")


@converter("Col2Im")
def col2im(g: GraphBuilder, node: Node) -> Result:
    """Add blocks of an image up where they overlap."""
    x, image, block = node.value(0), node.value(1), node.value(2)
    sizes, kernel = (_extents(g, value) for value in (image, block))
    rank = len(kernel)
    window = WindowMoves(
        rank, node.ints("strides") or [1] * rank, node.ints("dilations") or [1] * rank,
        node.ints("pads") or [0] * (2 * rank),
    )  # fmt: skip
    counts = []
    for d in range(rank):
        reach = (i64(kernel[d]) - 1) * window.dilations[d] + 1
        room = i64(sizes[d]) + (window.pads[d] + window.pads[rank + d]) - reach
        counts.append(simplified(ops.floordiv(room, i64(window.strides[d])) + 1))
    block_size = simplified(multiplied([i64(extent) for extent in kernel]))
    channels = simplified(ops.floordiv(g.shape(x)[1], block_size))
    return g.te(_placed, x, channels, sizes, kernel, counts, window, name="col2im")


def _extents(g: GraphBuilder, value: TensorValue) -> list[Any]:
    """Sizes that an input gives: known ones, else names."""
    known = g.known_ints(value)
    if known is not None:
        return list(known)
    count = g.sizes(value)
    return list(g.sizes_at_run_time(g.expr(value), count[0] if count else 1))


def _placed(
    x: Tensor, channels: Any, sizes: Sequence[Any], kernel: Sequence[Any], counts: Sequence[Any], window: WindowMoves
) -> Tensor:
    taps = [reduce_axis((i64(0), i64(extent)), f"k{d}") for d, extent in enumerate(kernel)]

    def at(*i: PrimExpr) -> Any:
        row = i64(i[1])
        column, inside = i64(0), ops.const(True, "bool")
        for d, tap in enumerate(taps):
            far = i64(i[2 + d]) + window.pads[d] - tap.var * window.dilations[d]
            place = ops.floordiv(far, i64(window.strides[d]))
            fits = ops.logical_and(
                ops.equal(ops.floormod(far, i64(window.strides[d])), i64(0)),
                ops.logical_and(ops.greater_equal(far, i64(0)), ops.less(place, i64(counts[d]))),
            )
            inside = ops.logical_and(inside, fits)
            row = row * i64(kernel[d]) + tap.var
            column = column * i64(counts[d]) + Select(fits, place, i64(0))
        return te_sum(intrin.if_then_else(inside, x(i[0], row, column), ops.const(0, x.dtype)), taps)

    return elements((x.shape[0], channels, *sizes), at, name="col2im")
