"""Sorting along a dimension."""

from __future__ import annotations

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo, TupleStructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.families import NOT_SMOOTH
from compiler.relax.op.core.layout import follows_with_axis
from compiler.relax.op.core.params import Dtype, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor, with_dtype
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import per_input
from compiler.relax.op.gradients import reduction as slopes
from compiler.tir import ops

__all__ = ["argsort", "sort", "topk"]

_COMPARISONS = 12  # about as many as a logarithm


def _sort_info(use: Use) -> StructInfo:
    info = use.tensor("x")
    if info.ndim != -1:
        use.axis(use.call.attrs["axis"], info.ndim)
    return info


@operator(
    "relax.sort", infer=_sort_info, te=lambda x, axis, descending: topi.sort(x, axis, not descending),
    pattern=OpPatternKind.OPAQUE, flops=per_input(_COMPARISONS), layout=follows_with_axis("axis"), gradient=slopes.sort,
)  # fmt: skip
def sort(x: TensorArg, axis: int = -1, descending: bool = False) -> Expr:
    """Put the elements along `axis` in order; NaN counts as the largest."""


def _argsort_info(use: Use) -> StructInfo:
    info = use.tensor("data")
    if info.ndim != -1:
        use.axis(use.call.attrs["axis"], info.ndim)
    return with_dtype(info, use.call.attrs["dtype"])


@operator(
    "relax.argsort", infer=_argsort_info,
    te=lambda data, axis, descending, dtype: topi.argsort(data, None, axis, not descending, dtype),
    pattern=OpPatternKind.OPAQUE, flops=per_input(_COMPARISONS), layout=follows_with_axis("axis"), gradient=NOT_SMOOTH,
)  # fmt: skip
def argsort(data: TensorArg, axis: int = -1, descending: bool = False, dtype: Dtype = "int32") -> Expr:
    """Give the positions along `axis` of the elements in order; equal ones keep theirs."""


def _topk_info(use: Use) -> StructInfo:
    info, attrs = use.tensor("data"), use.call.attrs
    kind, k = attrs["ret_type"], attrs["k"]
    if kind not in ("both", "values", "indices"):
        use.fail(f"ret_type is {kind!r}, it must be 'both', 'values' or 'indices'")
    dims = None
    if info.ndim != -1:
        axis = use.axis(attrs["axis"], info.ndim)
        if info.dims is not None:
            size = ops.as_int(info.dims[axis])
            if size is not None and k > size:
                use.fail(f"k is {k}, but dimension {axis} of data is {size}: {shown(info)}")
            dims = [int64(k) if d == axis and k > 0 else s for d, s in enumerate(info.dims)]
    values = tensor(dims, info.dtype, info.ndim, info.vdevice)
    positions = tensor(dims, attrs["dtype"], info.ndim, info.vdevice)
    return {"values": values, "indices": positions}.get(kind, TupleStructInfo((values, positions)))


@operator(
    "relax.topk", infer=_topk_info,
    te=lambda data, k, axis, ret_type, largest, dtype: topi.topk(data, k, axis, ret_type, not largest, dtype),
    pattern=OpPatternKind.OPAQUE, flops=per_input(_COMPARISONS), layout=follows_with_axis("axis"), gradient=slopes.topk,
)  # fmt: skip
def topk(
    data: TensorArg, k: int = 1, axis: int = -1, ret_type: str = "both", largest: bool = True, dtype: Dtype = "int32"
) -> Expr:
    """Take the `k` largest (or smallest) elements along `axis` in order, all for k < 1.

    `ret_type` asks for "values", "indices" or "both".
    """
