"""Tensors laid out anew: reshapes, transpositions, joins, cuts and repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.relax.nodes import Tuple, TupleGetItem
from compiler.relax.nodes.dims import int64
from compiler.tir import ops

# ------------------------------------------------------------------------------------- reshapes


@converts(
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.flatten.using_ints",
    "aten.unflatten.int", "aten.view_as.default", "aten.reshape_as.default", "aten.squeeze.default", "aten.squeeze.dim",
    "aten.squeeze.dims", "aten.unsqueeze.default", "aten._reshape_alias.default", "aten.ravel.default",
    "aten._reshape_copy.default", "aten.view_copy.default", "aten.atleast_1d.default",
)  # fmt: skip
def reshape(c: Conversion, self: Any) -> Any:
    """Operators that keep the order of elements. The result's shape is known beforehand."""
    return c.reshaped(self, c.out_shape())


@converts("aten.view.dtype")
def view_dtype(c: Conversion, self: Any, dtype: Any) -> Any:
    if c.dtype(self) != c.out_dtype():
        c.refuse("elements are read as another type")
    return self


@converts(
    "aten.clone.default", "aten.contiguous.default", "aten.detach.default", "aten.alias.default",
    "aten.lift_fresh_copy.default", "aten.lift_fresh.default", "aten.lift.default", "aten.alias_copy.default",
    "aten.detach_copy.default",
)  # fmt: skip
def same(c: Conversion, self: Any) -> Any:
    return self


@converts("aten.copy.default")
def copy(c: Conversion, self: Any, src: Any) -> Any:
    """`src`, with the shape and the type of `self`."""
    return c.broadcast(c.cast(src, c.dtype(self)), c.shape(self))


# ------------------------------------------------------------------------------- transpositions


def _permuted(c: Conversion, x: Any, axes: Sequence[int]) -> Any:
    return x if list(axes) == list(range(len(axes))) else op.permute_dims(x, tuple(axes))


@converts("aten.permute.default", "aten.permute_copy.default")
def permute(c: Conversion, self: Any, dims: Any) -> Any:
    ndim = c.ndim(self)
    return _permuted(c, self, [c.axis(axis, ndim) for axis in dims])


@converts("aten.swapaxes.default", "aten.swapdims.default")
def swapaxes(c: Conversion, self: Any, axis0: Any = None, axis1: Any = None, dim0: Any = None, dim1: Any = None) -> Any:
    """Torch calls the axes `axis0` in the one operator and `dim0` in the other."""
    return transpose(c, self, axis0 if dim0 is None else dim0, axis1 if dim1 is None else dim1)


@converts("aten.transpose.int", "aten.transpose_copy.int")
def transpose(c: Conversion, self: Any, dim0: Any, dim1: Any) -> Any:
    ndim = c.ndim(self)
    axes = list(range(ndim))
    if ndim:
        a, b = c.axis(dim0, ndim), c.axis(dim1, ndim)
        axes[a], axes[b] = axes[b], axes[a]
    return _permuted(c, self, axes)


@converts("aten.t.default", "aten.numpy_T.default", "aten.t_copy.default")
def reverse_axes(c: Conversion, self: Any) -> Any:
    return _permuted(c, self, range(c.ndim(self))[::-1])


@converts("aten.mT.default", "aten.adjoint.default")
def matrix_transpose(c: Conversion, self: Any) -> Any:
    return transpose(c, self, -2, -1)


@converts("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist")
def movedim(c: Conversion, self: Any, source: Any, destination: Any) -> Any:
    ndim = c.ndim(self)
    sources = [c.axis(axis, ndim) for axis in ([source] if isinstance(source, int) else source)]
    targets = [c.axis(axis, ndim) for axis in ([destination] if isinstance(destination, int) else destination)]
    rest = iter(axis for axis in range(ndim) if axis not in sources)
    placed = dict(zip(targets, sources))
    return _permuted(c, self, [placed[axis] if axis in placed else next(rest) for axis in range(ndim)])


# ----------------------------------------------------------------------------------- repetitions


@converts("aten.expand.default", "aten.expand_as.default", "aten.expand_copy.default", "aten.broadcast_to.default")
def expand(c: Conversion, self: Any) -> Any:
    return c.broadcast(self, c.out_shape())


@converts("aten.broadcast_tensors.default")
def broadcast_tensors(c: Conversion, tensors: Any) -> Any:
    return tuple([c.broadcast(x, c.out_shape(index)) for index, x in enumerate(tensors)])


@converts("aten.repeat.default")
def repeat(c: Conversion, self: Any, repeats: Any) -> Any:
    return _tiled(c, self, repeats)


@converts("aten.tile.default")
def tile(c: Conversion, self: Any, dims: Any) -> Any:
    return _tiled(c, self, dims)


def _tiled(c: Conversion, x: Any, repeats: Sequence[Any]) -> Any:
    """Repeat a tensor along each dimension.
    Repetitions may be symbolic where the dimension has one element."""
    have = list(c.shape(x))
    have = [int64(1)] * (len(repeats) - len(have)) + have
    times = [int64(1)] * (len(have) - len(repeats)) + [c.dimensions.dim(count) for count in repeats]
    if all(ops.as_int(count) is not None for count in times):
        counts = tuple(ops.as_int(count) or 0 for count in times)
        return c.reshaped(x, have) if set(counts) == {1} else op.tile(c.reshaped(x, have), counts)
    if any(ops.as_int(count) != 1 and ops.as_int(size) != 1 for count, size in zip(times, have)):
        split = [part for size in have for part in (int64(1), size)]
        wide = [part for count, size in zip(times, have) for part in (count, size)]
        return c.reshaped(c.broadcast(c.reshaped(x, split), wide), c.out_shape())
    wanted = [count if ops.as_int(size) == 1 else size for count, size in zip(times, have)]
    return c.broadcast(c.reshaped(x, have), wanted)


@converts("aten.repeat_interleave.self_int")
def repeat_interleave(c: Conversion, self: Any, repeats: Any, dim: Any) -> Any:
    times = c.static(repeats, "repeats")
    if dim is None:
        return op.repeat(self, times, None)
    return op.repeat(self, times, c.axis(dim, c.ndim(self)))


@converts("aten.meshgrid.default", "aten.meshgrid.indexing")
def meshgrid(c: Conversion, tensors: Any, indexing: Any = None) -> Any:
    return c.items(op.meshgrid(c.tuple_of(tensors), indexing or "ij"), len(tensors))


# ----------------------------------------------------------------------------------------- joins


def _joined(c: Conversion, tensors: Any, dim: Any) -> Any:
    dtype = c.out_dtype()
    parts = [c.cast(x, dtype) for x in tensors]
    parts = [x for x in parts if not _is_nothing(c, x)] or parts[:1]
    return parts[0] if len(parts) == 1 else op.concat(c.tuple_of(parts), c.axis(dim, c.ndim(parts[0])))


def _is_nothing(c: Conversion, x: Any) -> bool:
    """Whether a tensor is torch's empty vector, which may be joined with anything."""
    shape = c.shape(x)
    return len(shape) == 1 and ops.as_int(shape[0]) == 0


@converts("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(c: Conversion, tensors: Any, dim: Any) -> Any:
    return _joined(c, tensors, dim)


@converts("aten.stack.default")
def stack(c: Conversion, tensors: Any, dim: Any) -> Any:
    dtype = c.out_dtype()
    return op.stack(c.tuple_of([c.cast(x, dtype) for x in tensors]), c.axis(dim, c.ndim(tensors[0]) + 1))


@converts("aten.hstack.default")
def hstack(c: Conversion, tensors: Any) -> Any:
    return _joined(c, tensors, 0 if c.ndim(tensors[0]) == 1 else 1)


@converts("aten.vstack.default", "aten.row_stack.default")
def vstack(c: Conversion, tensors: Any) -> Any:
    return _joined(c, [x if c.ndim(x) > 1 else c.reshaped(x, [1, *c.shape(x)]) for x in tensors], 0)


# ------------------------------------------------------------------------------------------ cuts


def cut(c: Conversion, x: Any, axis: int, begin: Any, length: Any, step: int = 1) -> Any:
    """`length` slices of `x` along `axis`, from `begin` on; both lie inside."""
    size, first, count = c.shape(x)[axis], c.dimensions.dim(begin), c.dimensions.dim(length)
    if step == 1 and ops.as_int(first) == 0 and c.same(size, count):
        return x
    last = ops.add(first, ops.mul(count, int64(step)))
    return op.strided_slice(x, [axis], [first], [last], [step], assume_inbound=True)


def start_of(c: Conversion, value: Any, size: Any) -> Any:
    """The begin of a slice, which may count from the end or be left out."""
    if value is None:
        return 0
    if not isinstance(value, int):
        return value
    known = ops.as_int(size)
    if known is not None:
        return min(max(value + known if value < 0 else value, 0), known)
    return ops.add(size, int64(value)) if value < 0 else value


@converts("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_tensor(c: Conversion, self: Any, dim: Any, start: Any, step: Any) -> Any:
    axis = c.axis(dim, c.ndim(self))
    begin = start_of(c, start, c.shape(self)[axis])
    return cut(c, self, axis, begin, c.out_shape()[axis], c.static(step, "a step"))


@converts("aten.narrow.default", "aten.narrow_copy.default")
def narrow(c: Conversion, self: Any, dim: Any, start: Any, length: Any) -> Any:
    axis = c.axis(dim, c.ndim(self))
    return cut(c, self, axis, start_of(c, start, c.shape(self)[axis]), length)


@converts("aten.select.int", "aten.select_copy.int")
def select(c: Conversion, self: Any, dim: Any, index: Any) -> Any:
    axis = c.axis(dim, c.ndim(self))
    return c.reshaped(cut(c, self, axis, start_of(c, index, c.shape(self)[axis]), 1), c.out_shape())


def _parts(c: Conversion, x: Any, dim: Any) -> tuple[Any, ...]:
    """The parts that the result has along `dim`, in turn."""
    axis = c.axis(dim, c.ndim(x))
    lengths = [c.out_shape(index)[axis] for index in range(len(c.node.meta["val"]))]
    known = [ops.as_int(length) for length in lengths]
    if len(lengths) > 1 and None not in known:
        bounds = [sum(length or 0 for length in known[: index + 1]) for index in range(len(known) - 1)]
        whole = op.split(x, tuple(bounds), axis)
        return c.items(whole, len(lengths))
    found, begin = [], int64(0)
    for length in lengths:
        found.append(c.known(cut(c, x, axis, begin, length)))
        begin = ops.add(begin, length)  # type: ignore[assignment]
    return tuple(found)


@converts("aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default", "aten.chunk.default",
          "aten.tensor_split.sections", "aten.tensor_split.indices", "aten.split_copy.Tensor",
          "aten.split_with_sizes_copy.default",
          "aten.unsafe_split.Tensor", "aten.unsafe_chunk.default")  # fmt: skip
def split(c: Conversion, self: Any, dim: Any) -> Any:
    return _parts(c, self, dim)


@converts("aten.unbind.int", "aten.unbind_copy.int")
def unbind(c: Conversion, self: Any, dim: Any) -> Any:
    axis = c.axis(dim, c.ndim(self))
    count = c.static(c.shape(self)[axis], "a number of tensors")
    return tuple([
        c.reshaped(cut(c, self, axis, index, 1), c.out_shape(index)) for index in range(count)
    ])  # fmt: skip


@converts("aten.diff.default")
def diff(c: Conversion, self: Any, n: Any, dim: Any, prepend: Any, append: Any) -> Any:
    """The differences of neighbours along a dimension, `n` times over."""
    axis, dtype = c.axis(dim, c.ndim(self)), c.dtype(self)
    ends = [c.cast(part, dtype) for part in (prepend, self, append) if part is not None]
    x = ends[0] if len(ends) == 1 else c.emit(op.concat(c.tuple_of(ends), axis))
    for _ in range(n):
        length = ops.sub(c.shape(x)[axis], int64(1))
        later, sooner = c.known(cut(c, x, axis, 1, length)), c.known(cut(c, x, axis, 0, length))
        x = c.emit(op.logical_xor(later, sooner) if dtype == "bool" else op.subtract(later, sooner))
    return x


# ------------------------------------------------------------------------------- other movements


@converts("aten.flip.default")
def flip(c: Conversion, self: Any, dims: Any) -> Any:
    for axis in dims:
        self = op.flip(self, c.axis(axis, c.ndim(c.known(self))))
        self = c.known(self)
    return self


@converts("aten.roll.default")
def roll(c: Conversion, self: Any, shifts: Any, dims: Any) -> Any:
    if not dims:
        flat = c.reshaped(self, [_count(c, self)])
        return c.reshaped(_rolled(c, flat, 0, shifts[0]), c.shape(self))
    for axis, shift in zip(dims, shifts):
        self = _rolled(c, self, c.axis(axis, c.ndim(self)), shift)
    return self


def _count(c: Conversion, x: Any) -> Any:
    total: Any = int64(1)
    for size in c.shape(x):
        total = ops.mul(total, size)
    return total


def _rolled(c: Conversion, x: Any, axis: int, shift: Any) -> Any:
    size = c.static(c.shape(x)[axis], "the size of what is rolled")
    by = c.static(shift, "a shift") % size if size else 0
    if by == 0:
        return x
    tail = c.known(cut(c, x, axis, size - by, by))
    return c.emit(op.concat(c.tuple_of([tail, c.known(cut(c, x, axis, 0, size - by))]), axis))


@converts("aten.pixel_shuffle.default")
def pixel_shuffle(c: Conversion, self: Any, upscale_factor: Any) -> Any:
    return op.nn.pixel_shuffle(self, c.static(upscale_factor, "a factor"))


@converts("aten.pixel_unshuffle.default")
def pixel_unshuffle(c: Conversion, self: Any, downscale_factor: Any) -> Any:
    r = c.static(downscale_factor, "a factor")
    *batch, channels, height, width = c.shape(self)
    wide = [*batch, channels, ops.floordiv(height, int64(r)), r, ops.floordiv(width, int64(r)), r]
    rank = len(batch)
    axes = [*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3]
    return c.reshaped(op.permute_dims(c.reshaped(self, wide), tuple(axes)), c.out_shape())


@converts("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(c: Conversion, self: Any, groups: Any) -> Any:
    batch, channels, *rest = c.shape(self)
    count = c.static(groups, "a number of groups")
    wide = [batch, count, ops.floordiv(channels, int64(count)), *rest]
    axes = [0, 2, 1, *range(3, len(wide))]
    return c.reshaped(op.permute_dims(c.reshaped(self, wide), tuple(axes)), c.shape(self))


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


def _padded(c: Conversion, x: Any, pad: Sequence[Any], mode: str, value: float) -> Any:
    """A tensor with padding around it. torch lists the amounts from the last dimension on."""
    amounts = [c.static(amount, "an amount of padding") for amount in pad]
    ndim = c.ndim(x)
    pairs = [(0, 0)] * ndim
    for index in range(len(amounts) // 2):
        pairs[ndim - 1 - index] = amounts[2 * index], amounts[2 * index + 1]
    if any(before < 0 or after < 0 for before, after in pairs):
        for axis, (before, after) in enumerate(pairs):
            if min(before, after) < 0:
                length = ops.add(c.shape(x)[axis], int64(min(before, 0) + min(after, 0)))
                x = c.known(cut(c, x, axis, max(-before, 0), length))
        pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if not any(map(any, pairs)):
        return x
    width = [amount for pair in pairs for amount in pair]
    return op.nn.pad(x, tuple(width), _PAD_MODES[mode], float(value))


@converts("aten.constant_pad_nd.default")
def constant_pad(c: Conversion, self: Any, pad: Any, value: Any) -> Any:
    return _padded(c, self, pad, "constant", float(value))


@converts("aten.pad.default")
def pad(c: Conversion, self: Any, pad: Any, mode: Any, value: Any) -> Any:
    return _padded(c, self, pad, mode, 0.0 if value is None else float(value))


def _pads(mode: str, torch_name: str) -> None:
    @converts(*(f"aten.{torch_name}_pad{rank}d.default" for rank in (1, 2, 3)))
    def converter(c: Conversion, self: Any, padding: Any) -> Any:
        return _padded(c, self, padding, mode, 0.0)


_pads("reflect", "reflection")
_pads("replicate", "replication")


@converts("aten.diagonal.default")
def diagonal(c: Conversion, self: Any, offset: Any, dim1: Any, dim2: Any) -> Any:
    ndim = c.ndim(self)
    a, b = c.axis(dim1, ndim), c.axis(dim2, ndim)
    length = c.static(c.out_shape()[-1], "the length of a diagonal")
    rest = [axis for axis in range(ndim) if axis not in (a, b)]
    front = c.known(_permuted(c, self, [a, b, *rest]))
    rows = op.arange(max(-offset, 0), max(-offset, 0) + length, 1, "int64")
    columns = op.arange(max(offset, 0), max(offset, 0) + length, 1, "int64")
    taken = c.emit(op.index_tensor(front, Tuple((c.emit(rows), c.emit(columns)))))
    return _permuted(c, taken, [*range(1, ndim - 1), 0])


def field(value: Any, index: int) -> Any:
    """Return one result of an operator with several."""
    return value[index] if isinstance(value, tuple | list) else TupleGetItem(value, index)
