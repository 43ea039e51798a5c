"""Deformable convolution: each tap reads at an offset that another tensor holds."""

from __future__ import annotations

from typing import Any

from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described, differ, need_rank, need_shape, refusal
from compiler.topi.image.sampling import bilinear
from compiler.topi.nn.conv import out_size, paddings, positive_ints


def deformable_conv2d_nchw(
    data: Tensor, offset: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, deformable_groups: int,
    groups: int, out_dtype: str | None,
) -> Tensor:  # fmt: skip
    """The convolution of `data` (N, C, H, W) with `kernel` (K, C / groups, R, S), taps moved by `offset`.

    `offset` is (N, deformable_groups * R * S * 2, OH, OW): for each tap first down, then across. Values between
    pixels are interpolated; outside the image they are 0. Raises IRError when shapes do not fit.
    """
    op = "deformable_conv2d_nchw"
    for tensor in (data, offset, kernel):
        need_rank(op, tensor, 4)
    n, c, h, w = data.shape
    filters, per_group, rows, columns = kernel.shape
    known, count = ops.as_int(c), ops.as_int(filters)
    bad = min(groups, deformable_groups) < 1 or differ(c, ops.mul(per_group, groups))
    if bad or (known or 0) % deformable_groups or (count or 0) % groups:
        raise refusal(op, f"{described(data, kernel)} in {groups} groups and {deformable_groups} deformable ones")
    moves, gaps = positive_ints(strides, 2, "strides"), positive_ints(dilation, 2, "dilation")
    spans = [ops.add(ops.mul(ops.sub(k, 1), d), 1) for k, d in zip((rows, columns), gaps)]
    before, after = paddings(padding, spans)
    out = [
        out_size(op, size, span, s, ops.add(b, a))
        for size, span, s, b, a in zip((h, w), spans, moves, before, after)
    ]
    taps = ops.mul(rows, columns)
    need_shape(op, offset, [n, ops.mul(taps, deformable_groups * 2), *out])
    dtype = out_dtype or data.dtype
    per_offset = ops.floordiv(c, deformable_groups)

    def moved(b: Var, channel: Var, y: Var, x: Var, r: Var, s: Var) -> PrimExpr:
        tap = ops.add(ops.mul(ops.floordiv(channel, per_offset), taps), ops.add(ops.mul(r, columns), s))
        down, across = (offset(b, ops.add(ops.mul(tap, 2), part), y, x).astype("float32") for part in (0, 1))
        top = ops.sub(ops.add(ops.mul(y, moves[0]), ops.mul(r, gaps[0])), before[0])
        left = ops.sub(ops.add(ops.mul(x, moves[1]), ops.mul(s, gaps[1])), before[1])
        place = ops.cast("float32", top) + down, ops.cast("float32", left) + across
        return bilinear(lambda i, j: data(b, channel, i, j), (h, w), *place)

    sampled: Tensor = compute([n, c, *out, rows, columns], moved, name="T_deformed", tag="injective")
    rc = reduce_axis((0, per_group), name="rc")
    ry, rx = reduce_axis((0, rows), name="ry"), reduce_axis((0, columns), name="rx")
    each = ops.floordiv(filters, groups)

    def value(b: Var, f: Var, y: Var, x: Var) -> PrimExpr:
        channel = ops.add(ops.mul(ops.floordiv(f, each), per_group), rc.var) if groups > 1 else rc.var
        term = sampled(b, channel, y, x, ry, rx).astype(dtype) * kernel(f, rc, ry, rx).astype(dtype)
        result: PrimExpr = te_sum(term, axis=[rc, ry, rx])
        return result

    result: Tensor = compute([n, filters, *out], value, name=op, tag=op)
    return result
