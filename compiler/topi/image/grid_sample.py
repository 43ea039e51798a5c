"""Sampling an image at the places of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from compiler.te.extern import extern
from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import create
from compiler.tir.nodes import PrimExpr, Stmt, Var
from compiler.topi.checks import described, differ, need_floats, need_one_of, need_rank, need_shape, refusal
from compiler.topi.image.sampling import Read, clamped, cubic, inside, linear, whole
from compiler.topi.rows import points, rows


def affine_grid(data: Tensor, target_shape: Sequence[Any], align_corners: bool = True) -> Tensor:
    """The points, from -1 to 1, to which affine matrices `data` map the pixels of `target_shape`.

    Matrices (N, 2, 3) with (height, width) give (N, 2, height, width), x first; (N, 3, 4) with (depth, height, width)
    give (N, 3, depth, height, width). With `align_corners` the outer pixels stand at -1 and 1, else their edges do.
    """
    op = "affine_grid"
    need_floats(op, data)
    need_rank(op, data, 3)
    rank = len(target_shape)
    if rank not in (2, 3):
        raise refusal(op, f"target_shape {target_shape!r} is neither (height, width) nor (depth, height, width)")
    need_shape(op, data, [data.shape[0], rank, rank + 1])
    sizes = [ops.as_expr(size) for size in target_shape]
    dtype = data.dtype

    def along(i: PrimExpr, size: PrimExpr) -> PrimExpr:
        one, two = const(1.0, dtype), const(2.0, dtype)
        if not align_corners:
            return (ops.cast(dtype, i) * two + one) / ops.cast(dtype, size) - one
        steps = ops.maximum(ops.cast(dtype, ops.sub(size, 1)), one)
        return ops.cast(dtype, i) * (two / steps) - one

    k = reduce_axis((0, rank + 1), name="k")

    def value(n: Var, axis: Var, *point: Var) -> PrimExpr:
        place: PrimExpr = const(1.0, dtype)
        for number, (i, size) in enumerate(reversed(list(zip(point, sizes)))):
            place = intrin.select(ops.equal(k.var, number), along(i, size), place)
        result: PrimExpr = te_sum(data(n, axis, k) * place, axis=k)
        return result

    result: Tensor = compute((data.shape[0], rank, *sizes), value, name=op, tag="affine_grid")
    return result


def grid_sample(
    data: Tensor, grid: Tensor, method: str = "bilinear", layout: str = "NCHW", padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:  # fmt: skip
    """The values of `data` at the places of `grid`: x, y (, z) in its second dimension, from -1 to 1.

    `data` is NCHW with a grid (N, 2, height, width), or NCDHW with (N, 3, depth, height, width). `method` is
    "bilinear", "nearest" or "bicubic" (2-D). Outside, `padding_mode` "zeros" reads 0, "border" the nearest pixel,
    "reflection" mirrored. With `align_corners` -1 and 1 are the middles of the outer pixels, else their outer edges.
    """
    op = "grid_sample"
    need_one_of(op, "layout", layout, ("NCHW", "NCDHW"))
    need_one_of(op, "method", method, ("bilinear", "nearest", "bicubic"))
    need_one_of(op, "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    need_floats(op, data, grid)
    rank = len(layout) - 2
    need_rank(op, data, rank + 2)
    need_rank(op, grid, rank + 2)
    if differ(grid.shape[0], data.shape[0]) or differ(grid.shape[1], rank):
        raise refusal(op, f"shapes do not fit: {described(data, grid)}")
    if method == "bicubic" and rank != 2:
        raise refusal(op, f"bicubic needs images, got layout {layout!r}")
    sizes = list(data.shape[2:])
    wide = "float64" if data.dtype == "float64" else "float32"

    def value(n: Var, c: Var, *indices: Var) -> PrimExpr:
        places: list[PrimExpr] = []
        for axis, size in enumerate(sizes):
            given = grid(n, ops.const(rank - 1 - axis), *indices).astype(wide)
            places.append(_unnormalised(given, size, align_corners, wide))
        if padding_mode != "zeros" and method != "bicubic":
            places = [_brought_in(p, s, padding_mode, align_corners) for p, s in zip(places, sizes)]

        def pixel(*point: PrimExpr) -> PrimExpr:
            if padding_mode == "zeros":
                held = ops.logical_and(*(inside(p, s) for p, s in zip(point, sizes)))
                kept = [clamped(p, s) for p, s in zip(point, sizes)]
                return intrin.if_then_else(held, data(n, c, *kept), const(0.0, data.dtype))
            if method == "bicubic" and padding_mode == "reflection":
                mirrored = [
                    whole(_reflected(ops.cast(wide, p), s, align_corners) + const(0.5, wide))
                    for p, s in zip(point, sizes)
                ]
                return data(n, c, *(clamped(p, s) for p, s in zip(mirrored, sizes)))
            return data(n, c, *(clamped(p, s) for p, s in zip(point, sizes)))

        read: Read = pixel
        if method == "nearest":
            return read(*(whole(intrin.nearbyint(p)) for p in places))
        found = linear(read, places) if method == "bilinear" else cubic(read, places, -0.75)
        return ops.cast(data.dtype, found)

    shape = [data.shape[0], data.shape[1], *grid.shape[2:]]
    result: Tensor = compute(shape, value, name=op, tag="grid_sample")
    return result


def _unnormalised(place: PrimExpr, size: PrimExpr, align_corners: bool, dtype: str) -> PrimExpr:
    one, half, count = const(1.0, dtype), const(0.5, dtype), ops.cast(dtype, size)
    if align_corners:
        return (place + one) * half * (count - one)
    return ((place + one) * count - one) * half


def _brought_in(place: PrimExpr, size: PrimExpr, mode: str, align_corners: bool) -> PrimExpr:
    last = ops.cast(place.dtype, ops.sub(size, 1))
    moved = _reflected(place, size, align_corners) if mode == "reflection" else place
    return ops.maximum(ops.minimum(moved, last), const(0.0, place.dtype))


def _reflected(place: PrimExpr, size: PrimExpr, align_corners: bool) -> PrimExpr:
    """A place mirrored at the outer pixels' middles, or at their outer edges."""
    dtype = place.dtype
    count, zero = ops.cast(dtype, size), const(0.0, dtype)
    low, span = (zero, count - const(1.0, dtype)) if align_corners else (const(-0.5, dtype), count)
    far = intrin.abs(place - low)
    safe = ops.maximum(span, const(1e-12, dtype))
    turns = intrin.floor(far / safe)
    extra = far - turns * safe
    even = ops.equal(turns - const(2.0, dtype) * intrin.floor(turns * const(0.5, dtype)), zero)
    mirrored = intrin.select(even, extra + low, span - extra + low)
    return intrin.select(ops.greater(span, zero), mirrored, zero)


# ----------------------------------------------------------------------------------- gradients


def grid_sample_data_backward(
    grad: Tensor, data: Tensor, grid: Tensor, method: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:  # fmt: skip
    """The gradient of `data` in `grid_sample`.
    Each point adds to the pixels that it read. `method` is not bicubic."""
    op = "grid_sample_data_backward"
    need_one_of(op, "method", method, ("bilinear", "nearest"))
    sizes = list(data.shape[2:])
    wide = "float64" if data.dtype == "float64" else "float32"

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, where, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with points(ib, data.shape) as point:
            out[point] = const(0.0, data.dtype)
        with rows(ib, (data.shape[0], data.shape[1], ops.const(1)), 2) as row:
            n, c = row.at(0)[:2]
            with points(ib, grid.shape[2:]) as at:
                places = _places(lambda a: where[(n, a, *at)], sizes, padding_mode, align_corners, wide)
                whole_of = intrin.nearbyint if method == "nearest" else intrin.floor
                below = [ib.let("below", whole(whole_of(place))) for place in places]
                parts = [place - ops.cast(wide, low) for place, low in zip(places, below)]
                bits = [0] if method == "nearest" else [0, 1]
                for corner in product(bits, repeat=len(sizes)):
                    pixel = [ops.add(low, bit) for low, bit in zip(below, corner)]
                    weight = _weight(parts, corner, wide) if method == "bilinear" else const(1.0, wide)
                    kept = tuple(clamped(p, s) for p, s in zip(pixel, sizes))
                    added = out[(n, c, *kept)] + ops.cast(data.dtype, given[(n, c, *at)].astype(wide) * weight)
                    if padding_mode != "zeros":
                        out[(n, c, *kept)] = added
                        continue
                    with ib.if_scope(ops.logical_and(*(inside(p, s) for p, s in zip(pixel, sizes)))):
                        out[(n, c, *kept)] = added
        return ib.get()

    made: Tensor = extern(data.shape, [grad, grid], body, name="T_grid_sample_data", dtype=data.dtype, tag="scatter")
    return made


def grid_sample_grid_backward(
    grad: Tensor, data: Tensor, grid: Tensor, padding_mode: str = "zeros", align_corners: bool = True
) -> Tensor:
    """The gradient of `grid`, (N, 2 or 3, …), in bilinear `grid_sample`."""
    sizes = list(data.shape[2:])
    rank, wide = len(sizes), "float64" if data.dtype == "float64" else "float32"
    k = reduce_axis((0, data.shape[1]), name="k")

    def value(n: Var, axis: Var, *at: Var) -> PrimExpr:
        raw = [_unnormalised(grid(n, ops.const(rank - 1 - d), *at).astype(wide), size, align_corners, wide)
               for d, size in enumerate(sizes)]  # fmt: skip
        places = _places(lambda a: grid(n, a, *at), sizes, padding_mode, align_corners, wide)
        below = [whole(place) for place in places]
        parts = [place - ops.cast(wide, low) for place, low in zip(places, below)]

        def pixel(corner: Sequence[int]) -> PrimExpr:
            spot = [ops.add(low, bit) for low, bit in zip(below, corner)]
            read = data(n, k, *(clamped(p, s) for p, s in zip(spot, sizes))).astype(wide)
            held = ops.logical_and(*(inside(p, s) for p, s in zip(spot, sizes)))
            return intrin.select(held, read, const(0.0, wide)) if padding_mode == "zeros" else read

        slope: PrimExpr = const(0.0, wide)
        for d, size in enumerate(sizes):
            found: PrimExpr = const(0.0, wide)
            for corner in product([0, 1], repeat=rank):
                others = [part for n_, part in enumerate(parts) if n_ != d]
                weight = _weight(others, [bit for n_, bit in enumerate(corner) if n_ != d], wide)
                signed = pixel(corner) * weight
                found = found + signed if corner[d] else found - signed
            count = ops.cast(wide, size)
            scale = (count - const(1.0, wide) if align_corners else count) * const(0.5, wide)
            steep = found * scale * _slope_inside(raw[d], size, padding_mode, align_corners)
            slope = intrin.select(ops.equal(axis, rank - 1 - d), steep, slope)
        result: PrimExpr = te_sum(grad(n, k, *at).astype(wide) * slope, axis=k)
        return result

    summed: Tensor = compute(grid.shape, value, name="T_grid_sample_grid", tag="comm_reduce")
    if wide == grid.dtype:
        return summed
    made: Tensor = compute(grid.shape, lambda *i: summed(*i).astype(grid.dtype), name="T_narrow", tag="elemwise")
    return made


def _places(
    read: Callable[[PrimExpr], PrimExpr], sizes: Sequence[PrimExpr], mode: str, align_corners: bool, wide: str
) -> list[PrimExpr]:
    """Where a point of the grid lies in the image, a number a dimension.
    `read(a)` is one of its numbers."""
    last = len(sizes) - 1
    found = [
        _unnormalised(read(ops.const(last - d)).astype(wide), size, align_corners, wide)
        for d, size in enumerate(sizes)
    ]
    return found if mode == "zeros" else [_brought_in(p, s, mode, align_corners) for p, s in zip(found, sizes)]


def _weight(parts: Sequence[PrimExpr], corner: Sequence[int], wide: str) -> PrimExpr:
    """The share of a corner of the pixels around a place."""
    total: PrimExpr = const(1.0, wide)
    for part, bit in zip(parts, corner):
        total = total * (part if bit else const(1.0, wide) - part)
    return total


def _slope_inside(place: PrimExpr, size: PrimExpr, mode: str, align_corners: bool) -> PrimExpr:
    """The derivative of a point that is brought into the image: 1, -1 when mirrored, 0 at a border."""
    dtype = place.dtype
    one, zero, last = const(1.0, dtype), const(0.0, dtype), ops.cast(dtype, ops.sub(size, 1))
    if mode == "zeros":
        return one
    step = const(1e-3, dtype)
    moved = [_reflected(p, size, align_corners) if mode == "reflection" else p for p in (place, place + step)]
    within = ops.logical_and(moved[0] > zero, moved[0] < last)
    return intrin.select(within, intrin.select(moved[1] > moved[0], one, const(-1.0, dtype)), zero)
