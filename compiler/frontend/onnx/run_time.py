"""Parameters that come as tensors when the program runs: axes, sizes, bounds.

Small kernels compute from them what the graph needs: sizes, which get names (`GraphBuilder.sizes_at_run_time`), and
orders of dimensions. A tensor whose dimensions are put into such an order is read with strides that are computed too,
so one kernel serves every order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from compiler import topi
from compiler.frontend.onnx.graph_builder import Dim, GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.nodes import Var
from compiler.relax.nodes.dims import int64, proven_equal, same_size
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Select
from compiler.tir.nodes import Var as TirVar


def i64(value: Dim) -> PrimExpr:
    """A size or a place as an int64 expression."""
    return int64(value) if isinstance(value, int) else ops.as_expr(value).astype("int64")


def added(values: Sequence[PrimExpr]) -> PrimExpr:
    """The sum of int64 expressions."""
    return reduce(operator.add, values, i64(0))


def multiplied(values: Sequence[PrimExpr]) -> PrimExpr:
    """The product of int64 expressions."""
    return reduce(operator.mul, values, i64(1))


def table(values: Sequence[PrimExpr], place: PrimExpr) -> PrimExpr:
    """Look up the value at a place that is known only when the kernel runs."""
    found = values[-1]
    for number in reversed(range(len(values) - 1)):
        found = Select(ops.equal(place, ops.const(number, place.dtype)), values[number], found)
    return found


def vector_of(values: Sequence[PrimExpr], name: str) -> Tensor:
    """A vector of int64 expressions."""
    held = [i64(value) for value in values]
    return elements((len(held),), lambda i: table(held, i), name=name)


def element(vector: Tensor, index: int) -> PrimExpr:
    """An element of a vector or of a tensor without dimensions, as int64."""
    return (vector(*([ops.const(index, "int64")] * vector.ndim))).astype("int64")


def is_axis(axes: Tensor, axis: int, rank: int) -> PrimExpr:
    """Whether a vector of axes, which may count from the end, names a dimension."""
    count = int(ops.as_int(axes.shape[0]) or 0) if axes.ndim else 1
    named = [
        ops.logical_or(ops.equal(element(axes, k), i64(axis)), ops.equal(element(axes, k), i64(axis - rank)))
        for k in range(count)
    ]
    return reduce(ops.logical_or, named) if named else ops.const(False, "bool")


def as_int(flag: PrimExpr) -> PrimExpr:
    """1 where a condition holds, else 0."""
    return Select(flag, i64(1), i64(0))


class AxesLast:
    """Move the dimensions that a vector of axes names to the end; return also what brings them back.

    `moved` is the tensor; its first `kept` dimensions are the others. `sizes` are the dimensions of the tensor as it
    was, with 1 for those named.
    """

    def __init__(self, g: GraphBuilder, x: RelaxExpr, axes: TensorValue) -> None:
        self.g = g
        shape = g.shape(x)
        rank = len(shape)
        count = g.sizes(axes)
        named = (count[0] if count else 1) if count is not None else rank
        self.kept = rank - named

        def order(dims: Sequence[PrimExpr], axes: Tensor) -> Tensor:
            masks = [as_int(is_axis(axes, d, rank)) for d in range(rank)]
            total = added(masks)
            places = []
            for d in range(rank):
                before = [masks[e] for e in range(d)]
                masked = added(before)
                free = i64(d) - masked
                places.append(Select(ops.equal(masks[d], i64(1)), i64(rank) - total + masked, free))
            strides: list[PrimExpr] = [i64(1)] * rank
            for d in reversed(range(rank - 1)):
                strides[d] = strides[d + 1] * i64(dims[d + 1])
            found: list[PrimExpr] = []
            for values in (list(dims), strides):
                for place in range(rank):
                    chosen: PrimExpr = i64(0)
                    for d in range(rank):
                        chosen = Select(ops.equal(places[d], i64(place)), i64(values[d]), chosen)
                    found.append(chosen)
            found += [Select(ops.equal(masks[d], i64(1)), i64(1), i64(dims[d])) for d in range(rank)]
            found += places
            return vector_of(found, "order")

        vector = g.te(order, shape, axes)
        names = g.sizes_at_run_time(vector, 4 * rank)
        self.shape, strides = names[:rank], names[rank : 2 * rank]
        self.sizes, self.places = names[2 * rank : 3 * rank], names[3 * rank :]
        self.original = shape
        self.moved = g.te(strided, x, self.shape, strides)

    def back(self, y: RelaxExpr) -> Var:
        """Restore the original order of dimensions. The named dimensions may have changed their sizes."""
        g, rank = self.g, len(self.original)
        dims = g.shape(y)
        same = all(a is b for a, b in zip(dims, self.shape))

        def strides_back(dims: Sequence[PrimExpr], places: Sequence[PrimExpr]) -> Tensor:
            own: list[PrimExpr] = [i64(1)] * rank
            for d in reversed(range(rank - 1)):
                own[d] = own[d + 1] * i64(dims[d + 1])
            found = [table([i64(s) for s in own], i64(place)) for place in places]
            return vector_of([*found, *[table([i64(d) for d in dims], i64(place)) for place in places]], "strides")

        names = g.sizes_at_run_time(g.te(strides_back, dims, self.places), 2 * rank)
        return g.te(strided, y, self.original if same else names[rank:], names[:rank])


def strided(x: Tensor, shape: Sequence[PrimExpr], strides: Sequence[PrimExpr]) -> Tensor:
    """The elements of a tensor, laid flat, at steps of `strides` elements along dimensions of `shape`."""
    flat = topi.reshape(x, (-1,)) if x.ndim != 1 else x

    def at(*index: PrimExpr) -> Any:
        place: PrimExpr = i64(0)
        for position, stride in zip(index, strides):
            place = place + i64(position) * i64(stride)
        return flat(place)

    return elements(tuple(shape), at, name="strided")


def sizes_by(
    g: GraphBuilder, function: Callable[..., Sequence[PrimExpr]], count: int, *args: object, name: str
) -> list[PrimExpr]:
    """Name `count` sizes that `function` computes from tensors and dimensions, in a kernel."""

    def kernel(*given: object) -> Tensor:
        return vector_of(list(function(*given)), name)

    return g.sizes_at_run_time(g.te(kernel, *args, name=name), count)


def fitting_sizes(g: GraphBuilder, vector: RelaxExpr, count: int, size: PrimExpr, *, whole: bool) -> list[PrimExpr]:
    """Name the sizes of the `count` parts of a dimension, which a vector gives.

    A part below 0 or too large becomes -1, which is an error when the program runs. With `whole`, all parts become -1
    if their sum is not the dimension.
    """

    def fitting(dims: Sequence[PrimExpr], parts: Tensor) -> list[PrimExpr]:
        values = [element(parts, k) for k in range(count)]
        fits = [ops.logical_and(ops.greater_equal(v, i64(0)), ops.less_equal(v, i64(dims[0]))) for v in values]
        if whole:
            fits = [reduce(ops.logical_and, [ops.equal(added(values), i64(dims[0])), *fits])] * count
        return [Select(good, value, i64(-1)) for good, value in zip(fits, values)]

    return sizes_by(g, fitting, count, [size], vector, name="fitting")


def broadcast(g: GraphBuilder, operands: Sequence[RelaxExpr]) -> list[RelaxExpr]:
    """The operands of an operator that broadcasts.
    Dimensions that may turn out to be 1 are repeated first."""
    shapes = [g.shape(x) for x in operands]
    rank = max(map(len, shapes))
    aligned = [[i64(1)] * (rank - len(shape)) + shape for shape in shapes]
    final: list[PrimExpr | None] = []
    for sizes in zip(*aligned):
        rest = [size for size in sizes if ops.as_int(size) != 1]
        if not rest or all(same_size(rest[0], size) for size in rest[1:]):
            plain = [size for size in rest if isinstance(size, TirVar)]
            final.append((plain or rest or [i64(1)])[0])
        else:
            final.append(next((size for size in rest if ops.as_int(size) is not None), None))
    open_ = [d for d, size in enumerate(final) if size is None]
    if open_:
        names = sizes_by(g, _larger_of, len(open_), [[sizes[d] for d in open_] for sizes in aligned], name="broadcast")
        final = [size if size is not None else names[open_.index(d)] for d, size in enumerate(final)]
    whole = [size for size in final if size is not None]
    found = []
    for x, shape in zip(operands, aligned):
        if all(ops.as_int(a) == 1 or proven_equal(a, b) for a, b in zip(shape, whole)):
            found.append(x)
        elif all(ops.as_int(a) == 1 or same_size(a, b) for a, b in zip(shape, whole)):
            own = [a if ops.as_int(a) == 1 else b for a, b in zip(shape, whole)]
            found.append(g.emit(op.reshape(x, own)))
        else:
            found.append(g.te(spread, x, whole, name="spread"))
    return found


def _larger_of(shapes: Sequence[Sequence[Dim]]) -> list[PrimExpr]:
    """The size of each dimension that is not 1, if there is one."""
    found = [i64(size) for size in shapes[0]]
    for shape in shapes[1:]:
        found = [Select(ops.equal(a, i64(1)), i64(b), a) for a, b in zip(found, shape)]
    return found


def spread(x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """Repeat along dimensions that may turn out to be of size 1, and along new ones before them."""
    extra = len(sizes) - x.ndim

    def at(*index: PrimExpr) -> Any:
        own: list[PrimExpr] = []
        for d, size in enumerate(x.shape):
            held, place = ops.as_int(ops.as_expr(size)), i64(index[extra + d])
            if held == 1:
                own.append(i64(0))
            else:
                own.append(place if held is not None else Select(ops.equal(i64(size), i64(1)), i64(0), place))
        return x(*own)

    return elements(tuple(sizes), at, name="spread")
