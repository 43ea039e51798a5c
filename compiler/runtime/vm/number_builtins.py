"""Compute numbers that are no integers from dimensions: a few steps over a stack of values.

A step is a word and what it needs: "slot" a number of the shape heap, "number" a dtype and a value, "cast" a dtype.
Every other word takes its operands from the stack. Each value has a dtype, and is rounded to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.vm.builtins import Heap, VMError, builtin

MAX_STEPS = 4096
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "floor": np.floor,
    "ceil": np.ceil,
    "fabs": np.abs,
}


@builtin("vm.builtin.compute_number")
def compute_number(heap: Heap, *steps: Any) -> float | int:
    """The value that the steps leave. Raises VMError for steps that leave another number of values."""
    if len(steps) > MAX_STEPS:
        raise VMError(f"a number of {len(steps)} steps")
    stack: list[Any] = []
    rest = iter(steps)
    try:
        with np.errstate(all="ignore"):
            for word in rest:
                stack.append(_step(str(word), rest, stack, heap))
        (result,) = stack
    except (IndexError, StopIteration, ValueError, TypeError, ZeroDivisionError) as error:
        raise VMError(f"a number cannot be computed: {error or 'steps are missing'}") from None
    value: float | int = result.item()
    return value


def _step(word: str, rest: Iterator[Any], stack: list[Any], heap: Heap) -> Any:
    match word:
        case "slot":
            return np.int64(heap[_index(next(rest), heap)])
        case "number":
            kind = storage_dtype(str(next(rest)))
            return kind.type(next(rest))
        case "cast":
            kind = storage_dtype(str(next(rest)))
            return stack.pop().astype(kind)
    if word in UNARY:
        return UNARY[word](stack.pop())
    if word not in BINARY:
        raise VMError(f"a number is computed by {word!r}, which is no step")
    right, left = stack.pop(), stack.pop()
    return BINARY[word](left, right)


def _index(number: Any, heap: Heap) -> int:
    index = int(number)
    if not 0 <= index < len(heap):
        raise VMError(f"slot {index} of a shape heap of {len(heap)}")
    return index
