"""Writing at positions that other tensors hold: scatter_elements, scatter_nd, index_put."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import is_float
from compiler.te.broadcast import broadcast_shape
from compiler.te.extern import extern
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.ir_builder import BufferVar, IRBuilder, create
from compiler.tir.nodes import PrimExpr, Stmt, Var
from compiler.topi.checks import (
    described,
    differ,
    need_dtype,
    need_integers,
    need_one_of,
    need_rank,
    not_negative,
    refusal,
)
from compiler.topi.reduction import normal_axes
from compiler.topi.rows import int64, points, rows

REDUCTIONS = ("update", "add", "mul", "mean", "max", "min")


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """A copy of `data` into which each element of `updates` is written where `indices` says along `axis`.

    `reduction` combines an update with what is there: "update" replaces it (the last of several stays), "add", "mul",
    "max", "min", and "mean" of the element and all of its updates. Negative indices count from the end; one outside
    is left out. Raises IRError when ranks, shapes or dtypes do not fit.
    """
    op = "scatter_elements"
    _check(op, data, indices, updates, reduction)
    need_rank(op, indices, data.ndim)
    need_rank(op, updates, data.ndim)
    (dim,) = normal_axes(op, axis, data.ndim)
    fits = not any(differ(a, b) for a, b in zip(indices.shape, updates.shape)) and not any(
        _larger(i, s) for d, (i, s) in enumerate(zip(indices.shape, data.shape)) if d != dim
    )
    if not fits:
        raise refusal(op, f"shapes do not fit: {described(data, indices, updates)}")

    def write(ib: IRBuilder, where: Any, new: Any, out: Any, count: Any) -> None:
        many = int64(indices.shape[dim])  # rows write to different places, so threads may share them
        with rows(ib, indices.shape, dim) as row, ib.for_range(ops.const(0, "int64"), many, "k") as k:
            read = row.at(k)
            target = ib.let("target", not_negative(int64(where[read]), int64(data.shape[dim])))
            with ib.if_scope(_inside(target, data.shape[dim])):
                _combine(out, row.at(target), new[read], reduction, count)

    return _scattered(op, data, indices, updates, reduction, write)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """A copy of `data` into which slices of `updates` are written at points of its first dimensions.

    `indices` is (M, ...): its first dimension holds the M numbers of a point. `updates` has the other dimensions of
    `indices`, then those of `data` behind the first M. `mode` is a reduction of `scatter_elements`. Points are
    written in order. Raises IRError when shapes or dtypes do not fit.
    """
    op = "scatter_nd"
    _check(op, data, indices, updates, mode)
    depth = ops.as_int(indices.shape[0]) if indices.ndim else None
    outer = indices.ndim - 1
    if depth is None or depth > data.ndim or updates.ndim != outer + data.ndim - depth:
        raise refusal(op, f"ranks do not fit: {described(data, indices, updates)}")
    wanted = [*indices.shape[1:], *data.shape[depth:]]
    if any(differ(a, b) for a, b in zip(wanted, updates.shape)):
        raise refusal(op, f"shapes do not fit: {described(data, indices, updates)}")
    return _at_points(op, data, indices, updates, mode, depth)


def _at_points(op: str, data: Tensor, indices: Tensor, updates: Tensor, mode: str, depth: int) -> Tensor:
    outer = list(indices.shape[1:])

    def write(ib: IRBuilder, where: Any, new: Any, out: Any, count: Any) -> None:
        with points(ib, outer) as at:
            targets = [
                ib.let("target", not_negative(int64(where[(m, *at)]), int64(data.shape[m]))) for m in range(depth)
            ]
            inside = ops.logical_and(*(_inside(t, s) for t, s in zip(targets, data.shape)))
            with ib.if_scope(inside), points(ib, data.shape[depth:]) as rest:
                read = (*at, *rest)
                _combine(out, (*targets, *rest), new[read if read else (0,)], mode, count)

    return _scattered(op, data, indices, updates, mode, write)


def _scattered(
    op: str, data: Tensor, indices: Tensor, updates: Tensor, reduction: str, write: Callable[..., None]
) -> Tensor:
    """Return a copy of `data` after `write(ib, indices, updates, copy, counts)`.
    `counts` has how many values each element is the mean of; None unless `reduction` is "mean"."""

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        source, where, new, out = (ib.buffer_ptr(b) for b in (*ins, outs[0]))
        count = ib.allocate("int64", data.shape, "count") if reduction == "mean" else None
        with points(ib, data.shape) as point:
            out[point] = source[point]
            if count is not None:
                count[point] = 1
        write(ib, where, new, out, count)
        if count is not None:
            with points(ib, data.shape) as point:
                _divide(out, point, count)
        return ib.get()

    inputs = [data, indices, updates]
    result: Tensor = extern(data.shape, inputs, body, name=f"T_{op}", dtype=data.dtype, tag="scatter")
    return result


def index_put(data: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """Return numpy's `data[indices] = values` in a copy; `+= values` when `accumulate`.

    That counts repeated points. `indices` are integer tensors that broadcast, for the first dimensions; `values`
    broadcasts to what they choose. Negative indices count from the end. Raises IRError when shapes or dtypes do not
    fit.
    """
    op = "index_put"
    given = list(indices)
    if not 1 <= len(given) <= data.ndim:
        raise refusal(op, f"{len(given)} index tensors for {described(data)}")
    need_integers(op, *given)
    need_dtype(op, data.dtype, values)
    shape: tuple[PrimExpr, ...] = ()
    for index in given:
        shape = broadcast_shape(op, shape, index.shape)
    whole = [*shape, *data.shape[len(given) :]]
    broadcast_shape(op, values.shape, whole)
    if values.ndim > len(whole):
        raise refusal(op, f"values do not broadcast: {described(data, values)}")

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        source, new, *where = (ib.buffer_ptr(b) for b in ins)
        out = ib.buffer_ptr(outs[0])
        with points(ib, data.shape) as point:
            out[point] = source[point]
        with points(ib, shape) as at:
            targets = []
            for d, (index, held) in enumerate(zip(given, where)):
                number = held[_aligned(index, at)]
                targets.append(ib.let("target", not_negative(int64(number), int64(data.shape[d]))))
            inside = ops.logical_and(*(_inside(t, s) for t, s in zip(targets, data.shape)))
            with ib.if_scope(inside), points(ib, data.shape[len(given) :]) as rest:
                value = new[_aligned(values, (*at, *rest))]
                _combine(out, (*targets, *rest), value, "add" if accumulate else "update", None)
        return ib.get()

    result: Tensor = extern(
        data.shape, [data, values, *given], body, name="T_index_put", dtype=data.dtype, tag="scatter"
    )
    return result


def _aligned(tensor: Tensor, point: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """The point of `tensor` for one of a shape that it broadcasts to."""
    if tensor.ndim == 0:
        return (ops.const(0),)
    last = point[len(point) - tensor.ndim :]
    return tuple(ops.const(0) if ops.as_int(s) == 1 else i for i, s in zip(last, tensor.shape))


def _check(op: str, data: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> None:
    need_one_of(op, "reduction", reduction, REDUCTIONS)
    need_integers(op, indices)
    need_dtype(op, data.dtype, updates)
    if data.ndim == 0:
        raise refusal(op, f"{described(data)} has no dimensions")
    if data.dtype == "bool" and reduction != "update":
        raise refusal(op, f"reduction {reduction!r} of bool")


def _larger(a: PrimExpr, b: PrimExpr) -> bool:
    left, right = ops.as_int(a), ops.as_int(b)
    return left is not None and right is not None and left > right


def _inside(index: PrimExpr, size: PrimExpr) -> PrimExpr:
    return ops.logical_and(ops.greater_equal(index, 0), ops.less(index, int64(size)))


def _combine(
    out: BufferVar, place: tuple[PrimExpr, ...], value: PrimExpr, reduction: str, count: BufferVar | None
) -> None:
    old = out[place]
    match reduction:
        case "add" | "mean":
            out[place] = ops.add(old, value)
        case "mul":
            out[place] = ops.mul(old, value)
        case "max":
            out[place] = ops.maximum(old, value)
        case "min":
            out[place] = ops.minimum(old, value)
        case _:
            out[place] = value
    if count is not None:
        count[place] = ops.add(count[place], 1)


def _divide(out: BufferVar, place: tuple[PrimExpr, ...], count: BufferVar) -> None:
    """Integers are divided rounding down."""
    divisor = ops.cast(out.dtype, count[place])
    out[place] = ops.div(out[place], divisor) if is_float(out.dtype) else ops.floordiv(out[place], divisor)


def sparse_to_dense(
    sparse_indices: Tensor, output_shape: Sequence[Any], sparse_values: Tensor, default_value: Any = 0
) -> Tensor:
    """Return a tensor full of `default_value`, with `sparse_values` at the points of `sparse_indices`.

    Its shape is `output_shape`. Points are rows of a matrix (or one dimension of positions, or one number). Raises
    IRError when they do not fit.
    """
    op = "sparse_to_dense"
    need_integers(op, sparse_indices)
    shape = [ops.as_expr(d) for d in output_shape]
    start: Any = default_value() if isinstance(default_value, Tensor) else default_value
    dense: Tensor = compute(
        shape, lambda *_: ops.cast(sparse_values.dtype, start), name="T_sparse_to_dense_fill", tag="elemwise"
    )
    rank = len(shape)
    if sparse_indices.ndim > 2 or (sparse_indices.ndim < 2 and rank != 1):
        raise refusal(op, f"{described(sparse_indices)} for an output of {rank} dimensions")
    if sparse_indices.ndim == 2 and differ(sparse_indices.shape[1], rank):
        raise refusal(op, f"{described(sparse_indices)} for an output of {rank} dimensions")
    count = [sparse_indices.shape[0]] if sparse_indices.ndim else [ops.const(1)]

    def turned(m: Var, k: Var) -> PrimExpr:
        point = (k, m) if sparse_indices.ndim == 2 else (k,) if sparse_indices.ndim else ()
        return sparse_indices(*point)

    indices: Tensor = compute([ops.const(rank), *count], turned, name="T_sparse_points", tag="injective")
    updates: Tensor = compute(
        count, lambda k: sparse_values(*((k,) if sparse_values.ndim else ())), name="T_sparse_values", tag="injective"
    )
    return _at_points(op, dense, indices, updates, "update", rank)


def take_backward(grad: Tensor, data: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """Return the gradient of `data` in take(data, indices, axis).

    Slices of `grad` are added up where they were taken from. Indices outside are left out.
    """
    op = "take_backward"
    need_integers(op, indices)
    if axis is None and data.ndim != 1:
        raise refusal(op, f"without an axis data must have one dimension: {described(data)}")
    (dim,) = normal_axes(op, 0 if axis is None else axis, data.ndim)
    need_rank(op, grad, data.ndim - 1 + indices.ndim)
    before, after = data.shape[:dim], data.shape[dim + 1 :]

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, where, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with points(ib, data.shape) as point:
            out[point] = ops.const(0, data.dtype)
        with rows(ib, (*before, ops.const(1)), len(before)) as row:
            outer = row.at(0)[: len(before)]
            with points(ib, indices.shape) as place:
                target = ib.let("target", not_negative(int64(where[place]), int64(data.shape[dim])))
                with ib.if_scope(_inside(target, data.shape[dim])), points(ib, after) as inner:
                    out[(*outer, target, *inner)] = out[(*outer, target, *inner)] + given[(*outer, *place, *inner)]
        return ib.get()

    result: Tensor = extern(data.shape, [grad, indices], body, name="T_take_backward", dtype=data.dtype, tag="scatter")
    return result
