"""Gradients of operators that make, move, join and select elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.relax.nodes import PrimValue, ShapeExpr, Tuple, const, info_of
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.tir import ops


def reshaped(use: Backward) -> Gradients:
    """Reshape the gradient to the argument's shape; shapes have no gradient."""
    rest = (None,) * (len(use.call.args) - 1)
    return use.reshaped(use.grad, use.arg(0)), *rest


def permute_dims(use: Backward) -> Gradients:
    axes = use.attrs["axes"]
    if axes is None:
        return (use.permute_dims(use.grad),)
    order = use.axes(axes, use.arg(0))
    return (use.permute_dims(use.grad, [order.index(d) for d in range(len(order))]),)


def broadcast_to(use: Backward) -> Gradients:
    return use.fitted(use.grad, 0), None


def collapse_sum(use: Backward) -> Gradients:
    return use.spread(use.grad, use.arg(0)), None


def filled(use: Backward) -> Gradients:
    """Sum the gradient for the fill value, the last argument."""
    rest = (None,) * (len(use.call.args) - 1)
    return *rest, use.astype(use.sum(use.grad), use.info(use.call.args[-1]).dtype) if use.is_float(len(rest)) else None


def triangle(use: Backward) -> Gradients:
    """Keep the same triangle of the gradient."""
    name = use.call.op.name.rpartition(".")[2]  # type: ignore[attr-defined]
    return use.op(name, use.grad, use.arg(1)), None


def flip(use: Backward) -> Gradients:
    return (use.flip(use.grad, use.attrs["axis"]),)


def reverse_sequence(use: Backward) -> Gradients:
    return use.op("reverse_sequence", use.grad, use.arg(1), **use.attrs), None


def repeat(use: Backward) -> Gradients:
    x, times, axis = use.arg(0), use.attrs["repeats"], use.attrs["axis"]
    dims = list(use.dims(x))
    if axis is None:
        total: Any = int64(1)
        for size in dims:
            total = total * size
        parts = use.reshape(use.grad, [total, int64(times)])
        return (use.reshaped(use.sum(parts, 1), x),)
    (place,) = use.axes(axis, x)
    parts = use.reshape(use.grad, [*dims[: place + 1], int64(times), *dims[place + 1 :]])
    return (use.sum(parts, place + 1),)


def tile(use: Backward) -> Gradients:
    x, times = use.arg(0), list(use.attrs["repeats"])
    dims: list[Any] = list(use.dims(x))
    rank = max(len(dims), len(times))
    times = [1] * (rank - len(times)) + times
    dims = [int64(1)] * (rank - len(dims)) + dims
    pairs = [part for count, size in zip(times, dims) for part in (int64(count), size)]
    summed = use.sum(use.reshape(use.grad, pairs), list(range(0, 2 * rank, 2))) if rank else use.grad
    return (use.reshaped(summed, x),)


# ------------------------------------------------------------------------- joining and splitting


def concat(use: Backward) -> Gradients:
    parts = use.fields(0)
    axis = 0 if use.attrs["axis"] is None else use.axes(use.attrs["axis"], parts[0])[0]
    begin: Any = int64(0)
    found = []
    for part in parts:
        end = begin + use.dims(part)[axis]
        found.append(use.part(use.grad, axis, begin, end))
        begin = end
    return (Tuple(tuple(found)),)


def stack(use: Backward) -> Gradients:
    parts = use.fields(0)
    axis = use.attrs["axis"] % (use.rank(parts[0]) + 1)
    each = [use.squeeze(use.part(use.grad, axis, n, n + 1), axis) for n in range(len(parts))]
    return (Tuple(tuple(each)),)


def split(use: Backward) -> Gradients:
    return (use.concat(Tuple(tuple(use.grads)), use.attrs["axis"]),)


def meshgrid(use: Backward) -> Gradients:
    parts, grads = use.fields(0), use.grads
    places = list(range(len(parts)))
    if use.attrs["indexing"] == "xy" and len(parts) > 1:
        places[0], places[1] = 1, 0
    found = []
    for part, grad, place in zip(parts, grads, places):
        others = [d for d in range(len(parts)) if d != place]
        found.append(use.reshaped(use.sum(grad, others) if others else grad, part))
    return (Tuple(tuple(found)),)


# ----------------------------------------------------------------------------- parts of tensors


def strided_slice(use: Backward) -> Gradients:
    x, given = use.arg(0), use.call.args
    none = (None,) * (len(given) - 1)
    bounds = [_scalars(use, arg) for arg in given[1:]]
    axes = [ops.as_int(axis) for axis in bounds[0]]
    strides = bounds[3] if len(bounds) > 3 else [int64(1)] * len(axes)
    dims, grad = list(use.dims(use.grad)), use.grad
    for axis, first, last, stride in zip(axes, bounds[1], bounds[2], strides):
        step = ops.as_int(stride)
        if axis is None or step is None:
            use.fail("axes and strides must be constant")
        axis %= len(dims)
        count, size = dims[axis], use.dims(x)[axis]
        begin, end = first, last
        if step < 0:
            known = [ops.as_int(part) for part in (first, count, size)]
            if None in known:
                use.fail("a negative stride needs a constant shape")
            grad = use.flip(grad, axis)
            start, number, extent = (part for part in known if part is not None)
            top = min(start + extent if start < 0 else start, extent - 1)
            begin, end = int64(top + (number - 1) * step), int64(top + 1)
        dims[axis] = size
        zeros = use.zeros(ShapeExpr(tuple(dims)), use.info(grad).dtype)
        if (ops.as_int(count) or 1) == 0:
            grad = zeros
        else:
            grad = use.slice_scatter(zeros, grad, begin, end, int64(abs(step)), axis)
    return grad, *none


def _scalars(use: Backward, arg: Any) -> list[Any]:
    """The values of an argument that is a tuple of scalars."""
    if not isinstance(arg, Tuple):
        use.fail("bounds must be written out")
    found = [getattr(item if isinstance(item, PrimValue) else info_of(item), "value", None) for item in arg.fields]
    if None in found:
        use.fail("bounds must be known")
    return found


def slice_scatter(use: Backward) -> Gradients:
    _, src, start, end, step = use.call.args
    (axis,) = use.axes(use.attrs["axis"], use.arg(0))
    kept = use.slice_scatter(use.grad, use.zeros_like(src), start, end, step, axis)
    taken = use.strided_slice(use.grad, [axis], *(Tuple((bound,)) for bound in (start, end, step)))
    return kept, taken, None, None, None


def take(use: Backward) -> Gradients:
    """Scatter the gradient to where elements were taken.
    Elements from outside, with `mode` "fast" or "nan", get none."""
    x, where, axis = use.arg(0), use.arg(1), use.attrs["axis"]
    size = ops.as_int(use.dims(x)[0 if axis is None else use.axes(axis, x)[0]])
    if use.attrs["mode"] in ("clip", "wrap"):
        if size is None:
            use.fail(f"the mode {use.attrs['mode']!r} needs a constant shape")
        where = use.clip(where, 0, size - 1) if use.attrs["mode"] == "clip" else use.floor_mod(where, size)
    return use.op("grad.take_backward", use.grad, x, where, axis), None


def _zeros(use: Backward, like: Any) -> Any:
    return use.zeros_like(like)


def gather_elements(use: Backward) -> Gradients:
    x, where = use.call.args
    return use.scatter_elements(_zeros(use, x), where, use.grad, use.attrs["axis"], "add"), None


def _whole_points(use: Backward, where: Any, batch: int) -> Any:
    """Points that also say where in the batch dimensions they are."""
    dims = use.dims(where)
    dtype = use.info(where).dtype
    columns = []
    for d in range(batch):
        counted = use.arange(int64(0), dims[d], int64(1), dtype)
        column = use.reshape(counted, [dims[d] if k == d else int64(1) for k in range(len(dims))])
        columns.append(use.broadcast_to(column, [*dims[:-1], int64(1)]))
    return use.concat(Tuple((*columns, where)), len(dims) - 1) if batch else where


def gather_nd(use: Backward) -> Gradients:
    x, where = use.call.args
    points = _whole_points(use, where, use.attrs["batch_dims"])
    return use.scatter_nd(_zeros(use, x), points, use.grad, "add"), None


def index_tensor(use: Backward) -> Gradients:
    x, where = use.call.args
    return use.index_put(_zeros(use, x), where, use.grad, True), None


def index_put(use: Backward) -> Gradients:
    """Give each of the values written to one place its gradient."""
    _, where, values = use.call.args
    taken = use.fitted_to(use.index_tensor(use.grad, where), values)
    data = use.grad if use.attrs["accumulate"] else use.index_put(use.grad, where, use.zeros_like(values), False)
    return data, None, taken


def scatter_elements(use: Backward) -> Gradients:
    """Give each of the updates written to one place its gradient."""
    x, where, updates = use.call.args
    axis, reduction = use.attrs["axis"], use.attrs["reduction"]
    match reduction:
        case "update":
            data = use.scatter_elements(use.grad, where, use.zeros_like(updates), axis, "update")
            return data, None, use.gather_elements(use.grad, where, axis)
        case "add":
            return use.grad, None, use.gather_elements(use.grad, where, axis)
        case "mul":
            whole = use.multiply(use.grad, use.result)
            return use.divide(whole, x), None, use.divide(use.gather_elements(whole, where, axis), updates)
    return use.fail(f"there is none for the reduction {reduction!r}, only for 'update', 'add' and 'mul'")


def scatter_nd(use: Backward) -> Gradients:
    """Give each of the updates written to one place its gradient."""
    x, where, updates = use.call.args
    reduction = use.attrs["reduction"]
    match reduction:
        case "update":
            data = use.scatter_nd(use.grad, where, use.zeros_like(updates), "update")
            return data, None, use.gather_nd(use.grad, where)
        case "add":
            return use.grad, None, use.gather_nd(use.grad, where)
        case "mul":
            whole = use.multiply(use.grad, use.result)
            return use.divide(whole, x), None, use.divide(use.gather_nd(whole, where), updates)
    return use.fail(f"there is none for the reduction {reduction!r}, only for 'update', 'add' and 'mul'")


# ------------------------------------------------------------------------------- images, padding


def pixel_shuffle(use: Backward) -> Gradients:
    x, factor = use.arg(0), use.attrs["upscale_factor"]
    *batch, channels, height, width = use.dims(x)
    count, f = len(batch), int64(factor)
    parts = use.reshape(use.grad, [*batch, channels // (factor * factor), height, f, width, f])
    order = [*range(count + 1), count + 2, count + 4, count + 1, count + 3]
    return (use.reshaped(use.permute_dims(parts, order), x),)


def pad(use: Backward) -> Gradients:
    """Keep the gradient of the middle; add that of repeated elements to their origins."""
    x, width, mode = use.arg(0), use.attrs["pad_width"], use.attrs["pad_mode"]
    grad = use.grad
    for axis, size in enumerate(use.dims(x)):
        before, after = width[2 * axis], width[2 * axis + 1]
        if not before and not after:
            continue
        if mode == "constant":
            grad = use.part(grad, axis, before, size + before)
            continue
        extent = ops.as_int(size)
        if extent is None:
            use.fail(f"the mode {mode!r} needs a constant shape")
        numpy_mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
        source = np.pad(np.arange(extent), (before, after), numpy_mode)  # type: ignore[call-overload]
        whole = list(use.dims(grad))
        whole[axis] = size
        target = use.zeros(ShapeExpr(tuple(whole)), use.info(grad).dtype)
        grad = use.op("grad.take_backward", grad, target, const(source.astype("int64")), axis)
    return (grad,)
