"""Operators whose number of results depends on the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.relax.nodes import Expr, StructInfo, TupleStructInfo
from compiler.relax.op.core.families import NOT_SMOOTH
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import Array, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_input

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


def _unique(
    x: Array, sorted: bool, return_index: bool, return_inverse: bool, return_counts: bool, axis: int | None
) -> Any:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    wanted = [(first, return_index), (inverse.reshape(-1), return_inverse), (counts, return_counts)]
    found = [values, *(part.astype("int64") for part, asked in wanted if asked)]
    return tuple(found) if len(found) > 1 else values


@operator(
    "relax.unique",
    infer=_unique_info,
    te=_UNKNOWN,
    host=_unique,
    pattern=OpPatternKind.OPAQUE,
    flops=per_input(12),
    layout=as_written,
    gradient=NOT_SMOOTH,
)
def unique(
    x: TensorArg,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Expr:
    """Take the different elements, or slices along `axis`, in order (or as they first occur).

    It may also return where each first occurs, which each element is, and how often each occurs.
    """


def _nonzero_info(use: Use) -> StructInfo:
    return tensor(None, "int64", 2, use.tensor("x").vdevice)


def _nonzero(x: Array) -> Array:
    return np.array(np.nonzero(np.atleast_1d(x)), "int64")


@operator(
    "relax.nonzero",
    infer=_nonzero_info,
    te=_UNKNOWN,
    host=_nonzero,
    pattern=OpPatternKind.OPAQUE,
    flops=per_input(1),
    layout=as_written,
    gradient=NOT_SMOOTH,
)
def nonzero(x: TensorArg) -> Expr:
    """Find the elements that are not zero: a row a dimension, a column an element."""
