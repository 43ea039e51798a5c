"""What interpreted code calls: checked loads and stores, integer semantics, intrinsics on numpy values.

A scalar integer or bool is a Python int or bool, a scalar float a numpy scalar of its type, a vector a numpy array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.dtype import element_of, parse_dtype
from compiler.errors import LoweringError


class OutOfBounds(LoweringError):
    """An access outside its buffer."""

    kind = "out_of_bounds"


class AssertionFailed(LoweringError):
    """An AssertStmt whose condition was false."""

    kind = "assertion_failed"


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Storage of one element. bfloat16 is computed as float32 and rounded, so it is stored as float32 here."""
    element = element_of(dtype)
    return np.dtype("float32" if element == "bfloat16" else element)


def poison(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Fresh memory: NaN or a large odd pattern, so that a read before a write shows."""
    array = np.empty(shape, numpy_dtype(dtype))
    array.fill(np.nan if array.dtype.kind == "f" else True if array.dtype.kind == "b" else 0x5B)
    return array


def outside(name: str, index: tuple[Any, ...], shape: tuple[int, ...]) -> OutOfBounds:
    shown = ", ".join(str(i.tolist() if isinstance(i, np.ndarray) else i) for i in index)
    return OutOfBounds(f"{name}[{shown}] is outside its shape {tuple(shape)}")


def check(name: str, index: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    """Raise OutOfBounds unless 0 <= index < shape in every dimension and lane."""
    for i, extent in zip(index, shape):
        if isinstance(i, np.ndarray):
            if i.size and (int(i.min()) < 0 or int(i.max()) >= extent):
                raise outside(name, index, shape)
        elif not 0 <= i < extent:
            raise outside(name, index, shape)


def load(array: np.ndarray[Any, Any], name: str, *index: Any) -> Any:
    check(name, index, array.shape)
    return array[index]


def load_masked(array: np.ndarray[Any, Any], name: str, mask: np.ndarray[Any, Any], *index: Any) -> Any:
    """Lanes where `mask` is false give 0 and are not read."""
    chosen = tuple(i[mask] if isinstance(i, np.ndarray) else i for i in index)
    result = np.zeros(mask.shape, array.dtype)
    result[mask] = load(array, name, *chosen)
    return result


def store(array: np.ndarray[Any, Any], name: str, value: Any, *index: Any) -> None:
    check(name, index, array.shape)
    array[index] = value


def store_masked(array: np.ndarray[Any, Any], name: str, value: Any, mask: np.ndarray[Any, Any], *index: Any) -> None:
    chosen = tuple(i[mask] if isinstance(i, np.ndarray) else i for i in index)
    kept = value[mask] if isinstance(value, np.ndarray) else value
    store(array, name, kept, *chosen)


def truncdiv(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        quotient = np.abs(a) // np.abs(b)
        return np.where((np.asarray(a) < 0) != (np.asarray(b) < 0), -quotient, quotient).astype(np.asarray(a).dtype)
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def truncmod(a: Any, b: Any) -> Any:
    return a - truncdiv(a, b) * b


def wrapper(dtype: str) -> Callable[[Any], Any]:
    """Two's complement wrap-around of scalar integers; arrays wrap by themselves."""
    parsed = parse_dtype(dtype)
    span = 1 << parsed.bits
    top = span >> 1 if parsed.is_signed else span

    def wrap(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value
        value &= span - 1
        return value - span if value >= top else value

    return wrap


def round_bfloat16(value: Any) -> Any:
    """float32 rounded to the nearest bfloat16, ties to even; still stored as float32."""
    array = np.asarray(value, np.float32)
    bits = array.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    result = np.where(np.isnan(array), array, rounded.astype(np.uint32).view(np.float32))
    return result if isinstance(value, np.ndarray) else np.float32(result)


def cast(value: Any, source: str, target: str) -> Any:
    """`value` converted as C does; floats to integers round towards zero."""
    have, want = parse_dtype(source), parse_dtype(target)
    if isinstance(value, np.ndarray):
        converted = (value != 0) if want.code == "bool" else value.astype(numpy_dtype(target))
        return round_bfloat16(converted) if want.code == "bfloat" else converted
    if want.code == "bfloat":
        return round_bfloat16(np.float32(value))
    if want.is_float:
        return numpy_dtype(target).type(value)
    if want.code == "bool":
        return bool(value)
    return wrapper(target)(math.trunc(value) if have.is_float else int(value))


def lowest(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray):
        return np.where(a < b, a, b)
    return a if a < b else b


def highest(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray):
        return np.where(a > b, a, b)
    return a if a > b else b


def select(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, np.ndarray):
        return np.where(condition, a, b)
    return a if condition else b


def _per_element(function: Callable[[float], float]) -> Callable[[Any], Any]:
    vectorised = np.vectorize(function, otypes=[np.float64])

    def apply(x: Any) -> Any:
        return np.asarray(vectorised(x)).astype(np.asarray(x).dtype)[()]

    return apply


def _round_away(x: Any) -> Any:
    """Halves away from zero, as C's round."""
    return np.copysign(np.floor(np.abs(x) + np.asarray(x).dtype.type(0.5)), x)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """Exact product and sum in float64, rounded to the operands' type."""
    wide = np.float64(a) * np.float64(b) + np.float64(c)
    return np.asarray(wide).astype(np.asarray(a).dtype)[()]


def _shift_left(a: Any, b: Any) -> Any:
    return a << b


INTRINSICS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(np.asarray(x).dtype.type(10), x),
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: np.asarray(x).dtype.type(1) / np.sqrt(x),
    "tanh": np.tanh, "sigmoid": lambda x: np.asarray(x).dtype.type(1) / (np.asarray(x).dtype.type(1) + np.exp(-x)),
    "erf": _per_element(math.erf),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "hypot": np.hypot,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": _round_away, "nearbyint": np.rint,
    "fabs": np.abs, "pow": np.power, "fmod": np.fmod, "copysign": np.copysign, "fma": _fma,
    "isnan": np.isnan, "isinf": np.isinf, "likely": lambda x: x,
    "shift_left": _shift_left, "shift_right": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
    "popcount": lambda x: np.vectorize(lambda v: (int(v) & (1 << 64) - 1).bit_count(), otypes=[np.int64])(x)[()],
}  # fmt: skip
