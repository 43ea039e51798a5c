"""Resizing and sampling of images against numpy."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from compiler import topi
from tests.kit.compiler.topi import data, verify

image, vision = topi.image, topi.vision
Array = np.ndarray
RNG = np.random.default_rng(3)

# ----------------------------------------------------------------------------------- resizing


def place(i: int, old: int, new: int, mode: str, roi: tuple[float, float], nearest: bool) -> float:
    scale = old / new
    match mode:
        case "half_pixel" | "half_pixel_symmetric":
            return (i + 0.5) * scale - 0.5
        case "tf_half_pixel_for_nn":
            return (i + 0.5) * scale - (0 if nearest else 0.5)
        case "align_corners":
            return i * (old - 1) / (new - 1) if new > 1 else 0.0
        case "asymmetric":
            return i * scale
        case "pytorch_half_pixel":
            return (i + 0.5) * scale - 0.5 if new > 1 else 0.0
    start, end = roi
    if new > 1:
        return start * (old - 1) + i * (end - start) * (old - 1) / (new - 1)
    return 0.5 * (start + end) * (old - 1)


def weights(
    at: float, method: str, rounding: str, mode: str, alpha: float, exclude: bool, size: int
) -> dict[int, float]:
    """The weight of each pixel, by clamped position."""
    found: dict[int, float] = {}
    if method == "nearest_neighbor":
        name = rounding or ("round" if mode == "align_corners" else "floor")
        index = {
            "round": math.floor(at + 0.5),
            "round_prefer_ceil": math.floor(at + 0.5),
            "round_prefer_floor": math.ceil(at - 0.5),
            "floor": math.floor(at + 1e-5),
            "ceil": math.ceil(at - 1e-5),
        }[name]
        steps = {index: 1.0}
    elif method == "linear":
        low = math.floor(at)
        steps = {low: 1 - (at - low), low + 1: at - low}
    else:
        low = math.floor(at)
        steps = {}
        for k in range(-1, 3):
            t = abs(at - low - k)
            near = (alpha + 2) * t**3 - (alpha + 3) * t**2 + 1
            steps[low + k] = near if t <= 1 else alpha * (t**3 - 5 * t**2 + 8 * t - 4)
        if exclude:
            steps = {k: w for k, w in steps.items() if 0 <= k < size}
            total = sum(steps.values())
            steps = {k: w / total for k, w in steps.items()}
    for k, w in steps.items():
        k = min(max(k, 0), size - 1)
        found[k] = found.get(k, 0.0) + w
    return found


def resized(a: Array, sizes, method, mode, rounding="", alpha=-0.5, exclude=False, roi=None, outside=0.0) -> Array:
    """Dimension by dimension behind the first two."""
    out = a.astype("float64")
    beyond = np.zeros((1,) * a.ndim, bool)
    for d, new in enumerate(sizes):
        old = a.shape[d + 2]
        matrix, left_out = np.zeros((new, old)), np.zeros(new, bool)
        for i in range(new):
            at = place(
                i, old, new, mode, (roi[d], roi[d + len(sizes)]) if roi else (0, 1), method == "nearest_neighbor"
            )
            for k, w in weights(at, method, rounding, mode, alpha, exclude, old).items():
                matrix[i, k] += w
            left_out[i] = mode == "tf_crop_and_resize" and not 0 <= at <= old - 1
        out = np.moveaxis(np.moveaxis(out, d + 2, -1) @ matrix.T, -1, d + 2)
        shape = [1] * a.ndim
        shape[d + 2] = new
        beyond = beyond | left_out.reshape(shape)
    return np.where(beyond, outside, out)


MODES = [
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "half_pixel_symmetric",
]


@pytest.mark.parametrize("mode", MODES)
def test_resize2d(mode: str) -> None:
    cases = [(data(2, 3, *s),) for s in [(5, 7), (1, 1), (8, 3)]]
    ways = [("linear", -0.5, 0), ("cubic", -0.75, 0), ("cubic", -0.5, 1)]
    verify(
        lambda x: [image.resize2d(x, None, (7, 4), "NCHW", m, mode, "", a, e) for m, a, e in ways],
        lambda x: [resized(x, (7, 4), m, mode, "", a, bool(e)) for m, a, e in ways],
        ["nchw"],
        *cases,
        tolerance=2e-4,
    )


@pytest.mark.parametrize("rounding", ["", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest(rounding: str) -> None:
    modes = ["asymmetric", "half_pixel", "align_corners"]
    verify(
        lambda x: [image.resize2d(x, None, (8, 3), "NCHW", "nearest_neighbor", m, rounding) for m in modes],
        lambda x: [resized(x, (8, 3), "nearest_neighbor", m, rounding) for m in modes],
        ["nchw"],
        *[(data(1, 2, *s),) for s in [(4, 6), (3, 9), (1, 2)]],
    )


def test_resize_of_other_ranks_and_layouts() -> None:
    x = data(2, 3, 5)
    verify(
        lambda a: image.resize1d(a, None, 8),
        lambda a: resized(a, (8,), "linear", "half_pixel"),
        ["ncw"],
        (x,),
        tolerance=1e-4,
    )
    verify(
        lambda a: image.resize3d(a, None, (2, 5, 3)),
        lambda a: resized(a, (2, 5, 3), "linear", "half_pixel"),
        ["ncdhw"],
        (data(1, 2, 3, 2, 4),),
        tolerance=1e-4,
    )
    verify(
        lambda a: image.resize2d(a, None, (3, 4), "NHWC"),
        lambda a: resized(a.transpose(0, 3, 1, 2), (3, 4), "linear", "half_pixel").transpose(0, 2, 3, 1),
        ["nhwc"],
        (data(1, 5, 2, 3),),
        tolerance=1e-4,
    )
    roi = [0.1, -0.2, 0.9, 1.1]
    verify(
        lambda a: image.resize2d(a, roi, (4, 6), "NCHW", "linear", "tf_crop_and_resize", extrapolation_value=9.0),
        lambda a: resized(a, (4, 6), "linear", "tf_crop_and_resize", roi=roi, outside=9.0),
        ["nchw"],
        (data(1, 2, 5, 4),),
        tolerance=1e-4,
    )


def test_crop_and_resize() -> None:
    boxes, which = np.array([[0, 0, 1, 1], [0.2, 0.5, 0.8, 1.3]], "float32"), np.array([1, 0], "int32")

    def reference(a, b, i):
        parts = [
            resized(a[i[n] : i[n] + 1], (3, 4), "linear", "tf_crop_and_resize", roi=b[n].tolist()) for n in range(2)
        ]
        return np.concatenate(parts)

    verify(
        lambda a, b, i: image.crop_and_resize(a, b, i, (3, 4)),
        reference,
        ["nchw", ("k", 4), "k"],
        (data(2, 3, 5, 6), boxes, which),
        tolerance=1e-4,
    )


# ----------------------------------------------------------------------------------- sampling


def reflected(p: float, size: int, align: bool) -> float:
    low, span = (0.0, size - 1) if align else (-0.5, size)
    if span <= 0:
        return 0.0
    turns, extra = divmod(abs(p - low), span)
    return low + (extra if turns % 2 == 0 else span - extra)


def sampled(a: Array, grid: Array, method: str, padding: str, align: bool) -> Array:
    """Plain loops over every output."""
    sizes = a.shape[2:]
    out = np.zeros((*a.shape[:2], *grid.shape[2:]))

    def pixel(n: int, point: tuple[int, ...]) -> Array:
        kept = []
        for p, s in zip(point, sizes):
            if padding == "zeros" and not 0 <= p < s:
                return np.zeros(a.shape[1])
            p = math.floor(reflected(p, s, align) + 0.5) if padding == "reflection" and method == "bicubic" else p
            kept.append(min(max(p, 0), s - 1))
        return a[(n, slice(None), *kept)]

    for n, *at in product(range(a.shape[0]), *map(range, grid.shape[2:])):
        places = []
        for g, s in zip(grid[(n, slice(None), *at)][::-1], sizes):
            p = (g + 1) / 2 * (s - 1) if align else ((g + 1) * s - 1) / 2
            if method != "bicubic" and padding != "zeros":
                p = min(max(reflected(p, s, align) if padding == "reflection" else p, 0), s - 1)
            places.append(float(p))
        total = np.zeros(a.shape[1])
        each = []
        for p in places:
            low = math.floor(p)
            if method == "nearest":
                each.append({round(p): 1.0})
            elif method == "bilinear":
                each.append({low: 1 - (p - low), low + 1: p - low})
            else:
                each.append({})
                for k in range(-1, 3):
                    t, alpha = abs(p - low - k), -0.75
                    near = (alpha + 2) * t**3 - (alpha + 3) * t**2 + 1
                    each[-1][low + k] = near if t <= 1 else alpha * (t**3 - 5 * t**2 + 8 * t - 4)
        for point in product(*each):
            weight = math.prod(e[k] for e, k in zip(each, point))
            total += weight * pixel(n, point)
        out[(n, slice(None), *at)] = total
    return out


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("align", [True, False])
def test_grid_sample(padding: str, method: str, align: bool) -> None:
    cases = []
    for n, c, h, w, y, x in [(1, 2, 4, 3, 3, 2), (2, 1, 1, 1, 1, 2)]:
        cases.append((data(n, c, h, w), (RNG.random((n, 2, y, x)) * 3 - 1.5).astype("float32")))
    verify(
        lambda a, g: image.grid_sample(a, g, method, "NCHW", padding, align),
        lambda a, g: sampled(a, g.astype("float64"), method, padding, align),
        ["nchw", ("n", 2, "y", "x")],
        *cases,
        tolerance=1e-3,
        constant=False,
    )


def test_grids_of_volumes_and_affine_ones() -> None:
    a, g = data(1, 2, 3, 4, 2), (RNG.random((1, 3, 2, 2, 3)) * 2.4 - 1.2).astype("float32")
    verify(
        lambda x, y: image.grid_sample(x, y, "bilinear", "NCDHW"),
        lambda x, y: sampled(x, y, "bilinear", "zeros", True),
        [a.shape, g.shape],
        (a, g),
        tolerance=1e-3,
    )

    def affine(m):
        ys, xs = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 5), indexing="ij")
        return np.einsum("nak,kyx->nayx", m, np.stack([xs, ys, np.ones_like(xs)]))

    verify(lambda m: image.affine_grid(m, (4, 5)), affine, [("n", 2, 3)], (data(3, 2, 3),), tolerance=1e-4)
