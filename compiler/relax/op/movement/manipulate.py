"""Operators that move elements and keep their values."""

from __future__ import annotations

from collections.abc import Sequence

from compiler import topi
from compiler.relax.nodes import Call, Expr, ShapeExpr, StructInfo, TensorStructInfo
from compiler.relax.nodes.dims import int64, shape_text
from compiler.relax.op.core.layout import Layout, LayoutResult, LayoutUse, as_written, follows
from compiler.relax.op.core.params import Dtype, OptionalInts, ShapeArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor, with_dtype
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing, per_output
from compiler.relax.op.gradients import elementwise
from compiler.relax.op.gradients import movement as slopes
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

# ------------------------------------------------------------------------------------ reshape


def _product(dims: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = int64(1)
    for size in dims:
        total = total * size
    return total


def _reshape_normal(use: Use) -> Call:
    """Resolve a new shape, in which 0 keeps the dimension there and one -1 stands for what is left."""
    wanted, data = use.arg("shape"), use.tensor("x")
    if not isinstance(wanted, ShapeExpr):
        return use.call
    sizes = [ops.as_int(size) for size in wanted.values]
    if all(size is None or size > 0 for size in sizes):
        return use.call
    if data.dims is None:
        if -1 in sizes:
            use.fail(f"the shape {shape_text(wanted.values)} has a -1, but x is {shown(data)}")
        return use.call
    new = list(wanted.values)
    empty = any(ops.as_int(size) == 0 for size in data.dims)
    for axis, size in enumerate(sizes):
        if size == 0 and not empty:
            if axis >= len(data.dims):
                use.fail(f"the shape {shape_text(wanted.values)} has a 0 in dimension {axis}, but x is {shown(data)}")
            new[axis] = data.dims[axis]
        elif size is not None and size < -1:
            use.fail(f"the shape {shape_text(wanted.values)} has a negative dimension")
    if sizes.count(-1) > 1:
        use.fail(f"the shape {shape_text(wanted.values)} has more than one -1")
    if -1 in sizes:
        rest = use.simplify(_product([size for size in new if ops.as_int(size) != -1]))
        total = use.simplify(_product(data.dims))
        if ops.as_int(rest) == 0:
            use.fail(f"the shape {shape_text(wanted.values)} has a -1 beside a 0")
        if use.differ(use.simplify(total % rest), int64(0)):
            use.fail(f"cannot reshape x, {shown(data)}, to {shape_text(wanted.values)}")
        new[sizes.index(-1)] = use.simplify(total // rest)
    return Call(use.call.op, (use.arg("x"), ShapeExpr(tuple(new))), use.call.attrs, (), use.call.span)


def _reshape_info(use: Use) -> StructInfo:
    data, shape = use.tensor("x"), use.shape("shape")
    if data.dims is not None and shape.values is not None:
        old, new = use.simplify(_product(data.dims)), use.simplify(_product(shape.values))
        if use.differ(old, new):
            use.fail(f"cannot reshape x, {shown(data)}, to {shape_text(shape.values)}")
    wanted = use.arg("shape")
    if shape.values is not None:
        return tensor(shape.values, data.dtype, vdevice=data.vdevice)
    return TensorStructInfo(wanted, data.dtype, data.vdevice)  # type: ignore[arg-type]


def _has_as_many(use: Use) -> bool:
    """Whether the new shape is known to have as many elements.
    If not, a kernel could read beyond the end of `x`."""
    data, shape = use.tensor("x"), use.shape("shape")
    if data.dims is None or shape.values is None:
        return True
    return use.same(use.simplify(_product(data.dims)), use.simplify(_product(shape.values)))


@operator(
    "relax.reshape", infer=_reshape_info, normalize=_reshape_normal, proven=_has_as_many, te=topi.reshape,
    pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=as_written, gradient=slopes.reshaped,
)  # fmt: skip
def reshape(x: TensorArg, shape: ShapeArg) -> Expr:
    """Give the elements of `x`, in row-major order, the shape `shape`.

    In `shape` a 0 stands for the dimension of `x` there, and one -1 for what is left.
    """


# ------------------------------------------------------------------------------- permute_dims


def _permute_info(use: Use) -> StructInfo:
    data = use.tensor("x")
    if use.call.attrs["axes"] is None and data.ndim == -1:
        return tensor(None, data.dtype, -1, data.vdevice)
    order = _order(use, data.ndim)
    return tensor(
        None if data.dims is None else [data.dims[axis] for axis in order], data.dtype, len(order), data.vdevice
    )


def _order(use: Use, ndim: int) -> tuple[int, ...]:
    axes: Sequence[int] | None = use.call.attrs["axes"]
    if axes is None:
        return tuple(reversed(range(ndim)))
    if ndim not in (-1, len(axes)):
        use.fail(f"axes is {tuple(axes)}, but x has {ndim} dimensions: {shown(use.tensor('x'))}")
    order = tuple(use.axis(axis, len(axes), "axes") for axis in axes)
    if len(set(order)) != len(order):
        use.fail(f"axes is {tuple(axes)}, which names a dimension twice")
    return order


def _permute_layout(use: LayoutUse) -> LayoutResult:
    """Move the axes with the argument's layout, so that no element moves."""
    chosen = use.permuted()
    if chosen is None or chosen.is_identity:
        return as_written(use)
    axes = use.call.attrs["axes"]
    order = tuple(reversed(range(chosen.ndim))) if axes is None else tuple(a % chosen.ndim for a in axes)
    return LayoutResult((chosen,), (Layout.identity(chosen.ndim),), {"axes": tuple(chosen.axis(a) for a in order)})


@operator(
    "relax.permute_dims", infer=_permute_info, te=topi.transpose, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=_permute_layout, gradient=slopes.permute_dims,
)  # fmt: skip
def permute_dims(x: TensorArg, axes: OptionalInts = None) -> Expr:
    """Put the dimensions of `x` in the order `axes`; reversed without it."""


# ------------------------------------------------------------------------------------- astype


@operator(
    "relax.astype", infer=lambda use: with_dtype(use.tensor("x"), use.call.attrs["dtype"]), te=topi.cast,
    pattern=OpPatternKind.ELEMWISE, flops=per_output(1), layout=follows, gradient=elementwise.astype,
)  # fmt: skip
def astype(x: TensorArg, dtype: Dtype) -> Expr:
    """Convert the elements of `x` to `dtype`."""


__all__ = ["astype", "permute_dims", "reshape"]
