"""Operators that add, drop and repeat dimensions."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo, TensorStructInfo, info_of
from compiler.relax.nodes.dims import int64, text
from compiler.relax.op.core.layout import (
    LayoutResult,
    LayoutUse,
    as_written,
    follows_with_axis,
    with_dimensions,
    without_dimensions,
)
from compiler.relax.op.core.params import Ints, OptionalInts, ShapeArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import broadcast_dims_to, check_kind, product, tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing, per_input
from compiler.relax.op.gradients import movement as slopes
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

__all__ = [
    "broadcast_to", "collapse_sum_like", "collapse_sum_to", "expand_dims", "flatten", "flip", "repeat",
    "reverse_sequence", "squeeze", "tile",
]  # fmt: skip


# ----------------------------------------------------------------------- broadcasting and its inverse


def _broadcast_info(use: Use) -> StructInfo:
    data, shape = use.tensor("x"), use.shape("shape")
    if data.ndim != -1 and shape.ndim != -1 and data.ndim > shape.ndim:
        use.fail(f"x, {shown(data)}, cannot be broadcast to {shape.ndim} dimensions")
    if shape.values is None:
        return TensorStructInfo(use.arg("shape"), data.dtype, data.vdevice)  # type: ignore[arg-type]
    if data.dims is not None:
        broadcast_dims_to(use, "x", data.dims, shape.values)
    return tensor(shape.values, data.dtype, vdevice=data.vdevice)


@operator(
    "relax.broadcast_to", infer=_broadcast_info, te=topi.broadcast_to, pattern=OpPatternKind.BROADCAST, flops=nothing,
    layout=as_written, gradient=slopes.broadcast_to,
)  # fmt: skip
def broadcast_to(x: TensorArg, shape: ShapeArg) -> Expr:
    """Repeat `x` along dimensions of size 1, or new ones before its own, so that it has `shape`."""


def _collapse_to_info(use: Use) -> StructInfo:
    data, shape = use.tensor("data"), use.shape("shape")
    if shape.values is None:
        return TensorStructInfo(use.arg("shape"), data.dtype, data.vdevice)  # type: ignore[arg-type]
    if data.dims is not None:
        if len(shape.values) > len(data.dims):
            use.fail(f"data, {shown(data)}, has fewer dimensions than the shape that it is collapsed to")
        broadcast_dims_to(use, "shape", shape.values, data.dims)
    return tensor(shape.values, data.dtype, vdevice=data.vdevice)


def _collapse(data: Tensor, shape: Any) -> Tensor:
    extra = data.ndim - len(shape)
    same = [
        d for d, size in enumerate(shape)
        if ops.as_int(size) == 1 and ops.as_int(data.shape[extra + d]) != 1
    ]  # fmt: skip
    axes = [*range(extra), *(extra + d for d in same)]
    if not axes:
        return topi.identity(data)
    total: Tensor = topi.sum(data, axes, True)
    return topi.reshape(total, [ops.as_expr(size) for size in shape])


@operator(
    "relax.collapse_sum_to", infer=_collapse_to_info, te=_collapse, pattern=OpPatternKind.COMM_REDUCE,
    flops=per_input(1), layout=as_written, gradient=slopes.collapse_sum,
)  # fmt: skip
def collapse_sum_to(data: TensorArg, shape: ShapeArg) -> Expr:
    """Add up what `broadcast_to` repeats, so that `data` has `shape`."""


def _collapse_like_info(use: Use) -> StructInfo:
    data, target = use.tensor("data"), use.tensor("collapse_target")
    if data.dims is not None and target.dims is not None:
        if len(target.dims) > len(data.dims):
            use.fail(f"data, {shown(data)}, has fewer dimensions than collapse_target, {shown(target)}")
        broadcast_dims_to(use, "collapse_target", target.dims, data.dims)
    return tensor(target.dims, data.dtype, target.ndim, data.vdevice)


@operator(
    "relax.collapse_sum_like", infer=_collapse_like_info,
    te=lambda data, collapse_target: _collapse(data, list(collapse_target.shape)), pattern=OpPatternKind.COMM_REDUCE,
    flops=per_input(1), layout=as_written, gradient=slopes.collapse_sum,
)  # fmt: skip
def collapse_sum_like(data: TensorArg, collapse_target: TensorArg) -> Expr:
    """Add up what broadcasting repeats, so that `data` has the shape of `collapse_target`."""


# ------------------------------------------------------------------------ dimensions of size 1


def _one_axis(attrs: dict[str, Any]) -> dict[str, Any]:
    axis = attrs["axis"]
    return {**attrs, "axis": (axis,) if isinstance(axis, int) else axis}


def _expand_info(use: Use) -> StructInfo:
    data, given = use.tensor("x"), use.call.attrs["axis"]
    if data.ndim == -1:
        return tensor(None, data.dtype, -1, data.vdevice)
    rank = data.ndim + len(given)
    axes = use.axes(given, rank)
    if data.dims is None:
        return tensor(None, data.dtype, rank, data.vdevice)
    rest = iter(data.dims)
    return tensor([int64(1) if d in axes else next(rest) for d in range(rank)], data.dtype, vdevice=data.vdevice)


def _expand_layout(use: LayoutUse) -> LayoutResult:
    chosen = use.permuted()
    if chosen is None:
        return as_written(use)
    given = use.call.attrs["axis"]
    axes = [axis % (chosen.ndim + len(given)) for axis in given]
    return LayoutResult((chosen,), (with_dimensions(chosen, axes),), {"axis": tuple(sorted(axes))})


def _expand(x: Tensor, axis: Any) -> Tensor:
    rank = x.ndim + len(axis)
    for place in sorted(a % rank for a in axis):
        x = topi.expand_dims(x, place)
    return x if axis else topi.identity(x)


@operator(
    "relax.expand_dims", infer=_expand_info, te=_expand, pattern=OpPatternKind.BROADCAST, flops=nothing,
    layout=_expand_layout, gradient=slopes.reshaped, canonical=_one_axis,
)  # fmt: skip
def expand_dims(x: TensorArg, axis: Ints) -> Expr:
    """Add dimensions of size 1, so that they stand at the positions `axis` of the result."""


def _squeezed(use: Use) -> tuple[TensorStructInfo, tuple[int, ...] | None]:
    data, given = use.tensor("x"), use.call.attrs["axis"]
    if given is None:
        if data.dims is None:
            return data, None
        return data, tuple(d for d, size in enumerate(data.dims) if use.same(size, int64(1)))
    if data.ndim == -1:
        return data, None
    axes = use.axes(given, data.ndim)
    for d in axes:
        if data.dims is not None and use.differ(data.dims[d], int64(1)):
            use.fail(f"dimension {d} of x is {text(data.dims[d])}, not 1: {shown(data)}")
    return data, axes


def _squeeze_info(use: Use) -> StructInfo:
    data, axes = _squeezed(use)
    if axes is None:
        return tensor(None, data.dtype, -1, data.vdevice)
    rank = data.ndim - len(axes)
    if data.dims is None:
        return tensor([] if rank == 0 else None, data.dtype, rank, data.vdevice)
    return tensor([s for d, s in enumerate(data.dims) if d not in axes], data.dtype, vdevice=data.vdevice)


def _squeeze_layout(use: LayoutUse) -> LayoutResult:
    chosen, given, data = use.permuted(), use.call.attrs["axis"], info_of(use.call.args[0])
    if given is None and isinstance(data, TensorStructInfo) and data.dims is not None:
        given = [d for d, size in enumerate(data.dims) if ops.as_int(size) == 1]
    if chosen is None or given is None:
        return as_written(use)
    axes = [axis % chosen.ndim for axis in given]
    moved = tuple([chosen.axis(axis) for axis in axes])
    return LayoutResult((chosen,), (without_dimensions(chosen, axes),), {"axis": moved})


@operator(
    "relax.squeeze", infer=_squeeze_info, te=lambda x, axis: topi.squeeze(x, axis), pattern=OpPatternKind.INJECTIVE,
    flops=nothing, layout=_squeeze_layout, gradient=slopes.reshaped, canonical=_one_axis,
)  # fmt: skip
def squeeze(x: TensorArg, axis: OptionalInts = None) -> Expr:
    """Drop the dimensions `axis`, whose size is 1; for None, all whose size is known to be 1."""


def _flatten_info(use: Use) -> StructInfo:
    data = use.tensor("x")
    dims = None if data.dims is None else [product(use, data.dims)]
    return tensor(dims, data.dtype, 1, data.vdevice)


def _flatten(x: Tensor) -> Tensor:
    return topi.reshape(x, (-1,)) if x.ndim != 1 else topi.identity(x)


@operator(
    "relax.flatten", infer=_flatten_info, te=_flatten, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=as_written, gradient=slopes.reshaped,
)  # fmt: skip
def flatten(x: TensorArg) -> Expr:
    """Lay all elements out in one dimension, in row-major order."""


# ----------------------------------------------------------------------------------- repeating


def _flip_info(use: Use) -> StructInfo:
    data = use.tensor("data")
    if data.ndim != -1:
        use.axis(use.call.attrs["axis"], data.ndim)
    return data


@operator(
    "relax.flip", infer=_flip_info, te=topi.flip, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=follows_with_axis("axis"), gradient=slopes.flip,
)  # fmt: skip
def flip(data: TensorArg, axis: int) -> Expr:
    """Turn the elements along `axis` around."""


def _reverse_info(use: Use) -> StructInfo:
    data, lengths, attrs = use.tensor("data"), use.tensor("seq_lengths", 1), use.call.attrs
    check_kind(use, ("seq_lengths",), floats=False, integers=True, bools=False)
    if data.ndim == -1:
        return data
    along, batch = (use.axis(attrs[name], data.ndim, name) for name in ("seq_axis", "batch_axis"))
    if along == batch:
        use.fail(f"seq_axis and batch_axis are both dimension {along}")
    if data.dims is not None and lengths.dims is not None:
        what = "the dimension batch_axis and that of seq_lengths"
        use.check_equal(what, data.dims[batch], lengths.dims[0], "data", "seq_lengths")
    return data


def _reverse_layout(use: LayoutUse) -> LayoutResult:
    chosen, attrs = use.permuted(), use.call.attrs
    if chosen is None:
        return as_written(use)
    moved = {name: chosen.axis(attrs[name]) for name in ("seq_axis", "batch_axis")}
    return LayoutResult((chosen, None), (chosen,), moved)


@operator(
    "relax.reverse_sequence", infer=_reverse_info, te=topi.reverse_sequence, pattern=OpPatternKind.INJECTIVE,
    flops=nothing, layout=_reverse_layout, gradient=slopes.reverse_sequence,
)  # fmt: skip
def reverse_sequence(data: TensorArg, seq_lengths: TensorArg, seq_axis: int = 1, batch_axis: int = 0) -> Expr:
    """Turn the first `seq_lengths[b]` elements along `seq_axis` around, for each b along `batch_axis`."""


def _repeat_info(use: Use) -> StructInfo:
    data, attrs = use.tensor("data"), use.call.attrs
    times, axis = attrs["repeats"], attrs["axis"]
    if times < 0:
        use.fail(f"repeats is {times}, it must not be negative")
    if axis is None:
        dims = None if data.dims is None else [use.simplify(product(use, data.dims) * times)]
        return tensor(dims, data.dtype, 1, data.vdevice)
    if data.ndim == -1:
        return data
    axis = use.axis(axis, data.ndim)
    if data.dims is None:
        return data
    grown = [use.simplify(s * times) if d == axis else s for d, s in enumerate(data.dims)]
    return tensor(grown, data.dtype, vdevice=data.vdevice)


def _repeat(data: Tensor, repeats: int, axis: int | None) -> Tensor:
    return topi.repeat(_flatten(data), repeats, 0) if axis is None else topi.repeat(data, repeats, axis)


@operator(
    "relax.repeat", infer=_repeat_info, te=_repeat, pattern=OpPatternKind.BROADCAST, flops=nothing,
    layout=follows_with_axis("axis"), gradient=slopes.repeat,
)  # fmt: skip
def repeat(data: TensorArg, repeats: int, axis: int | None = None) -> Expr:
    """Repeat each slice along `axis` (each element, laid flat, for None) `repeats` times in a row."""


def _tile_info(use: Use) -> StructInfo:
    data, given = use.tensor("data"), use.call.attrs["repeats"]
    if any(times < 0 for times in given):
        use.fail(f"repeats is {given}, none must be negative")
    if data.ndim == -1:
        return data
    rank = max(data.ndim, len(given))
    if data.dims is None:
        return tensor(None, data.dtype, rank, data.vdevice)
    times = [1] * (rank - len(given)) + list(given)
    sizes: list[PrimExpr] = [int64(1)] * (rank - data.ndim) + list(data.dims)
    return tensor([use.simplify(s * t) for s, t in zip(sizes, times)], data.dtype, vdevice=data.vdevice)


def _all_repeats(attrs: dict[str, Any]) -> dict[str, Any]:
    repeats = attrs["repeats"]
    return {"repeats": (repeats,) if isinstance(repeats, int) else repeats}


def _tile_layout(use: LayoutUse) -> LayoutResult:
    chosen, times = use.permuted(), use.call.attrs["repeats"]
    if chosen is None or len(times) > chosen.ndim:
        return as_written(use)
    whole = (1,) * (chosen.ndim - len(times)) + times
    return LayoutResult((chosen,), (chosen,), {"repeats": tuple([whole[d] for d, _ in chosen.dims])})


@operator(
    "relax.tile", infer=_tile_info, te=lambda data, repeats: topi.tile(data, repeats), pattern=OpPatternKind.BROADCAST,
    flops=nothing, layout=_tile_layout, gradient=slopes.tile, canonical=_all_repeats,
)  # fmt: skip
def tile(data: TensorArg, repeats: Ints) -> Expr:
    """Repeat the whole of `data` `repeats[d]` times along dimension d, aligned at the last one."""
