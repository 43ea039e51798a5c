"""Tensors laid out anew, cut, joined, and made of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.frontend.nn.values import Shape, Tensor, get_default_dtype, operand, tensor, wrap_nested
from compiler.relax import op as relax_op
from compiler.relax.nodes import Tuple


def reshape(x: Tensor, shape: Shape, name: str = "reshape") -> Tensor:
    """Lay the elements out as `shape`; one size may be -1."""
    return x.reshape(list(shape))


def permute_dims(x: Tensor, axes: Sequence[int] | None = None, name: str = "permute_dims") -> Tensor:
    """Put the dimensions in the order `axes`; reversed without it."""
    return x.permute_dims(*([list(axes)] if axes is not None else []))


def permute(x: Tensor, axes: Sequence[int] | None = None, name: str = "permute") -> Tensor:
    """`permute_dims` by its other name."""
    return permute_dims(x, axes, name)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """Drop the dimension `axis`, whose size is 1."""
    return tensor(relax_op.squeeze(x._expr, axis), name)


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """Add a dimension of size 1 at `dim`."""
    return tensor(relax_op.expand_dims(x._expr, dim), name)


def broadcast_to(x: Tensor, shape: Shape, name: str = "broadcast_to") -> Tensor:
    """Repeat along dimensions of size 1 until the shape is `shape`."""
    return tensor(relax_op.broadcast_to(x._expr, list(shape)), name)


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Repeat each slice along `axis` `repeats` times in a row."""
    return x.repeat(repeats, axis)


def concat(x: Sequence[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Put tensors one after another along `dim`."""
    return tensor(relax_op.concat(Tuple(tuple([each._expr for each in x])), dim), name)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Cut along `axis` into that many parts, or before each of those indices."""
    given = indices_or_sections if isinstance(indices_or_sections, int) else tuple(indices_or_sections)
    found: tuple[Tensor, ...] = wrap_nested(relax_op.split(ary._expr, given, axis), name)
    return found


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """Cut along `dim` into `chunks` parts."""
    return split(x, chunks, dim, name)


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """Take slices along `axis` at `indices`; those outside are taken to be at the ends."""
    return tensor(relax_op.take(x._expr, indices._expr, axis, "clip"), name)


def topk(
    data: Tensor, k: int = 1, axis: int = -1, ret_type: str = "both", largest: bool = True, dtype: str = "int32",
    name: str = "topk",
) -> Any:  # fmt: skip
    """Take the `k` largest elements along `axis`, and where they stand."""
    return wrap_nested(relax_op.topk(data._expr, k, axis, ret_type, largest, dtype), name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """Keep the upper triangle."""
    return tensor(relax_op.triu(x._expr, diagonal), name)


def full(shape: Shape, fill_value: Any, dtype: str | None = None, name: str = "full") -> Tensor:
    """Fill a tensor with a number, or with a tensor without dimensions."""
    wanted = dtype or get_default_dtype()
    return tensor(relax_op.full(list(shape), operand(fill_value, wanted), wanted), name)


def zeros(shape: Shape, dtype: str | None = None, name: str = "zeros") -> Tensor:
    return tensor(relax_op.zeros(list(shape), dtype or get_default_dtype()), name)


def ones(shape: Shape, dtype: str | None = None, name: str = "ones") -> Tensor:
    return tensor(relax_op.ones(list(shape), dtype or get_default_dtype()), name)


def empty(shape: Shape, dtype: str | None = None, name: str = "empty") -> Tensor:
    """Make a tensor of zeros, which will be written before it is read."""
    return zeros(shape, dtype, name)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: str | None = None, name: str = "arange") -> Tensor:
    """Count from `start`, 0 if it is the only number, up to before `end`."""
    if end is None:
        start, end = 0, start
    kind = dtype or ("float32" if any(isinstance(value, float) for value in (start, end, step)) else "int64")
    return tensor(relax_op.arange(start, end, step, kind), name)
