"""Resizing of 1 to 3 spatial dimensions, in all modes of ONNX's Resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.dtype import is_float, is_int
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor, check_dtype
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described, need_one_of, refusal
from compiler.topi.image.sampling import clamped, cubic_weights, inside, whole

METHODS = ("nearest_neighbor", "linear", "cubic")
TRANSFORMATIONS = (
    "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", "tf_crop_and_resize",
    "half_pixel_symmetric",
)  # fmt: skip
ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resize1d(
    data: Tensor, roi: Any, size: Any, layout: str = "NCW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: str | None = None, output_shape: Any = None,
) -> Tensor:  # fmt: skip
    """`resize2d` along one dimension, in a layout of the letters N, C and W."""
    how = (method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude, extrapolation_value)
    return _resize("resize1d", data, roi, size, layout, "W", how, out_dtype, output_shape)


def resize2d(
    data: Tensor, roi: Any, size: Any, layout: str = "NCHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: str | None = None, output_shape: Any = None,
) -> Tensor:  # fmt: skip
    """`data` with height and width `size`.

    `method` is "nearest_neighbor", "linear" or "cubic" (with `bicubic_alpha`; `bicubic_exclude` leaves pixels outside
    out of the weights). `coordinate_transformation_mode` says which place of the input an output pixel stands for:
    "half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    or "tf_crop_and_resize". The last takes the part `roi` (starts, then ends, from 0 to 1) and puts
    `extrapolation_value` outside. `rounding_method` is for the nearest: "round" (halves up), "round_prefer_ceil",
    "round_prefer_floor", "floor" or "ceil"; unless given "round" for "align_corners", else "floor". The result is of
    `out_dtype` (`data`'s unless given). Raises IRError on other modes and layouts.
    """
    how = (method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude, extrapolation_value)
    return _resize("resize2d", data, roi, size, layout, "HW", how, out_dtype, output_shape)


def resize3d(
    data: Tensor, roi: Any, size: Any, layout: str = "NCDHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: str | None = None, output_shape: Any = None,
) -> Tensor:  # fmt: skip
    """`resize2d` along three dimensions, in a layout of the letters N, C, D, H and W."""
    how = (method, coordinate_transformation_mode, rounding_method, bicubic_alpha, bicubic_exclude, extrapolation_value)
    return _resize("resize3d", data, roi, size, layout, "DHW", how, out_dtype, output_shape)


How = tuple[str, str, str, float, int, float]


def _resize(
    op: str, data: Tensor, roi: Any, size: Any, layout: str, names: str, how: How, out_dtype: str | None,
    output_shape: Any,
) -> Tensor:  # fmt: skip
    method, mode, rounding, alpha, exclude, outside_value = how
    need_one_of(op, "method", method, METHODS)
    need_one_of(op, "coordinate_transformation_mode", mode, TRANSFORMATIONS)
    need_one_of(op, "rounding_method", rounding, ROUNDINGS)
    letters = "".join(c for c in layout if not c.isdigit())
    if sorted(letters.replace("c", "")) != sorted("NC" + names) or len(letters) != data.ndim:
        raise refusal(op, f"layout {layout!r} does not fit {described(data)}")
    dims = [letters.index(name) for name in names]
    sizes = list(size) if isinstance(size, tuple | list) else [size] * len(dims)
    if len(sizes) != len(dims) or any(ops.as_int(s) is not None and (ops.as_int(s) or 0) < 1 for s in sizes):
        raise refusal(op, f"size {size!r} is not {len(dims)} positive integers")
    crop = _roi(op, roi, len(dims), letters, dims, mode)
    dtype = check_dtype(out_dtype, op) if out_dtype else data.dtype
    wide = "float64" if data.dtype == "float64" else "float32"
    shape: list[PrimExpr] = list(data.shape)
    for number, (d, new) in enumerate(zip(dims, sizes)):
        shape[d] = ops.as_expr(new if output_shape is None else output_shape[letters.index(names[number])])
    nearest = method == "nearest_neighbor"

    def place(number: int, i: PrimExpr) -> PrimExpr:
        d = dims[number]
        bounds = None if crop is None else crop[number]
        return source_place(i, data.shape[d], ops.as_expr(sizes[number]), mode, bounds, nearest, wide)

    def value(*indices: Var) -> PrimExpr:
        places = [place(n, indices[d]) for n, d in enumerate(dims)]

        def read(*points: PrimExpr) -> PrimExpr:
            point: list[PrimExpr] = list(indices)
            for d, p in zip(dims, points):
                point[d] = clamped(p, data.shape[d])
            return data(*point)

        if nearest:
            found = read(*(whole(rounded(p, rounding, mode)) for p in places))
            result = found if dtype == data.dtype else ops.cast(dtype, found)
        else:
            sums = _weighed(read, places, [data.shape[d] for d in dims], method, alpha, bool(exclude))
            result = _as(sums, dtype)
        if mode != "tf_crop_and_resize":
            return result
        seen: list[PrimExpr] = []
        for p, d in zip(places, dims):
            last = ops.cast(wide, ops.sub(data.shape[d], 1))
            seen += [ops.greater_equal(p, ops.const(0.0, wide)), ops.less_equal(p, last)]
        return intrin.select(ops.logical_and(*seen), result, _as(const(float(outside_value), wide), dtype))

    result: Tensor = compute(shape, value, name=op, tag="injective")
    return result


def _as(value: PrimExpr, dtype: str) -> PrimExpr:
    """A float as `dtype`: integers are cut off, as in TVM."""
    if is_int(dtype) and is_float(value.dtype):
        return ops.cast(dtype, value)
    return ops.cast(dtype, value)


def _roi(op: str, roi: Any, rank: int, letters: str, dims: Sequence[int], mode: str) -> list[tuple[Any, Any]] | None:
    """The start and the end of each spatial dimension, or None. A whole one (ONNX's) has all dimensions."""
    if mode != "tf_crop_and_resize":
        return None
    if isinstance(roi, Tensor):
        count = ops.as_int(roi.shape[0]) if roi.ndim == 1 else None
        values: list[Any] = [] if count is None else [roi(ops.const(n)) for n in range(count)]
    else:
        values = list(roi or ())
    if len(values) == 2 * len(letters):
        picked = [(values[d], values[d + len(letters)]) for d in dims]
    elif len(values) == 2 * rank:
        picked = [(values[n], values[n + rank]) for n in range(rank)]
    else:
        raise refusal(op, f"roi needs {2 * rank} numbers, got {len(values)}")
    return picked


def source_place(
    i: PrimExpr, old: PrimExpr, new: PrimExpr, mode: str, bounds: tuple[Any, Any] | None, nearest: bool, dtype: str
) -> PrimExpr:
    """The place in an input of size `old` for output pixel `i` of `new`."""
    x, before, after = (ops.cast(dtype, v) for v in (i, old, new))
    half, one, zero = (const(v, dtype) for v in (0.5, 1.0, 0.0))
    scale = before / after
    match mode:
        case "half_pixel" | "tf_half_pixel_for_nn" if not (mode == "tf_half_pixel_for_nn" and nearest):
            return (x + half) * scale - half
        case "tf_half_pixel_for_nn":
            return (x + half) * scale
        case "half_pixel_symmetric":
            return (x + half) * scale - half  # with whole output sizes there is nothing left to share
        case "align_corners":
            step = intrin.select(ops.greater(new, 1), (before - one) / ops.maximum(after - one, one), zero)
            return x * step
        case "asymmetric":
            return x * scale
        case "pytorch_half_pixel":
            return intrin.select(ops.greater(new, 1), (x + half) * scale - half, zero)
        case _:
            assert bounds is not None
            start, end = (const(float(b), dtype) if isinstance(b, int | float) else ops.cast(dtype, b) for b in bounds)
            last = before - one
            single = half * (start + end) * last
            step = (end - start) * last / ops.maximum(after - one, one)
            return intrin.select(ops.greater(new, 1), start * last + x * step, single)


def rounded(place: PrimExpr, method: str, mode: str) -> PrimExpr:
    """`place` rounded to a pixel, still a float."""
    half = const(0.5, place.dtype)
    match method or ("round" if mode == "align_corners" else "floor"):
        case "round" | "round_prefer_ceil":
            return intrin.floor(place + half)
        case "round_prefer_floor":
            return intrin.ceil(place - half)
        case "floor":
            # a place that should be whole may come out a little below it
            return intrin.floor(place + const(1e-5, place.dtype)) if not method else intrin.floor(place)
        case _:
            return intrin.ceil(place)


def _weighed(
    read: Any, places: Sequence[PrimExpr], sizes: Sequence[PrimExpr], method: str, alpha: float, exclude: bool,
    point: tuple[PrimExpr, ...] = (),
) -> PrimExpr:  # fmt: skip
    """The weighed sum of the pixels around `places`, dimension by dimension; reading clamps."""
    if not places:
        found: PrimExpr = read(*point)
        return found
    place, *rest = places
    dtype, size = place.dtype, sizes[0]
    base = whole(place)
    part = place - ops.cast(dtype, base)
    steps: tuple[int, ...] = (0, 1) if method == "linear" else (-1, 0, 1, 2)
    if method == "linear":
        weights = [const(1.0, dtype) - part, part]
    else:
        weights = cubic_weights(part, alpha)
        if exclude:
            zero = const(0.0, dtype)
            weights = [
                intrin.select(inside(ops.add(base, s), size), w, zero) for s, w in zip(steps, weights)
            ]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [w / total for w in weights]
    result: PrimExpr | None = None
    for step, weight in zip(steps, weights):
        inner = _weighed(read, rest, sizes[1:], method, alpha, exclude, (*point, ops.add(base, step)))
        term = ops.cast(dtype, inner) * weight
        result = term if result is None else result + term
    assert result is not None
    return result


def crop_and_resize(
    data: Tensor, boxes: Tensor, box_indices: Tensor, crop_size: Sequence[int], layout: str = "NCHW",
    method: str = "bilinear", extrapolation_value: float | None = None, out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """The parts `boxes` (y1, x1, y2, x2 from 0 to 1) of images `box_indices`, each resized to `crop_size`.

    `method` is "bilinear" or "nearest_neighbor"; places outside have `extrapolation_value` (0 unless given).
    """
    op = "crop_and_resize"
    need_one_of(op, "layout", layout, ("NCHW", "NHWC"))
    need_one_of(op, "method", method, ("bilinear", "nearest_neighbor"))
    if data.ndim != 4 or boxes.ndim != 2 or box_indices.ndim != 1 or ops.as_int(boxes.shape[1]) not in (None, 4):
        raise refusal(op, f"shapes do not fit: {described(data, boxes, box_indices)}")
    size = dict(zip(layout, data.shape))
    high, across = crop_size
    out = {"N": boxes.shape[0], "C": size["C"], "H": ops.const(high), "W": ops.const(across)}
    dtype = out_dtype or data.dtype

    def value(*indices: Var) -> PrimExpr:
        index = dict(zip(layout, indices))
        n = index["N"]
        image = box_indices(n)

        def place(name: str, first: int, count: int) -> PrimExpr:
            start, end = (boxes(n, ops.const(c)).astype("float32") for c in (first, first + 2))
            last = ops.cast("float32", ops.sub(size[name], 1))
            if count == 1:
                return const(0.5, "float32") * (start + end) * last
            step = (end - start) * last / const(float(count - 1), "float32")
            return start * last + ops.cast("float32", index[name]) * step

        y, x = place("H", 0, high), place("W", 1, across)

        def read(i: PrimExpr, j: PrimExpr) -> PrimExpr:
            at = {"N": image, "C": index["C"], "H": clamped(i, size["H"]), "W": clamped(j, size["W"])}
            return data(*(at[name] for name in layout))

        if method == "bilinear":
            found = _weighed(read, (y, x), (size["H"], size["W"]), "linear", 0.0, False)
        else:
            half = const(0.5, "float32")
            found = read(whole(y + half), whole(x + half))
        seen: list[PrimExpr] = []
        for p, name in ((y, "H"), (x, "W")):
            last = ops.cast("float32", ops.sub(size[name], 1))
            seen += [ops.greater_equal(p, const(0.0, "float32")), ops.less_equal(p, last)]
        empty = const(float(extrapolation_value or 0.0), "float32")
        return intrin.select(ops.logical_and(*seen), ops.cast(dtype, found), ops.cast(dtype, empty))

    result: Tensor = compute([out[name] for name in layout], value, name=op, tag="injective")
    return result
