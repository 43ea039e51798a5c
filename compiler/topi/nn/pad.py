"""Padding: with a value, mirrored, repeated, or around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, const, if_then_else
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr
from compiler.topi.checks import modulo, need_one_of, refusal


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: float | PrimExpr = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """`data` with `pad_before[d]` and `pad_after[d]` elements of `pad_value` around dimension d.

    `pad_after` is `pad_before` unless given. Raises IRError unless there is one amount a dimension.
    """
    after = pad_before if pad_after is None else pad_after
    if len(pad_before) != data.ndim or len(after) != data.ndim:
        raise IRError(
            f"pad of {data.name!r} {shape_text(data.shape)} needs {data.ndim} amounts before and after, "
            f"got {len(pad_before)} and {len(after)}" + here()
        )
    value = const(pad_value, data.dtype) if isinstance(pad_value, int | float) else pad_value
    shape = [ops.add(ops.add(d, b), a) for d, b, a in zip(data.shape, pad_before, after)]

    def element(*indices: PrimExpr) -> PrimExpr:
        inside: list[PrimExpr] = []
        point: list[PrimExpr] = []
        for index, size, before, behind in zip(indices, data.shape, pad_before, after):
            point.append(ops.sub(index, before))
            if not ops.is_const(ops.as_expr(before), 0):
                inside.append(index >= before)
            if not ops.is_const(ops.as_expr(behind), 0):
                inside.append(index < ops.add(size, before))
        if not inside:
            return data(*point)
        return if_then_else(ops.logical_and(*inside), data(*point), value)

    result: Tensor = compute(shape, element, name=name, tag="injective,pad")
    return result


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """`data` with its own elements around it, mirrored with the edge ("SYMMETRIC") or without ("REFLECT").

    Padding is at most the size (less one for "REFLECT"). Raises IRError when it is known to be more.
    """
    need_one_of("mirror_pad", "mode", mode, ("SYMMETRIC", "REFLECT"))
    edge = 1 if mode == "REFLECT" else 0

    def mirrored(index: PrimExpr, size: PrimExpr) -> PrimExpr:
        # below 0: -index - 1 (with the edge) or -index; from size on: mirrored at the last element
        low = intrin.select(ops.less(index, 0), ops.sub(ops.sub(0, index), 1 - edge), index)
        turned = ops.sub(ops.mul(size, 2), ops.add(low, 1 + edge))
        return intrin.select(ops.greater_equal(low, size), turned, low)

    return _pad_with(name, data, pad_before, pad_after, mirrored, edge)


def reflect_pad(
    data: Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None = None, name: str = "ReflectPadInput"
) -> Tensor:
    """`data` mirrored at its first and last elements, which are not repeated."""
    return mirror_pad(data, pad_before, pad_after, "REFLECT", name)


def replicate_pad(
    data: Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None = None, name: str = "ReplicatePadInput"
) -> Tensor:
    """`data` with its first and last elements repeated."""

    def nearest(index: PrimExpr, size: PrimExpr) -> PrimExpr:
        return ops.maximum(ops.minimum(index, ops.sub(size, 1)), 0)

    return _pad_with(name, data, pad_before, pad_after, nearest, None)


def circular_pad(
    data: Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None = None, name: str = "CircularPadInput"
) -> Tensor:
    """`data` with what its other end holds around it."""
    return _pad_with(name, data, pad_before, pad_after, modulo, None)


def _pad_with(
    name: str, data: Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None,
    source: Callable[[PrimExpr, PrimExpr], PrimExpr], less: int | None,
) -> Tensor:  # fmt: skip
    """`data` padded with its own elements: those at `source(index, size)`.
    A dimension can be padded by its size minus `less`, or by any number for None."""
    after = pad_before if pad_after is None else pad_after
    if len(pad_before) != data.ndim or len(after) != data.ndim:
        raise refusal(
            name,
            f"{data.name!r} {shape_text(data.shape)} needs {data.ndim} amounts before and after, got {len(pad_before)} "
            f"and {len(after)}",
        )
    amounts = [(ops.as_expr(b), ops.as_expr(a)) for b, a in zip(pad_before, after)]
    touched = [not (ops.is_const(b, 0) and ops.is_const(a, 0)) for b, a in amounts]
    for size, before, behind, some in zip(data.shape, pad_before, after, touched):
        known, most = ops.as_int(size), max(ops.as_int(before) or 0, ops.as_int(behind) or 0)
        limit = None if known is None else (known - less if less is not None else 0 if known == 0 else None)
        if some and limit is not None and most > limit:
            raise refusal(name, f"padding of {most} for a dimension of {known}, it can be {limit} at most")
    shape = [ops.add(ops.add(d, b), a) for d, b, a in zip(data.shape, pad_before, after)]

    def element(*indices: PrimExpr) -> PrimExpr:
        point = [
            source(ops.sub(i, b), size) if some else i
            for i, b, size, some in zip(indices, pad_before, data.shape, touched)
        ]
        return data(*point)

    result: Tensor = compute(shape, element, name=name, tag="injective,pad")
    return result
