"""Gradients of reductions, running sums and sorting."""

from __future__ import annotations

from typing import Any

from compiler.relax.op.core.backward import Backward, Gradients
from compiler.tir import ops


def _along(use: Backward) -> tuple[Any, tuple[int, ...], Any]:
    """The argument, the axes, and the gradient with those dimensions as 1."""
    x = use.arg(0)
    axes = use.axes(use.attrs["axis"], x)
    return x, axes, use.kept(use.grad, axes, x)


def _count(use: Backward, axes: tuple[int, ...]) -> Any:
    """How many elements one element of the result stands for: a number, or a tensor."""
    x = use.arg(0)
    sizes = None if use.info(x).dims is None else [ops.as_int(use.dims(x)[d]) for d in axes]
    if sizes is not None and None not in sizes:
        total = 1.0
        for size in sizes:
            total *= size or 0
        return max(total, 1.0)
    return use.sum(use.ones_like(x), list(axes), True)


def sum(use: Backward) -> Gradients:
    x, _, grad = _along(use)
    return (use.spread(grad, x),)


def mean(use: Backward) -> Gradients:
    if not use.is_float(0):
        return (None,)
    x, axes, grad = _along(use)
    return (use.spread(use.divide(grad, _count(use, axes)), x),)


def product(use: Backward) -> Gradients:
    """Multiply the gradient by the product of all other elements.
    That is those before times those after, axis by axis."""
    x, axes, grad = _along(use)
    factor: Any = None
    value = x
    for axis in axes:
        before = use.cumprod(value, axis, None, True)
        after = use.flip(use.cumprod(use.flip(value, axis), axis, None, True), axis)
        others = use.multiply(before, after)
        factor = others if factor is None else use.multiply(factor, others)
        value = use.op("prod", value, [axis], True)
    return (use.multiply(use.spread(grad, x), factor) if factor is not None else grad,)


def extreme(use: Backward) -> Gradients:
    """Share the gradient among equal elements."""
    if not use.is_float(0):
        return (None,)
    x, axes, grad = _along(use)
    dtype = use.info(x).dtype
    mask = use.astype(use.equal(x, use.spread(use.kept(use.result, axes, x), x)), dtype)
    share = use.divide(mask, use.sum(mask, list(axes), True)) if axes else mask
    return (use.multiply(share, use.spread(grad, x)),)


def _centred(use: Backward, x: Any, axes: tuple[int, ...]) -> Any:
    return use.subtract(x, use.mean(x, list(axes), True))


def variance(use: Backward) -> Gradients:
    x, axes, grad = _along(use)
    slope = use.divide(use.multiply(_centred(use, x, axes), 2.0), _count(use, axes))
    return (use.multiply(slope, use.spread(grad, x)),)


def std(use: Backward) -> Gradients:
    x, axes, grad = _along(use)
    share = use.divide(grad, use.multiply(use.kept(use.result, axes, x), _count(use, axes)))
    return (use.multiply(_centred(use, x, axes), use.spread(share, x)),)


def median(use: Backward) -> Gradients:
    x, axis, keeps = use.arg(0), use.attrs["axis"], use.attrs["keepdims"]
    if axis is None:
        return extreme(use)
    (place,) = use.axes(axis, x)
    grad, where = use.grads[0], use.field(1)
    if not keeps:
        grad, where = use.expand_dims(grad, place), use.expand_dims(where, place)
    return (use.scatter_elements(use.zeros_like(x), where, grad, place, "add"),)


# ----------------------------------------------------------------------------- running, sorting


def _from_behind(use: Backward, value: Any, axis: int, exclusive: bool) -> Any:
    """Sums of what stands behind each element, itself included unless `exclusive`."""
    return use.flip(use.cumsum(use.flip(value, axis), axis, None, exclusive), axis)


def cumsum(use: Backward) -> Gradients:
    x, axis = use.arg(0), use.attrs["axis"]
    if not use.is_float(0):
        return (None,)
    grad = use.astype(use.grad, use.info(x).dtype)
    place = 0 if axis is None else use.axes(axis, x)[0]
    found = _from_behind(use, grad, place, use.attrs["exclusive"])
    return (use.reshaped(found, x) if axis is None else found,)


def cumprod(use: Backward) -> Gradients:
    """Divide the products by the element itself, so no element may be 0."""
    x, axis = use.arg(0), use.attrs["axis"]
    if not use.is_float(0):
        return (None,)
    grad = use.astype(use.multiply(use.grad, use.result), use.info(x).dtype)
    place = 0 if axis is None else use.axes(axis, x)[0]
    found = _from_behind(use, grad, place, use.attrs["exclusive"])
    return (use.divide(use.reshaped(found, x) if axis is None else found, x),)


def sort(use: Backward) -> Gradients:
    x, axis = use.arg(0), use.attrs["axis"]
    if not use.is_float(0):
        return (None,)
    order = use.argsort(x, axis, use.attrs["descending"], "int64")
    return (use.scatter_elements(use.zeros_like(x), order, use.grad, axis, "add"),)


def topk(use: Backward) -> Gradients:
    x, kind = use.arg(0), use.attrs["ret_type"]
    if kind == "indices" or not use.is_float(0):
        return (None,)
    axis = use.attrs["axis"]
    if kind == "both":
        grad, where = use.grads[0], use.field(1)
    else:
        grad = use.grad
        where = use.op("topk", x, **{**use.attrs, "ret_type": "indices", "dtype": "int64"})
    return (use.scatter_elements(use.zeros_like(x), where, grad, axis, "add"),)
