"""Choosing among boxes that overlap."""

from __future__ import annotations

from typing import Any

from compiler.te.extern import extern
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import BufferVar, create
from compiler.tir.nodes import PrimExpr, Stmt, Var
from compiler.topi.checks import described, differ, need_floats, need_one_of, need_rank, need_shape, product, refusal
from compiler.topi.rows import int64, points, rows
from compiler.topi.sort import argsort


def get_valid_counts(
    data: Tensor, score_threshold: Any = 0, id_index: int = 0, score_index: int = 1
) -> list[Tensor]:
    """The boxes of `data` (batch, boxes, fields) whose score is above the threshold, moved to the front.

    Returns [how many (batch,), boxes, where each stood (batch, boxes)]; what is left over is -1. With `id_index` not
    negative, boxes of a negative class are left out too.
    """
    op = "get_valid_counts"
    need_floats(op, data)
    need_rank(op, data, 3)
    batch, count, fields = data.shape
    inputs = [data, *([score_threshold] if isinstance(score_threshold, Tensor) else [])]

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given = ib.buffer_ptr(ins[0])
        number, boxes, places = (ib.buffer_ptr(b) for b in outs)
        least = ib.buffer_ptr(ins[1])[0] if len(ins) > 1 else const(float(score_threshold), data.dtype)
        with rows(ib, (batch, ops.const(1)), 1) as row:
            b = row.at(0)[0]
            number[b] = 0
            with points(ib, (count,)) as (i,):
                places[b, i] = -1
                with points(ib, (fields,)) as (f,):
                    boxes[b, i, f] = const(-1.0, data.dtype)
            with points(ib, (count,)) as (i,):
                keeps = ops.greater(given[b, i, score_index], ops.cast(data.dtype, least))
                if id_index >= 0:
                    keeps = ops.logical_and(keeps, ops.greater_equal(given[b, i, id_index], const(0.0, data.dtype)))
                with ib.if_scope(keeps):
                    with points(ib, (fields,)) as (f,):
                        boxes[b, number[b], f] = given[b, i, f]
                    places[b, number[b]] = i.astype("int32")
                    number[b] = number[b] + 1
        return ib.get()

    shapes = [(batch,), data.shape, (batch, count)]
    made: list[Tensor] = extern(shapes, inputs, body, name="get_valid_counts", dtype=["int32", data.dtype, "int32"],
                                tag="nms")  # fmt: skip
    return made


def _overlap(read: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The area two boxes share by the area of both together; `read(box, 0..3)` are corners, in any order."""

    def corners(box: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr]:
        y1, x1, y2, x2 = (read(box, f) for f in range(4))
        return ops.minimum(y1, y2), ops.minimum(x1, x2), ops.maximum(y1, y2), ops.maximum(x1, x2)

    top_a, left_a, bottom_a, right_a = corners(a)
    top_b, left_b, bottom_b, right_b = corners(b)
    zero = ops.const(0.0, top_a.dtype)
    height = ops.maximum(ops.minimum(bottom_a, bottom_b) - ops.maximum(top_a, top_b), zero)
    width = ops.maximum(ops.minimum(right_a, right_b) - ops.maximum(left_a, left_b), zero)
    shared = height * width
    whole = (bottom_a - top_a) * (right_a - left_a) + (bottom_b - top_b) * (right_b - left_b) - shared
    return intrin.select(whole > zero, shared / intrin.select(whole > zero, whole, ops.const(1.0, zero.dtype)), zero)


def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: int = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
    soft_nms_sigma: float = 0.0,
    score_threshold: float = 0.0,
) -> Tensor | list[Tensor]:
    """Keep the box with the highest score of those that overlap by more than `iou_threshold`.

    `data` is (batch, boxes, fields) with four corners from `coord_start`; the first `valid_count` of each batch count,
    the best `top_k` of them (all when negative). Boxes of different classes do not compete unless `force_suppress`
    (or `id_index` is negative). At most `max_output_size` stay. Returns the boxes in order of score, others -1; or
    with `return_indices` [the entries of `indices` (batch, boxes), how many (batch, 1)], after boxes where scores fall.
    `invalid_to_bottom` moves what is left out behind what stays.

    With a positive `soft_nms_sigma` a kept box also lowers the scores of those that overlap it less: by
    exp(-overlap² / (2 sigma)). The best that is left is kept next, as long as its score is above `score_threshold`.
    """
    op = "non_max_suppression"
    need_floats(op, data)
    need_rank(op, data, 3)
    batch, count, fields = data.shape
    need_shape(op, valid_count, [batch])
    need_shape(op, indices, [batch, count])
    scores: Tensor = compute((batch, count), lambda b, i: data(b, i, score_index), name="T_scores", tag="injective")
    order = argsort(scores, valid_count, 1, False, "int64")
    one_class = force_suppress or id_index < 0

    def soft(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, valid, ordered, names = (ib.buffer_ptr(b) for b in ins)
        boxes, places, number = (ib.buffer_ptr(b) for b in outs)
        left = ib.allocate(data.dtype, (batch, count), "left")  # scores that are left; the least number: kept
        gone = ops.min_value(data.dtype)
        with rows(ib, (batch, ops.const(1)), 1, 3) as row:
            b = row.at(0)[0]
            kept, best, open_ = row.cells
            limit = ib.let("limit", ops.minimum(int64(valid[b]), int64(count)))
            if top_k >= 0:
                limit = ib.let("best", ops.minimum(limit, top_k))
            with points(ib, (count,)) as (i,):
                places[b, i] = -1
                left[b, i] = given[b, ordered[b, i], score_index]
                with points(ib, (fields,)) as (f,):
                    boxes[b, i, f] = const(-1.0, data.dtype)
            most = limit if max_output_size < 0 else ops.minimum(limit, ops.const(max_output_size, "int64"))
            kept.set(0)
            open_.set(1)
            with ib.for_range(ops.const(0, "int64"), most, "k"), ib.if_scope(ops.equal(open_.value, 1)):
                best.set(0)
                with (
                    ib.for_range(ops.const(1, "int64"), limit, "i") as i,
                    ib.if_scope(ops.greater(left[b, i], left[b, best.value])),
                ):
                    best.set(i)
                with ib.if_scope(ops.greater(left[b, best.value], const(score_threshold, data.dtype))):
                    with points(ib, (fields,)) as (f,):
                        boxes[b, kept.value, f] = given[b, ordered[b, best.value], f]
                    boxes[b, kept.value, score_index] = left[b, best.value]
                    places[b, kept.value] = names[b, ordered[b, best.value]].astype("int32")
                    kept.set(kept.value + 1)
                    left[b, best.value] = gone
                    with ib.for_range(ops.const(0, "int64"), limit, "j") as j:
                        far = _overlap(
                            lambda k, f, b=b: given[b, ordered[b, k], coord_start + f], best.value, j
                        )
                        rivals = ops.greater(left[b, j], gone)
                        if not one_class:
                            first, second = (given[b, ordered[b, k], id_index] for k in (best.value, j))
                            rivals = ops.logical_and(rivals, ops.equal(first, second))
                        with ib.if_scope(rivals):
                            weight = intrin.exp(far * far * const(-0.5 / soft_nms_sigma, data.dtype))
                            left[b, j] = intrin.select(
                                ops.greater(far, const(iou_threshold, data.dtype)), gone, left[b, j] * weight
                            )
                with ib.else_scope():
                    open_.set(0)
            number[b, 0] = kept.value.astype("int32")
        return ib.get()

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, valid, ordered, names = (ib.buffer_ptr(b) for b in ins)
        boxes, places, number = (ib.buffer_ptr(b) for b in outs)
        stays = ib.allocate("int32", (batch, count), "stays")
        with rows(ib, (batch, ops.const(1)), 1, 2) as row:
            b = row.at(0)[0]
            kept, filled = row.cells
            kept.set(0)
            filled.set(0)
            limit = ib.let("limit", ops.minimum(int64(valid[b]), int64(count)))
            if top_k >= 0:
                limit = ib.let("best", ops.minimum(limit, top_k))
            with points(ib, (count,)) as (i,):
                stays[b, i] = ops.cast("int32", ops.less(i, limit))
                places[b, i] = -1
                with points(ib, (fields,)) as (f,):
                    boxes[b, i, f] = const(-1.0, data.dtype)
            most = ops.const(1 << 62, "int64") if max_output_size < 0 else ops.const(max_output_size, "int64")
            with ib.for_range(ops.const(0, "int64"), limit, "i") as i:
                alive = ops.logical_and(ops.equal(stays[b, i], 1), ops.less(kept.value, most))
                with ib.if_scope(alive):
                    kept.set(kept.value + 1)
                    with ib.for_range(ops.add(i, 1), limit, "j") as j:
                        far = _overlap(lambda k, f, b=b: given[b, ordered[b, k], coord_start + f], i, j)
                        drops = ops.greater(far, const(iou_threshold, data.dtype))
                        if not one_class:
                            first, second = (given[b, ordered[b, k], id_index] for k in (i, j))
                            drops = ops.logical_and(drops, ops.equal(first, second))
                        with ib.if_scope(drops):
                            stays[b, j] = 0
                with ib.else_scope():
                    stays[b, i] = 0
            with ib.for_range(ops.const(0, "int64"), limit, "i") as i, ib.if_scope(ops.equal(stays[b, i], 1)):
                compact = return_indices or invalid_to_bottom
                place = filled.value if compact else i
                with points(ib, (fields,)) as (f,):
                    boxes[b, place, f] = given[b, ordered[b, i], f]
                places[b, place] = names[b, ordered[b, i]].astype("int32")
                filled.set(filled.value + 1)
            number[b, 0] = filled.value.astype("int32")
        return ib.get()

    shapes = [data.shape, (batch, count), (batch, ops.const(1))]
    made: list[Tensor] = extern(
        shapes, [data, valid_count, order, indices], soft if soft_nms_sigma > 0 else body, name=op,
        dtype=[data.dtype, "int32", "int32"], tag="nms",
    )  # fmt: skip
    if not return_indices:
        return made[0]
    return made if soft_nms_sigma > 0 else made[1:]


def all_class_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str = "onnx",
) -> list[Tensor]:
    """Suppression of each class on its own: `boxes` (batch, boxes, 4), `scores` (batch, classes, boxes).

    The limits are numbers, expressions, or tensors of one element. With "onnx" returns [selected
    (batch * classes * boxes, 3) of int64: batch, class, box; how many of its rows are results (1,)]. With
    "tensorflow" [(batch, classes * boxes, 2): class, box, by score; their scores; how many a batch (batch,)].
    Rows that are no results are 0.
    """
    op = "all_class_non_max_suppression"
    need_one_of(op, "output_format", output_format, ("onnx", "tensorflow"))
    need_floats(op, boxes, scores)
    need_rank(op, boxes, 3)
    need_rank(op, scores, 3)
    batch, classes, count = scores.shape
    if any(differ(*pair) for pair in zip(boxes.shape, (batch, count, 4))):
        raise refusal(op, f"shapes do not fit: {described(boxes, scores)}")
    limits = [max_output_boxes_per_class, iou_threshold, score_threshold]
    held = [limit for limit in limits if isinstance(limit, Tensor)]
    order = argsort(scores, None, 2, False, "int64")

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        corner, score, ordered = (ib.buffer_ptr(b) for b in ins[:3])
        given = iter(ib.buffer_ptr(b) for b in ins[3:])
        dtypes = ("int64", boxes.dtype, scores.dtype)
        most, overlap, least = (_limit(x, next(given) if isinstance(x, Tensor) else None, d)
                                for x, d in zip(limits, dtypes))  # fmt: skip
        chosen, number = ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        with rows(ib, scores.shape, 2, 2) as row:
            b, c, _ = row.at(0)
            kept, free = row.cells
            kept.set(0)
            with points(ib, (count,)) as (i,):
                chosen[b, c, i] = ops.const(0, "int64")
            with ib.for_range(ops.const(0, "int64"), int64(count), "i") as i:
                candidate = ordered[b, c, i]
                open_ = ops.logical_and(ops.less(kept.value, most), ops.greater(score[b, c, candidate], least))
                with ib.if_scope(open_):
                    free.set(1)
                    with ib.for_range(ops.const(0, "int64"), kept.value, "j") as j:
                        far = _overlap(lambda k, f, b=b: corner[b, k, f], chosen[b, c, j], candidate)
                        with ib.if_scope(ops.greater(far, overlap)):
                            free.set(0)
                    with ib.if_scope(ops.equal(free.value, 1)):
                        chosen[b, c, kept.value] = candidate
                        kept.set(kept.value + 1)
            number[b, c] = kept.value
        return ib.get()

    made: list[Tensor] = extern(
        [scores.shape, (batch, classes)], [boxes, scores, order, *held], body, name="T_nms_classes", dtype="int64",
        tag="nms",
    )  # fmt: skip
    chosen, number = made
    return _in_one_list(chosen, number) if output_format == "onnx" else _by_score(chosen, number, scores)


def _limit(value: Any, buffer: BufferVar | None, dtype: str) -> PrimExpr:
    if buffer is not None:
        return ops.cast(dtype, buffer[tuple(0 for _ in buffer.buffer.shape) or (0,)])
    return ops.cast(dtype, value) if not isinstance(value, int | float) else const(value, dtype)


def _in_one_list(chosen: Tensor, number: Tensor) -> list[Tensor]:
    """Results of all batches and classes one after another."""
    batch, classes = chosen.shape[:2]
    size = product(chosen.shape)

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        box, found = (ib.buffer_ptr(b) for b in ins)
        rows_, total = ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        total[0] = 0
        with points(ib, (size, ops.const(3))) as point:
            rows_[point] = 0
        with points(ib, (batch, classes)) as (b, c), ib.for_range(ops.const(0, "int64"), found[b, c], "i") as i:
            for column, value in enumerate((b, c, box[b, c, i])):
                rows_[total[0], column] = int64(value)
            total[0] = total[0] + 1
        return ib.get()

    made: list[Tensor] = extern(
        [(size, ops.const(3)), (ops.const(1),)], [chosen, number], body, name="T_nms_rows", dtype="int64", tag="nms"
    )
    return made


def _by_score(chosen: Tensor, number: Tensor, scores: Tensor) -> list[Tensor]:
    """Results of all classes of a batch, the highest score first."""
    batch, classes, count = chosen.shape
    size = ops.mul(classes, count)

    def gather(ins: Any, outs: Any) -> Stmt:
        ib = create()
        box, found, score = (ib.buffer_ptr(b) for b in ins)
        pairs, values, total = (ib.buffer_ptr(b) for b in outs)
        with points(ib, (batch,)) as (b,):
            total[b] = 0
            with points(ib, (size,)) as (i,):
                pairs[b, i, 0] = 0
                pairs[b, i, 1] = 0
                values[b, i] = const(0.0, scores.dtype)
            with points(ib, (classes,)) as (c,), ib.for_range(ops.const(0, "int64"), found[b, c], "i") as i:
                pairs[b, total[b], 0] = int64(c)
                pairs[b, total[b], 1] = box[b, c, i]
                values[b, total[b]] = score[b, c, box[b, c, i]]
                total[b] = total[b] + 1
        return ib.get()

    shapes = [(batch, size, ops.const(2)), (batch, size), (batch,)]
    pairs, values, total = extern(shapes, [chosen, number, scores], gather, name="T_nms_pairs",
                                  dtype=["int64", scores.dtype, "int64"], tag="nms")  # fmt: skip
    order = argsort(values, total, 1, False, "int64")

    def in_order(b: Var, i: Var, f: Var) -> PrimExpr:
        result: PrimExpr = pairs(b, order(b, i), f)
        return result

    chosen_pairs: Tensor = compute(pairs.shape, in_order, name="T_nms_selected", tag="injective")
    chosen_scores: Tensor = compute(
        values.shape, lambda b, i: values(b, order(b, i)), name="T_nms_scores", tag="injective"
    )
    return [chosen_pairs, chosen_scores, total]
