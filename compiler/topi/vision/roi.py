"""Pooling of regions of interest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.te.extern import extern
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import create
from compiler.tir.nodes import PrimExpr, Select, Stmt
from compiler.topi.checks import described, differ, need_floats, need_one_of, need_rank, refusal
from compiler.topi.image.sampling import clamped, largest_corner, linear
from compiler.topi.rows import int64, points, rows


def roi_align_nchw(
    data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float, mode: Any, sample_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:  # fmt: skip
    """Each region's mean ("avg", or 0) or largest ("max", or 1) value in each of `pooled_size` bins.

    `data` is (N, C, H, W); `rois` (regions, 5): image, x1, y1, x2, y2, which `spatial_scale` brings to pixels. In each
    bin `sample_ratio`² places are interpolated, or ceil(size / bins) each way when it is not positive. With `aligned`
    pixels' middles lie half a pixel in. Gives (regions, C, height, width).
    """
    return _roi_align("roi_align_nchw", "NCHW", data, rois, pooled_size, spatial_scale, mode, sample_ratio, aligned)


def roi_align_nhwc(
    data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float, mode: Any, sample_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:  # fmt: skip
    """`roi_align_nchw` of `data` (N, H, W, C), giving (regions, height, width, C)."""
    return _roi_align("roi_align_nhwc", "NHWC", data, rois, pooled_size, spatial_scale, mode, sample_ratio, aligned)


def roi_align_largest_corner(
    data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float, sample_ratio: int = -1, aligned: bool = False
) -> Tensor:
    """`roi_align_nchw` by ONNX's rule for "max".
    It takes the largest of the four pixels around each place, times its weight."""
    return _roi_align(
        "roi_align_largest_corner", "NCHW", data, rois, pooled_size, spatial_scale, "max", sample_ratio, aligned,
        largest_corner,
    )  # fmt: skip


def _bins(op: str, pooled_size: Any) -> tuple[int, int]:
    sizes = (pooled_size, pooled_size) if isinstance(pooled_size, int) else tuple(pooled_size)
    if len(sizes) != 2 or any(not isinstance(s, int) or s < 1 for s in sizes):
        raise refusal(op, f"pooled_size {pooled_size!r} is not one or two positive integers")
    return sizes[0], sizes[1]


def _check(op: str, data: Tensor, rois: Tensor) -> None:
    need_floats(op, data, rois)
    need_rank(op, data, 4)
    need_rank(op, rois, 2)
    if differ(rois.shape[1], 5):
        raise refusal(op, f"regions must have 5 numbers: {described(rois)}")


def _roi_align(
    op: str, layout: str, data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float, mode: Any, ratio: int,
    aligned: bool, between: Callable[..., PrimExpr] = linear,
) -> Tensor:  # fmt: skip
    _check(op, data, rois)
    mode = {0: "avg", 1: "max", b"avg": "avg", b"max": "max"}.get(mode, mode)
    need_one_of(op, "mode", mode, ("avg", "max"))
    high, across = _bins(op, pooled_size)
    size = dict(zip(layout, data.shape))
    wide = "float64" if data.dtype == "float64" else "float32"
    out = {"N": rois.shape[0], "C": size["C"], "H": ops.const(high), "W": ops.const(across)}
    shape = [out[name] for name in layout]

    def number(value: float) -> PrimExpr:
        return ops.const(value, wide)

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        image, region, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        sums = ib.allocate(wide, (rois.shape[0], 8), "sums")
        with rows(ib, (rois.shape[0], ops.const(1)), 1) as row:
            n = row.at(0)[0]
            off = number(0.5 if aligned else 0.0)
            x1, y1, x2, y2 = (
                ib.let("edge", region[n, f].astype(wide) * number(spatial_scale) - off) for f in range(1, 5)
            )
            sides = (y2 - y1, x2 - x1)
            if not aligned:
                sides = (ops.maximum(sides[0], number(1.0)), ops.maximum(sides[1], number(1.0)))
            tall = ib.let("tall", sides[0] / number(float(high)))
            broad = ib.let("broad", sides[1] / number(float(across)))
            if ratio > 0:
                down: PrimExpr = ops.const(ratio, "int64")
                along: PrimExpr = down
            else:
                down = ib.let("down", int64(intrin.ceil(tall)))
                along = ib.let("along", int64(intrin.ceil(broad)))
            which = ib.let("which", region[n, 0].astype("int32"))
            with points(ib, (size["C"], ops.const(high), ops.const(across))) as (c, i, j):
                sums[n, 0] = number(0.0) if mode == "avg" else ops.min_value(wide)
                with points(ib, (down, along)) as (u, v):
                    half = number(0.5)
                    y = ib.let("y", y1 + i.astype(wide) * tall + (u.astype(wide) + half) * tall / down.astype(wide))
                    x = ib.let("x", x1 + j.astype(wide) * broad + (v.astype(wide) + half) * broad / along.astype(wide))

                    def pixel(a: PrimExpr, b: PrimExpr, c: Any = c) -> PrimExpr:
                        at = {"N": which, "C": c, "H": clamped(a, size["H"]), "W": clamped(b, size["W"])}
                        return image[tuple(at[name] for name in layout)]

                    far = [
                        ops.greater_equal(p, number(-1.0)) for p in (y, x)
                    ] + [ops.less_equal(p, ops.cast(wide, size[s])) for p, s in ((y, "H"), (x, "W"))]
                    kept = [
                        ops.minimum(ops.maximum(p, number(0.0)), ops.cast(wide, ops.sub(size[s], 1)))
                        for p, s in ((y, "H"), (x, "W"))
                    ]
                    found = intrin.if_then_else(ops.logical_and(*far), between(pixel, kept), number(0.0))
                    sums[n, 0] = sums[n, 0] + found if mode == "avg" else ops.maximum(sums[n, 0], found)
                total: PrimExpr = sums[n, 0]
                if mode == "max":
                    nothing = ops.logical_or(ops.less(down, 1), ops.less(along, 1))
                    total = Select(nothing, number(0.0), total)
                else:
                    total = total / ops.cast(wide, ops.maximum(down * along, ops.const(1, "int64")))
                at = {"N": n, "C": c, "H": i, "W": j}
                result[tuple(at[name] for name in layout)] = ops.cast(data.dtype, total)
        return ib.get()

    made: Tensor = extern(shape, [data, rois], body, name=op, dtype=data.dtype, tag="roi_align")
    return made


def roi_pool_nchw(data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float) -> Tensor:
    """Each region's largest value in each of `pooled_size` bins, whose borders are whole pixels.

    `data` is (N, C, H, W); `rois` (regions, 5): image, x1, y1, x2, y2. An empty bin is 0.
    """
    op = "roi_pool_nchw"
    _check(op, data, rois)
    high, across = _bins(op, pooled_size)
    _, channels, height, width = data.shape
    dtype = data.dtype

    def edge(region: Any, n: PrimExpr, f: int) -> PrimExpr:
        scaled = region[n, f].astype("float32") * ops.const(spatial_scale, "float32")
        return ops.cast("int32", intrin.round(scaled))

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        image, region, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with rows(ib, (rois.shape[0], ops.const(1)), 1) as row:
            n = row.at(0)[0]
            which = ib.let("which", region[n, 0].astype("int32"))
            x1, y1, x2, y2 = (ib.let("edge", edge(region, n, f)) for f in range(1, 5))
            tall = ops.maximum(ops.add(ops.sub(y2, y1), 1), 1)
            broad = ops.maximum(ops.add(ops.sub(x2, x1), 1), 1)
            with points(ib, (channels, ops.const(high), ops.const(across))) as (c, i, j):
                bounds = []
                for index, extent, bins, first, size in (
                    (i, tall, high, y1, height), (j, broad, across, x1, width)
                ):  # fmt: skip
                    start = ops.add(ops.floordiv(ops.mul(index, extent), bins), first)
                    end = ops.add(ops.ceildiv(ops.mul(ops.add(index, 1), extent), bins), first)
                    bounds += [
                        ib.let("bound", ops.minimum(ops.maximum(place, 0), ops.cast("int32", size)))
                        for place in (start, end)
                    ]
                top, bottom, left, right = bounds
                empty = ops.logical_or(ops.less_equal(bottom, top), ops.less_equal(right, left))
                result[n, c, i, j] = intrin.select(empty, ops.const(0, dtype), ops.min_value(dtype))
                with ib.for_range(top, bottom, "y") as y, ib.for_range(left, right, "x") as x:
                    result[n, c, i, j] = ops.maximum(result[n, c, i, j], image[which, c, y, x])
        return ib.get()

    shape = (rois.shape[0], channels, ops.const(high), ops.const(across))
    made: Tensor = extern(shape, [data, rois], body, name=op, dtype=dtype, tag="roi_pool")
    return made


def reorg(data: Tensor, stride: int) -> Tensor:
    """Pixels as channels: (N, C, H, W) becomes (N, C * stride², H / stride, W / stride), in YOLO's order."""
    need_rank("reorg", data, 4)
    n, c, h, w = data.shape
    known = [ops.as_int(size) for size in (h, w)]
    if stride < 1 or any(size is not None and size % stride for size in known):
        raise refusal("reorg", f"stride {stride} does not divide {described(data)}")

    def value(b: PrimExpr, channel: PrimExpr, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        part, source = ops.floordiv(channel, c), ops.floormod(channel, c)
        row = ops.add(ops.mul(y, stride), ops.floordiv(part, stride))
        column = ops.add(ops.mul(x, stride), ops.floormod(part, stride))
        return data(b, source, row, column)

    shape = (n, ops.mul(c, stride * stride), ops.floordiv(h, stride), ops.floordiv(w, stride))
    result: Tensor = compute(shape, value, name="reorg", tag="injective")
    return result
