"""Sampling an image at the places of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described, differ, need_floats, need_one_of, need_rank, need_shape, refusal
from compiler.topi.image.sampling import Read, clamped, cubic, inside, linear, whole


def affine_grid(data: Tensor, target_shape: Sequence[Any], align_corners: bool = True) -> Tensor:
    """The places from -1 to 1 that affine matrices `data` map the pixels of `target_shape` to.

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
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
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
