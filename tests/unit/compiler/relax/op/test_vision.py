"""Regions of interest and boxes: StructInfo, kernels and numpy agree; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Var
from tests.kit.compiler.relax_ops import SIZES, Case, check

Array = np.ndarray[Any, Any]
vision = op.vision
FEW = ({"n": 1, "m": 5, "k": 2, "j": 1}, {"n": 2, "m": 1, "k": 1, "j": 1}, {"n": 1, "m": 0, "k": 3, "j": 1},
       {"n": 3, "m": 7, "k": 3, "j": 1})  # fmt: skip


def areas(low: Array, high: Array) -> Any:
    return np.prod(np.maximum(high - low, 0.0))


def overlap(a: Array, b: Array) -> float:
    """The area two boxes share by the area of both; corners are in order."""
    shared = areas(np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:]))
    whole = areas(a[:2], a[2:]) + areas(b[:2], b[2:]) - shared
    return float(shared / whole) if whole > 0 else 0.0


def in_order(a: Array) -> Array:
    """Corners in order, within a square that lets boxes overlap."""
    corners = np.abs(a[..., -4:]) % 2
    boxes = np.concatenate([corners[..., :2], corners[..., :2] + 0.5 + corners[..., 2:]], -1)
    return np.concatenate([a[..., :-4], boxes], -1)


def classes(a: Array) -> Array:
    """Rows of class, score and box."""
    made = in_order(a)
    made[..., 0] = np.sign(np.round(a[..., 0]))
    made[..., 1] = np.abs(a[..., 1])
    return made


def valid_counts(a: Array) -> list[Array]:
    counts, boxes, places = np.zeros(len(a), int), np.full(a.shape, -1.0), np.full(a.shape[:2], -1)
    for n, batch in enumerate(a):
        kept = [i for i, row in enumerate(batch) if row[1] > 0.25 and row[0] >= 0]
        counts[n], boxes[n, : len(kept)], places[n, : len(kept)] = len(kept), batch[kept], kept
    return [counts, boxes, places]


def suppressed(a: Array, valid: Array, names: Array, sigma: float = 0.0, least: float = 0.0) -> list[Array]:
    """Boxes, the entries of `names` and how many stay; a box is left out or its score falls."""
    boxes, places, counts = np.full(a.shape, -1.0), np.full(a.shape[:2], -1), np.zeros((len(a), 1), int)
    for n, batch in enumerate(a.astype("float64")):
        left = {i: row[1] for i, row in enumerate(batch[: valid[n]])}
        kept = 0
        while left:
            best = max(left, key=lambda i: (left[i], -i))
            if sigma > 0 and left[best] <= least:
                break
            boxes[n, kept], places[n, kept] = batch[best], names[n, best]
            boxes[n, kept, 1] = left.pop(best)
            kept += 1
            for i in list(left):
                far = overlap(batch[best, 2:], batch[i, 2:])
                if batch[best, 0] != batch[i, 0]:
                    continue
                if far > 0.4:
                    del left[i]
                elif sigma > 0:
                    left[i] *= np.exp(-far * far / (2 * sigma))
        counts[n] = kept
    return [boxes, places, counts]


def all_classes(boxes: Array, scores: Array, most: Array, far: Array, least: Array) -> list[Array]:
    rows = []
    for n, c in np.ndindex(scores.shape[:2]):
        kept: list[int] = []
        for i in np.argsort(-scores[n, c], kind="stable"):
            rivals = [overlap(boxes[n, i], boxes[n, k]) for k in kept]
            if len(kept) < int(most) and scores[n, c, i] > least and all(share <= far for share in rivals):
                kept.append(int(i))
        rows += [(n, c, i) for i in kept]
    found = np.zeros((scores.size, 3), int)
    found[: len(rows)] = np.array(rows, int).reshape(-1, 3)
    return [found, np.array([len(rows)])]


def moved(classes: Array, moves: Array, anchor: Array) -> list[Array]:
    scores = np.exp(classes - classes.max(1, keepdims=True))
    scores = scores / scores.sum(1, keepdims=True)
    corners = anchor[0].astype("float64")
    loc = moves.reshape(len(moves), -1, 4) * np.array([0.1, 0.1, 0.2, 0.2])
    size, middle = corners[:, 2:] - corners[:, :2], (corners[:, 2:] + corners[:, :2]) / 2
    at, reach = loc[..., :2] * size + middle, np.exp(loc[..., 2:]) * size / 2
    return [np.concatenate([at - reach, at + reach], -1)[..., [1, 0, 3, 2]], np.where(scores >= 0.3, scores, 0.0)]


def pooled(a: Array, rois: Array) -> Array:
    """The largest pixel of the two halves, upper and lower, of whole images."""
    out = [np.stack([a[int(r[0]), :, :2].max((1, 2)), a[int(r[0]), :, 2:].max((1, 2))], -1) for r in rois]
    return np.stack(out)[..., None] if out else np.zeros((0, a.shape[1], 2, 1))


def aligned(a: Array, rois: Array) -> Array:
    """The mean of the middle points of four pixels each."""
    out = [a[int(r[0])].reshape(a.shape[1], 2, 2, 2, 2).mean((2, 4)) for r in rois]
    return np.stack(out) if out else np.zeros((0, a.shape[1], 2, 2))


def whole_images(a: Array) -> Array:
    """Regions: all of an image of 4 by 4 pixels."""
    a = a * 0
    a[:, 3:] = 4
    return a


def corner_images(a: Array) -> Array:
    a = whole_images(a)
    a[:, 3:] = 3
    return a


CASES = [
    Case("get_valid_counts", lambda a: vision.get_valid_counts(a, 0.25), valid_counts, ["n m 6"],
         values={0: classes}, sizes=FEW),
    Case("non_max_suppression", lambda *a: vision.non_max_suppression(*a, iou_threshold=0.4),
         lambda *a: suppressed(*a)[1:], ["n m 6", "n", "n m"], fixed={1: "int32", 2: "int32"},
         values={0: classes, 1: lambda a: a * 0 + 4}, sizes=FEW[:1]),
    Case("non_max_suppression soft",
         lambda *a: vision.non_max_suppression(*a, iou_threshold=0.4, soft_nms_sigma=0.3, score_threshold=0.2),
         lambda *a: suppressed(*a, 0.3, 0.2), ["n m 6", "n", "n m"], fixed={1: "int32", 2: "int32"},
         values={0: classes, 1: lambda a: a * 0 + 7}, sizes=FEW[3:], tolerance=1e-4),
    Case("all_class_non_max_suppression", vision.all_class_non_max_suppression, all_classes,
         ["n m 4", "n k m", "", "1", ""], fixed={2: "int64"},
         values={0: in_order, 1: np.abs, 2: lambda a: a * 0 + 2, 3: lambda a: a * 0 + np.float32(0.4),
                 4: lambda a: a * 0 + np.float32(0.3)}, sizes=FEW),
    Case("multibox_transform_loc",
         lambda *a: vision.multibox_transform_loc(*a, threshold=0.3, variances=(0.1, 0.1, 0.2, 0.2)), moved,
         ["n k 5", "n 20", "1 5 4"], values={2: in_order}, sizes=FEW, tolerance=1e-4),
    Case("roi_align", lambda a, r: vision.roi_align(a, r, (2, 2), 1.0, 2, True), aligned, ["n m 4 4", "k 5"],
         ("float32", "float64"), values={1: whole_images}, sizes=[*SIZES[:2], SIZES[3]]),
    Case("roi_align NHWC",
         lambda a, r: vision.roi_align(a, r, 2, 0.5, 2, True, "NHWC", "avg"),
         lambda a, r: aligned(a.transpose(0, 3, 1, 2), r).transpose(0, 2, 3, 1), ["n 4 4 m", "k 5"],
         values={1: lambda a: whole_images(a) * 2}, sizes=[*SIZES[:2], SIZES[3]]),
    Case("roi_pool", lambda a, r: vision.roi_pool(a, r, (2, 1), 1.0), pooled, ["n m 4 4", "k 5"],
         values={1: corner_images}, sizes=[*SIZES[:2], SIZES[3]]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_info_kernel_and_numpy_agree(case: Case) -> None:
    check(case)


def var(*shape: int, dtype: str = "float32") -> Var:
    return Var("x", TensorStructInfo(shape, dtype))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vision.roi_align(var(1, 2, 4, 4), var(3, 4), 2, 1.0), "the numbers of a region and those of rois"),
        (lambda: vision.roi_align(var(1, 2, 4, 4), var(3, 5), 0, 1.0), "its numbers must be positive"),
        (lambda: vision.roi_align(var(1, 2, 4, 4), var(3, 5), 2, 1.0, mode="min"), "mode is 'min'"),
        (lambda: vision.roi_pool(var(1, 2, 4, 4), var(3, 5), 2, 1.0, "NHWC"), "layout is 'NHWC', it must be 'NCHW'"),
        (lambda: vision.get_valid_counts(var(2, 6)), "data must have 3 dimensions, got 2"),
        (
            lambda: vision.non_max_suppression(var(1, 2, 6), var(1), var(1, 2, dtype="int32")),
            "valid_count must have integer elements, got float32",
        ),
        (
            lambda: vision.non_max_suppression(var(1, 2, 6), var(2, dtype="int32"), var(1, 2, dtype="int32")),
            "the dimensions of data and valid_count differ: 1 and 2",
        ),
        (
            lambda: vision.all_class_non_max_suppression(var(1, 5, 4), var(1, 2, 6), 1, 0.5, 0.5),
            "how many boxes and scores there are differ: 5 and 6",
        ),
        (
            lambda: vision.multibox_transform_loc(var(1, 2, 5), var(1, 16), var(1, 5, 4)),
            "four times the boxes and the width of loc_pred differ: 20 and 16",
        ),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(IRError) as error:
        BlockBuilder().normalize(make())
    assert message in str(error.value)
