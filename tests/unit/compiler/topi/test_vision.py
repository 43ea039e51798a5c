"""Resizing, sampling, suppression and regions give what plain loops give."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError
from compiler.te.operation import placeholder
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


# -------------------------------------------------------------------------------- suppression


def overlap(a: Array, b: Array) -> float:
    low, high = (
        np.maximum(np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:])),
        np.minimum(np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:])),
    )
    shared = np.prod(np.maximum(high - low, 0))
    whole = np.prod(np.abs(a[2:] - a[:2])) + np.prod(np.abs(b[2:] - b[:2])) - shared
    return shared / whole if whole > 0 else 0.0


def boxes_of(*shape: int) -> Array:
    corner, size = RNG.random((*shape, 2)), RNG.random((*shape, 2)) * 0.6 + 0.1
    return np.concatenate([corner, corner + size], -1).astype("float32")


def chosen(boxes: Array, scores: Array, most: int, threshold: float, least: float) -> list[int]:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) < most and scores[i] > least and all(overlap(boxes[i], boxes[k]) <= threshold for k in kept):
            kept.append(int(i))
    return kept


def test_suppression_of_all_classes() -> None:
    def onnx(b, s, m, t, k):
        rows = [
            (n, c, i)
            for n, c in np.ndindex(s.shape[:2])
            for i in chosen(b[n], s[n, c], int(m[0]), float(t[0]), float(k[0]))
        ]
        out = np.zeros((s.size, 3), int)
        out[: len(rows)] = np.array(rows).reshape(-1, 3)
        return out, [len(rows)]

    limits = np.array([2]), np.array([0.4], "float32"), np.array([0.3], "float32")
    cases = [
        (boxes_of(n, k), RNG.random((n, c, k)).astype("float32"), *limits)
        for n, c, k in [(2, 3, 7), (1, 1, 1), (1, 2, 0)]
    ]
    verify(vision.all_class_non_max_suppression, onnx, [("n", "k", 4), "nck", (1,), (1,), (1,)], *cases)

    def tensorflow(b, s):
        out, values, counts = np.zeros((len(b), s[0].size, 2), int), np.zeros((len(b), s[0].size)), []
        for n in range(len(b)):
            found = [(c, i) for c in range(s.shape[1]) for i in chosen(b[n], s[n, c], 3, 0.5, 0.2)]
            found.sort(key=lambda p, n=n: -s[n, p[0], p[1]])
            out[n, : len(found)] = np.array(found).reshape(-1, 2)
            values[n, : len(found)] = [s[n, c, i] for c, i in found]
            counts.append(len(found))
        return out, values, counts

    verify(
        lambda b, s: vision.all_class_non_max_suppression(b, s, 3, 0.5, 0.2, "tensorflow"),
        tensorflow,
        [("n", "k", 4), "nck"],
        *[case[:2] for case in cases],
    )


@pytest.mark.parametrize(("force", "most"), [(False, -1), (True, 2)])
def test_suppression_of_rows(force: bool, most: int) -> None:
    rows = np.concatenate([RNG.integers(-1, 2, (2, 9, 1)), RNG.random((2, 9, 1)), boxes_of(2, 9)], -1).astype("float32")

    def counted(a):
        number, out, places = [], np.full(a.shape, -1.0), np.full(a.shape[:2], -1)
        for n, batch in enumerate(a):
            kept = [i for i, row in enumerate(batch) if row[1] > 0.2 and row[0] >= 0]
            number.append(len(kept))
            out[n, : len(kept)], places[n, : len(kept)] = batch[kept], kept
        return number, out, places

    verify(lambda a: vision.get_valid_counts(a, 0.2), counted, ["nmk"], (rows,))
    number, out, places = counted(rows)

    def best(batch: Array, count: int) -> list[int]:
        kept: list[int] = []
        for i in np.argsort(-batch[:count, 1], kind="stable")[:6]:
            far = [overlap(batch[i, 2:], batch[k, 2:]) > 0.3 and (force or batch[i, 0] == batch[k, 0]) for k in kept]
            if not any(far) and (most < 0 or len(kept) < most):
                kept.append(int(i))
        return kept

    def indices(a, c, i):
        names, counts = np.full(a.shape[:2], -1), []
        for n, batch in enumerate(a):
            kept = best(batch, c[n])
            names[n, : len(kept)] = i[n][kept]
            counts.append([len(kept)])
        return names, counts

    def bottom(a, c, i):
        result = np.full(a.shape, -1.0)
        for n, batch in enumerate(a):
            kept = best(batch, c[n])
            result[n, : len(kept)] = batch[kept]
        return result

    args = out.astype("float32"), np.array(number, "int32"), places.astype("int32")
    verify(lambda a, c, i: vision.non_max_suppression(a, c, i, most, 0.3, force, 6), indices, ["nmk", "n", "nm"], args)
    verify(
        lambda a, c, i: vision.non_max_suppression(
            a, c, i, most, 0.3, force, 6, return_indices=False, invalid_to_bottom=True
        ),
        bottom,
        ["nmk", "n", "nm"],
        args,
    )


def test_boxes_of_single_shot_detectors() -> None:
    def moved(p, loc, anchor):
        a = anchor[0].astype("float64")
        m = loc.reshape(len(loc), -1, 4) * np.array([0.1, 0.1, 0.2, 0.2])
        size, middle = a[:, 2:] - a[:, :2], (a[:, 2:] + a[:, :2]) / 2
        at, reach = m[..., :2] * size + middle, np.exp(m[..., 2:]) * size / 2
        kept = np.where(p >= 0.3, p, 0)
        kept[:, 0] = 0
        return np.clip(np.concatenate([at - reach, at + reach], -1), 0, 1), kept

    p = RNG.random((2, 3, 5)).astype("float32")
    verify(
        lambda *t: vision.multibox_transform_loc(*t, threshold=0.3),
        moved,
        [("n", "c", 5), ("n", 20), (1, 5, 4)],
        (p, data(2, 20), boxes_of(1, 5)),
        tolerance=1e-4,
    )

    def prior(a):
        out = []
        for y, x in np.ndindex(a.shape[2:]):
            middle = np.array([(x + 0.5) / a.shape[3], (y + 0.5) / a.shape[2]])
            for size, ratio in [(0.2, 1), (0.4, 1), (0.2, 2)]:
                half = np.array([size * a.shape[2] / a.shape[3] * ratio**0.5, size / ratio**0.5]) / 2
                out.append([*(middle - half), *(middle + half)])
        return np.array([out])

    verify(lambda a: vision.multibox_prior(a, (0.2, 0.4), (1, 2)), prior, ["nchw"], (data(1, 2, 3, 4),))


# ------------------------------------------------------------------------------------ regions


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize(("ratio", "aligned"), [(2, False), (-1, True), (-1, False)])
def test_roi_align(mode: str, ratio: int, aligned: bool) -> None:
    def pixel(plane: Array, y: float, x: float) -> float:
        h, w = plane.shape
        if not (-1 <= y <= h and -1 <= x <= w):
            return 0.0
        y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
        i, j = int(y), int(x)
        k, m = min(i + 1, h - 1), min(j + 1, w - 1)
        v, u = y - i, x - j
        return (plane[i, j] * (1 - u) + plane[i, m] * u) * (1 - v) + (plane[k, j] * (1 - u) + plane[k, m] * u) * v

    def reference(a, rois):
        out = np.zeros((len(rois), a.shape[1], 2, 3))
        for n, c, i, j in np.ndindex(out.shape):
            which, x1, y1, x2, y2 = rois[n].astype("float64")
            off = 0.5 if aligned else 0.0
            x1, y1, x2, y2 = (v * 0.5 - off for v in (x1, y1, x2, y2))
            tall, broad = (max(s, 0.0 if aligned else 1.0) / b for s, b in ((y2 - y1, 2), (x2 - x1, 3)))
            down, along = (ratio, ratio) if ratio > 0 else (math.ceil(tall), math.ceil(broad))
            values = [
                pixel(
                    a[int(which), c],
                    y1 + i * tall + (u + 0.5) * tall / down,
                    x1 + j * broad + (v + 0.5) * broad / along,
                )
                for u, v in product(range(down), range(along))
            ]
            out[n, c, i, j] = (sum(values) / max(len(values), 1)) if mode == "avg" else max(values)
        return out

    a, rois = data(2, 2, 6, 7), np.array([[0, 1, 2, 9, 8], [1, 0, 0, 14, 13], [0, 3, 3, 4.5, 11]], "float32")
    verify(
        lambda x, r: vision.roi_align_nchw(x, r, (2, 3), 0.5, mode, ratio, aligned),
        reference,
        ["nchw", ("k", 5)],
        (a, rois),
        tolerance=1e-4,
    )
    if ratio == 2:
        verify(
            lambda x, r: vision.roi_align_nhwc(x, r, (2, 3), 0.5, mode, ratio),
            lambda x, r: reference(a, r).transpose(0, 2, 3, 1),
            ["nhwc", ("k", 5)],
            (np.ascontiguousarray(a.transpose(0, 2, 3, 1)), rois),
            tolerance=1e-4,
        )


def test_roi_pool() -> None:
    def reference(a, rois):
        out = np.zeros((len(rois), a.shape[1], 2, 3))
        for n, (which, *edges) in enumerate(rois):
            x1, y1, x2, y2 = (math.floor(e * 0.5 + 0.5) for e in edges)
            tall, broad = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
            for i, j in np.ndindex(2, 3):
                rows = np.clip([i * tall // 2 + y1, -(-(i + 1) * tall // 2) + y1], 0, a.shape[2])
                columns = np.clip([j * broad // 3 + x1, -(-(j + 1) * broad // 3) + x1], 0, a.shape[3])
                part = a[int(which), :, rows[0] : rows[1], columns[0] : columns[1]]
                out[n, :, i, j] = part.max((1, 2)) if part.size else 0
        return out

    rois = np.array([[0, 1, 2, 9, 8], [1, 0, 0, 14, 13], [0, 20, 20, 24, 25]], "float32")
    verify(
        lambda x, r: vision.roi_pool_nchw(x, r, (2, 3), 0.5), reference, ["nchw", ("k", 5)], (data(2, 2, 6, 7), rois)
    )
    verify(
        lambda x: vision.reorg(x, 2),
        lambda a: a.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3),
        ["nchw"],
        (data(1, 2, 4, 6),),
        constant=False,
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: image.resize2d(x, None, (2, 2), method="area"), "resize2d: method 'area' is none of"),
        (lambda x: image.resize2d(x, None, (2, 0)), "resize2d: size (2, 0)"),
        (lambda x: image.resize2d(x, None, (2, 2), "NCW"), "resize2d: layout 'NCW' does not fit 'X'"),
        (lambda x: image.grid_sample(x, x), "grid_sample: shapes do not fit"),
        (lambda x: vision.roi_align_nchw(x, placeholder((3, 4)), 2, 1.0, "avg"), "regions must have 5 numbers"),
        (lambda x: vision.get_valid_counts(x), "get_valid_counts: 'X' (2, 3, 4, 5) must have 3 dimensions"),
        (
            lambda x: vision.all_class_non_max_suppression(placeholder((1, 5, 4)), placeholder((1, 2, 6)), 1, 0.5, 0.1),
            "all_class_non_max_suppression: shapes do not fit",
        ),
    ],
)
def test_mistakes(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make(placeholder((2, 3, 4, 5), name="X"))
    assert text in error.value.message
    assert __file__ in error.value.message
