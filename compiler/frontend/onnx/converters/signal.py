"""Fourier transforms and what goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from compiler.frontend.onnx.element_types import dtype_of
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import AxesLast, element, i64, sizes_by
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.nodes.dims import simplified
from compiler.te.operation import reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Select


@converter("DFT")
def dft(g: GraphBuilder, node: Node) -> Result:
    """Take the discrete Fourier transform along an axis.
    Numbers have one part or two in the last dimension."""
    x = g.expr(node.value(0))
    rank = g.rank(x)
    onesided, inverse = bool(node.int("onesided", 0)), bool(node.int("inverse", 0))
    length = node.optional(1)
    given = node.optional(2) if node.opset >= 20 else None
    if given is not None and not given.is_constant:
        return _dft_at_run_time(g, node, x, given, onesided, inverse)
    axis = g.static_ints(given, "axis")[0] if given is not None else node.int("axis", 1 if node.opset < 20 else -2)
    axis %= rank
    order = [d for d in range(rank) if d not in (axis, rank - 1)] + [axis, rank - 1]
    moved = g.emit(op.permute_dims(x, order)) if order != list(range(rank)) else x
    size: Any = None
    if length is not None:
        known = g.known_ints(length)
        vector = g.expr(length) if g.rank(length) else g.emit(op.reshape(g.expr(length), (1,)))
        size = known[0] if known is not None else g.sizes_at_run_time(vector, 1)[0]
    made = _transformed(g, moved, size, onesided, inverse)
    back = [order.index(d) for d in range(rank)]
    return made if order == list(range(rank)) else op.permute_dims(made, back)


def _transformed(g: GraphBuilder, x: RelaxExpr, size: Any, onesided: bool, inverse: bool) -> RelaxExpr:
    """The transform along the last dimension but one."""
    count = g.shape(x)[-2]
    if size is None:
        size = simplified((count - 1) * 2) if onesided and inverse else count
    return g.te(_dft, x, size, onesided, inverse, name="dft")


def _dft_at_run_time(
    g: GraphBuilder, node: Node, x: RelaxExpr, axis: Any, onesided: bool, inverse: bool
) -> Result:
    """The transform along an axis that is known only when the program runs."""
    rank = g.rank(x)
    vector = g.value(g.te(_axis_and_last, axis, rank, name="axes"))
    order = AxesLast(g, x, vector)
    size: Any = None
    if node.given(1):
        known = g.known_ints(node.value(1))
        flat = g.emit(op.reshape(g.expr(node.value(1)), (1,)))
        size = known[0] if known is not None else g.sizes_at_run_time(flat, 1)[0]
    # The last dimension, of one part or two, is known.
    named = [*order.shape[:-1], g.shape(x)[-1]]
    moved = g.cast_shape(order.moved, named, g.info(x).dtype)
    return order.back(_transformed(g, moved, size, onesided, inverse))


def _axis_and_last(axis: Tensor, rank: int) -> Tensor:
    """An axis and the last dimension."""
    return elements((2,), lambda i: Select(ops.equal(i, 0), element(axis, 0), i64(rank - 1)), name="axes")


def _dft(x: Tensor, size: Any, onesided: bool, inverse: bool) -> Tensor:
    """Sums of rotated numbers.
    The angle is reduced to a whole number below the length, so it is exact."""
    dtype, parts, count = x.dtype, int(ops.as_int(x.shape[-1]) or 1), i64(x.shape[-2])
    length = i64(size)
    real_result = onesided and inverse
    bins = ops.floordiv(length, i64(2)) + 1 if onesided and not inverse else length
    n = reduce_axis((i64(0), length), "n")
    last = 1 if real_result else 2

    def at(*i: PrimExpr) -> Any:
        *outer, k, part = i
        turn = ops.floormod(n.var * i64(k), length).astype("float64") * ops.const(2 * pi, "float64")
        angle = turn / length.astype("float64")
        cos, sin = intrin.cos(angle), intrin.sin(angle)
        if not inverse:
            sin = ops.const(0, "float64") - sin
        place: PrimExpr
        sign: PrimExpr
        if real_result:  # the second half mirrors the first
            mirrored = ops.greater_equal(n.var, count)
            place = Select(mirrored, length - n.var, n.var)
            sign = Select(mirrored, ops.const(-1.0, "float64"), ops.const(1.0, "float64"))
            held = ops.less(place, count)
        else:
            place, sign = n.var, ops.const(1.0, "float64")
            held = ops.less(n.var, count)
        safe = ops.maximum(ops.minimum(place, count - 1), i64(0))
        real = x(*outer, safe, i64(0)).astype("float64")
        imaginary = x(*outer, safe, i64(1)).astype("float64") * sign if parts == 2 else ops.const(0, "float64")
        value = Select(ops.equal(part, 0), real * cos - imaginary * sin, real * sin + imaginary * cos)
        return te_sum(Select(held, value, ops.const(0, "float64")), [n])

    total = elements((*x.shape[:-2], bins, last), at, name="sums")

    def scaled(*i: PrimExpr) -> Any:
        value = total(*i)
        return (value / length.astype("float64") if inverse else value).astype(dtype)

    return elements(total.shape, scaled, name="dft")


@converter("STFT")
def stft(g: GraphBuilder, node: Node) -> Result:
    """Take Fourier transforms of frames of a signal."""
    signal, step = node.value(0), node.value(1)
    window, given = node.optional(2), node.optional(3)
    size: Any
    if given is not None and given.is_constant:
        size = g.static_ints(given, "frame_length")[0]
    elif window is not None:
        size = g.shape(window)[0]
    else:
        assert given is not None
        size = g.sizes_at_run_time(g.emit(op.reshape(g.expr(given), (1,))), 1)[0]
    if window is not None:  # the window is as long as a frame
        taps, known = ops.as_int(g.shape(window)[0]), ops.as_int(ops.as_expr(size))
        if taps is not None and known is not None and taps != known:
            node.fail(f"the window has {taps} elements, a frame {known}")
        window = g.value(g.cast_shape(g.expr(window), [size], window.dtype))
    length = g.shape(signal)[1]
    if step.is_constant:
        hop: Any = g.static_ints(step, "frame_step")[0]
        frames: Any = simplified(ops.floordiv(length - size, i64(hop)) + 1)
    else:
        hop, frames = sizes_by(g, _frames, 2, length, size, step, name="frames")
    more = [] if window is None else [window]
    framed = g.te(_framed, signal, frames, hop, size, *more, name="frames")
    return _transformed(g, framed, size, bool(node.int("onesided", 1)), False)


def _frames(length: Any, size: Any, step: Tensor) -> list[PrimExpr]:
    hop = ops.maximum(element(step, 0), i64(1))
    return [hop, ops.floordiv(i64(length) - i64(size), hop) + 1]


def _framed(signal: Tensor, frames: Any, step: Any, size: Any, *window: Tensor) -> Tensor:
    def at(b: PrimExpr, f: PrimExpr, k: PrimExpr, part: PrimExpr) -> Any:
        value = signal(b, i64(f) * i64(step) + i64(k), part)
        return value * window[0](k) if window else value

    return elements((signal.shape[0], frames, size, signal.shape[2]), at, name="frames")


@converter("MelWeightMatrix")
def mel_weights(g: GraphBuilder, node: Node) -> Result:
    """Make the matrix that takes spectra to mel bins."""
    bins, length, rate, low, high = (node.value(k) for k in range(5))
    elem = node.int("output_datatype", 1)
    count, rows = sizes_by(g, _mel_sizes, 2, bins, length, name="sizes")
    return g.value(g.te(_mel, rows, count, length, rate, low, high, dtype_of(elem), name="mel"), elem)


def _mel_sizes(bins: Tensor, length: Tensor) -> Sequence[PrimExpr]:
    return [element(bins, 0), ops.floordiv(element(length, 0), i64(2)) + 1]


def _mel(
    rows: Any, count: Any, length: Tensor, rate: Tensor, low: Tensor, high: Tensor, dtype: str
) -> Tensor:
    def c(value: float) -> PrimExpr:
        return ops.const(value, "float64")

    def mel(hertz: PrimExpr) -> PrimExpr:
        return c(2595.0) * intrin.log10(c(1.0) + hertz / c(700.0))

    first, last = mel(low().astype("float64")), mel(high().astype("float64"))
    step = (last - first) / (i64(count) + 2).astype("float64")

    def edge(place: PrimExpr) -> PrimExpr:
        hertz = c(700.0) * (intrin.power(c(10.0), (place.astype("float64") * step + first) / c(2595.0)) - c(1.0))
        spread = (element(length, 0) + 1).astype("float64") * hertz / rate().astype("float64")
        return intrin.floor(spread).astype("int64")

    def at(r: PrimExpr, j: PrimExpr) -> Any:
        lower, centre, upper = (edge(i64(j) + k) for k in range(3))
        row = i64(r)
        rise, fall = centre - lower, upper - centre
        up = (row - lower).astype("float64") / ops.maximum(rise, i64(1)).astype("float64")
        down = (upper - row).astype("float64") / ops.maximum(fall, i64(1)).astype("float64")
        flat = ops.equal(rise, i64(0))
        rising = ops.logical_and(ops.greater_equal(row, lower), ops.less_equal(row, centre))
        falling = ops.logical_and(ops.greater_equal(row, centre), ops.less(row, upper))
        value = Select(
            ops.logical_and(flat, ops.equal(row, centre)), c(1.0),
            Select(ops.logical_and(falling, ops.greater(fall, i64(0))), down,
                   Select(ops.logical_and(rising, ops.greater(rise, i64(0))), up, c(0.0))),
        )  # fmt: skip
        return value.astype(dtype)

    return elements((rows, count), at, name="mel")
