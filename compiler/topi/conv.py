"""Padding and convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, const, if_then_else, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Pair = int | Sequence[int]


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: float | PrimExpr = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """`data` with `pad_before[d]` and `pad_after[d]` elements of `pad_value` around dimension d.

    `pad_after` is `pad_before` unless given. Raises IRError unless there is one amount a dimension.
    """
    after = pad_before if pad_after is None else pad_after
    if len(pad_before) != data.ndim or len(after) != data.ndim:
        raise IRError(
            f"pad of {data.name!r} {shape_text(data.shape)} needs {data.ndim} amounts before and after, "
            f"got {len(pad_before)} and {len(after)}" + at(caller_span())
        )
    value = const(pad_value, data.dtype) if isinstance(pad_value, int | float) else pad_value
    shape = [ops.add(ops.add(d, b), a) for d, b, a in zip(data.shape, pad_before, after)]

    def element(*indices: PrimExpr) -> PrimExpr:
        inside: list[PrimExpr] = []
        point: list[PrimExpr] = []
        for index, size, before, behind in zip(indices, data.shape, pad_before, after):
            point.append(ops.sub(index, before))
            if not ops.is_const(ops.as_expr(before), 0):
                inside.append(index >= before)
            if not ops.is_const(ops.as_expr(behind), 0):
                inside.append(index < ops.add(size, before))
        if not inside:
            return data(*point)
        return if_then_else(ops.logical_and(*inside), data(*point), value)

    result: Tensor = compute(shape, element, name=name, tag="injective,pad")
    return result


def conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolution of images in NCHW layout.

    `data` is (N, C, H, W), `kernel` (K, C, R, S); the result is (N, K, OH, OW) of `out_dtype` (`data`'s
    unless given). `stride` and `dilation` are one number or (height, width); `padding` is one number,
    (height, width), (top, left, bottom, right), "VALID" or "SAME". Raises IRError when shapes do not fit.
    """
    if data.ndim != 4 or kernel.ndim != 4:
        raise IRError(
            f"conv2d_nchw needs 4 dimensions, got data {shape_text(data.shape)} and kernel "
            f"{shape_text(kernel.shape)}" + at(caller_span())
        )
    batch, channels, height, width = data.shape
    filters, kernel_channels, kernel_h, kernel_w = kernel.shape
    if _known_different(channels, kernel_channels):
        raise IRError(
            f"conv2d_nchw: data {shape_text(data.shape)} and kernel {shape_text(kernel.shape)} have "
            "different numbers of channels" + at(caller_span())
        )
    (stride_h, stride_w), (dilation_h, dilation_w) = _pair(stride, "stride"), _pair(dilation, "dilation")
    window_h = ops.add(ops.mul(ops.sub(kernel_h, 1), dilation_h), 1)
    window_w = ops.add(ops.mul(ops.sub(kernel_w, 1), dilation_w), 1)
    top, left, bottom, right = _paddings(padding, window_h, window_w)
    out_h = _out_size(height, window_h, stride_h, ops.add(top, bottom))
    out_w = _out_size(width, window_w, stride_w, ops.add(left, right))
    dtype = out_dtype if out_dtype is not None else data.dtype
    source = data
    if not all(ops.is_const(p, 0) for p in (top, left, bottom, right)):
        source = pad(data, (0, 0, top, left), (0, 0, bottom, right), name="pad_temp")
    rc = reduce_axis((0, channels), name="rc")
    ry = reduce_axis((0, kernel_h), name="ry")
    rx = reduce_axis((0, kernel_w), name="rx")
    result: Tensor = compute(
        (batch, filters, out_h, out_w),
        lambda nn, ff, yy, xx: te_sum(
            source[nn, rc, yy * stride_h + ry * dilation_h, xx * stride_w + rx * dilation_w].astype(dtype)
            * kernel[ff, rc, ry, rx].astype(dtype),
            axis=[rc, ry, rx],
        ),
        name="conv2d_nchw",
        tag="conv2d_nchw",
    )
    return result


def _known_different(a: PrimExpr, b: PrimExpr) -> bool:
    left, right = ops.as_int(a), ops.as_int(b)
    return left is not None and right is not None and left != right


def _pair(value: Pair, what: str) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or any(not isinstance(v, int) or v < 1 for v in pair):
        raise IRError(f"{what} must be one or two positive integers, got {value!r}" + at(caller_span()))
    return pair[0], pair[1]


def _paddings(
    padding: Pair | str, window_h: PrimExpr, window_w: PrimExpr
) -> tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr]:
    """(top, left, bottom, right)."""
    if isinstance(padding, str):
        match padding.upper():
            case "VALID":
                return _paddings(0, window_h, window_w)
            case "SAME":
                total_h, total_w = ops.sub(window_h, 1), ops.sub(window_w, 1)
                top, left = ops.floordiv(total_h, 2), ops.floordiv(total_w, 2)
                return top, left, ops.sub(total_h, top), ops.sub(total_w, left)
    else:
        amounts = [padding] * 4 if isinstance(padding, int) else list(padding)
        if len(amounts) == 2:
            amounts = amounts * 2
        if len(amounts) == 4 and all(isinstance(a, int) and a >= 0 for a in amounts):
            top, left, bottom, right = map(ops.as_expr, amounts)
            return top, left, bottom, right
    raise IRError(f"padding {padding!r} is not one, two or four integers, 'VALID' or 'SAME'" + at(caller_span()))


def _out_size(size: PrimExpr, window: PrimExpr, stride: int, padding: PrimExpr) -> PrimExpr:
    room = ops.sub(ops.add(size, padding), window)
    known = ops.as_int(room)
    if known is not None and known < 0:
        raise IRError(
            f"conv2d_nchw: a window of {window!r} does not fit in {size!r} with padding {padding!r}" + at(caller_span())
        )
    return ops.add(ops.floordiv(room, stride), 1)
