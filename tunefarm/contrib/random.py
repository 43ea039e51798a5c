"""Tensors of random numbers, computed when the kernel runs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.registry import register_func
from tunefarm import te, tir

__all__ = ["normal", "randint", "uniform"]


@functools.cache
def _generator() -> np.random.Generator:
    return np.random.default_rng()


def randint(low: int, high: int, size: Sequence[int], dtype: str = "int32") -> te.Tensor:
    """Integers from `low` to below `high`, all equally likely."""
    return _extern("randint", dtype, size, int(low), int(high))


def uniform(low: float, high: float, size: Sequence[int]) -> te.Tensor:
    """Numbers between `low` and `high`, all equally likely, of float32."""
    return _extern("uniform", "float32", size, float(low), float(high))


def normal(loc: float, scale: float, size: Sequence[int]) -> te.Tensor:
    """Numbers around `loc` with the standard deviation `scale`, of float32."""
    return _extern("normal", "float32", size, float(loc), float(scale))


def _extern(name: str, dtype: str, size: Sequence[int], *numbers: float) -> te.Tensor:
    call = f"tvm.contrib.random.{name}"
    out: te.Tensor = te.extern(size, [], lambda ins, outs: tir.call_packed(call, *numbers, outs[0]), dtype=dtype)
    return out


def _fill(name: str, first: float, second: float, out: NDArray) -> None:
    shape: Any = out.shape
    match name:
        case "randint":
            drawn = _generator().integers(int(first), int(second), shape)
        case "uniform":
            drawn = _generator().uniform(first, second, shape)
        case _:
            drawn = _generator().normal(first, second, shape)
    out.copyfrom(drawn.astype(out.dtype))


for _name in ("randint", "uniform", "normal"):
    register_func(f"tvm.contrib.random.{_name}", functools.partial(_fill, _name), override=True)
