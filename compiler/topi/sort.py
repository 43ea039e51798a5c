"""Sorting along a dimension: sort, argsort, topk, searchsorted.

Sorts are stable. NaN counts as larger than every number, so it comes last in ascending order.
"""

from __future__ import annotations

from typing import Any

from compiler.dtype import is_float
from compiler.te.extern import extern
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, check_dtype, shape_text
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import BufferVar, IRBuilder, create
from compiler.tir.nodes import PrimExpr, Stmt, Var
from compiler.topi.checks import differ, need_dtype, need_integers, need_one_of, need_rank, refusal
from compiler.topi.rearrange import squeeze
from compiler.topi.reduction import normal_axes
from compiler.topi.rows import Row, int64, rows
from compiler.topi.transform import reshape

_SMALL_K = 64  # from here on a whole sort is cheaper than keeping the best in order


def sort(data: Tensor, axis: int = -1, is_ascend: bool | int = True) -> Tensor:
    """`data` with its values along `axis` in order. Equal values keep their order."""
    order = argsort(data, None, axis, is_ascend, "int64")
    (dim,) = normal_axes("sort", axis, data.ndim)
    result: Tensor = compute(
        data.shape, lambda *i: data(*i[:dim], order(*i), *i[dim + 1 :]), name="T_sort", tag="injective"
    )
    return result


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool | int = True,
    dtype: str = "float32",
) -> Tensor:
    """The positions along `axis` of the values in order, as `dtype`. Equal values keep their order.

    With `valid_count`, one number a row, only that many values of a row are sorted; the positions behind them
    stay as they are. Raises IRError when shapes or dtypes do not fit.
    """
    (dim,) = normal_axes("argsort", axis, data.ndim)
    check_dtype(dtype, "argsort")
    inputs = [data]
    if valid_count is not None:
        need_integers("argsort", valid_count)
        need_rank("argsort", valid_count, data.ndim - 1)
        inputs.append(valid_count)
    size = data.shape[dim]

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        values, order = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        spare = ib.allocate("int64", data.shape, "spare")
        with rows(ib, data.shape, dim, _MERGE_CELLS) as row:
            count = int64(size)
            if valid_count is not None:
                rest = tuple(p for d, p in enumerate(row.at(0)) if d != dim)
                wanted = ops.maximum(int64(ib.buffer_ptr(ins[1])[rest if rest else (0,)]), 0)
                count = ib.let("count", ops.minimum(wanted, int64(size)))
            merge_sort(ib, row, order, spare, int64(size), count, lambda a, b: not_after(values, row, a, b, is_ascend))
        return ib.get()

    # Positions are sorted as int64 and converted at the end: a float cannot be an index.
    order: Tensor = extern(data.shape, inputs, body, name="T_argsort", dtype="int64", tag="argsort")
    if dtype == "int64":
        return order
    result: Tensor = compute(data.shape, lambda *i: order(*i).astype(dtype), name="T_argsort_cast", tag="elemwise")
    return result


def not_after(values: BufferVar, row: Row, a: Any, b: Any, ascending: bool | int) -> PrimExpr:
    """Whether the value at position `a` of the row need not come after the one at `b`."""
    return in_order(values[row.at(a)], values[row.at(b)], ascending)


def in_order(x: PrimExpr, y: PrimExpr, ascending: bool | int) -> PrimExpr:
    """x <= y, or x >= y when not ascending; NaN counts as the largest."""
    small, large = (x, y) if ascending else (y, x)
    if small.dtype == "bool":
        small, large = ops.cast("int8", small), ops.cast("int8", large)
    test = ops.less_equal(small, large)
    return ops.logical_or(test, intrin.isnan(large)) if is_float(large.dtype) else test


_MERGE_CELLS = 6


def merge_sort(
    ib: IRBuilder, row: Row, order: BufferVar, spare: BufferVar, size: PrimExpr, count: PrimExpr, no_swap: Any
) -> None:
    """Fill a row of `order` with positions, the first `count` of them sorted.

    Then `no_swap(first, second)` holds. Runs of 1, 2, 4, ... positions are merged into `spare` and copied back. The
    first six cells of the row are used.
    """
    width, start, left, right, middle, end = row.cells[:_MERGE_CELLS]
    with ib.for_range(ops.const(0, "int64"), size, "i") as i:
        order[row.at(i)] = i
    width.set(1)
    with ib.while_loop(ops.less(width.value, count)):
        start.set(0)
        with ib.while_loop(ops.less(start.value, count)):
            left.set(start.value)
            middle.set(ops.minimum(start.value + width.value, count))
            right.set(middle.value)
            end.set(ops.minimum(middle.value + width.value, count))
            with ib.for_range(start.value, end.value, "k") as k:
                first, second = order[row.at(left.value)], order[row.at(right.value)]
                takes_left = intrin.if_then_else(
                    ops.less(left.value, middle.value),
                    intrin.if_then_else(
                        ops.less(right.value, end.value), no_swap(first, second), ops.const(True)
                    ),
                    ops.const(False),
                )
                with ib.if_scope(takes_left):
                    spare[row.at(k)] = first
                    left.set(left.value + 1)
                with ib.else_scope():
                    spare[row.at(k)] = second
                    right.set(right.value + 1)
            start.set(end.value)
        with ib.for_range(ops.const(0, "int64"), count, "i") as i:
            order[row.at(i)] = spare[row.at(i)]
        width.set(width.value * 2)


def topk(
    data: Tensor, k: int | PrimExpr = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
    dtype: str = "int64",
) -> Tensor | list[Tensor]:  # fmt: skip
    """The `k` largest values along `axis` in order, or the smallest when `is_ascend`; all for k < 1.

    `ret_type` says what comes back: "values", "indices" (of `dtype`), or "both" as [values, indices]. Of equal values
    the first come first. Raises IRError when `k` is larger than the dimension.
    """
    need_one_of("topk", "ret_type", ret_type, ("both", "values", "indices"))
    check_dtype(dtype, "topk")
    (dim,) = normal_axes("topk", axis, data.ndim)
    size = data.shape[dim]
    few = ops.as_int(k)
    if few is not None and few < 1:
        k, few = size, ops.as_int(size)
    known = ops.as_int(size)
    if few is not None and known is not None and few > known:
        raise refusal("topk", f"k {few} is larger than dimension {dim} of {data.name!r} {shape_text(data.shape)}")
    shape = [ops.as_expr(k) if d == dim else s for d, s in enumerate(data.shape)]
    if few is not None and few <= _SMALL_K and (known is None or few * 4 <= known):
        order = _best(data, dim, few, shape, is_ascend)
    else:
        order = argsort(data, None, dim, is_ascend, "int64")

    def value(*i: Var) -> PrimExpr:
        return data(*i[:dim], order(*i), *i[dim + 1 :])

    made: list[Tensor] = []
    if ret_type != "indices":
        made.append(compute(shape, value, name="T_topk_values", tag="injective"))
    if ret_type != "values":
        made.append(compute(shape, lambda *i: order(*i).astype(dtype), name="T_topk_indices", tag="injective"))
    return made if ret_type == "both" else made[0]


def _best(data: Tensor, dim: int, k: int, shape: list[PrimExpr], ascending: bool) -> Tensor:
    """The positions of the `k` first values in order: one pass that keeps the best so far in order."""

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        values, order = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with rows(ib, data.shape, dim, 1) as row:
            (place,) = row.cells
            with ib.for_range(ops.const(0, "int64"), int64(data.shape[dim]), "i") as i:
                worst = order[row.at(k - 1)]
                enters = intrin.if_then_else(
                    ops.less(i, k), ops.const(True), ops.logical_not(not_after(values, row, worst, i, ascending))
                )
                with ib.if_scope(enters):
                    place.set(ops.minimum(i, k - 1))
                    moves = intrin.if_then_else(
                        ops.greater(place.value, 0),
                        ops.logical_not(not_after(values, row, order[row.at(place.value - 1)], i, ascending)),
                        ops.const(False),
                    )
                    with ib.while_loop(moves):
                        order[row.at(place.value)] = order[row.at(place.value - 1)]
                        place.set(place.value - 1)
                    order[row.at(place.value)] = i
        return ib.get()

    result: Tensor = extern(shape, [data], body, name="T_topk", dtype="int64", tag="topk")
    return result


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: str = "int64"
) -> Tensor:
    """Return where each of `values` would go into the last dimension of `sorted_sequence`.

    That dimension is in order. A sequence of one dimension serves all values; otherwise the other dimensions must be
    those of `values`. With `right` an equal value is inserted behind, else before. Raises IRError when shapes or dtypes
    do not fit.
    """
    need_dtype("searchsorted", sorted_sequence.dtype, values)
    one = sorted_sequence.ndim == 1
    if sorted_sequence.ndim < 1 or (not one and (
        sorted_sequence.ndim != values.ndim
        or any(differ(a, b) for a, b in zip(sorted_sequence.shape[:-1], values.shape[:-1]))
    )):
        raise refusal(
            "searchsorted",
            f"sequence {shape_text(sorted_sequence.shape)} and values {shape_text(values.shape)} differ in more than "
            "the last dimension",
        )
    size = int64(sorted_sequence.shape[-1])

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        sequence, wanted, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        shape = list(values.shape)
        with rows(ib, [*shape, ops.const(1)], len(shape), 2) as row:
            low, high = row.cells
            point = row.at(0)[:-1]
            low.set(0)
            high.set(size)
            with ib.while_loop(ops.less(low.value, high.value)):
                middle = ops.floordiv(low.value + high.value, 2)
                place = (middle,) if one else (*point[:-1], middle)
                found, value = sequence[place], wanted[point if point else (0,)]
                goes_right = in_order(found, value, True) if right else ops.logical_not(in_order(value, found, True))
                with ib.if_scope(goes_right):
                    low.set(middle + 1)
                with ib.else_scope():
                    high.set(middle)
            out[point if point else (0,)] = low.value.astype(out_dtype)
        return ib.get()

    result: Tensor = extern(
        values.shape, [sorted_sequence, values], body, name="T_searchsorted", dtype=out_dtype, tag="searchsorted"
    )
    return result


def bucketize(input_tensor: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between `boundaries` (one dimension, in order) that each element falls in.

    With `right` a bucket holds its left boundary, else its right one.
    """
    need_rank("bucketize", boundaries, 1)
    return searchsorted(boundaries, input_tensor, right, "int32" if out_int32 else "int64")


def median(data: Tensor, axis: int | None = None, keepdims: bool = False) -> list[Tensor] | Tensor:
    """The middle value along `axis`, and where it stands (int64); of an even number the lower of both.

    Over all elements (`axis` None) there is no position: the value alone comes back.
    """
    source = reshape(data, (-1,)) if axis is None else data
    (dim,) = normal_axes("median", 0 if axis is None else axis, source.ndim)
    order = argsort(source, None, dim, True, "int64")
    middle = ops.floordiv(ops.sub(source.shape[dim], 1), 2)
    shape = [ops.const(1) if d == dim else size for d, size in enumerate(source.shape)]

    def place(i: tuple[Var, ...]) -> PrimExpr:
        return order(*i[:dim], middle, *i[dim + 1 :])

    value: Tensor = compute(
        shape, lambda *i: source(*i[:dim], place(i), *i[dim + 1 :]), name="T_median", tag="injective"
    )
    if axis is None:
        ones = [1] * data.ndim
        return reshape(value, ones if keepdims else ())
    position: Tensor = compute(shape, lambda *i: place(i), name="T_median_index", tag="injective")
    return [value, position] if keepdims else [squeeze(value, dim), squeeze(position, dim)]

