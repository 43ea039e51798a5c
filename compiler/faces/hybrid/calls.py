"""TensorIR for the functions that a hybrid function may call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from compiler.dtype import parse_dtype
from compiler.faces.hybrid.runtime import CASTS, max_num_threads
from compiler.script.parser import is_plain
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.composed import infinity
from compiler.tir.intrin import intrin

LOOPS = {
    "range": n.ForKind.SERIAL,
    "parallel": n.ForKind.PARALLEL,
    "vectorize": n.ForKind.VECTORIZED,
    "unroll": n.ForKind.UNROLLED,
}
"""What a `for` goes over, and the kind of loop that it makes."""


def length(value: Any) -> Any:
    """Return the first dimension of a tensor, or how many items a tuple has."""
    return number(value.shape[0]) if isinstance(value, n.Buffer) else len(value)


def number(value: Any) -> Any:
    """Return the Python number that an integer constant holds; anything else as it is."""
    return value.value if isinstance(value, n.IntImm) and value.dtype != "bool" else value


def _extreme(plain: Callable[..., Any], symbolic: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def build(*items: Any) -> Any:
        if all(map(is_plain, items)):
            return plain(*items)
        found = items[0]
        for item in items[1:]:
            found = symbolic(found, item)
        return found

    return build


def ceil_div(a: Any, b: Any) -> Any:
    """Return a / b, rounded up."""
    return -(-a // b) if is_plain(a) and is_plain(b) else ops.ceildiv(a, b)


def inf(dtype: str) -> Any:
    """Return positive infinity, or the greatest integer of a dtype."""
    return infinity(dtype) if parse_dtype(dtype).is_float else ops.max_value(dtype)


def ninf(dtype: str) -> Any:
    """Return negative infinity, or the least integer of a dtype."""
    return ops.neg(inf(dtype)) if parse_dtype(dtype).is_float else ops.min_value(dtype)


CALLS: dict[str, Callable[..., Any]] = {
    **{name: partial(ops.cast, name) for name in CASTS},
    "exp": intrin.exp, "log": intrin.log, "sqrt": intrin.sqrt, "rsqrt": intrin.rsqrt, "tanh": intrin.tanh,
    "sigmoid": intrin.sigmoid, "power": intrin.power, "popcount": intrin.popcount, "round": intrin.round,
    "abs": intrin.abs, "likely": intrin.likely, "max": _extreme(max, ops.maximum), "min": _extreme(min, ops.minimum),
    "len": length, "ceil_div": ceil_div, "inf": inf, "ninf": ninf, "max_num_threads": max_num_threads,
}  # fmt: skip
