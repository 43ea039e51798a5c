"""Tensors with elements or slices replaced."""

from __future__ import annotations

from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.converters.comparison import truth
from compiler.frontend.torch.converters.indexing import index_axes
from compiler.frontend.torch.converters.shape import cut, start_of
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.relax.nodes import Tuple
from compiler.relax.nodes.dims import int64
from compiler.tir import ops


def _written(c: Conversion, x: Any, dim: Any, index: Any, values: Any, reduction: str) -> Any:
    """`x` with `values` written (or added, ...) where `index` says along `dim`."""
    axis = c.axis(dim, c.ndim(x))
    shape = c.shape(index)
    for other, size in enumerate(c.shape(values)):
        if not c.same(size, shape[other]):
            values = c.known(cut(c, values, other, 0, shape[other]))
    return op.scatter_elements(x, index, c.cast(values, c.dtype(x)), axis, reduction)


@converts("aten.scatter.src")
def scatter(c: Conversion, self: Any, dim: Any, index: Any, src: Any) -> Any:
    return _written(c, self, dim, index, src, "update")


@converts("aten.scatter.value")
def scatter_value(c: Conversion, self: Any, dim: Any, index: Any, value: Any) -> Any:
    dtype = c.dtype(self)
    values = c.emit(op.full(list(c.shape(index)), c.tensor(value, dtype), dtype))
    return _written(c, self, dim, index, values, "update")


@converts("aten.scatter_add.default")
def scatter_add(c: Conversion, self: Any, dim: Any, index: Any, src: Any) -> Any:
    return _written(c, self, dim, index, src, "add")


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}


@converts("aten.scatter_reduce.two")
def scatter_reduce(
    c: Conversion, self: Any, dim: Any, index: Any, src: Any, reduce: Any, include_self: Any
) -> Any:
    if not include_self:
        c.refuse("scatter_reduce without the elements that are there")
    return _written(c, self, dim, index, src, _REDUCTIONS[reduce])


@converts("aten.index_put.default", "aten._unsafe_index_put.default", "aten._index_put_impl.default")
def index_put(c: Conversion, self: Any, indices: Any, values: Any, accumulate: Any) -> Any:
    given = [position for position in indices if position is not None]
    if len(given) == 1 and indices[0] is not None and c.dtype(given[0]) == "bool":
        mask = given[0]
        if c.ndim(values) == 0 and not accumulate:
            wide = c.reshaped(mask, [*c.shape(mask), *([1] * (c.ndim(self) - c.ndim(mask)))])
            return op.where(truth(c, wide), c.cast(values, c.dtype(self)), self)
    axes, ndim = index_axes(c, indices), c.ndim(self)
    rest = [axis for axis in range(ndim) if axis not in axes]
    order = [*axes, *rest]
    places = [c.cast(indices[axis], "int64") for axis in axes]
    new = c.cast(values, c.dtype(self))
    if order == list(range(ndim)):
        return op.index_put(self, Tuple(tuple(places)), new, bool(accumulate))
    front = c.emit(op.permute_dims(self, tuple(order)))
    reached = c.emit(op.index_tensor(front, Tuple(tuple(places))))
    rank = c.ndim(reached) - len(rest)
    first, last = axes[0], axes[-1]
    if first and last - first + 1 == len(axes):
        shape = c.shape(reached)
        wanted = [*shape[rank : rank + first], *shape[:rank], *shape[rank + first :]]
        moved = c.broadcast(new, wanted)
        axes_back = (*range(first, first + rank), *range(first), *range(first + rank, len(shape)))
        new = c.emit(op.permute_dims(moved, axes_back))
    changed = c.emit(op.index_put(front, Tuple(tuple(places)), new, bool(accumulate)))
    return op.permute_dims(changed, tuple(order.index(axis) for axis in range(ndim)))


def _along(c: Conversion, x: Any, axis: int) -> Any:
    """The positions along an axis, in a shape that broadcasts with `x`."""
    size = c.shape(x)[axis]
    shape: list[Any] = [1] * c.ndim(x)
    shape[axis] = size
    return c.reshaped(op.arange(0, size, 1, "int64"), shape)


def _replaced(c: Conversion, x: Any, src: Any, axis: int, begin: Any, length: Any, step: int) -> Any:
    """`x` with `length` slices from `begin` on, `step` apart, replaced by `src`."""
    places = c.emit(op.arange(0, length, 1, "int64"))
    first = c.tensor(c.dimensions.dim(begin), "int64")
    where = c.emit(op.add(op.multiply(places, c.tensor(step, "int64")), first))
    front = [axis, *(other for other in range(c.ndim(x)) if other != axis)]
    if axis == 0:
        return op.index_put(x, Tuple((where,)), src)
    changed = op.index_put(op.permute_dims(x, tuple(front)), Tuple((where,)), op.permute_dims(src, tuple(front)))
    return op.permute_dims(changed, tuple(front.index(other) for other in range(c.ndim(x))))


@converts("aten.slice_scatter.default")
def slice_scatter(c: Conversion, self: Any, src: Any, dim: Any, start: Any, step: Any) -> Any:
    axis = c.axis(dim, c.ndim(self))
    size, length = c.shape(self)[axis], c.shape(src)[axis]
    begin, apart = start_of(c, start, size), c.static(step, "a step")
    src = c.cast(src, c.dtype(self))
    if c.same(size, length) and apart == 1:
        return c.broadcast(src, c.shape(self))
    if isinstance(begin, int) and ops.as_int(length) is not None and ops.as_int(size) is not None:
        end = begin + (ops.as_int(length) or 0) * apart
        return op.slice_scatter(self, src, begin, min(end, ops.as_int(size) or 0), apart, axis)
    return _replaced(c, self, src, axis, begin, length, apart)


@converts("aten.select_scatter.default")
def select_scatter(c: Conversion, self: Any, src: Any, dim: Any, index: Any) -> Any:
    axis = c.axis(dim, c.ndim(self))
    shape = list(c.shape(self))
    begin = c.dimensions.dim(start_of(c, index, shape[axis]))
    shape[axis] = int64(1)
    part = c.reshaped(c.cast(src, c.dtype(self)), shape)
    return op.where(op.equal(_along(c, self, axis), c.tensor(begin, "int64")), part, self)


@converts("aten.index_copy.default")
def index_copy(c: Conversion, self: Any, dim: Any, index: Any, source: Any) -> Any:
    return _at_index(c, self, dim, index, source, False)


@converts("aten.index_add.default")
def index_add(c: Conversion, self: Any, dim: Any, index: Any, source: Any, alpha: Any) -> Any:
    if alpha != 1:
        source = c.emit(op.multiply(source, c.tensor(alpha, c.dtype(source))))
    return _at_index(c, self, dim, index, source, True)


@converts("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(c: Conversion, self: Any, dim: Any, index: Any, value: Any) -> Any:
    return _at_index(c, self, dim, index, c.tensor(value, c.dtype(self)), False)


def _at_index(c: Conversion, x: Any, dim: Any, index: Any, source: Any, accumulate: bool) -> Any:
    axis = c.axis(dim, c.ndim(x))
    new = c.cast(source, c.dtype(x))
    if axis == 0:
        return op.index_put(x, Tuple((index,)), new, accumulate)
    front = [axis, *(other for other in range(c.ndim(x)) if other != axis)]
    if c.ndim(new):
        new = c.emit(op.permute_dims(new, tuple(front)))
    changed = op.index_put(op.permute_dims(x, tuple(front)), Tuple((index,)), new, accumulate)
    return op.permute_dims(changed, tuple(front.index(other) for other in range(c.ndim(x))))
