"""Operators that repeat and rearrange whole parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import IRError
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import modulo
from compiler.topi.reduction import Axis, normal_axes


def squeeze(a: Tensor, axis: Axis = None) -> Tensor:
    """`a` without its dimensions of size 1, or without those in `axis`.
    Raises IRError when one's size is not 1."""
    if axis is None:
        dims = [d for d, size in enumerate(a.shape) if ops.as_int(size) == 1]
    else:
        dims = normal_axes("squeeze", axis, a.ndim)
    for d in dims:
        if ops.as_int(a.shape[d]) != 1:
            raise IRError(f"squeeze of dimension {d} of {a.name!r} {shape_text(a.shape)}, not 1" + here())
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
        raise IRError(f"tile {reps!r} times" + here())
    rank = max(a.ndim, len(times))
    times = [1] * (rank - len(times)) + times
    sizes = [ops.const(1)] * (rank - a.ndim) + list(a.shape)

    def value(*indices: Var) -> PrimExpr:
        point = [i if t == 1 else modulo(i, size) for i, t, size in zip(indices, times, sizes)]
        return a(*point[rank - a.ndim :])

    result: Tensor = compute([ops.mul(s, t) for s, t in zip(sizes, times)], value, name="T_tile", tag="broadcast")
    return result


def repeat(a: Tensor, repeats: int, axis: int = 0) -> Tensor:
    """`a` with each slice along `axis` `repeats` times in a row."""
    (dim,) = normal_axes("repeat", axis, a.ndim)
    if repeats < 1:
        raise IRError(f"repeat {repeats} times" + here())
    shape = [ops.mul(size, repeats) if d == dim else size for d, size in enumerate(a.shape)]

    def value(*indices: Var) -> PrimExpr:
        return a(*(ops.floordiv(i, repeats) if d == dim else i for d, i in enumerate(indices)))

    result: Tensor = compute(shape, value, name="T_repeat", tag="broadcast")
    return result


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors, of one shape and dtype, as slices along a new dimension `axis`.
    Raises IRError when they differ."""
    if not tensors:
        raise IRError("stack needs at least one tensor" + here())
    first = tensors[0]
    (dim,) = normal_axes("stack", axis, first.ndim + 1)
    for other in tensors[1:]:
        if shape_text(other.shape) != shape_text(first.shape) or other.dtype != first.dtype:
            raise IRError(
                f"stack: {first.name!r} is {first.dtype} {shape_text(first.shape)}, "
                f"{other.name!r} is {other.dtype} {shape_text(other.shape)}" + here()
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


def layout_transform(array: Tensor, src_layout: str, dst_layout: str) -> Tensor:
    """`array`, whose dimensions `src_layout` names ("NCHW", "NCHW4c"), in the layout `dst_layout`.

    A capital is a dimension; `4c` is its part of 4 that lies inside. Both must name the same dimensions, and
    parts must divide them. Raises IRError otherwise.
    """
    source, target = _layout(src_layout), _layout(dst_layout)
    if len(source) != array.ndim or {n.upper() for n, _ in source} != {n.upper() for n, _ in target}:
        raise IRError(
            f"layout_transform of {shape_text(array.shape)} from {src_layout!r} to {dst_layout!r}" + here()
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
            raise IRError(f"layout_transform: {part} does not divide dimension {name} of {size}" + here())
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
                raise IRError(f"{text!r} is no layout: {letter!r} does not fit" + here())
            dims.append((letter, int(digits or "1")))
            digits = ""
    names = [name for name, _ in dims]
    if digits or any(name.islower() and name.upper() not in names for name in names):
        raise IRError(f"{text!r} is no layout" + here())
    return dims
