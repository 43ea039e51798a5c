"""Operators that choose: the largest, the true, the distinct. Only the run tells how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler import topi
from compiler.frontend.onnx.converters.shape import like, product
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import compacted, distinct, elements, leading
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import fitting_sizes, i64
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Select
from compiler.topi.vision.roi import roi_align_largest_corner


@converter("TopK", since=1)
def top_k(g: GraphBuilder, node: Node) -> Result:
    """Take the k largest or smallest elements along an axis, and where they stand."""
    x = node.value(0)
    axis, largest = node.int("axis", -1), bool(node.int("largest", 1))
    if node.given(1):
        given = node.value(1)
        known = g.known_ints(given)
        size = g.shape(x)[axis % g.rank(x)]
        count: Any = known[0] if known is not None else fitting_sizes(g, _vector(g, given), 1, size, whole=False)[0]
    else:
        count = int(node.required("k"))
    made = g.te(topi.topk, x, count, axis, "both", not largest, "int64", name="topk")
    values, places = g.items(made)
    return [like(node, g, values), places]


def _vector(g: GraphBuilder, value: TensorValue) -> RelaxExpr:
    """A tensor of one element as a vector."""
    return g.expr(value) if g.rank(value) == 1 else g.emit(op.reshape(g.expr(value), (1,)))


@converter("OneHot")
def one_hot(g: GraphBuilder, node: Node) -> Result:
    """Add a dimension with one value where indices say, and another elsewhere."""
    indices, depth, values = (node.value(k) for k in range(3))
    if depth.is_constant:
        size: Any = g.static_ints(depth, "depth")[0]
    else:
        size = g.sizes_at_run_time(_vector(g, depth), 1)[0]
    axis = node.int("axis", -1)
    axis = axis + g.rank(indices) + 1 if axis < 0 else axis
    return g.value(g.te(_one_hot, indices, values, size, axis, name="one_hot"), values.elem)


def _one_hot(indices: Tensor, values: Tensor, depth: Any, axis: int) -> Tensor:
    shape = [*indices.shape[:axis], depth, *indices.shape[axis:]]

    def at(*i: PrimExpr) -> Any:
        place: PrimExpr = indices(*i[:axis], *i[axis + 1 :]).astype("int64")
        place = Select(ops.less(place, i64(0)), place + i64(depth), place)
        return Select(ops.equal(place, i64(i[axis])), values(i64(1)), values(i64(0)))

    return elements(tuple(shape), at, name="one_hot")


def _true_places(g: GraphBuilder, flags: RelaxExpr) -> tuple[RelaxExpr, Any]:
    """The positions of true elements of a vector, and the name of how many there are."""
    places, count = g.items(g.te(compacted, flags, name="compacted"))
    size = g.sizes_at_run_time(count, 1)[0]
    return places, size


@converter("NonZero")
def nonzero(g: GraphBuilder, node: Node) -> Result:
    """Find the elements that are not zero: a row a dimension."""
    x = node.value(0)
    data = g.expr(x)
    if x.dtype != "bool":
        data = g.emit(op.not_equal(data, g.full(0, x.dtype)))
    shape = g.shape(x)
    flat = g.emit(op.reshape(data, g.shape_expr([product(shape)])))
    places, size = _true_places(g, flat)
    return g.te(_unravelled, places, shape, size, name="nonzero")


def _unravelled(places: Tensor, shape: Sequence[Any], count: Any) -> Tensor:
    def at(d: PrimExpr, k: PrimExpr) -> Any:
        rest: PrimExpr = places(k)
        found: list[PrimExpr] = []
        for size in reversed(shape):
            found.insert(0, ops.floormod(rest, i64(size)))
            rest = ops.floordiv(rest, i64(size))
        chosen: PrimExpr = found[-1]
        for axis in reversed(range(len(found) - 1)):
            chosen = Select(ops.equal(d, ops.const(axis, d.dtype)), found[axis], chosen)
        return chosen

    return elements((max(len(shape), 1), count), at, name="nonzero")


@converter("Compress")
def compress(g: GraphBuilder, node: Node) -> Result:
    """Keep the slices along an axis, or the elements, for which a condition holds."""
    x, flags = node.value(0), node.value(1)
    data = g.expr(x)
    if "axis" in node.attrs:
        axis = node.int("axis", 0) % g.rank(x)
    else:
        data, axis = g.emit(op.reshape(data, g.shape_expr([product(g.shape(x))]))), 0
    given, there = g.expr(flags), g.shape(data)[axis]
    length, most = (ops.as_int(size) for size in (g.shape(given)[0], there))
    if length is not None and most is not None and length > most:
        node.fail(f"the condition has {length} elements, and the dimension {most}")
    if length is None or most is None:
        given = g.te(_within, [there], given, name="within")
    places, size = _true_places(g, given)
    return like(node, g, g.te(_taken, data, places, axis, size, name="compress"))


def _within(dims: Sequence[PrimExpr], flags: Tensor) -> Tensor:
    """The flags of places that a dimension has; those behind it are false."""
    return elements(flags.shape, lambda i: ops.logical_and(ops.less(i64(i), i64(dims[0])), flags(i)), name="within")


def _taken(x: Tensor, places: Tensor, axis: int, count: Any) -> Tensor:
    shape = [count if d == axis else size for d, size in enumerate(x.shape)]
    return elements(tuple(shape), lambda *i: x(*[places(p) if d == axis else p for d, p in enumerate(i)]), name="taken")


@converter("Unique")
def unique(g: GraphBuilder, node: Node) -> Result:
    """Take distinct elements or slices, their first places, the group of each element, and the counts."""
    x = node.value(0)
    dims, data = g.shape(x), g.expr(x)
    axis = node.attr("axis")
    if axis is None:
        rows = g.emit(op.reshape(data, g.shape_expr([product(dims), 1])))
        rest: list[Any] = []
        order: list[int] = []
    else:
        along = int(axis) % len(dims)
        order = [along, *(d for d in range(len(dims)) if d != along)]
        rest = [dims[d] for d in order[1:]]
        moved = g.emit(op.permute_dims(data, order))
        rows = g.emit(op.reshape(moved, g.shape_expr([dims[along], product(rest)])))
    first, counts, groups, total = g.items(g.te(distinct, rows, bool(node.int("sorted", 1)), name="unique"))
    size = g.sizes_at_run_time(total, 1)[0]
    first, counts = (g.te(leading, part, size, name="leading") for part in (first, counts))
    chosen = g.te(_rows_at, rows, first, name="rows")
    if axis is None:
        values = g.emit(op.reshape(chosen, g.shape_expr([size])))
    else:
        whole = g.emit(op.reshape(chosen, g.shape_expr([size, *rest])))
        back = [order.index(d) for d in range(len(order))]
        values = g.emit(op.permute_dims(whole, back))
    found: list[Any] = [like(node, g, values), first, groups, counts]
    return found[: max(len(node.outputs), 1)]


def _rows_at(x: Tensor, places: Tensor) -> Tensor:
    return elements((places.shape[0], x.shape[1]), lambda i, j: x(places(i), j), name="rows")


@converter("NonMaxSuppression")
def non_max_suppression(g: GraphBuilder, node: Node) -> Result:
    """Keep the best of overlapping boxes for each class."""
    boxes, scores = g.expr(node.value(0)), g.expr(node.value(1))
    if node.int("center_point_box", 0):
        boxes = g.te(_corners, boxes, name="corners")
    if not node.given(2):
        return g.emit(op.zeros((0, 3), "int64"))
    limits = [g.expr(node.value(2))]
    limits.append(g.expr(node.value(3)) if node.given(3) else g.full(0.0, "float32"))
    limits.append(g.expr(node.value(4)) if node.given(4) else g.full(-3.0e38, "float32"))
    vectors = [limit if g.rank(limit) == 1 else g.emit(op.reshape(limit, (1,))) for limit in limits]
    rows, count = g.items(g.te(topi.vision.all_class_non_max_suppression, boxes, scores, *vectors, name="nms"))
    size = g.sizes_at_run_time(count, 1)[0]
    return g.te(leading, rows, size, name="leading")


def _corners(boxes: Tensor) -> Tensor:
    """Boxes as (y1, x1, y2, x2) of ones given by centre, width and height."""

    def at(b: PrimExpr, n: PrimExpr, k: PrimExpr) -> Any:
        half = ops.const(0.5, boxes.dtype)
        vertical = ops.equal(ops.floormod(k, 2), 0)
        centre = Select(vertical, boxes(b, n, i64(1)), boxes(b, n, i64(0)))
        extent = Select(vertical, boxes(b, n, i64(3)), boxes(b, n, i64(2)))
        return Select(ops.less(k, 2), centre - half * extent, centre + half * extent)

    return elements(boxes.shape, at, name="corners")


@converter("RoiAlign")
def roi_align(g: GraphBuilder, node: Node) -> Result:
    """Take the mean or largest value in each bin of each region."""
    size = [node.int("output_height", 1), node.int("output_width", 1)]
    aligned = node.text("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "") == "half_pixel"
    rows = g.te(_with_batch, node.value(1), node.value(2), g.shape(node.value(0))[0], name="regions")
    ratio = node.int("sampling_ratio", 0) or -1
    scale = node.float("spatial_scale", 1.0)
    if node.text("mode", "avg") == "max":
        return g.te(roi_align_largest_corner, node.value(0), rows, size, scale, ratio, aligned, name="roi_max")
    return op.vision.roi_align(g.expr(node.value(0)), rows, size, scale, ratio, aligned)


def _with_batch(regions: Tensor, batch: Tensor, images: PrimExpr) -> Tensor:
    """Put the image's number, limited to existing images, before each region."""

    def at(i: PrimExpr, k: PrimExpr) -> Any:
        place = ops.maximum(k - 1, ops.const(0, k.dtype))
        image = ops.maximum(ops.minimum(i64(batch(i)), i64(images) - 1), i64(0))
        return Select(ops.equal(k, 0), image.astype(regions.dtype), regions(i, place))

    return elements((regions.shape[0], 5), at, name="regions")


@converter("MaxRoiPool")
def max_roi_pool(g: GraphBuilder, node: Node) -> Result:
    """Take the largest value in each bin of each region."""
    size = node.ints("pooled_shape") or [1, 1]
    x, scale = node.value(0), node.float("spatial_scale", 1.0)
    rows = g.te(_of_images, node.value(1), g.shape(x)[0], name="regions")
    return op.vision.roi_pool(g.expr(x), rows, size, scale)


def _of_images(regions: Tensor, images: PrimExpr) -> Tensor:
    """Limit the first number of each region to existing images."""

    def at(i: PrimExpr, k: PrimExpr) -> Any:
        value = regions(i, k)
        last = (i64(images) - 1).astype(regions.dtype)
        return Select(ops.equal(k, 0), ops.maximum(ops.minimum(value, last), ops.const(0, regions.dtype)), value)

    return elements(regions.shape, at, name="regions")


@converter("GridSample")
def grid_sample(g: GraphBuilder, node: Node) -> Result:
    """Read images, or volumes, at places from -1 to 1."""
    x, grid = node.value(0), node.value(1)
    names = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "bicubic": "bicubic",
             "cubic": "bicubic"}  # fmt: skip
    method = names.get(node.text("mode", "bilinear"))
    if method is None:
        node.fail(f"the mode {node.text('mode', '')!r}")
    layout = "NCHW" if g.rank(x) == 4 else "NCDHW"
    moved = g.emit(op.permute_dims(g.expr(grid), [0, g.rank(grid) - 1, *range(1, g.rank(grid) - 1)]))
    return g.te(
        topi.image.grid_sample, x, moved, method, layout, node.text("padding_mode", "zeros"),
        bool(node.int("align_corners", 0)), name="grid_sample",
    )  # fmt: skip


@converter("Dropout")
def dropout(g: GraphBuilder, node: Node) -> Result:
    """Give the data itself, and a mask of what stays: everything, as programs do not train."""
    x, training = node.value(0), node.optional(2)
    if training is not None:
        active = bool(g.static_ints(training, "training_mode")[0])
        ratio = g.static_numbers(node.value(1), "ratio")[0] if node.given(1) else 0.5
        if active and ratio != 0.0:
            node.fail("in training mode its result is random")
    found: list[Any] = [x]
    if node.wanted(1):
        found.append(g.emit(op.ones(g.shape_expr(g.shape(x)), "bool" if node.opset >= 10 else x.dtype)))
    return found


@converter("AffineGrid")
def affine_grid(g: GraphBuilder, node: Node) -> Result:
    """Give the points, from -1 to 1, to which affine matrices map pixels or voxels."""
    theta, size = node.value(0), node.value(1)
    rank = (g.sizes(size) or [4])[0]
    known = g.known_ints(size)
    sizes = list(known) if known is not None else list(g.sizes_at_run_time(g.expr(size), rank))
    return g.te(_affine_grid, theta, sizes[2:], bool(node.int("align_corners", 0)), name="affine_grid")


def _affine_grid(theta: Tensor, sizes: Sequence[Any], aligned: bool) -> Tensor:
    rank, dtype = len(sizes), theta.dtype
    one, two = ops.const(1, dtype), ops.const(2, dtype)

    def at(n: PrimExpr, *i: PrimExpr) -> Any:
        *places, part = i
        total: PrimExpr = theta(n, part, i64(rank))
        for column in range(rank):  # x is the last dimension
            d = rank - 1 - column
            place, size = i64(places[d]).astype(dtype), i64(sizes[d]).astype(dtype)
            if aligned:
                step = Select(ops.greater(size, one), two / ops.maximum(size - one, one), ops.const(0, dtype))
                base = place * step - one
            else:
                base = (place * two + one) / size - one
            total = total + theta(n, part, i64(column)) * base
        return total

    return elements((theta.shape[0], *sizes, rank), at, name="affine_grid")
