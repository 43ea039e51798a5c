"""Reading and writing at positions that tensors hold."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo, TensorStructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.families import NOT_SMOOTH
from compiler.relax.op.core.layout import all_follow_with_axis, as_written
from compiler.relax.op.core.params import ScalarArg, TensorArg, TensorsArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import broadcast_dims, check_kind, tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing, per_input
from compiler.relax.op.gradients import movement as slopes
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.topi.slicing import slice_bounds

__all__ = [
    "gather_elements", "gather_nd", "index_put", "index_tensor", "one_hot", "scatter_elements", "scatter_nd",
    "slice_scatter",
]  # fmt: skip

REDUCTIONS = ("update", "add", "mul", "mean", "max", "min")


def _positions(use: Use, name: str) -> TensorStructInfo:
    check_kind(use, (name,), floats=False, integers=True, bools=False)
    return use.tensor(name)


# ------------------------------------------------------------------------------------- reading


def _gather_elements_info(use: Use) -> StructInfo:
    data, where = use.tensor("data"), _positions(use, "indices")
    if data.ndim != -1:
        use.axis(use.call.attrs["axis"], data.ndim)
        if where.ndim not in (-1, data.ndim):
            use.fail(f"indices must have {data.ndim} dimensions, as data, got {where.ndim}")
    return tensor(where.dims, data.dtype, where.ndim if where.ndim != -1 else data.ndim, data.vdevice)


@operator(
    "relax.gather_elements", infer=_gather_elements_info,
    te=lambda data, indices, axis: topi.gather(data, axis, indices), pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=all_follow_with_axis("axis"), gradient=slopes.gather_elements,
)  # fmt: skip
def gather_elements(data: TensorArg, indices: TensorArg, axis: int = 0) -> Expr:
    """Take data[i, ..., indices[i, ..., k], ..., k], the index replaced along `axis`.

    Negative indices count from the end.
    """


def _points_last(indices: Tensor) -> Tensor:
    """Points along the first dimension, as topi has them."""
    rank = indices.ndim
    shape = [indices.shape[-1], *indices.shape[:-1]]
    result: Tensor = compute(shape, lambda *i: indices(*i[1:], i[0]), name="T_points", tag="injective")
    return result if rank > 1 else topi.identity(indices)


def _gather_nd_info(use: Use) -> StructInfo:
    data, where, batch = use.tensor("data"), _positions(use, "indices"), use.call.attrs["batch_dims"]
    if batch < 0:
        use.fail(f"batch_dims is {batch}, it must not be negative")
    if -1 in (data.ndim, where.ndim):
        return tensor(None, data.dtype, -1, data.vdevice)
    if where.ndim == 0 or batch >= where.ndim or batch >= data.ndim:
        use.fail(f"batch_dims is {batch}, but data is {shown(data)} and indices {shown(where)}")
    depth = None if where.dims is None else ops.as_int(where.dims[-1])
    if depth is None:
        return tensor(None, data.dtype, -1, data.vdevice)
    rank = where.ndim - 1 + data.ndim - batch - depth
    if depth > data.ndim - batch:
        use.fail(f"points of {depth} numbers are more than the dimensions of data, {shown(data)}")
    if data.dims is None or where.dims is None:
        return tensor(None, data.dtype, rank, data.vdevice)
    for a, b in zip(data.dims[:batch], where.dims[:batch]):
        use.check_equal("the batch dimensions", a, b, "data", "indices")
    return tensor([*where.dims[:-1], *data.dims[batch + depth :]], data.dtype, vdevice=data.vdevice)


@operator(
    "relax.gather_nd", infer=_gather_nd_info,
    te=lambda data, indices, batch_dims: topi.gather_nd(data, _points_last(indices), batch_dims),
    pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=as_written, gradient=slopes.gather_nd,
)  # fmt: skip
def gather_nd(data: TensorArg, indices: TensorArg, batch_dims: int = 0) -> Expr:
    """Take slices of `data` at points: the last dimension of `indices` holds a point's numbers."""


def _indexed(use: Use, data: TensorStructInfo) -> tuple[tuple[PrimExpr, ...] | None, int, int]:
    """The shape to which the index tensors broadcast, its rank (-1: unknown), and the number of tensors."""
    given = use.tensors("indices")
    if not given or (data.ndim != -1 and len(given) > data.ndim):
        use.fail(f"{len(given)} index tensors are given for data, {shown(data)}")
    for info in given:
        if info.dtype and not info.dtype.startswith(("int", "uint")):
            use.fail(f"indices must have integer elements, got {info.dtype}")
    ranks = [info.ndim for info in given]
    rank = -1 if -1 in ranks else max(ranks)
    dims = given[0].dims
    for info in given[1:]:
        dims = None if dims is None or info.dims is None else broadcast_dims(use, dims, info.dims, "indices", "indices")
    return dims, rank, len(given)


def _index_tensor_info(use: Use) -> StructInfo:
    data = use.tensor("data")
    dims, rank, count = _indexed(use, data)
    if data.ndim == -1 or rank == -1:
        return tensor(None, data.dtype, -1, data.vdevice)
    whole = None if dims is None or data.dims is None else [*dims, *data.dims[count:]]
    return tensor(whole, data.dtype, rank + data.ndim - count, data.vdevice)


@operator(
    "relax.index_tensor", infer=_index_tensor_info, te=topi.index_tensor, pattern=OpPatternKind.INJECTIVE,
    flops=nothing, layout=as_written, gradient=slopes.index_tensor,
)  # fmt: skip
def index_tensor(data: TensorArg, indices: TensorsArg) -> Expr:
    """Take data[indices] as numpy does: integer tensors that broadcast, for the first dimensions."""


# ------------------------------------------------------------------------------------- writing


def _written(use: Use, updates: str, reduction: str) -> TensorStructInfo:
    data = use.tensor("data")
    use.dtype("data", updates)
    if reduction not in REDUCTIONS:
        use.fail(f"the reduction {reduction!r} is none of {', '.join(REDUCTIONS)}")
    return data


def _index_put_info(use: Use) -> StructInfo:
    data = _written(use, "values", "update")
    _indexed(use, data)
    return data


@operator(
    "relax.index_put", infer=_index_put_info,
    te=lambda data, indices, values, accumulate: topi.index_put(data, indices, values, accumulate),
    pattern=OpPatternKind.OPAQUE, flops=per_input(1, 2), layout=as_written, gradient=slopes.index_put,
)  # fmt: skip
def index_put(data: TensorArg, indices: TensorsArg, values: TensorArg, accumulate: bool = False) -> Expr:
    """Write `values` into a copy of `data` at data[indices], as numpy does; when `accumulate`, add them."""


def _scatter_elements_info(use: Use) -> StructInfo:
    data = _written(use, "updates", use.call.attrs["reduction"])
    where, new = _positions(use, "indices"), use.tensor("updates")
    if data.ndim != -1:
        use.axis(use.call.attrs["axis"], data.ndim)
    ranks = {info.ndim for info in (data, where, new)} - {-1}
    if len(ranks) > 1:
        use.fail(f"ranks differ: data is {shown(data)}, indices {shown(where)}, updates {shown(new)}")
    if where.dims is not None and new.dims is not None:
        for a, b in zip(where.dims, new.dims):
            use.check_equal("the dimensions of indices and updates", a, b, "indices", "updates")
    return data


@operator(
    "relax.scatter_elements", infer=_scatter_elements_info,
    te=lambda data, indices, updates, axis, reduction: topi.scatter_elements(data, indices, updates, axis, reduction),
    pattern=OpPatternKind.OPAQUE, flops=per_input(1, 2), layout=all_follow_with_axis("axis"),
    gradient=slopes.scatter_elements,
)  # fmt: skip
def scatter_elements(
    data: TensorArg, indices: TensorArg, updates: TensorArg, axis: int = 0, reduction: str = "update"
) -> Expr:
    """Write each element of `updates` into a copy of `data` where `indices` says along `axis`.

    `reduction`: "update", "add", "mul", "mean", "max" or "min".
    """


def _scatter_nd_info(use: Use) -> StructInfo:
    data = _written(use, "updates", use.call.attrs["reduction"])
    where, new = _positions(use, "indices"), use.tensor("updates")
    depth = None if where.dims is None or not where.dims else ops.as_int(where.dims[-1])
    if depth is not None and data.ndim != -1:
        if depth > data.ndim:
            use.fail(f"points of {depth} numbers are more than the dimensions of data, {shown(data)}")
        rank = where.ndim - 1 + data.ndim - depth
        if new.ndim not in (-1, rank):
            use.fail(f"updates must have {rank} dimensions, got {shown(new)}")
        if where.dims is not None and data.dims is not None and new.dims is not None:
            for a, b in zip([*where.dims[:-1], *data.dims[depth:]], new.dims):
                use.check_equal("the dimensions of updates and what they replace", a, b, "data", "indices", "updates")
    return data


@operator(
    "relax.scatter_nd", infer=_scatter_nd_info,
    te=lambda data, indices, updates, reduction: topi.scatter_nd(data, _points_last(indices), updates, reduction),
    pattern=OpPatternKind.OPAQUE, flops=per_input(1, 2), layout=as_written, gradient=slopes.scatter_nd,
)  # fmt: skip
def scatter_nd(data: TensorArg, indices: TensorArg, updates: TensorArg, reduction: str = "update") -> Expr:
    """Write slices of `updates` into a copy of `data` at points.

    The last dimension of `indices` holds a point's numbers. `reduction` is one of `scatter_elements`.
    """


def _slice_scatter_info(use: Use) -> StructInfo:
    data, src, axis = use.tensor("input_tensor"), use.tensor("src"), use.call.attrs["axis"]
    use.dtype("input_tensor", "src")
    values = [use.scalar(name).value for name in ("start", "end", "step")]
    step = None if values[2] is None else ops.as_int(values[2])
    if step is not None and step < 1:
        use.fail(f"step is {step}, it must be positive")
    if data.ndim != -1:
        axis = use.axis(axis, data.ndim)
    if src.ndim != -1 and data.ndim not in (-1, src.ndim):
        use.fail(f"src must have {data.ndim} dimensions, got {shown(src)}")
    if data.dims is not None and src.dims is not None and step is not None and None not in values:
        start, end = values[:2]
        assert start is not None
        assert end is not None
        count = slice_bounds(data.dims[axis], start, end, step)[1]
        for d, (a, b) in enumerate(zip(data.dims, src.dims)):
            wanted = ops.cast("int64", count) if d == axis else a
            use.check_equal("the dimensions of src and of the slice", wanted, b, "input_tensor", "src")
    return data


def _slice_scatter(input_tensor: Tensor, src: Tensor, start: Any, end: Any, step: Any, axis: int) -> Tensor:
    return topi.slice_scatter(input_tensor, src, start, end, int(ops.as_int(step) or 0), axis)


@operator(
    "relax.slice_scatter", infer=_slice_scatter_info, te=_slice_scatter, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=as_written, gradient=slopes.slice_scatter,
)  # fmt: skip
def slice_scatter(
    input_tensor: TensorArg, src: TensorArg, start: ScalarArg, end: ScalarArg, step: ScalarArg, axis: int = 0
) -> Expr:
    """Write `src` into a copy of `input_tensor` in the place of its slice [start:end:step] along `axis`."""


# ------------------------------------------------------------------------------------- one_hot


def _one_hot_info(use: Use) -> StructInfo:
    where, attrs = _positions(use, "indices"), use.call.attrs
    if attrs["depth"] < 1:
        use.fail(f"depth is {attrs['depth']}, it must be positive")
    on, off = use.scalar("on_value"), use.scalar("off_value")
    if on.dtype != off.dtype:
        use.fail(f"on_value is {on.dtype} and off_value {off.dtype}")
    if where.ndim == -1:
        return tensor(None, on.dtype, -1, where.vdevice)
    axis = use.axis(attrs["axis"], where.ndim + 1)
    dims = None if where.dims is None else [*where.dims[:axis], int64(attrs["depth"]), *where.dims[axis:]]
    return tensor(dims, on.dtype, where.ndim + 1, where.vdevice)


def _one_hot(indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int) -> Tensor:
    # whole numbers arrive as Python's, of int64
    dtype = on_value.dtype if isinstance(on_value, PrimExpr) else "int64"
    return topi.one_hot(indices, on_value, off_value, depth, axis, dtype)


@operator(
    "relax.one_hot", infer=_one_hot_info, te=_one_hot, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=as_written, gradient=NOT_SMOOTH,
)  # fmt: skip
def one_hot(indices: TensorArg, on_value: ScalarArg, off_value: ScalarArg, depth: int, axis: int = -1) -> Expr:
    """Add a dimension of size `depth` with `on_value` where `indices` says, else `off_value`."""
