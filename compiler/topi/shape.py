"""Operators that choose, repeat and rearrange whole parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.reduction import Axis, normal_axes


def _known(op: str, size: PrimExpr) -> int:
    value = ops.as_int(size)
    if value is None:
        raise IRError(f"{op} needs constant sizes, got {size!r}" + at(caller_span()))
    return value


def squeeze(a: Tensor, axis: Axis = None) -> Tensor:
    """`a` without its dimensions of size 1, or without those in `axis`. Raises IRError when one's size is not 1."""
    if axis is None:
        dims = [d for d, size in enumerate(a.shape) if ops.as_int(size) == 1]
    else:
        dims = normal_axes("squeeze", axis, a.ndim)
    for d in dims:
        if ops.as_int(a.shape[d]) != 1:
            raise IRError(f"squeeze of dimension {d} of {a.name!r} {shape_text(a.shape)}, not 1" + at(caller_span()))
    kept = [d for d in range(a.ndim) if d not in dims]

    def value(*indices: Var) -> PrimExpr:
        return a(*(ops.const(0) if d in dims else indices[kept.index(d)] for d in range(a.ndim)))

    result: Tensor = compute([a.shape[d] for d in kept], value, name="T_squeeze", tag="injective")
    return result


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """`a` backwards along `axis`."""
    (dim,) = normal_axes("flip", axis, a.ndim)
    last = ops.sub(a.shape[dim], 1)

    def value(*indices: Var) -> PrimExpr:
        return a(*(ops.sub(last, i) if d == dim else i for d, i in enumerate(indices)))

    result: Tensor = compute(a.shape, value, name="T_flip", tag="injective")
    return result


def tile(a: Tensor, reps: int | Sequence[int]) -> Tensor:
    """`a` repeated `reps[d]` times along dimension d, aligned at the last dimension."""
    times = [reps] if isinstance(reps, int) else list(reps)
    if any(not isinstance(t, int) or t < 0 for t in times):
        raise IRError(f"tile {reps!r} times" + at(caller_span()))
    rank = max(a.ndim, len(times))
    times = [1] * (rank - len(times)) + times
    sizes = [ops.const(1)] * (rank - a.ndim) + list(a.shape)

    def value(*indices: Var) -> PrimExpr:
        point = [i if t == 1 else ops.floormod(i, size) for i, t, size in zip(indices, times, sizes)]
        return a(*point[rank - a.ndim :])

    result: Tensor = compute([ops.mul(s, t) for s, t in zip(sizes, times)], value, name="T_tile", tag="broadcast")
    return result


def repeat(a: Tensor, repeats: int, axis: int = 0) -> Tensor:
    """`a` with each slice along `axis` `repeats` times in a row."""
    (dim,) = normal_axes("repeat", axis, a.ndim)
    if repeats < 1:
        raise IRError(f"repeat {repeats} times" + at(caller_span()))
    shape = [ops.mul(size, repeats) if d == dim else size for d, size in enumerate(a.shape)]

    def value(*indices: Var) -> PrimExpr:
        return a(*(ops.floordiv(i, repeats) if d == dim else i for d, i in enumerate(indices)))

    result: Tensor = compute(shape, value, name="T_repeat", tag="broadcast")
    return result


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors, of one shape and dtype, as slices along a new dimension `axis`. Raises IRError when they differ."""
    if not tensors:
        raise IRError("stack needs at least one tensor" + at(caller_span()))
    first = tensors[0]
    (dim,) = normal_axes("stack", axis, first.ndim + 1)
    for other in tensors[1:]:
        if shape_text(other.shape) != shape_text(first.shape) or other.dtype != first.dtype:
            raise IRError(
                f"stack: {first.name!r} is {first.dtype} {shape_text(first.shape)}, "
                f"{other.name!r} is {other.dtype} {shape_text(other.shape)}" + at(caller_span())
            )

    def value(*indices: Var) -> PrimExpr:
        point = indices[:dim] + indices[dim + 1 :]
        chosen: PrimExpr = tensors[-1](*point)
        for position, tensor in reversed(list(enumerate(tensors[:-1]))):
            chosen = intrin.if_then_else(ops.equal(indices[dim], position), tensor(*point), chosen)
        return chosen

    shape = [*first.shape[:dim], ops.const(len(tensors)), *first.shape[dim:]]
    result: Tensor = compute(shape, value, name="T_stack", tag="injective")
    return result


def split(ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """`ary` cut along `axis` into that many equal parts, or before each of those indices.

    Raises IRError when the parts are not equal, or the indices not ascending and inside.
    """
    (dim,) = normal_axes("split", axis, ary.ndim)
    size = _known("split", ary.shape[dim])
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts < 1 or size % parts:
            raise IRError(f"split of {size} elements into {parts} equal parts" + at(caller_span()))
        cuts = [size // parts * p for p in range(parts + 1)]
    else:
        cuts = [0, *indices_or_sections, size]
    if cuts != sorted(cuts) or cuts[0] < 0:
        raise IRError(f"split of {size} elements at {indices_or_sections!r}" + at(caller_span()))
    return [_part(ary, dim, start, stop - start) for start, stop in pairwise(cuts)]


def _part(a: Tensor, dim: int, start: int, count: int) -> Tensor:
    shape = [ops.const(count) if d == dim else size for d, size in enumerate(a.shape)]

    def value(*indices: Var) -> PrimExpr:
        return a(*(ops.add(i, start) if d == dim else i for d, i in enumerate(indices)))

    result: Tensor = compute(shape, value, name="T_split_sections", tag="injective")
    return result


def strided_slice(
    a: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
) -> Tensor:
    """`a[begin:end:strides]` in the first dimensions, or in `axes`, with Python's rules for negative numbers.

    With `slice_mode` "size", `end` is the number of elements and strides are 1. Raises IRError on a stride of 0.
    """
    dims = list(range(len(begin))) if axes is None else [d + a.ndim if d < 0 else d for d in axes]
    steps = [1] * len(begin) if strides is None else list(strides) + [1] * (len(begin) - len(strides))
    if not len(dims) == len(begin) == len(end) == len(steps) <= a.ndim or 0 in steps:
        raise IRError(
            f"strided_slice of {shape_text(a.shape)}: begin {begin!r}, end {end!r}, strides {strides!r}, axes {axes!r}"
            + at(caller_span())
        )
    if slice_mode not in ("end", "size"):
        raise IRError(f"strided_slice: slice_mode {slice_mode!r} is neither 'end' nor 'size'" + at(caller_span()))
    taken: dict[int, range] = {}
    for d, first, last, step in zip(dims, begin, end, steps):
        size = _known("strided_slice", a.shape[d])
        if slice_mode == "size":
            last, step = (size if last < 0 else first + last), 1
        taken[d] = range(size)[slice(first, last, step)]
    shape = [ops.const(len(taken[d])) if d in taken else size for d, size in enumerate(a.shape)]

    def value(*indices: Var) -> PrimExpr:
        return a(
            *(
                ops.add(ops.mul(i, taken[d].step), taken[d].start) if d in taken else i
                for d, i in enumerate(indices)
            )
        )

    result: Tensor = compute(shape, value, name="T_strided_slice", tag="injective")
    return result


def layout_transform(array: Tensor, src_layout: str, dst_layout: str) -> Tensor:
    """`array`, whose dimensions `src_layout` names ("NCHW", "NCHW4c"), in the layout `dst_layout`.

    A capital is a dimension; `4c` is its part of 4 that lies inside. Both must name the same dimensions, and
    parts must divide them. Raises IRError otherwise.
    """
    source, target = _layout(src_layout), _layout(dst_layout)
    if len(source) != array.ndim or {n.upper() for n, _ in source} != {n.upper() for n, _ in target}:
        raise IRError(
            f"layout_transform of {shape_text(array.shape)} from {src_layout!r} to {dst_layout!r}" + at(caller_span())
        )
    inner_of = {name.upper(): factor for name, factor in source if name.islower()}
    whole = {
        name: ops.mul(size, inner_of.get(name, 1)) for (name, _), size in zip(source, array.shape) if name.isupper()
    }
    part_of = {name.upper(): factor for name, factor in target if name.islower()}
    shape: list[PrimExpr] = []
    for name, factor in target:
        if name.islower():
            shape.append(ops.const(factor))
            continue
        part, size = part_of.get(name, 1), ops.as_int(whole[name])
        if size is not None and size % part:
            raise IRError(f"layout_transform: {part} does not divide dimension {name} of {size}" + at(caller_span()))
        shape.append(ops.floordiv(whole[name], part))

    def value(*indices: Var) -> PrimExpr:
        index: dict[str, PrimExpr] = {}
        for (name, _), i in zip(target, indices):
            scale = part_of.get(name, 1) if name.isupper() else 1
            index[name.upper()] = ops.add(index.get(name.upper(), ops.const(0)), ops.mul(i, scale))
        point: list[PrimExpr] = []
        for name, factor in source:
            flat = index[name.upper()]
            if name.islower():
                point.append(ops.floormod(flat, factor))
            else:
                inner = inner_of.get(name, 1)
                point.append(flat if inner == 1 else ops.floordiv(flat, inner))
        return array(*point)

    result: Tensor = compute(shape, value, name="T_layout_trans", tag="injective")
    return result


def _layout(text: str) -> list[tuple[str, int]]:
    """"NCHW4c" is [("N", 1), ("C", 1), ("H", 1), ("W", 1), ("c", 4)]."""
    dims: list[tuple[str, int]] = []
    digits = ""
    for letter in text:
        if letter.isdigit():
            digits += letter
        else:
            if not letter.isalpha() or letter.islower() != bool(digits) or letter in [name for name, _ in dims]:
                raise IRError(f"{text!r} is no layout: {letter!r} does not fit" + at(caller_span()))
            dims.append((letter, int(digits or "1")))
            digits = ""
    names = [name for name, _ in dims]
    if digits or any(name.islower() and name.upper() not in names for name in names):
        raise IRError(f"{text!r} is no layout" + at(caller_span()))
    return dims


def take(a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "fast") -> Any:
    """The slices of `a` along `axis` (or of `a` laid flat) at `indices`, an integer tensor of any rank.

    `mode` says what becomes of indices outside: "clip" moves them to the ends, "wrap" counts around, "fast" takes
    them to be inside. Raises IRError on another mode, on `batch_dims`, and on indices that are not integers.
    """
    if mode not in ("fast", "clip", "wrap") or batch_dims:
        raise IRError(f"take with mode {mode!r} and batch_dims {batch_dims}" + at(caller_span()))
    if not indices.dtype.startswith(("int", "uint")):
        raise IRError(f"take needs integer indices, {indices.name!r} is {indices.dtype}" + at(caller_span()))
    if axis is None:
        from compiler.topi.transform import reshape

        flat = reshape(a, (-1,)) if a.ndim != 1 else a
        return take(flat, indices, 0, 0, mode)
    (dim,) = normal_axes("take", axis, a.ndim)
    size, rank = a.shape[dim], indices.ndim

    def value(*i: Var) -> PrimExpr:
        chosen: PrimExpr = indices(*i[dim : dim + rank])
        if mode == "clip":
            chosen = ops.minimum(ops.maximum(chosen, 0), ops.sub(size, 1))
        elif mode == "wrap":
            chosen = ops.floormod(chosen, size)
        return a(*i[:dim], chosen, *i[dim + rank :])

    shape = [*a.shape[:dim], *indices.shape, *a.shape[dim + 1 :]]
    return compute(shape, value, name="T_take", tag="injective")


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """data[i, ..., indices[i, ..., k], ..., k]: the element at `indices` along `axis`; ranks are the same.

    Raises IRError when they are not, or indices are not integers.
    """
    (dim,) = normal_axes("gather", axis, data.ndim)
    if indices.ndim != data.ndim or not indices.dtype.startswith(("int", "uint")):
        raise IRError(
            f"gather from {shape_text(data.shape)} needs integer indices of {data.ndim} dimensions, "
            f"{indices.name!r} is {indices.dtype} {shape_text(indices.shape)}" + at(caller_span())
        )

    def value(*i: Var) -> PrimExpr:
        return data(*i[:dim], indices(*i), *i[dim + 1 :])

    result: Tensor = compute(indices.shape, value, name="T_gather", tag="injective")
    return result
