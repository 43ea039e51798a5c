"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Constant
from compiler.faces.relay.op.values import emit, number, numbers, rank, shape, tensor
from compiler.faces.relay.table import In, Ins, operator
from compiler.relax import op as R
from compiler.tir.nodes import PrimExpr


@operator("expand_dims")
def expand_dims(data: In, axis: int, num_newaxis: int = 1) -> Any:
    """`num_newaxis` axes of size 1 before `axis`."""
    place = axis if axis >= 0 else rank(data, "expand_dims") + axis + 1
    return R.expand_dims(data, [place + at for at in range(num_newaxis)])


@operator("transpose")
def transpose(data: In, axes: Any = None) -> Any:
    """Axes in another order, by default reversed."""
    return R.permute_dims(data, None if axes is None or not len(axes) else list(axes))


@operator("squeeze")
def squeeze(data: In, axis: Any = None) -> Any:
    """Drop the axes of size 1."""
    return R.squeeze(data, axis)


@operator("reshape")
def reshape(data: In, newshape: Any, allowzero: bool = False) -> Any:
    """Give the elements another shape.
    In it 0 copies a size, -1 is what is left, and -2 copies all further sizes. -3 joins two, and -4 splits one by the
    two numbers behind it."""
    wanted = numbers(newshape, "reshape") if isinstance(newshape, Constant) else _sequence(newshape)
    return R.reshape(data, reshaped(shape(data, "reshape"), wanted or [], allowzero))


def reshaped(old: list[Any], wanted: Sequence[Any], allowzero: bool = False) -> tuple[Any, ...]:
    """The shape that `wanted` means for data of the shape `old`."""
    made: list[Any] = []
    at, place = 0, 0
    while place < len(wanted):
        size = wanted[place]
        place += 1
        if isinstance(size, PrimExpr) or size > 0 or size == -1 or (size == 0 and allowzero):
            made.append(size)
            at += 1
        elif size == 0:
            made.append(old[at])
            at += 1
        elif size == -2:
            made += old[at:]
            at = len(old)
        elif size == -3:
            made.append(old[at] * old[at + 1])
            at += 2
        elif size == -4:
            first, second = wanted[place], wanted[place + 1]
            place += 2
            if first == -1:
                first = old[at] // second
            made += [first, old[at] // first if second == -1 else second]
            at += 1
        else:
            raise ArgumentError(f"relay.reshape: a new shape has the size {size}", hint="special sizes are 0 to -4")
    return tuple(made)


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) else (value,)


@operator("reshape_like")
def reshape_like(
    data: In, shape_like: In, lhs_begin: int = 0, lhs_end: int | None = None, rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Any:  # fmt: skip
    """The axes of `data` from `lhs_begin` to `lhs_end` take sizes of `shape_like`."""
    old, other = shape(data, "reshape_like"), shape(shape_like, "reshape_like")
    end = len(old) if lhs_end is None else lhs_end % (len(old) + 1)
    middle = other[rhs_begin : len(other) if rhs_end is None else rhs_end]
    return R.reshape(data, (*old[:lhs_begin], *middle, *old[end:]))


@operator("broadcast_to")
def broadcast_to(data: In, shape: Any) -> Any:
    """The elements repeated to `shape`."""
    return R.broadcast_to(data, tuple(numbers(shape, "broadcast_to") or ()))


@operator("broadcast_to_like")
def broadcast_to_like(data: In, broadcast_type: In) -> Any:
    """The elements repeated to the shape of another tensor."""
    return R.broadcast_to(data, tuple(shape(broadcast_type, "broadcast_to_like")))


@operator("collapse_sum_like")
def collapse_sum_like(data: In, collapse_type: In) -> Any:
    """Sums that give the shape of another tensor."""
    return R.collapse_sum_like(data, collapse_type)


@operator("collapse_sum_to")
def collapse_sum_to(data: In, shape: Any) -> Any:
    """Sums that give `shape`."""
    return R.collapse_sum_to(data, tuple(numbers(shape, "collapse_sum_to") or ()))


@operator("concatenate")
def concatenate(data: Ins, axis: int) -> Any:
    """Tensors one behind the other along an axis."""
    return R.concat(data, axis)


@operator("stack")
def stack(data: Ins, axis: int) -> Any:
    """Tensors side by side along a new axis."""
    return R.stack(data, axis)


@operator("einsum")
def einsum(data: Ins, equation: str) -> Any:
    """Einstein's sums."""
    return R.einsum(data, equation)


def _parts(indices_or_sections: Any, **_: Any) -> int:
    return indices_or_sections if isinstance(indices_or_sections, int) else len(indices_or_sections) + 1


@operator("split", results=_parts)
def split(data: In, indices_or_sections: Any, axis: int = 0) -> Any:
    """Parts of equal size, or parts that end at positions."""
    parts = indices_or_sections if isinstance(indices_or_sections, int) else list(indices_or_sections)
    return R.split(data, parts, axis)


@operator("strided_slice")
def strided_slice(
    data: In, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> Any:
    """Take every `strides`-th element from `begin` on, before `end`.
    With slice_mode "size" `end` counts elements."""
    first, last = numbers(begin, "strided_slice") or [], numbers(end, "strided_slice") or []
    steps = numbers(strides, "strided_slice") or [1]
    places = numbers(axes, "strided_slice") or list(range(len(first)))
    steps = steps * len(first) if len(steps) == 1 else steps
    sizes = shape(data, "strided_slice")
    if slice_mode == "size":
        last = [sizes[at] if size < 0 else start + size for at, start, size in zip(places, first, last)]
        steps = [1] * len(first)
    return R.strided_slice(data, places, first, last[: len(first)], steps)


@operator("slice_like")
def slice_like(data: In, shape_like: In, axes: Any = None) -> Any:
    """The front of `data`, as large as another tensor along `axes`, by default all."""
    other = shape(shape_like, "slice_like")
    places = [at % rank(data, "slice_like") for at in (axes or range(len(other)))]
    return R.strided_slice(data, places, [0] * len(places), [other[at] for at in places])


@operator("take")
def take(data: In, indices: In, axis: Any = None, batch_dims: int = 0, mode: str = "clip") -> Any:
    """The elements, or slices along an axis, at positions. `mode`: what is done with positions outside."""
    if batch_dims:
        raise ArgumentError("relay.take with batch_dims is not carried over", hint="use relay.gather_nd")
    if axis is None:
        data, axis = R.reshape(data, (-1,)), 0
    return R.take(data, indices, axis, mode)


@operator("gather")
def gather(data: In, axis: int, indices: In) -> Any:
    """For each position in `indices`, the element of `data` with that position along the axis."""
    return R.gather_elements(data, indices, axis)


@operator("gather_nd")
def gather_nd(data: In, indices: In, batch_dims: int = 0, index_rank: Any = None) -> Any:
    """Elements, or slices, at positions whose coordinates lie along the first axis of `indices`."""
    ndim = rank(indices, "gather_nd")
    return R.gather_nd(data, R.permute_dims(_wide(indices), [*range(1, ndim), 0]), batch_dims)


def _wide(indices: Any) -> Any:
    return indices if tensor(indices, "indices").dtype == "int64" else emit(R.astype(indices, "int64"))


@operator("scatter_elements")
def scatter_elements(data: In, indices: In, updates: In, axis: int = 0, reduction: str = "update") -> Any:
    """`data` with `updates` at the positions along an axis that `indices` says."""
    return R.scatter_elements(data, indices, updates, axis, reduction)


@operator("scatter_nd")
def scatter_nd(data: In, indices: In, updates: In, mode: str = "update") -> Any:
    """`data` with `updates` at positions whose coordinates lie along the first axis of `indices`."""
    ndim = rank(indices, "scatter_nd")
    return R.scatter_nd(data, R.permute_dims(_wide(indices), [*range(1, ndim), 0]), updates, mode)


@operator("repeat")
def repeat(data: In, repeats: int, axis: Any) -> Any:
    """Each element `repeats` times along an axis."""
    return R.repeat(data, repeats, axis)


@operator("tile")
def tile(data: In, reps: Any) -> Any:
    """The whole tensor, as often along each axis as `reps` says."""
    return R.tile(data, numbers(reps, "tile") or [])


@operator("reverse")
def reverse(data: In, axis: int) -> Any:
    """The elements in the opposite order along an axis."""
    return R.flip(data, axis)


@operator("meshgrid", results=lambda **_: None)
def meshgrid(data: Ins, indexing: str = "ij") -> Any:
    """The coordinates of a grid, one tensor for each axis."""
    return R.meshgrid(data, indexing)


@operator("trilu")
def trilu(data: In, k: In, upper: bool = True) -> Any:
    """The part of matrices above (below) a diagonal."""
    return (R.triu if upper else R.tril)(data, int(number(k, "trilu")))


@operator("argwhere")
def argwhere(condition: In) -> Any:
    """The coordinates of the elements that are not 0, one row each."""
    return R.permute_dims(R.nonzero(condition), [1, 0])


@operator("sequence_mask")
def sequence_mask(data: In, valid_length: In, mask_value: float = 0, axis: int = 0) -> Any:
    """`data`, (time, batch, …), with `mask_value` from each sequence's length on.
    `axis`: which of both is time."""
    sizes = shape(data, "sequence_mask")
    info = tensor(data, "sequence_mask")
    length = tensor(valid_length, "sequence_mask").dtype
    times = tuple(sizes[axis] if at == axis else 1 for at in range(len(sizes)))
    lengths = tuple(sizes[1 - axis] if at == 1 - axis else 1 for at in range(len(sizes)))
    inside = R.less(R.reshape(R.arange(0, sizes[axis], 1, length), times), R.reshape(valid_length, lengths))
    return R.where(inside, data, R.full((), mask_value, info.dtype))


@operator("sparse_to_dense")
def sparse_to_dense(sparse_indices: In, output_shape: Any, sparse_values: In, default_value: In = 0) -> Any:
    """A tensor with values at positions, and a default elsewhere."""
    dtype = tensor(sparse_values, "sparse_to_dense").dtype
    data = emit(R.full(tuple(numbers(output_shape, "sparse_to_dense") or ()), R.astype(default_value, dtype), dtype))
    ndim = rank(sparse_indices, "sparse_to_dense")
    indices = _wide(sparse_indices)
    rows = indices if ndim == 2 else R.reshape(indices, (-1, 1))
    count = shape(sparse_indices, "sparse_to_dense")[0] if ndim else 1
    return R.scatter_nd(data, rows, R.broadcast_to(sparse_values, (count,)), "update")
