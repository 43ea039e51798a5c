"""Suppression of boxes, and pooling of regions, against numpy."""

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
