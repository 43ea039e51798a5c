"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.te.extern import extern
from compiler.te.tensor import Tensor, check_dtype
from compiler.tir import ops
from compiler.tir.ir_builder import create
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.topi.reduction import normal_axes
from compiler.topi.rows import int64, rows
from compiler.topi.transform import reshape

Combine = Callable[[PrimExpr, PrimExpr], PrimExpr]


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None,
    reverse: bool = False,
) -> Tensor:  # fmt: skip
    """The running sum along `axis`, or of all elements laid flat; as `dtype` (`data`'s unless given).

    With `exclusive` an element is not part of its own sum; with `reverse` sums run from the end.
    """
    return _scan("cumsum", data, axis, dtype, bool(exclusive), reverse, ops.add, 0)


def cumprod(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None,
    reverse: bool = False,
) -> Tensor:  # fmt: skip
    """The running product, as `cumsum` is the running sum."""
    return _scan("cumprod", data, axis, dtype, bool(exclusive), reverse, ops.mul, 1)


def _scan(
    op: str, data: Tensor, axis: int | None, dtype: str | None, exclusive: bool, reverse: bool, combine: Combine,
    unit: int,
) -> Tensor:  # fmt: skip
    if axis is None:
        axis, data = 0, reshape(data, (-1,))
    if dtype is None:
        dtype = "int32" if data.dtype == "bool" else data.dtype
    out_dtype = check_dtype(dtype, op)
    (dim,) = normal_axes(op, axis, data.ndim)
    size = int64(data.shape[dim])

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        values, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with rows(ib, data.shape, dim) as row, ib.for_range(ops.const(0, "int64"), size, "i") as i:
            here = ops.sub(ops.sub(size, 1), i) if reverse else i
            before = ops.add(here, 1) if reverse else ops.sub(here, 1)
            with ib.if_scope(ops.equal(i, 0)):
                first = values[row.at(here)].astype(out_dtype)
                out[row.at(here)] = ops.const(unit, out_dtype) if exclusive else first
            with ib.else_scope():
                added = values[row.at(before if exclusive else here)].astype(out_dtype)
                out[row.at(here)] = combine(out[row.at(before)], added)
        return ib.get()

    result: Tensor = extern(data.shape, [data], body, name=f"T_{op}", dtype=out_dtype, tag="scan")
    return result
