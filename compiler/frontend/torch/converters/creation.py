"""Tensors made of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.dtypes import is_float
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.relax.nodes import const
from compiler.runtime.core.dtypes import storage_dtype
from compiler.tir import ops


def _filled(c: Conversion, shape: Sequence[Any], value: Any) -> Any:
    dtype = c.out_dtype()
    return op.full(list(shape), c.tensor(value, dtype), dtype)


@converts(
    "aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.empty.memory_format",
    "aten.empty_like.default", "aten.new_empty.default", "aten.zero.default", "aten.empty_permuted.default",
    "aten.empty_strided.default", "aten.new_empty_strided.default",
)  # fmt: skip
def zeros(c: Conversion) -> Any:
    """Make zeros; also used for tensors whose content is undefined."""
    return _filled(c, c.out_shape(), 0)


@converts("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(c: Conversion) -> Any:
    return _filled(c, c.out_shape(), 1)


@converts("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(c: Conversion, fill_value: Any) -> Any:
    return _filled(c, c.out_shape(), fill_value)


@converts("aten.fill.Scalar", "aten.fill.Tensor")
def fill(c: Conversion, value: Any) -> Any:
    return _filled(c, c.out_shape(), value)


@converts("aten.scalar_tensor.default")
def scalar_tensor(c: Conversion, s: Any) -> Any:
    return c.tensor(s, c.out_dtype())


def _counted(c: Conversion, start: Any, end: Any, step: Any) -> Any:
    dtype = c.out_dtype()
    whole = all(not isinstance(value, float) for value in (start, end, step))
    if whole and not is_float(dtype):
        return op.arange(start, end, step, dtype)
    values = [v if isinstance(v, int | float) else ops.as_int(v) for v in (start, end, step)]
    if None not in values:
        counted: Any = np.arange(*values)  # type: ignore[arg-type]
        return const(counted.astype(storage_dtype(dtype)), dtype)
    return c.cast(op.arange(start, end, step, "int64"), dtype)


@converts("aten.arange.default")
def arange(c: Conversion, end: Any) -> Any:
    return _counted(c, 0, end, 1)


@converts("aten.arange.start")
def arange_start(c: Conversion, start: Any, end: Any) -> Any:
    return _counted(c, start, end, 1)


@converts("aten.arange.start_step")
def arange_step(c: Conversion, start: Any, end: Any, step: Any) -> Any:
    return _counted(c, start, end, step)


@converts("aten.linspace.default")
def linspace(c: Conversion, start: Any, end: Any, steps: Any) -> Any:
    count = c.static(steps, "a number of steps")
    values = np.linspace(float(start), float(end), count)
    return const(values.astype(storage_dtype(c.out_dtype())), c.out_dtype())


@converts("aten.eye.default", "aten.eye.m")
def eye(c: Conversion) -> Any:
    rows, columns = c.out_shape()
    return op.eye(rows, columns, 0, c.out_dtype())


@converts("aten.tril.default")
def tril(c: Conversion, self: Any, diagonal: Any) -> Any:
    return op.tril(self, c.static(diagonal, "a diagonal"))


@converts("aten.triu.default")
def triu(c: Conversion, self: Any, diagonal: Any) -> Any:
    return op.triu(self, c.static(diagonal, "a diagonal"))


@converts("aten.one_hot.default")
def one_hot(c: Conversion, self: Any, num_classes: Any) -> Any:
    depth = c.static(num_classes, "a number of classes")
    if depth < 0:
        c.refuse("the number of classes depends on the data")
    return c.cast(op.one_hot(self, 1, 0, depth, -1), "int64")
