"""The names of a hybrid function when Python itself runs it, on numpy arrays.

`NAMES` are put among a function's globals for the run. They mean what `compiler.faces.hybrid.calls` makes of them.
"""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

import numpy as np

from compiler.target.target import Target

CASTS = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
"""The dtypes that a hybrid function converts a value to by calling their name."""


def allocate(shape: Any, dtype: str | None = None, scope: str = "global") -> np.ndarray:
    """Return an array of zeros; a compiled function finds what was in memory before."""
    del scope
    return np.zeros(tuple(map(int, shape)), dtype=dtype or "float32")


def loop(first: int, *more: int) -> range:
    """Return the values that a loop goes through, in order, whatever its kind is."""
    return range(int(first), *map(int, more))


def bind(thread: str, extent: int) -> range:
    """Return the numbers of the threads, which take turns."""
    del thread
    return range(int(extent))


def rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x)."""
    return np.ones_like(x) / np.sqrt(x)


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return np.ones_like(x) / (1 + np.exp(-x))


def popcount(x: Any) -> int:
    """Return how many bits of an integer are 1."""
    return int(x).bit_count() if int(x) >= 0 else (int(x) & (2 ** (8 * np.asarray(x).itemsize) - 1)).bit_count()


def ceil_div(a: Any, b: Any) -> Any:
    """Return a / b, rounded up."""
    return -(-a // b)


def likely(condition: Any) -> Any:
    """Return the condition."""
    return condition


def inf(dtype: str) -> Any:
    """Return positive infinity, or the greatest integer of a dtype."""
    kind = np.dtype(dtype)
    return kind.type(math.inf if kind.kind == "f" else np.iinfo(kind).max)


def ninf(dtype: str) -> Any:
    """Return negative infinity, or the least integer of a dtype."""
    kind = np.dtype(dtype)
    return kind.type(-math.inf if kind.kind == "f" else np.iinfo(kind).min)


def max_num_threads(allow_none: bool = True) -> int:
    """Return how many threads a block of the current target has at most; 1 without a target."""
    target = Target.current(allow_none)
    return int(getattr(target, "max_num_threads", None) or 1)


NAMES: dict[str, Any] = {
    **dict.fromkeys(("parallel", "vectorize", "unroll", "const_range"), loop),
    **{name: np.dtype(name).type for name in CASTS},
    "output_tensor": allocate, "allocate": allocate, "bind": bind, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "tanh": np.tanh, "power": np.power, "rsqrt": rsqrt, "sigmoid": sigmoid, "popcount": popcount, "likely": likely,
    "ceil_div": ceil_div, "inf": inf, "ninf": ninf, "max_num_threads": max_num_threads,
}  # fmt: skip


def run(func: FunctionType, args: tuple[Any, ...]) -> Any:
    """Run a hybrid function in Python, on numpy arrays and numbers, and return what it returns."""
    names = {**func.__globals__, **NAMES}
    made = FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    return made(*args)
