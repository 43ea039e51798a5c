"""Products of matrices of narrow numbers, for tests: the function, its operands, bfloat16 as its bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc


def product(
    shape: tuple[int, int, int], a: str, b: str, c: str, transposed: bool = False, in_between: str | None = None
) -> PrimFunc:
    """C[i, j] = Σ A[i, k] · B[k, j], or B[j, k] when transposed; factors are cast to `in_between`, or as C is."""
    rows, columns, depth = shape
    x = placeholder((rows, depth), a, name="A")
    y = placeholder((columns, depth) if transposed else (depth, columns), b, name="B")
    k = reduce_axis((0, depth), name="k")

    def value(i: Any, j: Any) -> Any:
        factors = x[i, k], y[j, k] if transposed else y[k, j]
        left, right = (f.astype(in_between or c) for f in factors)
        return te_sum((left * right).astype(c), axis=k)

    return create_prim_func([x, y, compute((rows, columns), value, name="C")])


def operands(shape: tuple[int, int, int], a: str, b: str, seed: int = 0) -> list[np.ndarray]:
    """Numbers from the whole range of integers, from -1 to 1 of others."""
    rows, columns, depth = shape
    rng = np.random.default_rng(seed)

    def some(dtype: str, size: tuple[int, int]) -> np.ndarray:
        if dtype == "bfloat16":
            return bits(rng.uniform(-1, 1, size))
        if dtype.startswith("float"):
            return rng.uniform(-1, 1, size).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, int(info.max) + 1, size).astype(dtype)

    return [some(a, (rows, depth)), some(b, (depth, columns))]


def computed(func: PrimFunc, target: Target, args: Sequence[np.ndarray]) -> np.ndarray:
    """The result of machine code. `args` are as the interpreter takes them, the last one is room for the result."""
    types = [buffer.dtype for buffer in func.buffer_map.values()]
    held = [array(numbers(a) if t == "bfloat16" else a, dtype=t) for a, t in zip(args[:-1], types)]
    out = empty(args[-1].shape, types[-1])
    load_artifact(compile_artifact(func, target, name="main"))["main"](*held, out)
    return np.asarray(out.numpy())


def bits(values: np.ndarray) -> np.ndarray:
    """bfloat16 numbers, as the interpreter holds them."""
    return (values.astype("float32").view("uint32") >> 16).astype("uint16")


def numbers(kept: np.ndarray) -> np.ndarray:
    return (kept.astype("uint32") << 16).view("float32")
