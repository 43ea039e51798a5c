"""Gradients of convolutions and of transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.relax.nodes.dims import int64, simplified
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.relax.op.gradients.window import laid
from compiler.tir import ops

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def _parts(use: Backward, first: str) -> tuple[Any, Any, Any, str]:
    """Data, weight and gradient, channels first, and the letters of the dimensions that windows move over."""
    attrs, (x, w) = use.attrs, use.call.args
    letters = _SPATIAL[sum(letter.isupper() for letter in attrs["data_layout"]) - 2]
    grad = laid(use, use.grad, attrs["out_layout"], "NC" + letters)
    dtype = use.info(x).dtype
    grad = use.astype(grad, dtype) if use.info(grad).dtype != dtype else grad
    data = laid(use, x, attrs["data_layout"], "NC" + letters)
    return data, laid(use, w, attrs["kernel_layout"], first + letters), grad, letters


def _weights(use: Backward, data: Any, grad: Any, window: Sequence[Any]) -> Any:
    """The gradient of the filters that made `grad` of `data`, which is a convolution.
    Filters are (filters, channels of a group, …).

    Channels and batches change places, and so do strides and dilations.
    """
    attrs, rank = use.attrs, len(window)
    batch, channels, *places = use.dims(data)
    groups, rest = attrs["groups"], list(range(2, 2 + rank))
    each = ops.floordiv(channels, groups)
    parts = use.reshape(data, [batch, int64(groups), each, *places])
    turned = use.permute_dims(parts, [2, 1, 0, *(d + 1 for d in rest)])
    joined = use.reshape(turned, [each, batch * groups, *places])
    found = use.op(
        f"nn.conv{rank}d", joined, use.permute_dims(grad, [1, 0, *rest]), strides=attrs["dilation"],
        padding=attrs["padding"], dilation=attrs["strides"], groups=groups,
    )  # fmt: skip
    for axis, size in zip(rest, window):
        found = use.part(found, axis, 0, size)  # places that no stride reached are left over
    return use.permute_dims(found, [1, 0, *rest])


def conv(use: Backward) -> Gradients:
    if not use.is_float(0):
        return None, None
    attrs = use.attrs
    data, weight, grad, letters = _parts(use, "OI")
    rank = len(letters)
    extra = []
    for d in range(rank):
        size, taps, places = (use.dims(value)[2 + d] for value in (data, weight, grad))
        padding = attrs["padding"][d] + attrs["padding"][d + rank]
        reached = (places - 1) * attrs["strides"][d] - padding + (taps - 1) * attrs["dilation"][d] + 1
        left = ops.as_int(simplified(size - reached))
        if left is None:
            use.fail("strides above 1 need a constant shape")
        extra.append(left)
    back = use.op(
        f"nn.conv{rank}d_transpose", grad, weight, strides=attrs["strides"], padding=attrs["padding"],
        output_padding=tuple(extra), dilation=attrs["dilation"], groups=attrs["groups"],
    )  # fmt: skip
    filters = _weights(use, data, grad, use.dims(weight)[2:])
    return (
        laid(use, back, "NC" + letters, attrs["data_layout"]),
        laid(use, filters, "OI" + letters, attrs["kernel_layout"]),
    )


def conv_transpose(use: Backward) -> Gradients:
    if not use.is_float(0):
        return None, None
    attrs = use.attrs
    data, weight, grad, letters = _parts(use, "IO")
    rank = len(letters)
    back = use.op(
        f"nn.conv{rank}d", grad, weight, strides=attrs["strides"], padding=attrs["padding"],
        dilation=attrs["dilation"], groups=attrs["groups"],
    )  # fmt: skip
    for d in range(rank):
        back = use.part(back, 2 + d, 0, use.dims(data)[2 + d])
    filters = _weights(use, grad, data, use.dims(weight)[2:])
    return (
        laid(use, back, "NC" + letters, attrs["data_layout"]),
        laid(use, filters, "IO" + letters, attrs["kernel_layout"]),
    )
