"""The arithmetic that interpreted code calls: rounding, division, intrinsics.

Floats are Python floats (binary64) holding values of their dtype. A float32 sum, product, quotient or square
root computed in binary64 and then rounded is the correctly rounded one, since 53 >= 2*24 + 2.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from compiler.dtype import parse_dtype
from compiler.tir import ops

INF = math.inf
_CELL: Any = np.zeros(1, np.float32).data


def round_float32(x: float) -> float:
    """The float32 nearest to x."""
    _CELL[0] = x
    rounded: float = _CELL[0]
    return rounded


# ------------------------------------------------------------------- 16-bit floats, as their bits

FLOAT16_VALUES: list[float] = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64).tolist()
with np.errstate(invalid="ignore"):  # signalling NaNs
    BFLOAT16_VALUES: list[float] = (
        (np.arange(65536, dtype=np.uint32) << 16).view(np.float32).astype(np.float64).tolist()
    )


def float16_bits(x: float) -> int:
    """The bits of the float16 nearest to x."""
    with np.errstate(over="ignore"):
        return int(np.float16(x).view(np.uint16))


def bfloat16_bits(x: float) -> int:
    """Return the bits of the bfloat16 nearest to x, rounded once.
    An inexact float32 in between is rounded to odd."""
    near = round_float32(x)
    bits: int = struct.unpack("<I", struct.pack("<f", near))[0]
    if x != x:
        return (bits >> 16) | 0x40
    if near != x:
        bits = (bits - (abs(near) > abs(x))) | 1
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def round_float16(x: float) -> float:
    return FLOAT16_VALUES[float16_bits(x)]


def round_bfloat16(x: float) -> float:
    return BFLOAT16_VALUES[bfloat16_bits(x)]


ROUND: dict[str, Callable[[float], float]] = {
    "float16": round_float16,
    "bfloat16": round_bfloat16,
    "float32": round_float32,
    "float64": float,
}


# ----------------------------------------------------------------------------------- division


def float_div(a: float, b: float) -> float:
    if b == 0.0:
        if a == 0.0 or a != a:
            return math.nan
        return math.copysign(INF, a) * math.copysign(1.0, b)
    return a / b


def float_mod(a: float, b: float) -> float:
    """The remainder with the sign of a, as C's fmod."""
    if b == 0.0 or math.isinf(a) or a != a or b != b:
        return math.nan
    return math.fmod(a, b)


def float_floormod(a: float, b: float) -> float:
    return a - float_floor(float_div(a, b)) * b


def floor_div(a: int, b: int) -> int:
    """Divide rounding down.
    The quotient by 0 is 0, as is the remainder, because machine code must not trap."""
    return a // b if b else 0


def floor_mod(a: int, b: int) -> int:
    return a % b if b else 0


def trunc_div(a: int, b: int) -> int:
    return ops.trunc_div_int(a, b) if b else 0


def trunc_mod(a: int, b: int) -> int:
    return a - ops.trunc_div_int(a, b) * b if b else 0


def shift_left(a: int, b: int, bits: int) -> int:
    """Shift bits. The result is 0 when all bits leave; a negative count counts as one of 2^bits or so."""
    return a << b if 0 <= b < bits else 0


def shift_right(a: int, b: int, bits: int) -> int:
    return a >> (b if 0 <= b < bits else bits)


def float_to_int(x: float, dtype: str) -> int:
    """Round towards zero.
    A number that does not fit becomes the nearest limit of `dtype`, NaN becomes 0."""
    if x != x:
        return 0
    parsed = parse_dtype(dtype)
    least = -(1 << (parsed.bits - 1)) if parsed.is_signed else 0
    greatest = least + (1 << parsed.bits) - 1
    if math.isinf(x):
        return greatest if x > 0 else least
    return min(max(int(x), least), greatest)


def int_to_float(x: int, dtype: str) -> float:
    """The nearest value of a float dtype; a 16-bit one by way of float32."""
    if dtype == "float64":
        return float(x)
    single = float(np.float32(np.int64(x) if x < 1 << 63 else np.uint64(x)))
    return ROUND[dtype](single)


# ------------------------------------------------------------------------------- intrinsics


def _guard(f: Callable[..., float], overflow: float = INF) -> Callable[..., float]:
    """f with IEEE results in place of Python's exceptions."""

    def call(*args: float) -> float:
        try:
            return f(*args)
        except OverflowError:
            return overflow
        except ValueError:
            return math.nan

    return call


def _log(f: Callable[[float], float]) -> Callable[[float], float]:
    def call(x: float) -> float:
        return f(x) if x > 0 else (-INF if x == 0 else math.nan)

    return call


def _log1p(x: float) -> float:
    return math.log1p(x) if x > -1 else (-INF if x == -1 else math.nan)


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def float_floor(x: float) -> float:
    return math.copysign(float(math.floor(x)), x) if math.isfinite(x) else x


def _ceil(x: float) -> float:
    return math.copysign(float(math.ceil(x)), x) if math.isfinite(x) else x


def _trunc(x: float) -> float:
    return math.copysign(float(math.trunc(x)), x) if math.isfinite(x) else x


def _round_away(x: float) -> float:
    """Round to the nearest integer, halves away from zero."""
    if not math.isfinite(x) or abs(x) >= 1 << 52:
        return x
    whole = math.trunc(x)
    return math.copysign(float(whole + (1 if abs(x - whole) >= 0.5 else 0) * (1 if x > 0 else -1)), x)


def _round_even(x: float) -> float:
    return math.copysign(float(round(x)), x) if math.isfinite(x) else x


def _pow(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(x), np.float64(y)))


def _sinh(x: float) -> float:
    if abs(x) < 700 or x != x:
        return math.sinh(x)
    return math.copysign(INF, x)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else (0.0 if x == x else x)


def _exp10(x: float) -> float:
    return _pow(10.0, x)


def _ldexp(x: float, power: int) -> float:
    try:
        return math.ldexp(x, power)
    except OverflowError:
        return math.copysign(INF, x)


FLOAT_INTRINSICS: dict[str, Callable[..., float]] = {
    "exp": _guard(math.exp), "exp2": _guard(lambda x: math.pow(2.0, x)), "exp10": _exp10,
    "log": _log(math.log), "log2": _log(math.log2), "log10": _log(math.log10), "log1p": _log1p,
    "sqrt": _sqrt, "rsqrt": lambda x: float_div(1.0, _sqrt(x)), "tanh": math.tanh, "sigmoid": _sigmoid,
    "erf": math.erf, "sin": _guard(math.sin), "cos": _guard(math.cos), "tan": _guard(math.tan),
    "sinh": _sinh, "cosh": _guard(math.cosh), "asin": _guard(math.asin), "acos": _guard(math.acos),
    "atan": math.atan, "floor": float_floor, "ceil": _ceil, "round": _round_away, "trunc": _trunc,
    "nearbyint": _round_even, "fabs": abs, "pow": _pow, "fmod": float_mod, "atan2": math.atan2,
    "hypot": math.hypot, "copysign": math.copysign, "ldexp": _ldexp,
}  # fmt: skip


def fma(a: float, b: float, c: float, dtype: str) -> float:
    """a * b + c, rounded once to `dtype`."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return ROUND[dtype](a * b + c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    if dtype == "float64":
        try:
            return float(exact)
        except OverflowError:
            return math.copysign(INF, exact)
    # round to odd in binary64, so that the second rounding sees on which side of a tie the sum was
    near = float(exact)
    if Fraction(near) != exact and not struct.unpack("<Q", struct.pack("<d", near))[0] & 1:
        near = math.nextafter(near, INF if exact > near else -INF)
    return ROUND[dtype](near)


_BITS_CODE = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}


def nextafter(x: float, towards: float, dtype: str) -> float:
    """The value of `dtype` that follows x in the direction of `towards`."""
    if x != x or towards != towards:
        return math.nan
    if x == towards:
        return towards
    whole = _BITS_CODE[dtype]
    if x == 0.0:
        return math.copysign(reinterpret(1, whole, dtype), towards)
    bits: int = reinterpret(x, dtype, whole)
    found: float = reinterpret(bits + (1 if (towards > x) == (x > 0) else -1), whole, dtype)
    return found


def popcount(x: int, bits: int) -> int:
    return (x & ((1 << bits) - 1)).bit_count()


def clz(x: int, bits: int) -> int:
    """Leading zeros in `bits` bits; `bits` for 0."""
    return bits - (x & ((1 << bits) - 1)).bit_length()


_BITS = {"float32": "f", "float64": "d"}


def reinterpret(value: Any, source: str, target: str) -> Any:
    """The value of `target` that has the bits of `value`, both of one size."""
    size = parse_dtype(source).bits // 8
    if source in _BITS:
        raw = struct.pack("<" + _BITS[source], value)
    elif source == "float16":
        raw = float16_bits(value).to_bytes(2, "little")
    elif source == "bfloat16":
        raw = bfloat16_bits(value).to_bytes(2, "little")
    else:
        raw = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if target in _BITS:
        return struct.unpack("<" + _BITS[target], raw)[0]
    bits = int.from_bytes(raw, "little")
    if target == "float16":
        return FLOAT16_VALUES[bits]
    if target == "bfloat16":
        return BFLOAT16_VALUES[bits]
    return ops.wrap_int(bits, target)


def tile_product(group: int, dtype: str, c: list[Any], a: list[Any], b: list[Any]) -> list[Any]:
    """Return c[i, j] + Σ_k Σ_g a[i, k, g] * b[k, j, g] for j and k of 16.
    It is what a matrix unit adds to a tile of sums. float32 sums are rounded after each group."""
    total = np.array(c, dtype).reshape(-1, 16)
    left = np.array(a, "float64" if dtype == "float32" else dtype).reshape(-1, 16, group)
    right = np.array(b, left.dtype).reshape(16, 16, group)
    for k in range(16):
        total = (total + np.einsum("ig,jg->ij", left[:, k], right[k])).astype(dtype)
    found: list[Any] = total.ravel().tolist()
    return found
