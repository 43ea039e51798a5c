"""Operators of object detection: regions of interest, boxes of detectors, and selection of boxes."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.errors import IRError
from compiler.relax.nodes import Expr, StructInfo, TensorStructInfo, TupleStructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import Ints, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import per_input, per_output
from compiler.relax.op.nn.stored import per_dimension
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

__all__ = [
    "all_class_non_max_suppression", "get_valid_counts", "multibox_transform_loc", "non_max_suppression", "roi_align",
    "roi_pool",
]  # fmt: skip

_CHOICE = refused("it chooses among boxes, and is constant nearly everywhere")
_DETECTOR = refused("detectors are run here, they are not trained")


def _check_extent(use: Use, what: str, size: PrimExpr, wanted: PrimExpr | int, *names: str) -> None:
    use.check_equal(what, size, int64(wanted) if isinstance(wanted, int) else wanted, *names)


# -------------------------------------------------------------------------- regions of interest


def _pooled_size(op: str) -> Any:
    def complete(attrs: dict[str, Any]) -> dict[str, Any]:
        sizes = per_dimension(op, "pooled_size", attrs["pooled_size"], 2)
        if min(sizes) < 1:
            raise IRError(f"{op}: pooled_size is {attrs['pooled_size']!r}, its numbers must be positive")
        mode = {b"avg": "avg", b"max": "max", 0: "avg", 1: "max"}.get(attrs.get("mode"), attrs.get("mode"))
        return attrs | {"pooled_size": sizes} | ({"mode": mode} if "mode" in attrs else {})

    return complete


def _regions_info(use: Use, layouts: tuple[str, ...]) -> StructInfo:
    data, rois, attrs = use.tensor("data", 4), use.tensor("rois", 2), use.call.attrs
    use.check_float("data", "rois")
    layout = attrs["layout"]
    if layout not in layouts:
        use.fail(f"layout is {layout!r}, it must be {' or '.join(map(repr, layouts))}")
    dtype, device = use.dtype("data", "rois"), use.vdevice("data", "rois")
    if rois.dims is not None:
        _check_extent(use, "the numbers of a region and those of rois", rois.dims[1], 5, "rois")
    if data.dims is None or rois.dims is None:
        return tensor(None, dtype, 4, device)
    size = dict(zip(layout, data.dims))
    height, width = attrs["pooled_size"]
    size |= {"N": rois.dims[0], "H": int64(height), "W": int64(width)}
    return tensor([size[letter] for letter in layout], dtype, vdevice=device)


def _align_info(use: Use) -> StructInfo:
    if use.call.attrs["mode"] not in ("avg", "max"):
        use.fail(f"mode is {use.call.attrs['mode']!r}, it must be 'avg' or 'max'")
    return _regions_info(use, ("NCHW", "NHWC"))


def _roi_align(
    data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float, sample_ratio: int, aligned: bool, layout: str,
    mode: str,
) -> Tensor:  # fmt: skip
    kernel = topi.vision.roi_align_nchw if layout == "NCHW" else topi.vision.roi_align_nhwc
    return kernel(data, rois, pooled_size, spatial_scale, mode, sample_ratio, aligned)


@operator(
    "relax.vision.roi_align", infer=_align_info, te=_roi_align, pattern=OpPatternKind.OPAQUE, flops=per_output(48),
    layout=as_written, gradient=_DETECTOR, canonical=_pooled_size("relax.vision.roi_align"),
)  # fmt: skip
def roi_align(
    data: TensorArg, rois: TensorArg, pooled_size: Ints, spatial_scale: float, sample_ratio: int = -1,
    aligned: bool = False, layout: str = "NCHW", mode: Any = "avg",
) -> Expr:  # fmt: skip
    """Take the mean ("avg") or largest ("max") value in each of `pooled_size` bins of each region.

    `rois` is (regions, 5): image, x1, y1, x2, y2, which `spatial_scale` brings to pixels. In a bin `sample_ratio`²
    places are interpolated, as many as it has pixels when it is not positive. With `aligned` the middles of pixels
    lie half a pixel in.
    """


def _roi_pool(data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float, layout: str) -> Tensor:
    return topi.vision.roi_pool_nchw(data, rois, pooled_size, spatial_scale)


@operator(
    "relax.vision.roi_pool", infer=lambda use: _regions_info(use, ("NCHW",)), te=_roi_pool,
    pattern=OpPatternKind.OPAQUE, flops=per_output(16), layout=as_written, gradient=_DETECTOR,
    canonical=_pooled_size("relax.vision.roi_pool"),
)  # fmt: skip
def roi_pool(
    data: TensorArg, rois: TensorArg, pooled_size: Ints, spatial_scale: float, layout: str = "NCHW"
) -> Expr:
    """Take the largest value in each of `pooled_size` bins of each region.

    `rois` is that of `roi_align`. Bins are of whole pixels; an empty one gives 0.
    """


# ---------------------------------------------------------------------------- choosing among boxes


def _boxes(use: Use) -> TensorStructInfo:
    data = use.tensor("data", 3)
    use.check_float("data")
    return data


def _counts_info(use: Use) -> StructInfo:
    data = _boxes(use)
    dims = data.dims
    return TupleStructInfo(
        (
            tensor(None if dims is None else dims[:1], "int32", 1, data.vdevice),
            tensor(dims, data.dtype, 3, data.vdevice),
            tensor(None if dims is None else dims[:2], "int32", 2, data.vdevice),
        )
    )


@operator(
    "relax.vision.get_valid_counts", infer=_counts_info, te=topi.vision.get_valid_counts, pattern=OpPatternKind.OPAQUE,
    flops=per_input(1), layout=as_written, gradient=_CHOICE,
)  # fmt: skip
def get_valid_counts(data: TensorArg, score_threshold: float = 0, id_index: int = 0, score_index: int = 1) -> Expr:
    """Move boxes whose score is above the threshold to the front.
    Returns their number, the boxes, and their old places.

    `data` is (batch, boxes, fields). Unused places hold -1. If `id_index` is not negative, boxes of a negative class
    are left out, too.
    """


def _suppression_info(use: Use) -> StructInfo:
    data, valid, places = _boxes(use), use.tensor("valid_count", 1), use.tensor("indices", 2)
    for name in ("valid_count", "indices"):
        dtype = use.tensor(name).dtype
        if dtype and not dtype.startswith("int"):
            use.fail(f"{name} must have integer elements, got {dtype}")
    for name, info in (("valid_count", valid), ("indices", places)):
        for a, b in zip(data.dims or (), info.dims or ()):
            use.check_equal(f"the dimensions of data and {name}", a, b, "data", name)
    if use.call.attrs["soft_nms_sigma"] < 0.0:
        use.fail(f"soft_nms_sigma is {use.call.attrs['soft_nms_sigma']}, it must not be negative")
    if not use.call.attrs["return_indices"]:
        return data
    dims, device = data.dims, data.vdevice
    found = (
        tensor(None if dims is None else dims[:2], "int32", 2, device),
        tensor(None if dims is None else [dims[0], int64(1)], "int32", 2, device),
    )
    return TupleStructInfo((data, *found) if use.call.attrs["soft_nms_sigma"] > 0.0 else found)


@operator(
    "relax.vision.non_max_suppression", infer=_suppression_info, te=topi.vision.non_max_suppression,
    pattern=OpPatternKind.OPAQUE, flops=per_input(16), layout=as_written, gradient=_CHOICE,
)  # fmt: skip
def non_max_suppression(
    data: TensorArg, valid_count: TensorArg, indices: TensorArg, max_output_size: int = -1, iou_threshold: float = 0.5,
    force_suppress: bool = False, top_k: int = -1, coord_start: int = 2, score_index: int = 1, id_index: int = 0,
    return_indices: bool = True, invalid_to_bottom: bool = False, soft_nms_sigma: float = 0.0,
    score_threshold: float = 0.0,
) -> Expr:  # fmt: skip
    """Keep, of boxes that overlap by more than `iou_threshold`, the one with the highest score.

    `data` is (batch, boxes, fields), with corners from `coord_start` on; only the first `valid_count` boxes count.
    Boxes of different classes do not compete unless `force_suppress`. The result is the boxes in order of score, others
    -1; or with `return_indices` entries of `indices`, and how many. A positive `soft_nms_sigma` also lowers the scores
    of boxes that overlap less. Boxes whose score is not above `score_threshold` are then dropped, and boxes are
    returned beside indices.
    """


def _all_classes_info(use: Use) -> StructInfo:
    boxes, scores, form = use.tensor("boxes", 3), use.tensor("scores", 3), use.call.attrs["output_format"]
    use.check_float("boxes", "scores")
    if form not in ("onnx", "tensorflow"):
        use.fail(f"output_format is {form!r}, it must be 'onnx' or 'tensorflow'")
    for name in ("max_output_boxes_per_class", "iou_threshold", "score_threshold"):
        limit = use.tensor(name)
        if limit.ndim > 1 or (limit.dims and use.differ(limit.dims[0], int64(1))):
            use.fail(f"{name} must be one number, got {shown(limit)}")
    device = use.vdevice("boxes", "scores")
    if boxes.dims is not None:
        _check_extent(use, "the numbers of a box and those of boxes", boxes.dims[2], 4, "boxes")
    if boxes.dims is not None and scores.dims is not None:
        use.check_equal("the batches of boxes and scores", boxes.dims[0], scores.dims[0], "boxes", "scores")
        use.check_equal("how many boxes and scores there are", boxes.dims[1], scores.dims[2], "boxes", "scores")
    dims = scores.dims
    if form == "onnx":
        rows = None if dims is None else [use.simplify(dims[0] * dims[1] * dims[2]), int64(3)]
        return TupleStructInfo((tensor(rows, "int64", 2, device), tensor([int64(1)], "int64", vdevice=device)))
    each = None if dims is None else use.simplify(dims[1] * dims[2])
    batch = None if dims is None else dims[0]
    return TupleStructInfo(
        (
            tensor(None if batch is None or each is None else [batch, each, int64(2)], "int64", 3, device),
            tensor(None if batch is None or each is None else [batch, each], scores.dtype, 2, device),
            tensor(None if batch is None else [batch], "int64", 1, device),
        )
    )


@operator(
    "relax.vision.all_class_non_max_suppression", infer=_all_classes_info, te=topi.vision.all_class_non_max_suppression,
    pattern=OpPatternKind.OPAQUE, flops=per_input(16, 1), layout=as_written, gradient=_CHOICE,
)  # fmt: skip
def all_class_non_max_suppression(
    boxes: TensorArg, scores: TensorArg, max_output_boxes_per_class: TensorArg, iou_threshold: TensorArg,
    score_threshold: TensorArg, output_format: str = "onnx",
) -> Expr:  # fmt: skip
    """Keep the best of overlapping boxes for each class.

    `boxes` is (batch, boxes, 4), `scores` (batch, classes, boxes). "onnx" gives rows of batch, class and box, (batch *
    classes * boxes, 3), and how many are results. "tensorflow" gives class and box by score, the scores, and how many
    a batch. Rows that are no results are 0.
    """


# ------------------------------------------------------------------------- boxes of detectors


def _multibox_info(use: Use) -> StructInfo:
    classes, moves, anchor = use.tensor("cls_pred", 3), use.tensor("loc_pred", 2), use.tensor("anchor", 3)
    names = ("cls_pred", "loc_pred", "anchor")
    use.check_float(*names)
    dtype, device = use.dtype(*names), use.vdevice(*names)
    variances = use.call.attrs["variances"]
    if not isinstance(variances, tuple) or len(variances) != 4:
        use.fail(f"variances is {variances!r}, it must be four numbers")
    if classes.dims is not None:
        batch, _, count = classes.dims
        if anchor.dims is not None:
            for a, b in zip(anchor.dims, (int64(1), count, int64(4))):
                use.check_equal("the dimensions of anchor and (1, boxes, 4)", a, b, "anchor", "cls_pred")
        if moves.dims is not None:
            use.check_equal("the batches of cls_pred and loc_pred", batch, moves.dims[0], "cls_pred", "loc_pred")
            wanted = use.simplify(count * 4)
            use.check_equal("four times the boxes and the width of loc_pred", wanted, moves.dims[1], "cls_pred",
                            "loc_pred")  # fmt: skip
    dims = classes.dims
    boxes = None if dims is None else [dims[0], dims[2], int64(4)]
    return TupleStructInfo((tensor(boxes, dtype, 3, device), tensor(dims, dtype, 3, device)))


def _multibox(
    cls_pred: Tensor, loc_pred: Tensor, anchor: Tensor, clip: bool, threshold: float, variances: Any,
    keep_background: bool, apply_softmax: bool,
) -> list[Tensor]:  # fmt: skip
    scores = topi.nn.softmax(cls_pred, 1) if apply_softmax else cls_pred
    boxes, kept = topi.vision.multibox_transform_loc(
        scores, loc_pred, anchor, clip, threshold, variances, keep_background
    )
    swapped: Tensor = compute(
        boxes.shape, lambda b, i, f: boxes(b, i, f + 1 - ops.floormod(f, 2) * 2), name="T_boxes", tag="injective"
    )
    return [swapped, kept]


@operator(
    "relax.vision.multibox_transform_loc", infer=_multibox_info, te=_multibox, pattern=OpPatternKind.OPAQUE,
    flops=per_input(16), layout=as_written, gradient=_DETECTOR,
)  # fmt: skip
def multibox_transform_loc(
    cls_pred: TensorArg, loc_pred: TensorArg, anchor: TensorArg, clip: bool = False, threshold: float = 0.0,
    variances: Any = (1.0, 1.0, 1.0, 1.0), keep_background: bool = True, apply_softmax: bool = True,
) -> Expr:  # fmt: skip
    """Give the boxes that `loc_pred` moves `anchor` to, and the scores of each class.

    `cls_pred` is (batch, classes, boxes), its softmax over classes the score. `loc_pred` (batch, 4 * boxes) holds moves
    of middle and size: x, y, width, height; `anchor` (1, boxes, 4) is left, top, right, bottom. Boxes are (batch,
    boxes, 4): top, left, bottom, right. Scores below `threshold` become 0, and those of class 0
    unless `keep_background`; with `clip` boxes stay within 0 and 1.
    """
