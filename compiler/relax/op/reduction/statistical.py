"""Reductions and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import topi
from compiler.relax.nodes import Call, Expr, StructInfo, TupleStructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.layout import LayoutResult, LayoutUse, as_written, follows_with_axis, without_dimensions
from compiler.relax.op.core.params import OptionalDtype, OptionalInts, TensorArg
from compiler.relax.op.core.registry import Gradient, InferRule, OpPatternKind, TeForm, operator
from compiler.relax.op.core.rules import check_kind, product, tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_input, per_output
from compiler.relax.op.gradients import reduction as slopes
from compiler.te.tensor import Tensor
from compiler.tir.nodes import PrimExpr

__all__ = ["cumprod", "cumsum", "max", "mean", "median", "min", "prod", "std", "sum", "variance"]


def reduced(*, floats: bool = False, bools: bool = False, dtype: str | None = None) -> InferRule:
    """Return `x` without the dimensions in `axis` (all for None), or with size 1 there when `keepdims`."""

    def rule(use: Use) -> StructInfo:
        info = use.tensor("x")
        check_kind(use, ("x",), floats=True, integers=not floats, bools=bools)
        result = info.dtype if dtype is None else dtype
        axis, keep = use.call.attrs["axis"], use.call.attrs["keepdims"]
        if info.ndim == -1:
            return tensor((), result, vdevice=info.vdevice) if axis is None and not keep else tensor(
                None, result, -1, info.vdevice
            )  # fmt: skip
        axes = use.axes(axis, info.ndim)
        rank = info.ndim if keep else info.ndim - len(axes)
        if info.dims is None:
            known: list[PrimExpr] | None = [int64(1)] * rank if keep and len(axes) == info.ndim else None
            known = [] if rank == 0 else known
            return tensor(known, result, rank, info.vdevice)
        dims = [int64(1) if d in axes else size for d, size in enumerate(info.dims) if keep or d not in axes]
        return tensor(dims, result, vdevice=info.vdevice)

    return rule


def reduction_layout(use: LayoutUse) -> LayoutResult:
    """Reductions work on any order of dimensions: the axes move with it."""
    chosen, axis, keeps = use.permuted(), use.call.attrs["axis"], use.call.attrs["keepdims"]
    if chosen is None:
        return as_written(use)
    if axis is None:
        return LayoutResult((chosen,), (chosen if keeps else None,), {})
    axes = [a % chosen.ndim for a in ((axis,) if isinstance(axis, int) else axis)]
    moved = tuple(chosen.axis(a) for a in axes)
    attrs = {"axis": moved[0] if isinstance(axis, int) else moved}
    if keeps:
        return LayoutResult((chosen,), (chosen,), attrs)
    return LayoutResult((chosen,), (without_dimensions(chosen, axes),), attrs)


def _reduction(
    name: str, te: TeForm, doc: str, infer: InferRule, gradient: Gradient, flops: int = 1
) -> Callable[..., Call]:
    def declared(x: TensorArg, axis: OptionalInts = None, keepdims: bool = False) -> Expr:
        raise AssertionError("a declaration")

    declared.__name__ = declared.__qualname__ = name
    declared.__doc__ = f"{doc} along `axis` (None: all).\n\nWith `keepdims` the dimensions stay, with size 1."

    def form(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
        result: Tensor = te(x, axis=axis, keepdims=keepdims)
        return result

    return operator(
        f"relax.{name}",
        infer=infer,
        te=form,
        pattern=OpPatternKind.COMM_REDUCE,
        flops=per_input(flops),
        layout=reduction_layout,
        gradient=gradient,
    )(declared)


def _largest(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Reduce truth values to whether one holds."""
    return (topi.any if x.dtype == "bool" else topi.max)(x, axis, keepdims)


def _smallest(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Reduce truth values to whether all hold."""
    return (topi.all if x.dtype == "bool" else topi.min)(x, axis, keepdims)


sum = _reduction("sum", topi.sum, "Add the elements", reduced(), slopes.sum)
prod = _reduction("prod", topi.prod, "Multiply the elements", reduced(), slopes.product)
max = _reduction("max", _largest, "Take the largest element", reduced(bools=True), slopes.extreme)
min = _reduction("min", _smallest, "Take the smallest element", reduced(bools=True), slopes.extreme)
mean = _reduction("mean", topi.mean, "Take the mean, of whole numbers rounded towards zero,", reduced(), slopes.mean)
variance = _reduction(
    "variance", topi.variance, "Take the mean square about the mean", reduced(floats=True), slopes.variance, 4
)
std = _reduction("std", topi.std, "Take the square root of the variance", reduced(floats=True), slopes.std, 4)


# ------------------------------------------------------------------------------------- median


def _median_info(use: Use) -> StructInfo:
    axis = use.call.attrs["axis"]
    if isinstance(axis, tuple) and len(axis) != 1:
        use.fail(f"axis is {axis}, but a median is taken along one dimension")
    values = reduced()(use)
    if axis is None:
        return values
    return TupleStructInfo((values, reduced(dtype="int64")(use)))


@operator(
    "relax.median", infer=_median_info,
    te=lambda x, axis, keepdims: topi.median(x, axis[0] if isinstance(axis, tuple) else axis, keepdims),
    pattern=OpPatternKind.OPAQUE, flops=per_input(10), layout=as_written, gradient=slopes.median,
)  # fmt: skip
def median(x: TensorArg, axis: OptionalInts = None, keepdims: bool = False) -> Expr:
    """Take the middle element along `axis`, the lower of two, and its position.

    Over all elements (`axis` None) the value comes alone.
    """


# ------------------------------------------------------------------------------------ running


def _running_info(use: Use) -> StructInfo:
    info, attrs = use.tensor("data"), use.call.attrs
    dtype = attrs["dtype"] or ("int32" if info.dtype == "bool" else info.dtype)
    axis = attrs["axis"]
    if axis is None:
        dims = None if info.dims is None else [product(use, info.dims)]
        return tensor(dims, dtype, 1, info.vdevice)
    if info.ndim != -1:
        use.axis(axis, info.ndim)
    return tensor(info.dims, dtype, info.ndim, info.vdevice)


@operator(
    "relax.cumsum", infer=_running_info,
    te=lambda data, axis, dtype, exclusive: topi.cumsum(data, axis, dtype or None, exclusive),
    pattern=OpPatternKind.OPAQUE, flops=per_output(1), layout=follows_with_axis("axis"), gradient=slopes.cumsum,
)  # fmt: skip
def cumsum(data: TensorArg, axis: int | None = None, dtype: OptionalDtype = None, exclusive: bool = False) -> Expr:
    """Take running sums along `axis`, or of the elements laid flat.

    When `exclusive`, an element is not part of its own sum.
    """


@operator(
    "relax.cumprod", infer=_running_info,
    te=lambda data, axis, dtype, exclusive: topi.cumprod(data, axis, dtype or None, exclusive),
    pattern=OpPatternKind.OPAQUE, flops=per_output(1), layout=follows_with_axis("axis"), gradient=slopes.cumprod,
)  # fmt: skip
def cumprod(data: TensorArg, axis: int | None = None, dtype: OptionalDtype = None, exclusive: bool = False) -> Expr:
    """Take running products, as `cumsum` takes sums."""
