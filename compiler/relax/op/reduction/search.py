"""Operators that find positions, or choose by a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import topi
from compiler.relax.nodes import Call, Expr, StructInfo
from compiler.relax.op.core.families import NOT_SMOOTH
from compiler.relax.op.core.layout import LayoutResult, LayoutUse, as_written, follows
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import OpPatternKind, TeForm, operator
from compiler.relax.op.core.rules import broadcast_all, with_dtype
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_input, per_output
from compiler.relax.op.gradients import elementwise as slopes
from compiler.relax.op.reduction.statistical import reduced, reduction_layout
from compiler.te.tensor import Tensor

__all__ = ["argmax", "argmin", "bucketize", "where"]


def _position_layout(use: LayoutUse) -> LayoutResult:
    """Count a position among all elements in the order in which they were written."""
    return as_written(use) if use.call.attrs["axis"] is None else reduction_layout(use)


def _position(name: str, te: TeForm, doc: str) -> Callable[..., Call]:
    def declared(x: TensorArg, axis: int | None = None, keepdims: bool = False) -> Expr:
        raise AssertionError("a declaration")

    declared.__name__ = declared.__qualname__ = name
    declared.__doc__ = f"{doc} along `axis`, or of all elements; of equal ones the first."

    def form(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
        found = te(x, axis=axis, keepdims=keepdims)
        return topi.cast(found, "int64")

    return operator(
        f"relax.{name}",
        infer=reduced(dtype="int64"),
        te=form,
        pattern=OpPatternKind.COMM_REDUCE,
        flops=per_input(1),
        layout=_position_layout,
        gradient=NOT_SMOOTH,
    )(declared)


argmax = _position("argmax", topi.argmax, "Find where the largest element stands")
argmin = _position("argmin", topi.argmin, "Find where the smallest element stands")


def _where_info(use: Use) -> StructInfo:
    condition = use.tensor("condition")
    if condition.dtype not in ("", "bool"):
        use.fail(f"condition must have bool elements, got {condition.dtype}")
    return broadcast_all(use, ("condition", "x1", "x2"), use.dtype("x1", "x2"))


@operator(
    "relax.where", infer=_where_info, te=topi.where, pattern=OpPatternKind.BROADCAST, flops=per_output(1),
    layout=follows, gradient=slopes.where,
)  # fmt: skip
def where(condition: TensorArg, x1: TensorArg, x2: TensorArg) -> Expr:
    """Take elements of `x1` where `condition` holds, else of `x2`; all three broadcast."""


def _bucketize_info(use: Use) -> StructInfo:
    use.tensor("boundaries", 1)
    use.dtype("input_tensor", "boundaries")
    return with_dtype(use.tensor("input_tensor"), "int32" if use.call.attrs["out_int32"] else "int64")


@operator(
    "relax.bucketize", infer=_bucketize_info, te=topi.bucketize, pattern=OpPatternKind.OPAQUE, flops=per_output(8),
    layout=as_written, gradient=NOT_SMOOTH,
)  # fmt: skip
def bucketize(input_tensor: TensorArg, boundaries: TensorArg, out_int32: bool = False, right: bool = False) -> Expr:
    """Tell in which bucket between the ascending `boundaries` each element falls.

    With `right` a bucket holds its left boundary, else its right one.
    """
