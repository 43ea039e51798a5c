"""Operators that keep parts of a tensor: triangles, valid lengths, diagonals, windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.te.operation import compute
from compiler.te.tensor import Tensor, shape_text
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import (
    described,
    modulo,
    need_dtype,
    need_integers,
    need_one_of,
    need_shape,
    refusal,
    simplified,
)
from compiler.topi.reduction import normal_axes
from compiler.topi.transform import reshape


def trilu(data: Tensor, k: Any, upper: bool) -> Tensor:
    """The upper or lower triangle of the matrices in the last two dimensions; the rest is zero.

    The diagonal `k` belongs to it: 0 is the main one, positive ones lie above. `k` may be an expression or an integer
    tensor without dimensions. Raises IRError for fewer than two dimensions.
    """
    if data.ndim < 2:
        raise refusal("trilu", f"{described(data)} needs at least 2 dimensions")
    diagonal = k() if isinstance(k, Tensor) else ops.as_expr(k)

    def value(*i: Var) -> PrimExpr:
        far = ops.sub(i[-1], i[-2])
        kept = ops.greater_equal(far, diagonal) if upper else ops.less_equal(far, diagonal)
        return intrin.select(kept, data(*i), ops.const(0, data.dtype))

    result: Tensor = compute(data.shape, value, name="T_trilu", tag="injective")
    return result


def tril(data: Tensor, k: Any = 0) -> Tensor:
    """The lower triangle: `trilu` with upper=False."""
    return trilu(data, k, False)


def triu(data: Tensor, k: Any = 0) -> Tensor:
    """The upper triangle: `trilu` with upper=True."""
    return trilu(data, k, True)


def sequence_mask(data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0) -> Tensor:
    """`data` with `mask_value` behind the valid length of each sequence.

    Sequences run along `axis`, 0 or 1; the other of both is the batch, with one valid length each. Raises IRError
    when shapes do not fit.
    """
    need_one_of("sequence_mask", "axis", axis, (0, 1))
    if data.ndim < 2:
        raise refusal("sequence_mask", f"{described(data)} needs at least 2 dimensions")
    need_shape("sequence_mask", valid_length, [data.shape[1 - axis]])

    def value(*i: Var) -> PrimExpr:
        valid = ops.less(ops.cast(valid_length.dtype, i[axis]), valid_length(i[1 - axis]))
        return intrin.select(valid, data(*i), ops.const(mask_value, data.dtype))

    result: Tensor = compute(data.shape, value, name="T_sequence_mask", tag="injective")
    return result


def reverse_sequence(a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """Return `a` with the first `seq_lengths[b]` elements along `seq_axis` backwards.
    It is done for each b along `batch_axis`."""
    op = "reverse_sequence"
    (seq,) = normal_axes(op, seq_axis, a.ndim)
    (batch,) = normal_axes(op, batch_axis, a.ndim)
    need_integers(op, seq_lengths)
    need_shape(op, seq_lengths, [a.shape[batch]])
    if seq == batch:
        raise refusal(op, f"seq_axis {seq_axis} and batch_axis {batch_axis} are the same")

    def value(*i: Var) -> PrimExpr:
        index = i[seq]
        length = ops.minimum(seq_lengths(i[batch]), ops.cast(seq_lengths.dtype, a.shape[seq]))
        turned = intrin.select(
            ops.logical_and(ops.greater(length, 1), ops.less(index, length)), ops.sub(ops.sub(length, 1), index), index
        )
        return a(*i[:seq], turned, *i[seq + 1 :])

    result: Tensor = compute(a.shape, value, name="T_reverse_sequence", tag="injective")
    return result


def matrix_set_diag(
    data: Tensor, diagonal: Tensor, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """`data` with the diagonals k[0] to k[1] (or k) of the matrices in its last two dimensions set.

    With several, `diagonal` holds them in rows, the uppermost first, each as wide as the longest; `align` says at
    which side shorter ones above and below the main one stand. Raises IRError when shapes do not fit.
    """
    op = "matrix_set_diag"
    need_one_of(op, "align", align, ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"))
    need_dtype(op, data.dtype, diagonal)
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    several = low != high
    if data.ndim < 2 or low > high or diagonal.ndim != data.ndim - (0 if several else 1):
        raise refusal(op, f"diagonals {k!r} of {described(data, diagonal)}")
    rows, columns = data.shape[-2:]
    above, below = align.split("_")
    widest = diagonal.shape[-1]

    def length(d: PrimExpr) -> PrimExpr:
        return ops.minimum(ops.sub(columns, ops.maximum(d, 0)), ops.add(rows, ops.minimum(d, 0)))

    def value(*i: Var) -> PrimExpr:
        row, column = i[-2:]
        d = ops.sub(column, row)
        along = ops.minimum(row, column)
        hit = ops.logical_and(ops.greater_equal(d, low), ops.less_equal(d, high))
        if not several:
            return intrin.if_then_else(hit, diagonal(*i[:-2], along), data(*i))
        shift = ops.sub(widest, length(d))
        # above the main diagonal (d >= 0) `above` tells, below it `below`
        offset = intrin.select(
            ops.greater_equal(d, 0),
            shift if above == "RIGHT" else ops.const(0),
            shift if below == "RIGHT" else ops.const(0),
        )
        return intrin.if_then_else(hit, diagonal(*i[:-2], ops.sub(high, d), ops.add(along, offset)), data(*i))

    result: Tensor = compute(data.shape, value, name="T_matrix_set_diag", tag="injective")
    return result


def sliding_window(data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return windows over the dimensions from `axis` on.
    Their numbers come first, then the elements of a window as further dimensions."""
    op = "sliding_window"
    (first,) = normal_axes(op, axis, data.ndim)
    moved = data.shape[first:]
    fits = len(window_shape) == len(strides) == len(moved) and min([1, *window_shape, *strides]) >= 1
    if not fits or any((ops.as_int(s) or w) < w for s, w in zip(moved, window_shape) if ops.as_int(s) is not None):
        raise refusal(op, f"windows {list(window_shape)} with strides {list(strides)} over {shape_text(data.shape)}")
    counts = [
        simplified(ops.add(ops.floordiv(ops.sub(size, w), s), 1)) for size, w, s in zip(moved, window_shape, strides)
    ]
    rank = len(moved)

    def value(*i: Var) -> PrimExpr:
        starts, inner = i[first : first + rank], i[first + rank :]
        return data(*i[:first], *(ops.add(ops.mul(a, s), b) for a, s, b in zip(starts, strides, inner)))

    shape = [*data.shape[:first], *counts, *map(ops.const, window_shape)]
    result: Tensor = compute(shape, value, name="T_sliding_window", tag="injective")
    return result


def roll(data: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """`data` shifted by `shift` along `axis`: elements that leave at the end come back at the start.

    Without an axis the flat data is shifted. Raises IRError unless there is one shift an axis.
    """


    if axis is None:
        if not isinstance(shift, int):
            raise refusal("roll", f"several shifts {shift!r} need as many axes")
        return reshape(roll(reshape(data, (-1,)), shift, 0), list(data.shape))
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] if isinstance(shift, int) else list(shift)
    if len(axes) != len(shifts):
        raise refusal("roll", f"{len(shifts)} shifts for {len(axes)} axes")
    total = [0] * data.ndim
    for a, s in zip(axes, shifts):
        (dim,) = normal_axes("roll", a, data.ndim)
        total[dim] += s

    def value(*i: Var) -> PrimExpr:
        moved = zip(i, total, data.shape)
        return data(*(index if s == 0 else modulo(ops.sub(index, s), size) for index, s, size in moved))

    result: Tensor = compute(data.shape, value, name="T_roll", tag="injective")
    return result
