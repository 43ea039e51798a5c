"""Elements and slices at positions that tensors hold."""

from __future__ import annotations

from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.relax.nodes import Tuple


@converts("aten.embedding.default")
def embedding(c: Conversion, weight: Any, indices: Any) -> Any:
    return op.take(weight, indices, 0, "clip")


@converts("aten.index_select.default")
def index_select(c: Conversion, self: Any, dim: Any, index: Any) -> Any:
    if c.ndim(index) == 0:
        index = c.reshaped(index, [1])
    return op.take(self, index, c.axis(dim, c.ndim(self)), "clip")


@converts("aten.gather.default")
def gather(c: Conversion, self: Any, dim: Any, index: Any) -> Any:
    return op.gather_elements(self, index, c.axis(dim, c.ndim(self)))


@converts("aten.take_along_dim.default")
def take_along_dim(c: Conversion, self: Any, indices: Any, dim: Any) -> Any:
    if dim is None:
        c.refuse("take_along_dim without a dimension")
    axis = c.axis(dim, c.ndim(self))
    shape = list(c.out_shape())
    wide = [*shape[:axis], c.shape(self)[axis], *shape[axis + 1 :]]
    return op.gather_elements(c.broadcast(self, wide), c.broadcast(indices, shape), axis)


@converts("aten.take.default")
def take(c: Conversion, self: Any, index: Any) -> Any:
    return op.take(op.flatten(self), index, 0, "wrap")


def index_axes(c: Conversion, indices: Any) -> list[int]:
    """The axes that have an index. Refuses masks, whose result has an unknown size."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if any(c.dtype(indices[axis]) in ("bool", "uint8") for axis in axes):
        c.refuse("indexed by a mask: the size of the result depends on the data")
    return axes


@converts("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(c: Conversion, self: Any, indices: Any) -> Any:
    axes, ndim = index_axes(c, indices), c.ndim(self)
    if not axes:
        return self
    if len(axes) == 1:
        return op.take(self, indices[axes[0]], axes[0], "wrap")
    given = [c.cast(indices[axis], "int64") for axis in axes]
    rest = [axis for axis in range(ndim) if axis not in axes]
    order = [*axes, *rest]
    front = self if order == list(range(ndim)) else c.emit(op.permute_dims(self, tuple(order)))
    taken = c.emit(op.index_tensor(front, Tuple(tuple(given))))
    first, last = axes[0], axes[-1]
    if first == 0 or last - first + 1 != len(axes):
        return taken
    rank = c.ndim(taken) - len(rest)
    return op.permute_dims(taken, (*range(rank, rank + first), *range(rank), *range(rank + first, c.ndim(taken))))
