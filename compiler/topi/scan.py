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

_PART = 256  # elements of the last dimension that a thread works on at a time
_FEW = 8  # elements, of which no vectors are made
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

    def across(ins: Any, outs: Any) -> Stmt:
        """Sum neighbours in memory at the same time: a part of the last dimension, at each place along `dim`."""
        ib = create()
        values, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        last = data.ndim - 1
        width = int64(data.shape[last])
        parts = [ops.ceildiv(width, _PART) if d == last else s for d, s in enumerate(data.shape)]
        with rows(ib, parts, dim) as row, ib.for_range(ops.const(0, "int64"), size, "i") as i:
            here = ops.sub(ops.sub(size, 1), i) if reverse else i
            before = ops.add(here, 1) if reverse else ops.sub(here, 1)
            begin = ib.let("begin", int64(row.at(here)[last]) * _PART)

            def point(k: PrimExpr, j: PrimExpr) -> tuple[PrimExpr, ...]:
                return (*row.at(k)[:last], begin + j)

            with ib.if_scope(ops.equal(i, 0)), ib.for_range(0, ops.minimum(width - begin, _PART), "j") as j:
                first = values[point(here, j)].astype(out_dtype)
                out[point(here, j)] = ops.const(unit, out_dtype) if exclusive else first
            with ib.else_scope(), ib.for_range(0, ops.minimum(width - begin, _PART), "j") as j:
                added = values[point(before if exclusive else here, j)].astype(out_dtype)
                out[point(here, j)] = combine(out[point(before, j)], added)
        return ib.get()

    wide = dim < data.ndim - 1 and (ops.as_int(data.shape[-1]) or _PART) >= _FEW
    result: Tensor = extern(
        data.shape, [data], across if wide else body, name=f"T_{op}", dtype=out_dtype, tag="scan"
    )
    return result
