"""Operators that read and write parts of tensors: slices, gathers, scatters, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler import topi
from compiler.frontend.onnx.converters.shape import like
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import element, fitting_sizes, i64, sizes_by, vector_of
from compiler.frontend.onnx.values import TensorValue
from compiler.relax import op
from compiler.relax.nodes.dims import simplified
from compiler.runtime.core.dtypes import storage_dtype
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Select

# -------------------------------------------------------------------------------------- slices


@converter("Slice", since=1)
def slice_by_attributes(g: GraphBuilder, node: Node) -> Result:
    """Take a slice whose bounds are attributes."""
    starts, ends = node.ints("starts") or [], node.ints("ends") or []
    axes = node.ints("axes") or list(range(len(starts)))
    return like(node, g, op.strided_slice(g.expr(node.value(0)), axes, starts, ends))


@converter("Slice", since=10)
def slice_by_inputs(g: GraphBuilder, node: Node) -> Result:
    """Take a slice whose bounds are tensors."""
    x, starts, ends = (node.value(k) for k in range(3))
    axes, steps = node.optional(3), node.optional(4)
    rank = g.rank(x)
    known = [g.known_ints(value) for value in (starts, ends)]
    fixed = [value is None or value.is_constant for value in (axes, steps)]
    if all(item is not None for item in known) and all(fixed):
        first, last = known
        assert first is not None
        assert last is not None
        along = list(range(len(first))) if axes is None else [a % rank for a in g.static_ints(axes, "axes")]
        by = [1] * len(first) if steps is None else g.static_ints(steps, "steps")
        far = (1 << 31) - 1
        last = [max(min(end, far), -far - 1) if isinstance(end, int) else end for end in last]
        first = [max(min(end, far), -far - 1) if isinstance(end, int) else end for end in first]
        return like(node, g, op.strided_slice(g.expr(x), along, first, last, by))
    return like(node, g, _slice_at_run_time(g, x, starts, ends, axes, steps))


def _slice_at_run_time(
    g: GraphBuilder, x: TensorValue, starts: TensorValue, ends: TensorValue, axes: TensorValue | None,
    steps: TensorValue | None,
) -> Any:  # fmt: skip
    rank, dims = g.rank(x), g.shape(x)
    given = [value for value in (axes, steps) if value is not None]
    has_axes, has_steps = axes is not None, steps is not None
    count = (g.sizes(starts) or [1])[0]

    def bounds(dims: Sequence[PrimExpr], starts: Tensor, ends: Tensor, *rest: Tensor) -> Tensor:
        axes = rest[0] if has_axes else None
        steps = rest[int(has_axes)] if has_steps else None
        first: list[PrimExpr] = [i64(0)] * rank
        by: list[PrimExpr] = [i64(1)] * rank
        lengths = [i64(size) for size in dims]
        for d in range(rank):
            size = i64(dims[d])
            for k in range(count):
                if axes is None:
                    here: Any = k == d
                    if not here:
                        continue
                    chosen = ops.const(True, "bool")
                else:
                    axis = element(axes, k)
                    chosen = ops.logical_or(ops.equal(axis, i64(d)), ops.equal(axis, i64(d - rank)))
                step = i64(1) if steps is None else element(steps, k)
                begin, end = element(starts, k), element(ends, k)
                begin = Select(ops.less(begin, i64(0)), begin + size, begin)
                end = Select(ops.less(end, i64(0)), end + size, end)
                forward = ops.greater(step, i64(0))
                low, high = Select(forward, i64(0), i64(-1)), Select(forward, size, size - 1)
                begin = ops.maximum(Select(forward, i64(0), i64(0)), ops.minimum(begin, high))
                end = ops.maximum(low, ops.minimum(end, high))
                span = Select(forward, end - begin, begin - end)
                stride = ops.maximum(Select(forward, step, i64(0) - step), i64(1))
                length = ops.maximum(ops.floordiv(span + stride - 1, stride), i64(0))
                first[d] = Select(chosen, begin, first[d])
                by[d] = Select(chosen, step, by[d])
                lengths[d] = Select(chosen, length, lengths[d])
        return vector_of([*lengths, *first, *by], "bounds")

    vector = g.te(bounds, dims, starts, ends, *given, name="bounds")
    sizes = g.sizes_at_run_time(g.emit(op.strided_slice(vector, [0], [0], [rank])), rank)
    return g.te(_sliced, x, vector, sizes, name="slice")


def _sliced(x: Tensor, bounds: Tensor, sizes: Sequence[PrimExpr]) -> Tensor:
    rank = x.ndim

    def at(*index: PrimExpr) -> Any:
        return x(*[element(bounds, rank + d) + i64(i) * element(bounds, 2 * rank + d) for d, i in enumerate(index)])

    return elements(tuple(sizes), at, name="slice")


@converter("Split")
def split(g: GraphBuilder, node: Node) -> Result:
    """Cut a tensor into parts along an axis."""
    x = node.value(0)
    axis = node.int("axis", 0) % g.rank(x)
    size = g.shape(x)[axis]
    given = node.optional(1)
    parts: list[Any]
    if given is not None and not given.is_constant:
        parts = fitting_sizes(g, g.expr(given), len(node.outputs), size, whole=True)
    else:
        wanted = node.ints("split") if given is None else g.static_ints(given, "split")
        if wanted is None:
            count = node.int("num_outputs", len(node.outputs))
            if count != len(node.outputs):
                node.fail(f"it has {len(node.outputs)} outputs, and num_outputs={count}")
            known = ops.as_int(size)
            if known is None:
                part = simplified(ops.floordiv(size + (count - 1), i64(count)))
                parts = [part] * (count - 1) + [simplified(size - part * (count - 1))]
            else:
                part_size = -(-known // count)
                parts = [min(part_size, known - part_size * k) for k in range(count)]
        else:
            parts = list(wanted)
    if len(parts) == 1:
        return [x]
    return [like(node, g, item) for item in _parts(g, g.expr(x), axis, parts)]


def _parts(g: GraphBuilder, x: Any, axis: int, parts: Sequence[Any]) -> list[Any]:
    if all(isinstance(part, int) for part in parts):
        cuts = [sum(parts[: k + 1]) for k in range(len(parts) - 1)]
        return list(g.items(g.emit(op.split(x, cuts, axis))))
    found, start = [], ops.as_expr(i64(0))
    for part in parts:
        found.append(g.te(_part, x, axis, start, part, name="part"))
        start = simplified(start + part)
    return found


def _part(x: Tensor, axis: int, start: Any, size: Any) -> Tensor:
    shape = [size if d == axis else extent for d, extent in enumerate(x.shape)]
    begin = i64(start)
    return elements(
        tuple(shape), lambda *i: x(*[i64(p) + begin if d == axis else p for d, p in enumerate(i)]), name="part"
    )


# ------------------------------------------------------------------------------------- gathers


@converter("Gather")
def gather(g: GraphBuilder, node: Node) -> Result:
    """Take slices at indices, which may count from the end."""
    x, indices = node.value(0), node.value(1)
    axis = node.int("axis", 0) % g.rank(x)
    if indices.is_constant:
        size = ops.as_int(g.shape(x)[axis])
        positions = g.static_ints(indices, "indices")
        if all(value >= 0 for value in positions) or size is not None:
            assert indices.array is not None
            held = indices.array
            if size is not None:
                if any(not -size <= value < size for value in positions):
                    node.fail(f"an index is outside of {size} slices")
                held = held % size
            return like(node, g, op.take(g.expr(x), g.expr(g.known(held)), axis))
    return like(node, g, g.te(_gathered, x, indices, axis, name="gather"))


def _index(value: PrimExpr, size: Any) -> PrimExpr:
    """An index that may count from the end, kept inside."""
    extent = i64(size)
    place = value.astype("int64")
    place = Select(ops.less(place, i64(0)), place + extent, place)
    return ops.maximum(ops.minimum(place, extent - 1), i64(0))


def _gathered(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]

    def at(*i: PrimExpr) -> Any:
        where = indices(*i[axis : axis + indices.ndim])
        return x(*i[:axis], _index(where, x.shape[axis]), *i[axis + indices.ndim :])

    return elements(tuple(shape), at, name="gather")


@converter("GatherElements")
def gather_elements(g: GraphBuilder, node: Node) -> Result:
    """Take elements at indices along one axis."""
    x = node.value(0)
    axis = node.int("axis", 0) % g.rank(x)
    return like(node, g, g.te(_gathered_elements, x, node.value(1), axis, name="gather_elements"))


def _gathered_elements(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    def at(*i: PrimExpr) -> Any:
        return x(*i[:axis], _index(indices(*i), x.shape[axis]), *i[axis + 1 :])

    return elements(indices.shape, at, name="gather_elements")


@converter("GatherND")
def gather_nd(g: GraphBuilder, node: Node) -> Result:
    """Take slices at points."""
    return like(node, g, g.te(_gathered_nd, node.value(0), node.value(1), node.int("batch_dims", 0), name="gather_nd"))


def _gathered_nd(x: Tensor, indices: Tensor, batch: int) -> Tensor:
    count = int(ops.as_int(indices.shape[-1]) or 0)
    shape = [*indices.shape[:-1], *x.shape[batch + count :]]
    points = indices.ndim - 1

    def at(*i: PrimExpr) -> Any:
        where = [_index(indices(*i[:points], i64(k)), x.shape[batch + k]) for k in range(count)]
        return x(*i[:batch], *where, *i[points:])

    return elements(tuple(shape), at, name="gather_nd")


# ------------------------------------------------------------------------------------ scatters

_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@converter("Scatter", "ScatterElements")
def scatter_elements(g: GraphBuilder, node: Node) -> Result:
    """Write elements at indices along one axis."""
    how = _REDUCTIONS[node.text("reduction", "none")]
    axis = node.int("axis", 0)
    x, where, new = (node.value(k) for k in range(3))
    return like(node, g, op.scatter_elements(g.expr(x), g.expr(where), g.expr(new), axis, how))


@converter("ScatterND")
def scatter_nd(g: GraphBuilder, node: Node) -> Result:
    """Write slices at points."""
    how = _REDUCTIONS[node.text("reduction", "none")]
    x, where, new = (node.value(k) for k in range(3))
    rank = g.rank(where)
    first = g.emit(op.permute_dims(g.expr(where), [rank - 1, *range(rank - 1)]))  # a point's numbers stand first
    return like(node, g, g.te(topi.scatter_nd, x, first, new, how, name="scatter_nd"))


@converter("TensorScatter")
def tensor_scatter(g: GraphBuilder, node: Node) -> Result:
    """Write each batch's update into a cache, from its own position on.
    Circular positions wrap around."""
    cache, update, places = node.value(0), node.value(1), node.optional(2)
    axis = node.int("axis", -2) % g.rank(cache)
    circular = node.text("mode", "linear") == "circular"
    given = [] if places is None else [places]
    return like(node, g, g.te(_written, cache, update, axis, circular, *given, name="tensor_scatter"))


def _written(cache: Tensor, update: Tensor, axis: int, circular: bool, *places: Tensor) -> Tensor:
    size, count = (i64(t.shape[axis]) for t in (cache, update))

    def at(*i: PrimExpr) -> Any:
        start = places[0](i[0]).astype("int64") if places else i64(0)
        back = i64(i[axis]) - start
        if circular:
            back = ops.floormod(back, size)
        inside = ops.logical_and(ops.greater_equal(back, i64(0)), ops.less(back, count))
        safe = ops.maximum(ops.minimum(back, count - 1), i64(0))
        return Select(inside, update(*i[:axis], safe, *i[axis + 1 :]), cache(*i))

    return elements(cache.shape, at, name="tensor_scatter")


# ------------------------------------------------------------------------------------- padding


@converter("Pad", since=1)
def pad_by_attributes(g: GraphBuilder, node: Node) -> Result:
    """Add elements around a tensor, as attributes say."""
    amounts = node.ints("pads") or node.ints("paddings") or []
    value = g.known(_number(node.float("value", 0.0), node.value(0).dtype))
    return _padded(g, node, list(amounts), value, list(range(g.rank(node.value(0)))))


def _number(value: float, dtype: str) -> Any:
    return np.array(value).astype(storage_dtype(dtype))


@converter("Pad", since=11)
def pad(g: GraphBuilder, node: Node) -> Result:
    """Add elements around a tensor, as tensors say."""
    x, amounts = node.value(0), node.value(1)
    value = node.optional(2) or g.known(_number(0.0, x.dtype))
    axes = node.optional(3)
    rank = g.rank(x)
    known = g.known_ints(amounts)
    if known is not None and (axes is None or axes.is_constant):
        along = list(range(rank)) if axes is None else [a % rank for a in g.static_ints(axes, "axes")]
        return _padded(g, node, known, value, along)
    return _pad_at_run_time(g, node, amounts, value, axes)


def _padded(g: GraphBuilder, node: Node, amounts: Sequence[Any], value: TensorValue, axes: list[int]) -> Result:
    x, mode = node.value(0), node.text("mode", "constant")
    rank = g.rank(x)
    before: list[Any] = [0] * rank
    after: list[Any] = [0] * rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = amounts[k], amounts[len(axes) + k]
    sizes = [simplified(size + first + last) for size, first, last in zip(g.shape(x), before, after)]
    return like(node, g, g.te(_pad_kernel, x, value, before, sizes, mode, name="pad"))


def _pad_at_run_time(
    g: GraphBuilder, node: Node, amounts: TensorValue, value: TensorValue, axes: TensorValue | None
) -> Result:
    x, mode = node.value(0), node.text("mode", "constant")
    rank, dims = g.rank(x), g.shape(x)
    total = g.sizes(amounts)
    if total is None:
        g.static_ints(amounts, "pads")
    assert total is not None
    count = total[0] // 2

    def sizes(dims: Sequence[PrimExpr], amounts: Tensor, *axes: Tensor) -> list[PrimExpr]:
        before: list[PrimExpr] = [i64(0)] * rank
        after: list[PrimExpr] = [i64(0)] * rank
        for d in range(rank):
            for k in range(count):
                if axes:
                    axis = element(axes[0], k)
                    here = ops.logical_or(ops.equal(axis, i64(d)), ops.equal(axis, i64(d - rank)))
                    before[d] = Select(here, element(amounts, k), before[d])
                    after[d] = Select(here, element(amounts, count + k), after[d])
                elif d == k:
                    before[d], after[d] = element(amounts, k), element(amounts, count + k)
        whole = [i64(s) + a + b for s, a, b in zip(dims, before, after)]
        # Names stand for sizes, which are not negative: a crop is given as one.
        crops = [ops.maximum(i64(0) - a, i64(0)) for a in before]
        return [*whole, *[ops.maximum(a, i64(0)) for a in before], *crops]

    named = sizes_by(g, sizes, 3 * rank, dims, amounts, *([axes] if axes is not None else []), name="padded")
    before = [a - b for a, b in zip(named[rank : 2 * rank], named[2 * rank :])]
    return like(node, g, g.te(_pad_kernel, x, value, before, named[:rank], mode, name="pad"))


def _pad_kernel(x: Tensor, value: Tensor, before: Sequence[Any], sizes: Sequence[Any], mode: str) -> Tensor:
    def at(*index: PrimExpr) -> Any:
        places, inside = [], []
        for i, first, extent in zip(index, before, x.shape):
            size = i64(extent)
            start = i64(first)
            untouched = ops.as_int(start) == 0
            place = i64(i) - start
            if mode == "edge":
                place = ops.maximum(ops.minimum(place, size - 1), i64(0))
            elif mode == "wrap":
                place = ops.floormod(place, size)
            elif mode == "reflect":
                period = ops.maximum(size * 2 - 2, i64(1))
                place = ops.floormod(place, period)
                place = Select(ops.less(place, size), place, period - place)
            else:
                if not untouched:
                    inside.append(ops.greater_equal(place, i64(0)))
                inside.append(ops.less(place, size))
                places.append(place)
                continue
            places.append(place)
        if not inside:
            return x(*places)
        held = inside[0]
        for more in inside[1:]:
            held = ops.logical_and(held, more)
        fill = value(*([i64(0)] * value.ndim)).astype(x.dtype)
        return intrin.if_then_else(held, x(*places), fill)

    return elements(tuple(sizes), at, name="pad")


