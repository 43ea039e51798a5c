"""Operators that move elements between channels, images and pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, if_then_else
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import need_one_of, need_rank, product, refusal, simplified
from compiler.topi.nn.pad import pad
from compiler.topi.transform import reshape


def flatten(data: Tensor) -> Tensor:
    """`data` as a matrix: the first dimension stays, the others become one."""
    if data.ndim < 1:
        raise IRError("flatten of a tensor without dimensions" + here())
    return reshape(data, (data.shape[0], product(data.shape[1:]))) if data.ndim != 2 else data


def upsampling(
    data: Tensor, scale_h: int, scale_w: int, layout: str = "NCHW", method: str = "nearest_neighbor"
) -> Tensor:
    """Each pixel `scale_h` times down and `scale_w` times across.
    `layout` is NCHW or NHWC; the nearest neighbour is the one method. Raises IRError on another, and on scales that
    are not positive integers."""
    if layout not in ("NCHW", "NHWC") or method != "nearest_neighbor" or data.ndim != 4:
        raise IRError(f"upsampling of {shape_text(data.shape)} in {layout!r} by {method!r}" + here())
    if any(not isinstance(s, int) or s < 1 for s in (scale_h, scale_w)):
        raise IRError(f"upsampling by {scale_h!r} and {scale_w!r}, not positive integers" + here())
    scales = [{"H": scale_h, "W": scale_w}.get(name, 1) for name in layout]
    shape = [ops.mul(size, s) for size, s in zip(data.shape, scales)]

    def value(*i: Var) -> PrimExpr:
        return data(*(index if s == 1 else ops.floordiv(index, s) for index, s in zip(i, scales)))

    result: Tensor = compute(shape, value, name="upsampling", tag="injective")
    return result


def _block(op: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise refusal(op, f"block size {value!r} is no positive integer")
    return value


def _divided(op: str, size: PrimExpr, by: int, what: str) -> PrimExpr:
    known = ops.as_int(size)
    if known is not None and known % by:
        raise refusal(op, f"{by} does not divide {what} of {known}")
    return simplified(ops.floordiv(size, by))


def depth_to_space(data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Channels as pixels: (N, C * b * b, H, W) becomes (N, C, H * b, W * b).

    With mode "DCR" the block is the slow part of the channel number, with "CRD" the fast part. `layout` is NCHW or
    NHWC. Raises IRError when b² does not divide the channels.
    """
    b = _block("depth_to_space", block_size)
    need_one_of("depth_to_space", "layout", layout, ("NCHW", "NHWC"))
    need_one_of("depth_to_space", "mode", mode, ("DCR", "CRD"))
    need_rank("depth_to_space", data, 4)
    size = dict(zip(layout, data.shape))
    channels = _divided("depth_to_space", size["C"], b * b, "channels")
    out = {"N": size["N"], "C": channels, "H": ops.mul(size["H"], b), "W": ops.mul(size["W"], b)}

    def value(*indices: Var) -> PrimExpr:
        i: dict[str, PrimExpr] = dict(zip(layout, indices))
        nth = ops.add(ops.mul(ops.floormod(i["H"], b), b), ops.floormod(i["W"], b))
        if mode == "DCR":
            channel = ops.add(ops.mul(nth, channels), i["C"])
        else:
            channel = ops.add(ops.mul(i["C"], b * b), nth)
        read = {"N": i["N"], "C": channel, "H": ops.floordiv(i["H"], b), "W": ops.floordiv(i["W"], b)}
        return data(*(read[name] for name in layout))

    result: Tensor = compute([out[name] for name in layout], value, name="depth_to_space", tag="injective")
    return result


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Put pixels into channels: (N, C, H * b, W * b) becomes (N, b * b * C, H, W).

    It is the inverse of DCR `depth_to_space`. Raises IRError when b does not divide height and width.
    """
    b = _block("space_to_depth", block_size)
    need_one_of("space_to_depth", "layout", layout, ("NCHW", "NHWC"))
    need_rank("space_to_depth", data, 4)
    size = dict(zip(layout, data.shape))
    out = {
        "N": size["N"],
        "C": ops.mul(size["C"], b * b),
        "H": _divided("space_to_depth", size["H"], b, "height"),
        "W": _divided("space_to_depth", size["W"], b, "width"),
    }

    def value(*indices: Var) -> PrimExpr:
        i: dict[str, PrimExpr] = dict(zip(layout, indices))
        nth, channel = ops.floordiv(i["C"], size["C"]), ops.floormod(i["C"], size["C"])
        read = {
            "N": i["N"],
            "C": channel,
            "H": ops.add(ops.mul(i["H"], b), ops.floordiv(nth, b)),
            "W": ops.add(ops.mul(i["W"], b), ops.floormod(nth, b)),
        }
        return data(*(read[name] for name in layout))

    result: Tensor = compute([out[name] for name in layout], value, name="space_to_depth", tag="injective")
    return result


def pixel_shuffle(data: Tensor, upscale_factor: int, name: str = "PixelShuffle") -> Tensor:
    """Turn (..., C * r * r, H, W) into (..., C, H * r, W * r).
    The block is the fast part of the channel number."""
    r = _block("pixel_shuffle", upscale_factor)
    if data.ndim < 3:
        raise refusal("pixel_shuffle", f"{data.name!r} {shape_text(data.shape)} needs at least 3 dimensions")
    *outer, channels, height, width = data.shape
    shape = [*outer, _divided("pixel_shuffle", channels, r * r, "channels"), ops.mul(height, r), ops.mul(width, r)]

    def value(*indices: Var) -> PrimExpr:
        *before, c, y, x = indices
        nth = ops.add(ops.mul(ops.floormod(y, r), r), ops.floormod(x, r))
        return data(*before, ops.add(ops.mul(c, r * r), nth), ops.floordiv(y, r), ops.floordiv(x, r))

    result: Tensor = compute(shape, value, name=name, tag="injective")
    return result


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Put pixels into images.

    Each of the dimensions behind the first is padded, and its part of b goes to the batch. Raises IRError when a block
    does not divide its padded dimension.
    """
    blocks = [_block("space_to_batch_nd", b) for b in block_shape]
    count = len(blocks)
    if not len(pad_before) == len(pad_after) == count < data.ndim:
        raise refusal(
            "space_to_batch_nd",
            f"{data.name!r} {shape_text(data.shape)} with {count} blocks, {len(pad_before)} and {len(pad_after)} pads",
        )
    rest = data.ndim - 1 - count
    padded = pad(data, [0, *pad_before, *[0] * rest], [0, *pad_after, *[0] * rest], pad_value)
    batch = data.shape[0]
    shape = [
        ops.mul(batch, product(blocks)),
        *(_divided("space_to_batch_nd", size, b, "a dimension") for size, b in zip(padded.shape[1:], blocks)),
        *data.shape[1 + count :],
    ]

    def value(*indices: Var) -> PrimExpr:
        nth: PrimExpr = ops.floordiv(indices[0], batch)
        offsets: list[PrimExpr] = []
        for b in reversed(blocks):
            offsets.append(ops.floormod(nth, b))
            nth = ops.floordiv(nth, b)
        inner = [ops.add(ops.mul(i, b), o) for i, b, o in zip(indices[1:], blocks, reversed(offsets))]
        return padded(ops.floormod(indices[0], batch), *inner, *indices[1 + count :])

    result: Tensor = compute(shape, value, name="space_to_batch_nd", tag="injective")
    return result


def batch_to_space_nd(
    data: Tensor, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Tensor:
    """Images as pixels: the inverse of `space_to_batch_nd`, what was padded cropped away.

    Raises IRError when the blocks do not divide the batch or the crops leave less than nothing.
    """
    blocks = [_block("batch_to_space_nd", b) for b in block_shape]
    count = len(blocks)
    if not len(crop_begin_list) == len(crop_end_list) == count < data.ndim:
        raise refusal(
            "batch_to_space_nd",
            f"{data.name!r} {shape_text(data.shape)} with {count} blocks, {len(crop_begin_list)} and "
            f"{len(crop_end_list)} crops",
        )
    total = 1
    for b in blocks:
        total *= b
    batch = _divided("batch_to_space_nd", data.shape[0], total, "the batch")
    shape = [batch]
    for size, b, first, last in zip(data.shape[1:], blocks, crop_begin_list, crop_end_list):
        left = simplified(ops.sub(ops.mul(size, b), first + last))
        known = ops.as_int(left)
        if min(first, last) < 0 or (known is not None and known < 0):
            raise refusal("batch_to_space_nd", f"crops {first} and {last} do not fit a dimension of {size!r} * {b}")
        shape.append(left)
    shape += data.shape[1 + count :]

    def value(*indices: Var) -> PrimExpr:
        nth: PrimExpr = ops.const(0)
        inner: list[PrimExpr] = []
        for i, b, first in zip(indices[1:], blocks, crop_begin_list):
            position = ops.add(i, first)
            nth = ops.add(ops.mul(nth, b), ops.floormod(position, b))
            inner.append(ops.floordiv(position, b))
        return data(ops.add(ops.mul(nth, batch), indices[0]), *inner, *indices[1 + count :])

    result: Tensor = compute(shape, value, name="batch_to_space_nd", tag="injective")
    return result


def dilate(data: Tensor, strides: Sequence[int], dilation_value: float = 0.0, name: str = "DilatedInput") -> Tensor:
    """`data` with `strides[d] - 1` elements of `dilation_value` between neighbours along dimension d."""
    if len(strides) != data.ndim:
        raise refusal("dilate", f"{data.name!r} {shape_text(data.shape)} with strides {list(strides)!r}")
    steps = [_block("dilate", s) for s in strides]
    shape = [
        size if s == 1 else simplified(ops.maximum(ops.add(ops.mul(ops.sub(size, 1), s), 1), 0))
        for size, s in zip(data.shape, steps)
    ]

    def value(*indices: Var) -> PrimExpr:
        between = [ops.equal(ops.floormod(i, s), 0) for i, s in zip(indices, steps) if s > 1]
        point = [ops.floordiv(i, s) for i, s in zip(indices, steps)]
        if not between:
            return data(*point)
        return if_then_else(ops.logical_and(*between), data(*point), ops.const(dilation_value, data.dtype))

    result: Tensor = compute(shape, value, name=name, tag="injective,dilate")
    return result
