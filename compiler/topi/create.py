"""Tensors made of nothing: constants and ranges."""

from __future__ import annotations

import math
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var


def full(shape: Any, dtype: str, fill_value: Any) -> Tensor:
    """A tensor of `fill_value`, a number or an expression."""
    value = const(fill_value, dtype) if isinstance(fill_value, bool | int | float) else ops.cast(dtype, fill_value)
    result: Tensor = compute(shape, lambda *i: value, name="T_full", tag="elemwise")
    return result


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of `fill_value` with the shape and dtype of `x`."""
    return full(x.shape, x.dtype, fill_value)


def zeros(shape: Any, dtype: str = "float32") -> Tensor:
    """A tensor of zeros."""
    return full(shape, dtype, 0)


def ones(shape: Any, dtype: str = "float32") -> Tensor:
    """A tensor of ones."""
    return full(shape, dtype, 1)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: str = "float32") -> Tensor:
    """start, start + step, ... before `stop`; with one number, 0, 1, ... before it.

    Raises IRError when `step` is 0.
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise IRError("arange with a step of 0" + at(caller_span()))
    count = max(0, math.ceil((last - first) / step))

    def value(i: Var) -> PrimExpr:
        return ops.cast(dtype, ops.add(const(first, dtype), ops.mul(ops.cast(dtype, i), const(step, dtype))))

    result: Tensor = compute((count,), value, name="T_arange", tag="injective")
    return result
