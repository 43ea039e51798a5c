"""Operators whose number of results depends on the data."""

from __future__ import annotations

from compiler.relax.nodes import Expr, StructInfo, TupleStructInfo
from compiler.relax.op.core.families import NOT_SMOOTH
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_input
from compiler.runtime.vm.data_builtins import nonzero_of, unique_of

__all__ = ["nonzero", "unique"]

_UNKNOWN = refused("the shape of its result is known only when it runs")


def _unique_info(use: Use) -> StructInfo:
    data, attrs = use.tensor("x"), use.call.attrs
    axis = attrs["axis"]
    rank = 1
    if axis is not None:
        rank = data.ndim
        if data.ndim != -1:
            use.axis(axis, data.ndim)
    fields = [tensor(None, data.dtype, rank, data.vdevice)]
    asked = [name for name in ("return_index", "return_inverse", "return_counts") if attrs[name]]
    fields += [tensor(None, "int64", 1, data.vdevice)] * len(asked)
    return TupleStructInfo(tuple(fields)) if asked else fields[0]


@operator(
    "relax.unique", infer=_unique_info, te=_UNKNOWN, host=unique_of, pattern=OpPatternKind.OPAQUE, flops=per_input(12),
    layout=as_written, gradient=NOT_SMOOTH,
)  # fmt: skip
def unique(
    x: TensorArg, sorted: bool = True, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: int | None = None,
) -> Expr:  # fmt: skip
    """Take the different elements, or slices along `axis`, in order (or as they first occur).

    It may also return where each first occurs, the group of each element, and how often each occurs.
    """


@operator(
    "relax.nonzero", infer=lambda use: tensor(None, "int64", 2, use.tensor("x").vdevice), te=_UNKNOWN, host=nonzero_of,
    pattern=OpPatternKind.OPAQUE, flops=per_input(1), layout=as_written, gradient=NOT_SMOOTH,
)  # fmt: skip
def nonzero(x: TensorArg) -> Expr:
    """Find the elements that are not zero: a row a dimension, a column an element."""
