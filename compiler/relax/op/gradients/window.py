"""Gradients of pooling, and of resizing and placing images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler import topi
from compiler.relax.nodes import const
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.backward import Backward, Gradients


def laid(use: Backward, value: Any, source: str, target: str) -> Any:
    """Return a tensor in another layout."""
    if source == target:
        return value
    if sorted(source) != sorted(target):  # one of them has blocks
        return use.te(topi.layout_transform, value, source, target)
    return use.permute_dims(value, [source.index(letter) for letter in target])


def _pooled(use: Backward, backward: Callable[..., Any], **options: Any) -> Gradients:
    """The gradient that a kernel computes, in a layout whose window dimensions are in order."""
    layout, data = use.attrs["layout"], use.arg(0)
    letters = [letter for letter in layout if letter in "DHW"]
    near = layout if letters == sorted(letters) and "n" not in layout else "NC" + "".join(sorted(letters))
    grad = laid(use, use.grad, use.attrs["out_layout"], near)
    found = use.te(backward, grad, laid(use, data, layout, near), layout=near, **options)
    return (laid(use, found, near, layout),)


def _moves(use: Backward) -> dict[str, Any]:
    attrs = use.attrs
    return {
        "kernel": attrs["pool_size"], "stride": attrs["strides"], "dilation": attrs["dilation"],
        "padding": attrs["padding"], "ceil_mode": attrs["ceil_mode"],
    }  # fmt: skip


def max_pool(use: Backward) -> Gradients:
    """Give the gradient to the first of a window's equal elements."""
    return _pooled(use, topi.nn.max_pool_backward, **_moves(use))


def avg_pool(use: Backward) -> Gradients:
    inside = use.attrs["count_include_pad"]
    return _pooled(use, topi.nn.avg_pool_backward, **_moves(use), count_include_pad=inside)


def adaptive_avg_pool(use: Backward) -> Gradients:
    return _pooled(use, topi.nn.adaptive_avg_pool_backward)


# -------------------------------------------------------------------------------------- images


def resize(use: Backward) -> Gradients:
    """Take the gradient of resizing.
    It works on one dimension after the other, and multiplies by the matrix of each.

    A row of such a matrix is what resizing makes of an image with one element of 1.
    """
    x, attrs = use.arg(0), use.attrs
    layout, dtype = attrs["layout"], use.info(use.arg(0)).dtype
    if not use.is_float(0):
        return None, None
    letters = [letter for letter in layout if letter in "DHW"]
    rank, grad = len(letters), use.grad
    grad = use.astype(grad, dtype) if use.info(grad).dtype != dtype else grad
    for place, letter in enumerate(sorted(letters)):
        axis = layout.index(letter)
        old, new = use.dims(x)[axis], use.dims(use.result)[axis]
        unit = use.reshape(use.eye(old, old, 0, dtype), [int64(1), old, old, int64(1)])
        kept = {name: attrs[name] for name in ("method", "coordinate_transformation_mode", "rounding_method",
                                               "cubic_alpha", "cubic_exclude")}  # fmt: skip
        roi = (attrs["roi"][place], 0.0, attrs["roi"][place + rank], 1.0)
        rows = use.op("image.resize2d", unit, [new, int64(1)], roi=roi, layout="NCHW", **kept)
        matrix = use.permute_dims(use.reshape(rows, [old, new]), [1, 0])
        order = [d for d in range(len(layout)) if d != axis] + [axis]
        moved = use.matmul(use.permute_dims(grad, order), matrix)
        grad = use.permute_dims(moved, [order.index(d) for d in range(len(order))])
    return grad, None


def affine_grid(use: Backward) -> Gradients:
    """Take the gradient of the matrix.
    Places are linear in it: those that the unit matrix gives, and 1, weigh the gradient."""
    rank = use.rank(use.grad) - 2
    unit = const(np.eye(rank, rank + 1, dtype=use.info(use.arg(0)).dtype)[None])
    dims = use.dims(use.grad)
    base = use.op("image.affine_grid", unit, list(dims[2:]), align_corners=use.attrs["align_corners"])
    ones = use.ones([int64(1), int64(1), *dims[2:]], use.info(use.arg(0)).dtype)
    total: Any = int64(1)
    for size in dims[2:]:
        total = total * size
    places = use.reshape(use.concat([base, ones], 1), [int64(rank + 1), total])
    flat = use.reshape(use.grad, [dims[0], int64(rank), total])
    return use.matmul(flat, use.permute_dims(places, [1, 0])), None


def grid_sample(use: Backward) -> Gradients:
    x, grid = use.call.args
    method, last = use.attrs["method"], use.rank(grid) - 1
    if method == "bicubic":
        use.fail("there is none for 'bicubic', only for 'bilinear' and 'nearest'")
    options = {name: use.attrs[name] for name in ("padding_mode", "align_corners")}
    places = use.permute_dims(grid, [0, last, *range(1, last)])
    data = use.te(topi.image.grid_sample_data_backward, use.grad, x, places, method=method, **options)
    if method == "nearest":
        return data, use.zeros_like(grid)
    moved = use.te(topi.image.grid_sample_grid_backward, use.grad, x, places, **options)
    return data, use.permute_dims(moved, [0, *range(2, last + 1), 1])
