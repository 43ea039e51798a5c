"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, const, if_then_else
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


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
            f"got {len(pad_before)} and {len(after)}" + at(caller_span())
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
