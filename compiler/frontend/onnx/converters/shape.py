"""Operators on shapes: reading them, and laying elements out in others.

Tensors made of nothing are in `create`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler import topi
from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.graph_builder import Dim, GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import (
    AxesLast,
    added,
    as_int,
    element,
    i64,
    is_axis,
    multiplied,
    sizes_by,
    spread,
    table,
)
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.nodes.dims import simplified
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Select


def product(values: Sequence[Dim]) -> PrimExpr:
    """The product of dimensions."""
    return simplified(multiplied([i64(v) for v in values]))


def like(node: Node, g: GraphBuilder, expr: RelaxExpr) -> TensorValue:
    """A result whose elements are of the first input's ONNX type."""
    return g.value(expr, node.value(0).elem)


@converter("Shape")
def shape(g: GraphBuilder, node: Node) -> Result:
    """Give the dimensions from `start` to `end`."""
    dims = g.shape(node.value(0))
    end = node.attr("end")
    return g.vector(dims[slice(node.int("start", 0), None if end is None else int(end))])


@converter("Size")
def size(g: GraphBuilder, node: Node) -> Result:
    """Give the number of elements."""
    made = g.vector([product(g.shape(node.value(0)))])
    assert made.array is not None
    return TensorValue(made.dtype, made.elem, None, made.array.reshape(()))


def named_sizes(g: GraphBuilder, node: Node, index: int) -> list[Dim]:
    """Return the sizes that an input gives: as they are known, else with names."""
    value = node.value(index)
    known = g.known_ints(value)
    if known is not None:
        return known
    count = g.sizes(value)
    if count is None:
        g.static_ints(value, f"the input {index}, whose number of elements is not known,")
    assert count is not None
    flat = g.expr(value) if len(count) == 1 else g.emit(op.reshape(g.expr(value), (-1,)))
    return list(g.sizes_at_run_time(flat, count[0] if count else 1))


@converter("Reshape", since=1)
def reshape_by_attribute(g: GraphBuilder, node: Node) -> Result:
    """Lay elements out in the shape that an attribute gives."""
    return like(node, g, op.reshape(g.expr(node.value(0)), g.shape_expr(node.required("shape"))))


@converter("Reshape", since=5)
def reshape(g: GraphBuilder, node: Node) -> Result:
    """Give elements another shape, in which 0 keeps a dimension and -1 takes what is left."""
    x, wanted = node.value(0), node.value(1)
    zero_is_zero = bool(node.int("allowzero", 0))
    dims = g.shape(x)
    sizes = g.known_ints(wanted)
    if sizes is None:
        count = g.sizes(wanted)
        if not count:
            g.static_ints(wanted, "the shape")
        assert count

        def final(dims: Sequence[PrimExpr], given: Tensor) -> list[PrimExpr]:
            asked = [element(given, k) for k in range(count[0])]
            if not zero_is_zero:
                asked = [
                    Select(ops.equal(value, i64(0)), i64(dims[k]), value) if k < len(dims) else value
                    for k, value in enumerate(asked)
                ]
            rest = multiplied([Select(ops.less(value, i64(0)), i64(1), value) for value in asked])
            total = multiplied([i64(d) for d in dims])
            left = ops.floordiv(total, ops.maximum(rest, i64(1)))
            return [Select(ops.less(value, i64(0)), left, value) for value in asked]

        sizes = list(sizes_by(g, final, count[0], dims, wanted, name="shape"))
    else:
        sizes = _resolved(node, dims, sizes, zero_is_zero)
    if len(sizes) == len(dims) and all(a is b or _equal(a, b) for a, b in zip(sizes, dims)):
        return x
    if not sizes and len(dims):
        return like(node, g, op.squeeze(g.expr(x), list(range(len(dims)))))
    return like(node, g, op.reshape(g.expr(x), g.shape_expr(sizes)))


def _equal(a: Dim, b: Dim) -> bool:
    return ops.as_int(ops.as_expr(a)) is not None and ops.as_int(ops.as_expr(a)) == ops.as_int(ops.as_expr(b))


def _resolved(node: Node, dims: Sequence[PrimExpr], sizes: Sequence[Dim], zero_is_zero: bool) -> list[Dim]:
    """A shape without 0 and -1."""
    found: list[Dim] = []
    for axis, size in enumerate(sizes):
        if isinstance(size, int) and size == 0 and not zero_is_zero:
            if axis >= len(dims):
                node.fail(f"the shape {list(sizes)} has a 0 in dimension {axis}, but the tensor has {len(dims)}")
            found.append(dims[axis])
        else:
            found.append(size)
    unknown = [axis for axis, size in enumerate(found) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        node.fail(f"the shape {list(sizes)} has more than one -1")
    if unknown:
        have, rest = list(dims), [size for size in found if not (isinstance(size, int) and size == -1)]
        for size in list(rest):  # so that (n, 4, 8) as (n, -1) is 32, whatever n is
            for position, own in enumerate(have):
                if size is own:
                    del have[position]
                    rest = [item for item in rest if item is not size] + [size] * (
                        sum(item is size for item in rest) - 1
                    )
                    break
        total, others = product(have), product(rest)
        zero = ops.as_int(others) == 0
        found[unknown[0]] = 0 if zero else simplified(ops.floordiv(total, others))
    return found


@converter("Flatten")
def flatten(g: GraphBuilder, node: Node) -> Result:
    """Lay elements out in two dimensions, parted before `axis`."""
    x = node.value(0)
    dims = g.shape(x)
    axis = node.int("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    sizes = [product(dims[:axis]), product(dims[axis:])]
    return like(node, g, op.reshape(g.expr(x), g.shape_expr(sizes)))


def _axes(g: GraphBuilder, node: Node) -> list[int] | None:
    """Axes that are known, from an attribute or an input; None where there are none."""
    given = node.optional(1)
    return node.ints("axes") if given is None else g.static_ints(given, "axes")


@converter("Squeeze")
def squeeze(g: GraphBuilder, node: Node) -> Result:
    """Drop dimensions of size 1."""
    x, given = node.value(0), node.optional(1)
    dims = g.shape(x)
    if given is not None and not given.is_constant:
        count = g.sizes(given) or [1]
        left = len(dims) - count[0]

        def sizes(dims: Sequence[PrimExpr], axes: Tensor) -> list[PrimExpr]:
            masks = [as_int(is_axis(axes, d, len(dims))) for d in range(len(dims))]
            places = [i64(d) - added(masks[:d]) for d in range(len(dims))]
            found: list[PrimExpr] = []
            for k in range(left):
                chosen: PrimExpr = i64(1)
                for d, place in enumerate(places):
                    here = ops.logical_and(ops.equal(place, i64(k)), ops.equal(masks[d], i64(0)))
                    chosen = Select(here, i64(dims[d]), chosen)
                found.append(chosen)
            return found

        if left == 0:
            return like(node, g, op.squeeze(g.expr(x), list(range(len(dims)))))
        named = sizes_by(g, sizes, left, dims, given, name="squeezed")
        return like(node, g, op.reshape(g.expr(x), g.shape_expr(named)))
    axes = _axes(g, node)
    if axes is None:
        if any(g.is_known_at_run_time(size) for size in dims):
            raise NeedsValueError.of("the dimensions of size 1", x.wants)
        axes = [d for d, size in enumerate(dims) if ops.as_int(size) == 1]
    return like(node, g, op.squeeze(g.expr(x), axes)) if axes else x


@converter("Unsqueeze")
def unsqueeze(g: GraphBuilder, node: Node) -> Result:
    """Add dimensions of size 1."""
    x, given = node.value(0), node.optional(1)
    dims = g.shape(x)
    if given is not None and not given.is_constant:
        count = g.sizes(given)
        rank = len(dims) + (count[0] if count else 1)

        def sizes(dims: Sequence[PrimExpr], axes: Tensor) -> list[PrimExpr]:
            masks = [as_int(is_axis(axes, d, rank)) for d in range(rank)]
            found: list[PrimExpr] = []
            for d in range(rank):
                place = i64(d) - added(masks[:d])
                held = table([i64(size) for size in dims], place) if dims else i64(1)
                found.append(Select(ops.equal(masks[d], i64(1)), i64(1), held))
            return found

        named = sizes_by(g, sizes, rank, dims, given, name="unsqueezed")
        return like(node, g, op.reshape(g.expr(x), g.shape_expr(named)))
    axes = _axes(g, node)
    return like(node, g, op.expand_dims(g.expr(x), axes or []))


@converter("Expand")
def expand(g: GraphBuilder, node: Node) -> Result:
    """Repeat along dimensions of size 1, or new ones, so that the tensor has a shape; both broadcast."""
    x, wanted = node.value(0), node.value(1)
    dims = g.shape(x)
    known = g.known_ints(wanted)
    if known is None:
        count = g.sizes(wanted)
        if not count:
            g.static_ints(wanted, "the shape")
        assert count
        rank = max(count[0], len(dims))

        def larger(dims: Sequence[PrimExpr], given: Tensor) -> list[PrimExpr]:
            own = [i64(1)] * (rank - len(dims)) + [i64(d) for d in dims]
            asked = [i64(1)] * (rank - count[0]) + [element(given, k) for k in range(count[0])]
            return [Select(ops.equal(a, i64(1)), b, a) for a, b in zip(own, asked)]

        sizes: list[Dim] = list(sizes_by(g, larger, rank, dims, wanted, name="expanded"))
        return like(node, g, g.te(spread, x, sizes, name="expand"))
    rank = max(len(known), len(dims))
    own: list[Dim] = [*[i64(1)] * (rank - len(dims)), *dims]
    asked: list[Dim] = [*[1] * (rank - len(known)), *known]
    final = [b if _is_one(a) else a for a, b in zip(own, asked)]
    if len(final) == len(dims) and all(a is b for a, b in zip(final, dims)):
        return x
    return like(node, g, op.broadcast_to(g.expr(x), g.shape_expr(final)))


def _is_one(size: Dim) -> bool:
    return ops.as_int(ops.as_expr(size)) == 1


@converter("Transpose")
def transpose(g: GraphBuilder, node: Node) -> Result:
    """Put dimensions into another order."""
    return like(node, g, op.permute_dims(g.expr(node.value(0)), node.ints("perm")))


@converter("Concat")
def concat(g: GraphBuilder, node: Node) -> Result:
    """Put tensors one after another."""
    values = [node.value(k) for k in range(len(node.inputs))]
    if len(values) == 1:
        return values[0]
    return like(node, g, op.concat([g.expr(value) for value in values], node.int("axis", 1)))


@converter("Tile", since=1)
def tile_one(g: GraphBuilder, node: Node) -> Result:
    """Repeat a tensor along one axis."""
    times = g.static_ints(node.value(1), "the number of tiles")[0]
    repeats = [1] * g.rank(node.value(0))
    repeats[g.static_ints(node.value(2), "the axis")[0]] = times
    return like(node, g, op.tile(g.expr(node.value(0)), repeats))


@converter("Tile", since=6)
def tile(g: GraphBuilder, node: Node) -> Result:
    """Repeat the whole of a tensor along each dimension."""
    x, times = node.value(0), node.value(1)
    if times.is_constant:
        return like(node, g, op.tile(g.expr(x), g.static_ints(times, "repeats")))
    named = named_sizes(g, node, 1)
    sizes = [simplified(size * time) for size, time in zip(g.shape(x), named)]
    return like(node, g, g.te(_tiled, x, sizes))


def _tiled(x: Tensor, sizes: Sequence[PrimExpr]) -> Tensor:
    def at(*index: PrimExpr) -> Any:
        return x(*[ops.floormod(i64(i), i64(size)) for i, size in zip(index, x.shape)])

    return elements(tuple(sizes), at, name="tiled")


@converter("DepthToSpace")
def depth_to_space(g: GraphBuilder, node: Node) -> Result:
    """Move blocks of channels into height and width."""
    x, b = g.expr(node.value(0)), node.int("blocksize", 1)
    batch, channels, height, width = g.shape(x)
    inner = simplified(ops.floordiv(channels, i64(b * b)))
    parted: list[Dim]
    if node.text("mode", "DCR") == "DCR":
        parted, order = [batch, b, b, inner, height, width], [0, 3, 4, 1, 5, 2]
    else:
        parted, order = [batch, inner, b, b, height, width], [0, 1, 4, 2, 5, 3]
    blocks = g.emit(op.reshape(x, g.shape_expr(parted)))
    moved = g.emit(op.permute_dims(blocks, order))
    return like(node, g, op.reshape(moved, g.shape_expr([batch, inner, height * b, width * b])))


@converter("SpaceToDepth")
def space_to_depth(g: GraphBuilder, node: Node) -> Result:
    """Move blocks of height and width into channels."""
    x, b = g.expr(node.value(0)), node.int("blocksize", 1)
    order = {"DCR": [0, 3, 5, 1, 2, 4], "CRD": [0, 1, 3, 5, 2, 4]}.get(node.text("mode", "DCR"))
    if order is None:
        node.fail(f"the mode {node.text('mode', '')!r}")
    batch, channels, height, width = g.shape(x)
    rows, columns = (simplified(ops.floordiv(size, i64(b))) for size in (height, width))
    blocks = g.emit(op.reshape(x, g.shape_expr([batch, channels, rows, b, columns, b])))
    moved = g.emit(op.permute_dims(blocks, order))
    return like(node, g, op.reshape(moved, g.shape_expr([batch, simplified(channels * (b * b)), rows, columns])))


@converter("ReverseSequence")
def reverse_sequence(g: GraphBuilder, node: Node) -> Result:
    """Turn the first elements of each sequence around."""
    lengths = node.value(1)
    return like(node, g, g.te(
        topi.reverse_sequence, node.value(0), lengths, node.int("time_axis", 0), node.int("batch_axis", 1)
    ))  # fmt: skip


@converter("Trilu")
def trilu(g: GraphBuilder, node: Node) -> Result:
    """Keep the upper or lower triangle of matrices, from a diagonal on."""
    x, k, upper = node.value(0), node.optional(1), bool(node.int("upper", 1))
    if k is None:
        return like(node, g, g.te(topi.trilu, x, 0, upper))
    return like(node, g, g.te(_trilu, x, k, upper))


def _trilu(x: Tensor, k: Tensor, upper: bool) -> Tensor:
    def at(*i: PrimExpr) -> Any:
        gap = i[-1].astype("int64") - i[-2].astype("int64")
        inside = ops.greater_equal(gap, element(k, 0)) if upper else ops.less_equal(gap, element(k, 0))
        return Select(inside, x(*i), ops.const(0, x.dtype))

    return elements(x.shape, at, name="trilu")


@converter("CumSum", "CumProd")
def cumulated(g: GraphBuilder, node: Node) -> Result:
    """Take running sums or products along an axis."""
    x, axis = node.value(0), node.value(1)
    rule = topi.cumsum if node.op == "CumSum" else topi.cumprod
    exclusive, reverse = bool(node.int("exclusive", 0)), bool(node.int("reverse", 0))
    if axis.is_constant:
        return like(node, g, g.te(rule, x, g.static_ints(axis, "axis")[0], x.dtype, exclusive, reverse))
    if g.rank(x) == 1:
        return like(node, g, g.te(rule, x, 0, x.dtype, exclusive, reverse))
    vector = g.value(op.reshape(g.expr(axis), (1,)))
    order = AxesLast(g, g.expr(x), vector)
    made = g.te(rule, order.moved, g.rank(x) - 1, x.dtype, exclusive, reverse)
    return like(node, g, order.back(made))
