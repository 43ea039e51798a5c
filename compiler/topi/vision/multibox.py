"""Boxes of single-shot detectors: priors, and predictions made from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described, differ, need_floats, need_rank, refusal, simplified


def multibox_transform_loc(
    cls_prob: Tensor, loc_pred: Tensor, anchor: Tensor, clip: bool = True, threshold: float = 0.01,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2), keep_background: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Return the boxes that `loc_pred` moves `anchor` to, and their scores.

    The result is [boxes (batch, n, 4), scores (batch, classes, n)]. `cls_prob` is (batch, classes, n), `loc_pred`
    (batch, 4 n) holds moves of middle and size, `anchor` (1, n, 4) corners: left, top, right, bottom. Scores below
    `threshold` become 0, and so do those of class 0 unless `keep_background`; with `clip` boxes stay within 0 and 1.
    Raises IRError when shapes do not fit.
    """
    op = "multibox_transform_loc"
    need_floats(op, cls_prob, loc_pred, anchor)
    for tensor, rank in ((cls_prob, 3), (loc_pred, 2), (anchor, 3)):
        need_rank(op, tensor, rank)
    batch, _, count = cls_prob.shape
    fits = not differ(anchor.shape[1], count) and not differ(anchor.shape[2], 4) and not differ(anchor.shape[0], 1)
    fits &= not differ(loc_pred.shape[0], batch) and not differ(simplified(loc_pred.shape[1]), simplified(count * 4))
    if not fits or len(variances) != 4:
        raise refusal(op, f"{described(cls_prob, loc_pred, anchor)} with variances {tuple(variances)!r}")
    dtype = loc_pred.dtype

    def box(b: Var, i: Var, corner: Var) -> PrimExpr:
        left, top, right, bottom = (anchor(ops.const(0), i, ops.const(f)).astype(dtype) for f in range(4))
        moves = [loc_pred(b, ops.add(ops.mul(i, 4), f)) * const(v, dtype) for f, v in enumerate(variances)]
        half = const(0.5, dtype)
        edges: list[PrimExpr] = []
        for low, high, move, growth in ((left, right, moves[0], moves[2]), (top, bottom, moves[1], moves[3])):
            length = high - low
            middle = move * length + (low + high) * half
            reach = intrin.exp(growth) * length * half
            edges += [middle - reach, middle + reach]
        ordered = [edges[0], edges[2], edges[1], edges[3]]
        result = ordered[3]
        for f in (2, 1, 0):
            result = intrin.select(ops.equal(corner, f), ordered[f], result)
        if clip:
            result = ops.maximum(ops.minimum(result, const(1.0, dtype)), const(0.0, dtype))
        return result

    def score(b: Var, c: Var, i: Var) -> PrimExpr:
        value = cls_prob(b, c, i)
        kept = ops.greater_equal(value, const(threshold, cls_prob.dtype))
        if not keep_background:
            kept = ops.logical_and(kept, ops.greater(c, 0))
        return intrin.select(kept, value, const(0.0, cls_prob.dtype))

    boxes: Tensor = compute((batch, count, 4), box, name="T_multibox_boxes", tag="injective")
    scores: Tensor = compute(cls_prob.shape, score, name="T_multibox_scores", tag="elemwise")
    return [boxes, scores]


def multibox_prior(
    data: Tensor, sizes: Sequence[float] = (1,), ratios: Sequence[float] = (1,), steps: Sequence[float] = (-1, -1),
    offsets: Sequence[float] = (0.5, 0.5), clip: bool = False,
) -> Tensor:  # fmt: skip
    """The prior boxes of each pixel of `data` (N, C, H, W): (1, H * W * (sizes + ratios - 1), 4) corners.

    First each of `sizes` at the first of `ratios`, then the first size at the other ratios. `steps` are distances of
    pixels (1 / size when not positive), `offsets` where in a pixel its middle lies; both down, then across.
    """
    op = "multibox_prior"
    need_rank(op, data, 4)
    if not sizes or not ratios or len(steps) != 2 or len(offsets) != 2:
        raise refusal(op, f"sizes {sizes!r}, ratios {ratios!r}, steps {steps!r}, offsets {offsets!r}")
    height, width = data.shape[2:]
    dtype = "float32"
    shapes = [(size, math.sqrt(ratios[0])) for size in sizes] + [(sizes[0], math.sqrt(r)) for r in ratios[1:]]
    each = len(shapes)

    def value(_: Var, position: Var, corner: Var) -> PrimExpr:
        number, pixel = ops.floormod(position, each), ops.floordiv(position, each)
        y, x = ops.floordiv(pixel, width), ops.floormod(pixel, width)

        def middle(index: PrimExpr, step: float, offset: float, size: PrimExpr) -> PrimExpr:
            place = ops.cast(dtype, index) + const(offset, dtype)
            return place * const(step, dtype) if step > 0 else place / ops.cast(dtype, size)

        down, across = middle(y, steps[0], offsets[0], height), middle(x, steps[1], offsets[1], width)
        ratio = ops.cast(dtype, height) / ops.cast(dtype, width)
        result = const(0.0, dtype)
        for n, (size, root) in enumerate(shapes):
            half_w, half_h = ratio * const(size * root / 2, dtype), const(size / root / 2, dtype)
            corners = [across - half_w, down - half_h, across + half_w, down + half_h]
            picked = corners[3]
            for f in (2, 1, 0):
                picked = intrin.select(ops.equal(corner, f), corners[f], picked)
            result = intrin.select(ops.equal(number, n), picked, result)
        if clip:
            result = ops.maximum(ops.minimum(result, const(1.0, dtype)), const(0.0, dtype))
        return result

    count = ops.mul(ops.mul(height, width), each)
    made: Tensor = compute((1, count, 4), value, name="T_multibox_prior", tag="injective")
    return made
