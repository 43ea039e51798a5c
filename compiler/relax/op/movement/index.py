"""Parts of tensors, by bounds and by positions."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.relax.nodes import Expr, PrimValue, StructInfo, Tuple
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.layout import Layout, LayoutResult, LayoutUse, as_written
from compiler.relax.op.core.params import OptionalScalars, ScalarsArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import check_kind, tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import nothing
from compiler.relax.op.gradients import movement as slopes
from compiler.runtime.vm.data_builtins import strided_slice_of
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.topi.slicing import slice_bounds

__all__ = ["dynamic_strided_slice", "strided_slice", "take"]


def _take_info(use: Use) -> StructInfo:
    data, axis = use.tensor("x"), use.call.attrs["axis"]
    if use.call.attrs["mode"] not in ("fast", "wrap", "clip", "nan"):
        use.fail(f"mode is {use.call.attrs['mode']!r}, it must be 'fast', 'wrap', 'clip' or 'nan'")
    check_kind(use, ("indices",), floats=False, integers=True, bools=False)
    where = use.tensor("indices")
    device = use.vdevice("x", "indices")
    if axis is None:
        if data.ndim not in (-1, 1):
            use.fail(f"axis is None, but x has {data.ndim} dimensions", hint="give an axis")
        axis = 0
    if -1 in (data.ndim, where.ndim):
        return tensor(None, data.dtype, -1, device)
    axis = use.axis(axis, data.ndim)
    rank = data.ndim - 1 + where.ndim
    if data.dims is None or where.dims is None:
        return tensor(None, data.dtype, rank, device)
    return tensor([*data.dims[:axis], *where.dims, *data.dims[axis + 1 :]], data.dtype, vdevice=device)


def _take_layout(use: LayoutUse) -> LayoutResult:
    chosen, axis, count = use.permuted(), use.call.attrs["axis"], use.ndim(1)
    if chosen is None or axis is None or count < 0:
        return as_written(use)
    axis %= chosen.ndim
    order: list[int] = []
    for d, _ in chosen.dims:
        order += range(axis, axis + count) if d == axis else [d if d < axis else d - 1 + count]
    return LayoutResult((chosen, None), (Layout.permuted(order),), {"axis": chosen.axis(axis)})


@operator(
    "relax.take", infer=_take_info, te=lambda x, indices, axis, mode: topi.take(x, indices, axis, 0, mode),
    pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=_take_layout, gradient=slopes.take,
)  # fmt: skip
def take(x: TensorArg, indices: TensorArg, axis: int | None = None, mode: str = "fast") -> Expr:
    """Take slices of `x` along `axis` at `indices`.

    `mode` says what becomes of indices outside: "clip", "wrap", "nan", or "fast", which takes them to be inside.
    """


def _bounds(use: Use) -> list[tuple[int, PrimExpr, PrimExpr, int]] | None:
    """Axis, begin, end and stride; None where they are not known."""
    names = ["axes", "begin", "end"] + (["strides"] if use.has("strides") else [])
    given = [use.scalars(name) for name in names]
    if any(values is None for values in given):
        return None
    axes, begin, end = given[:3]
    assert axes is not None
    assert begin is not None
    assert end is not None
    strides = given[3] if len(given) == 4 else tuple(int64(1) for _ in axes)
    assert strides is not None
    if not len(axes) == len(begin) == len(end) == len(strides):
        use.fail(f"{len(axes)} axes, {len(begin)} begins, {len(end)} ends and {len(strides)} strides are given")
    rank = use.tensor("x").ndim
    found: list[tuple[int, PrimExpr, PrimExpr, int]] = []
    for axis, first, last, stride in zip(axes, begin, end, strides):
        position, step = ops.as_int(axis), ops.as_int(stride)
        if position is None or step is None:
            return None
        if step == 0:
            use.fail("a stride is 0")
        found.append((use.axis(position, rank, "axes") if rank != -1 else position, first, last, step))
    if len({axis for axis, *_ in found}) != len(found):
        use.fail(f"axes is {tuple(axis for axis, *_ in found)}, which names a dimension twice")
    return found


def _slice_info(use: Use) -> StructInfo:
    data = use.tensor("x")
    bounds = _bounds(use)
    if bounds is None or data.dims is None:
        return tensor(None, data.dtype, data.ndim, data.vdevice)
    dims = list(data.dims)
    for axis, first, last, step in bounds:
        symbolic = ops.as_int(first) is None or ops.as_int(last) is None
        if use.call.attrs["assume_inbound"] and symbolic:
            span = last - first if step > 0 else first - last
            dims[axis] = use.simplify(ops.floordiv(span + (abs(step) - 1), abs(step)))
        else:
            dims[axis] = _int64(use, slice_bounds(data.dims[axis], first, last, step)[1])
    return tensor(dims, data.dtype, vdevice=data.vdevice)


def _int64(use: Use, size: PrimExpr) -> PrimExpr:
    known = ops.as_int(size)
    return use.simplify(size) if known is None else int64(known)


def _slice_layout(use: LayoutUse) -> LayoutResult:
    chosen, axes = use.permuted(), use.call.args[1]
    if chosen is None or not isinstance(axes, Tuple):
        return as_written(use)
    known = [ops.as_int(axis.value) if isinstance(axis, PrimValue) else None for axis in axes.fields]
    if None in known:
        return as_written(use)
    moved = Tuple(tuple([PrimValue(int64(chosen.axis(axis))) for axis in known if axis is not None]))
    return LayoutResult((chosen, *[None] * (len(use.inputs) - 1)), (chosen,), {}, {1: moved})


def _slice(x: Tensor, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False) -> Tensor:
    steps = None if strides is None else [int(ops.as_int(s) or 0) for s in strides]
    dims = [int(ops.as_int(axis) or 0) for axis in axes]
    return topi.strided_slice(x, begin, end, steps, dims, assume_inbound=assume_inbound)


@operator(
    "relax.strided_slice", infer=_slice_info, te=_slice, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=_slice_layout, gradient=slopes.strided_slice,
)  # fmt: skip
def strided_slice(
    x: TensorArg, axes: ScalarsArg, begin: ScalarsArg, end: ScalarsArg, strides: OptionalScalars = None,
    assume_inbound: bool = False,
) -> Expr:  # fmt: skip
    """Take x[begin:end:strides] along `axes`, by Python's rules.

    `assume_inbound` says that bounds lie inside.
    """


def _dynamic_slice_info(use: Use) -> StructInfo:
    data = use.tensor("x")
    for name in ("begin", "end", "strides"):
        bound = use.tensor(name, 1)
        if bound.dtype not in ("", "int64"):
            use.fail(f"{name} must have int64 elements, got {bound.dtype}")
        if bound.dims is not None and data.ndim != -1:
            use.check_equal(f"the number of dimensions of x and of {name}'s elements", int64(data.ndim), bound.dims[0])
    return tensor(None, data.dtype, data.ndim, data.vdevice)


@operator(
    "relax.dynamic_strided_slice", infer=_dynamic_slice_info,
    te=refused("the shape of its result is known only when it runs"), host=strided_slice_of,
    pattern=OpPatternKind.OPAQUE, flops=nothing, layout=as_written,
    gradient=refused("the shape of its result is known only when it runs"),
)  # fmt: skip
def dynamic_strided_slice(x: TensorArg, begin: TensorArg, end: TensorArg, strides: TensorArg) -> Expr:
    """Take x[begin:end:strides], bounds being tensors with one number a dimension."""
