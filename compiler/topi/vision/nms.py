"""Choosing among boxes that overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.te.extern import extern
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import BufferVar, IRBuilder, create
from compiler.tir.nodes import PrimExpr, Stmt, Var
from compiler.topi.checks import described, differ, need_floats, need_one_of, need_rank, need_shape, product, refusal
from compiler.topi.rows import RowInteger, int64, points, rows
from compiler.topi.sort import argsort


def get_valid_counts(data: Tensor, score_threshold: Any = 0, id_index: int = 0, score_index: int = 1) -> list[Tensor]:
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
    data: Tensor, valid_count: Tensor, indices: Tensor, max_output_size: int = -1, iou_threshold: float = 0.5,
    force_suppress: bool = False, top_k: int = -1, coord_start: int = 2, score_index: int = 1, id_index: int = 0,
    return_indices: bool = True, invalid_to_bottom: bool = False, soft_nms_sigma: float = 0.0,
    score_threshold: float = 0.0,
) -> Tensor | list[Tensor]:  # fmt: skip
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
    batch, count, _ = data.shape
    need_shape(op, valid_count, [batch])
    need_shape(op, indices, [batch, count])
    scores: Tensor = compute((batch, count), lambda b, i: data(b, i, score_index), name="T_scores", tag="injective")
    order = argsort(scores, valid_count, 1, False, "int64")
    rules = _Rules(
        data, max_output_size, iou_threshold, force_suppress or id_index < 0, top_k, coord_start, score_index, id_index,
        return_indices or invalid_to_bottom, soft_nms_sigma, score_threshold,
    )  # fmt: skip
    body = rules.lowering_scores if soft_nms_sigma > 0 else rules.dropping
    shapes = [data.shape, (batch, count), (batch, ops.const(1))]
    made: list[Tensor] = extern(
        shapes, [data, valid_count, order, indices], body, name=op, dtype=[data.dtype, "int32", "int32"], tag="nms"
    )
    if not return_indices:
        return made[0]
    return made if soft_nms_sigma > 0 else made[1:]


@dataclass(frozen=True, slots=True)
class _Rules:
    """Which boxes of `data` stay. `one_class`: all compete; `compact`: what stays moves to the front."""

    data: Tensor
    most: int
    iou_threshold: float
    one_class: bool
    top_k: int
    coord_start: int
    score_index: int
    id_index: int
    compact: bool
    sigma: float
    score_threshold: float

    # ------------------------------------------------------------------------- boxes are dropped

    def dropping(self, ins: Any, outs: Any) -> Stmt:
        """Go through the boxes by score; each that stays drops those behind it that overlap it."""
        ib = create()
        boxes = _Boxes(self, *[ib.buffer_ptr(b) for b in (*ins, *outs)])
        batch, count, _ = self.data.shape
        stays = ib.allocate("int32", (batch, count), "stays")
        with rows(ib, (batch, ops.const(1)), 1, 2) as row:
            b = row.at(0)[0]
            kept, filled = row.cells
            kept.set(0)
            filled.set(0)
            limit = self._limit(ib, boxes, b)
            with points(ib, (count,)) as (i,):
                stays[b, i] = ops.cast("int32", ops.less(i, limit))
                boxes.clear(ib, b, i)
            self._drop(ib, boxes, stays, b, limit, kept)
            with ib.for_range(ops.const(0, "int64"), limit, "i") as i, ib.if_scope(ops.equal(stays[b, i], 1)):
                boxes.keep(ib, b, i, filled.value if self.compact else i)
                filled.set(filled.value + 1)
            boxes.number[b, 0] = filled.value.astype("int32")
        return ib.get()

    def _drop(
        self, ib: IRBuilder, boxes: _Boxes, stays: BufferVar, b: PrimExpr, limit: PrimExpr, kept: RowInteger
    ) -> None:
        """Write down in `stays` which of the boxes stay."""
        most = ops.const(1 << 62, "int64") if self.most < 0 else ops.const(self.most, "int64")
        with ib.for_range(ops.const(0, "int64"), limit, "i") as i:
            with ib.if_scope(ops.logical_and(ops.equal(stays[b, i], 1), ops.less(kept.value, most))):
                kept.set(kept.value + 1)
                with ib.for_range(ops.add(i, 1), limit, "j") as j:
                    drops = ops.greater(boxes.overlap(b, i, j), const(self.iou_threshold, self.data.dtype))
                    with ib.if_scope(boxes.of_one_class(drops, b, i, j)):
                        stays[b, j] = 0
            with ib.else_scope():
                stays[b, i] = 0

    # -------------------------------------------------------------------- scores are lowered

    def lowering_scores(self, ins: Any, outs: Any) -> Stmt:
        """Keep the best box that is left, as long as its score is high enough; it lowers the scores of others."""
        ib = create()
        boxes = _Boxes(self, *[ib.buffer_ptr(b) for b in (*ins, *outs)])
        batch, count, _ = self.data.shape
        left = ib.allocate(self.data.dtype, (batch, count), "left")  # scores that are left; the least number: kept
        with rows(ib, (batch, ops.const(1)), 1, 3) as row:
            b = row.at(0)[0]
            kept, best, open_ = row.cells
            limit = self._limit(ib, boxes, b)
            with points(ib, (count,)) as (i,):
                left[b, i] = boxes.field(b, i, self.score_index)
                boxes.clear(ib, b, i)
            most = limit if self.most < 0 else ops.minimum(limit, ops.const(self.most, "int64"))
            kept.set(0)
            open_.set(1)
            with ib.for_range(ops.const(0, "int64"), most, "k"), ib.if_scope(ops.equal(open_.value, 1)):
                best.set(0)
                with (
                    ib.for_range(ops.const(1, "int64"), limit, "i") as i,
                    ib.if_scope(ops.greater(left[b, i], left[b, best.value])),
                ):
                    best.set(i)
                enough = ops.greater(left[b, best.value], const(self.score_threshold, self.data.dtype))
                with ib.if_scope(enough):
                    boxes.keep(ib, b, best.value, kept.value)
                    boxes.boxes[b, kept.value, self.score_index] = left[b, best.value]
                    kept.set(kept.value + 1)
                    left[b, best.value] = ops.min_value(self.data.dtype)
                    self._lower(ib, boxes, left, b, limit, best.value)
                with ib.else_scope():
                    open_.set(0)
            boxes.number[b, 0] = kept.value.astype("int32")
        return ib.get()

    def _lower(
        self, ib: IRBuilder, boxes: _Boxes, left: BufferVar, b: PrimExpr, limit: PrimExpr, best: PrimExpr
    ) -> None:
        """Lower the scores that are `left` for boxes that overlap box `best`; the least number drops one."""
        gone, dtype = ops.min_value(self.data.dtype), self.data.dtype
        with ib.for_range(ops.const(0, "int64"), limit, "j") as j:
            far = boxes.overlap(b, best, j)
            with ib.if_scope(boxes.of_one_class(ops.greater(left[b, j], gone), b, best, j)):
                weight = intrin.exp(far * far * const(-0.5 / self.sigma, dtype))
                left[b, j] = intrin.select(
                    ops.greater(far, const(self.iou_threshold, dtype)), gone, left[b, j] * weight
                )

    def _limit(self, ib: IRBuilder, boxes: _Boxes, b: PrimExpr) -> PrimExpr:
        """How many boxes of a batch count."""
        limit: PrimExpr = ib.let("limit", ops.minimum(int64(boxes.valid[b]), int64(self.data.shape[1])))
        return ib.let("best", ops.minimum(limit, self.top_k)) if self.top_k >= 0 else limit


@dataclass(frozen=True, slots=True)
class _Boxes:
    """The arrays: what is given, with the order by score, and what is made."""

    rules: _Rules
    given: BufferVar
    valid: BufferVar
    ordered: BufferVar
    names: BufferVar
    boxes: BufferVar
    places: BufferVar
    number: BufferVar

    def field(self, b: PrimExpr, i: PrimExpr, index: Any) -> PrimExpr:
        """A field of the box that is at place `i` by score."""
        return self.given[b, self.ordered[b, i], index]

    def clear(self, ib: IRBuilder, b: PrimExpr, i: PrimExpr) -> None:
        """Nothing stays at place `i` yet."""
        self.places[b, i] = -1
        with points(ib, (self.rules.data.shape[2],)) as (f,):
            self.boxes[b, i, f] = const(-1.0, self.rules.data.dtype)

    def keep(self, ib: IRBuilder, b: PrimExpr, i: PrimExpr, place: PrimExpr) -> None:
        """The box at place `i` by score stays, at `place` of the results."""
        with points(ib, (self.rules.data.shape[2],)) as (f,):
            self.boxes[b, place, f] = self.field(b, i, f)
        self.places[b, place] = self.names[b, self.ordered[b, i]].astype("int32")

    def overlap(self, b: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        """How much two boxes overlap."""
        return _overlap(lambda k, f: self.field(b, k, self.rules.coord_start + f), i, j)

    def of_one_class(self, holds: PrimExpr, b: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        """Whether `holds`, and two boxes are of classes that compete."""
        if self.rules.one_class:
            return holds
        first, second = (self.field(b, k, self.rules.id_index) for k in (i, j))
        return ops.logical_and(holds, ops.equal(first, second))


def all_class_non_max_suppression(
    boxes: Tensor, scores: Tensor, max_output_boxes_per_class: Any, iou_threshold: Any, score_threshold: Any,
    output_format: str = "onnx",
) -> list[Tensor]:  # fmt: skip
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
