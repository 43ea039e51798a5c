"""Resize and Upsample, in all modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import element, i64, sizes_by
from compiler.frontend.onnx.values import TensorValue
from compiler.relax import op
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Select


@dataclass(frozen=True, slots=True)
class How:
    """The rules of a resize. `scale_is_ratio`: sizes were given, and the scale is their ratio."""

    mode: str
    coordinates: str
    nearest: str
    alpha: float
    exclude_outside: bool
    antialias: bool
    outside: float


@converter("Upsample", since=1)
@converter("Resize", since=10)
def resize_by_scales(g: GraphBuilder, node: Node) -> Result:
    """Resize by scales, of an attribute or an input; the first pixels stay where they are."""
    how = How(node.text("mode", "nearest"), "asymmetric", "floor", -0.75, False, False, 0.0)
    x = node.value(0)
    if node.given(1):
        scales = node.value(1)
    else:
        given = node.attr("scales") or [1.0, 1.0, node.float("height_scale", 1.0), node.float("width_scale", 1.0)]
        scales = g.known(np.array(given, np.float32))
    return _resized(g, node, x, list(range(g.rank(x))), None, scales, None, how)


@converter("Resize", since=11)
def resize(g: GraphBuilder, node: Node) -> Result:
    """Resize by scales or to sizes."""
    x, roi = node.value(0), node.optional(1)
    scales, sizes = node.optional(2), node.optional(3)
    rank = g.rank(x)
    axes = [axis % rank for axis in node.ints("axes") or range(rank)]
    how = How(
        node.text("mode", "nearest"), node.text("coordinate_transformation_mode", "half_pixel"),
        node.text("nearest_mode", "round_prefer_floor"), node.float("cubic_coeff_a", -0.75),
        bool(node.int("exclude_outside", 0)), bool(node.int("antialias", 0)), node.float("extrapolation_value", 0.0),
    )  # fmt: skip
    if scales is not None and g.sizes(scales) == [0]:
        scales = None
    return _resized(g, node, x, axes, sizes, scales, roi, how)


def _resized(
    g: GraphBuilder, node: Node, x: TensorValue, axes: list[int], sizes: TensorValue | None,
    scales: TensorValue | None, roi: TensorValue | None, how: How,
) -> Result:  # fmt: skip
    dims = [g.shape(x)[axis] for axis in axes]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    by: Any
    new: list[Any]
    if scales is not None and scales.is_constant:
        by = g.static_numbers(scales, "scales")
        new = [_scaled(size, scale) for size, scale in zip(dims, by)]
    elif scales is not None:
        by = g.expr(scales)
        new = list(sizes_by(g, _by_scales, len(axes), dims, scales, name="scaled"))
    elif sizes is not None and sizes.is_constant and all(ops.as_int(size) is not None for size in dims):
        new = list(g.static_ints(sizes, "sizes"))
        own = [ops.as_int(size) or 1 for size in dims]
        by = [a / b for a, b in zip(new, own)]
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(by)
            by, new = [one] * len(by), [floor(one * size + 0.5) for size in own]
    elif sizes is not None:
        if policy == "stretch":
            known = g.known_ints(sizes)
            new = list(known) if known is not None else list(g.sizes_at_run_time(g.expr(sizes), len(axes)))
            by = None
        else:
            by = g.te(_one_ratio, dims, sizes, policy == "not_larger", name="ratio")
            new = list(sizes_by(g, _by_scales_rounded, len(axes), dims, by, name="scaled"))
    else:
        node.fail("it has neither scales nor sizes")
    changed = [
        k for k, (a, b) in enumerate(zip(new, dims))
        if not (ops.as_int(a) is not None and ops.as_int(a) == ops.as_int(b) and not isinstance(by, np.ndarray)
                and (not isinstance(by, list) or by[k] == 1.0) and how.coordinates != "tf_crop_and_resize")
    ]  # fmt: skip
    if not changed:
        return x
    made = _as_image(g, node, x, axes, new, by, changed, how)
    if made is not None:
        return made
    if how.antialias and not isinstance(by, list):
        raise NeedsValueError.of("the scale of antialiasing", (scales or sizes or x).wants)
    given = [] if roi is None or how.coordinates != "tf_crop_and_resize" else [roi]
    more = [by] if by is not None and not isinstance(by, list) else []
    known_scales = by if isinstance(by, list) else None
    made_te = g.te(_axis_by_axis, x, axes, changed, new, known_scales, how, bool(more), *more, *given, name="resize")
    return g.value(made_te, x.elem)


def _scaled(size: PrimExpr, scale: float) -> Any:
    known = ops.as_int(size)
    if known is not None:
        return floor(known * float(np.float32(scale)))
    if scale == int(scale):
        return size * int(scale)
    inverse = 1 / scale
    if inverse == int(inverse):
        return ops.floordiv(size, i64(int(inverse)))
    return intrin.floor(size.astype("float64") * ops.const(float(np.float32(scale)), "float64")).astype("int64")


def _by_scales(dims: Sequence[Any], scales: Tensor) -> list[PrimExpr]:
    return [
        intrin.floor(i64(size).astype("float64") * scales(i64(k)).astype("float64")).astype("int64")
        for k, size in enumerate(dims)
    ]


def _by_scales_rounded(dims: Sequence[Any], scales: Tensor) -> list[PrimExpr]:
    half = ops.const(0.5, "float64")
    return [
        intrin.floor(i64(size).astype("float64") * scales(i64(k)).astype("float64") + half).astype("int64")
        for k, size in enumerate(dims)
    ]


def _one_ratio(dims: Sequence[Any], sizes: Tensor, smallest: bool) -> Tensor:
    """The one ratio of new to old sizes that all axes share, repeated for each."""
    ratios = [element(sizes, k).astype("float64") / i64(size).astype("float64") for k, size in enumerate(dims)]
    found = ratios[0]
    for ratio in ratios[1:]:
        found = ops.minimum(found, ratio) if smallest else ops.maximum(found, ratio)
    return elements((len(dims),), lambda k: found, name="ratio")


_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}


def _as_image(
    g: GraphBuilder, node: Node, x: TensorValue, axes: list[int], new: Sequence[Any], by: Any, changed: list[int],
    how: How,
) -> Result | None:  # fmt: skip
    """The image operator, where images of whole ratios are resized; None elsewhere."""
    simple = (
        g.rank(x) == 4 and sorted(axes[k] for k in changed) == [2, 3] and isinstance(by, list) and not how.antialias
        and how.coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        and how.mode in _METHODS and x.dtype == "float32"
    )  # fmt: skip
    if not simple:
        return None
    dims = [ops.as_int(g.shape(x)[axis]) for axis in axes]
    if any(a is None or not isinstance(b, int) or a * s != b for a, b, s in zip(dims, new, by)):
        return None
    if how.mode == "nearest" and how.nearest in ("floor", "ceil") and any(s != int(s) for s in by):
        return None  # places that should be whole are computed exactly below
    size = [new[axes.index(2)], new[axes.index(3)]]
    return op.image.resize2d(
        g.expr(x), size, layout="NCHW", method=_METHODS[how.mode],
        coordinate_transformation_mode=how.coordinates, rounding_method=how.nearest, cubic_alpha=how.alpha,
        cubic_exclude=int(how.exclude_outside),
    )  # fmt: skip


def _f(value: Any) -> PrimExpr:
    return ops.const(float(value), "float64")


def _axis_by_axis(
    x: Tensor, axes: list[int], changed: list[int], new: Sequence[Any], scales: list[float] | None, how: How,
    has_scales: bool, *more: Tensor,
) -> Tensor:  # fmt: skip
    """The axes resized one after another. Any order is exact only for nearest pixels."""
    rest = list(more)
    at_run_time = rest.pop(0) if has_scales else None
    roi = rest.pop(0) if rest else None
    made, kind = x, x.dtype
    exact = how.mode == "nearest"
    wide = kind if exact else ("float64" if kind == "float64" else "float32")
    if not exact and kind != wide:
        made = elements(x.shape, lambda *i: x(*i).astype(wide), name="wide")
    for k in changed:
        size = i64(made.shape[axes[k]])
        scale: PrimExpr
        if scales is not None:
            scale = _f(np.float32(scales[k]) if scales[k] == float(np.float32(scales[k])) else scales[k])
        elif at_run_time is not None:
            scale = at_run_time(i64(k)).astype("float64")
        else:
            scale = i64(new[k]).astype("float64") / size.astype("float64")
        bounds = None if roi is None else (roi(i64(k)).astype("float64"), roi(i64(k + len(axes))).astype("float64"))
        factor = None if scales is None else scales[k]
        made = _one_axis(made, axes[k], i64(new[k]), scale, factor, bounds, how)
    if how.coordinates == "tf_crop_and_resize" and roi is not None:
        made = _with_outside(made, x, axes, new, roi, how)
    if made.dtype != kind:
        final = made
        low, high = (0, 0)
        whole = kind.startswith(("int", "uint"))
        if whole:
            low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)

        def narrow(*i: PrimExpr) -> Any:
            value: PrimExpr = final(*i)
            if whole:
                value = ops.maximum(ops.minimum(value, ops.const(high, value.dtype)), ops.const(low, value.dtype))
            return value.astype(kind)

        made = elements(final.shape, narrow, name="narrow")
    return made


def _place(i: PrimExpr, old: PrimExpr, new: PrimExpr, scale: PrimExpr, bounds: Any, how: How) -> PrimExpr:
    """The place in the input that an output pixel stands for."""
    x, size = i64(i).astype("float64"), old.astype("float64")
    half, one = _f(0.5), _f(1)
    match how.coordinates:
        case "half_pixel":
            return (x + half) / scale - half
        case "half_pixel_symmetric":
            share = new.astype("float64") / (scale * size)
            return size * half * (one - share) + (x + half) / scale - half
        case "pytorch_half_pixel":
            return Select(ops.greater(scale * size, one), (x + half) / scale - half, _f(0))
        case "align_corners":
            span = scale * size - one
            safe = Select(ops.equal(span, _f(0)), one, span)
            return Select(ops.equal(span, _f(0)), _f(0), x * (size - one) / safe)
        case "asymmetric":
            return x / scale
        case "tf_half_pixel_for_nn":
            return (x + half) / scale
    if bounds is None:
        return x / scale
    start, end = bounds
    last, count = size - one, new.astype("float64")
    step = (end - start) * last / ops.maximum(count - one, one)
    return Select(ops.greater(count, one), start * last + x * step, half * (start + end) * last)


def _one_axis(
    x: Tensor, axis: int, new: PrimExpr, scale: PrimExpr, factor: float | None, bounds: Any, how: How
) -> Tensor:
    old = i64(x.shape[axis])
    shape = [new if d == axis else size for d, size in enumerate(x.shape)]
    dtype = x.dtype

    def read(i: Sequence[PrimExpr], place: PrimExpr) -> Any:
        inner = ops.maximum(ops.minimum(place, old - 1), i64(0))
        return x(*i[:axis], inner, *i[axis + 1 :])

    def nearest(*i: PrimExpr) -> Any:
        place = _place(i[axis], old, new, scale, bounds, how)
        half = _f(0.5)
        rounded = {
            "round_prefer_floor": lambda: intrin.ceil(place - half), "floor": lambda: intrin.floor(place),
            "round_prefer_ceil": lambda: intrin.floor(place + half), "ceil": lambda: intrin.ceil(place),
        }[how.nearest]()  # fmt: skip
        return read(i, rounded.astype("int64"))

    if how.mode == "nearest":
        return elements(tuple(shape), nearest, name="nearest")
    reach = 1 if how.mode in ("linear", "bilinear") else 2
    narrow = min(factor, 1.0) if how.antialias and factor is not None else 1.0
    first = floor(-reach / narrow) + 1
    last = 2 - first if reach == 1 and narrow == 1.0 else (2 - 2 * first + first if reach == 1 else 2 - first)

    def weight(distance: PrimExpr) -> PrimExpr:
        far = intrin.abs(distance * _f(narrow))
        if reach == 1:
            return ops.maximum(_f(1) - far, _f(0))
        a = how.alpha
        near = ((_f(a + 2) * far - _f(a + 3)) * far) * far + _f(1)
        away = ((_f(a) * far - _f(5 * a)) * far + _f(8 * a)) * far - _f(4 * a)
        return Select(ops.less_equal(far, _f(1)), near, Select(ops.less(far, _f(2)), away, _f(0)))

    def weighed(*i: PrimExpr) -> Any:
        place = _place(i[axis], old, new, scale, bounds, how)
        base = intrin.ceil(place) - _f(1)
        share = place - base
        whole = base.astype("int64")
        total: PrimExpr = ops.const(0, dtype)
        sum_of: PrimExpr = _f(0)
        for tap in range(first, last):
            here = weight(_f(tap) - share)
            at = whole + tap
            if how.exclude_outside:
                inside = ops.logical_and(ops.greater_equal(at, i64(0)), ops.less(at, old))
                here = Select(inside, here, _f(0))
            sum_of = sum_of + here
            total = total + read(i, at) * here.astype(dtype)
        if how.exclude_outside or narrow != 1.0:
            return total / sum_of.astype(dtype)
        return total

    return elements(tuple(shape), weighed, name="weighed")


def _with_outside(made: Tensor, x: Tensor, axes: list[int], new: Sequence[Any], roi: Tensor, how: How) -> Tensor:
    """The extrapolation value where a place lies outside of the image."""

    def at(*i: PrimExpr) -> Any:
        inside = ops.const(True, "bool")
        for k, axis in enumerate(axes):
            size = i64(x.shape[axis])
            bounds = (roi(i64(k)).astype("float64"), roi(i64(k + len(axes))).astype("float64"))
            place = _place(i[axis], size, i64(new[k]), _f(1), bounds, how)
            last = size.astype("float64") - _f(1)
            fits = ops.logical_and(ops.greater_equal(place, _f(0)), ops.less_equal(place, last))
            inside = ops.logical_and(inside, fits)
        return Select(inside, made(*i), ops.const(how.outside, made.dtype))

    return elements(made.shape, at, name="outside")
