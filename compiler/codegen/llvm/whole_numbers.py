"""Round floats that are limited to whole numbers in one instruction, as quantisation needs it.

    uint8(max(min(nearbyint(x) + z, 255), 0))    →    trunc(lrint(min(max(x, 0 - z), 255 - z)) + z)

`x` is limited before it is rounded, so a conversion has nothing left to check. A use of the integer, as
`int32(uint8(…))`, narrows and widens nothing.

`x = a / c` with a known `c` is no division. 1 / c is the sum of two floats, `high` and the far smaller `low`, and

    fma(a, high, a * low)

is a / c but for, at times, its last bit. N. Brisebarre, J.-M. Muller, S. K. Raina, "Accelerating Correctly Rounded
Floating-Point Division When the Divisor Is Known in Advance", 2004. Both grow with `a`. It is therefore enough that
they round alike for the values of `a` next to where the integer changes; `quotient` tries these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import bits_of, code_of, float_constant, is_float, lanes_of, llvm_type
from compiler.codegen.llvm.values import choose, convert, intrinsic
from compiler.codegen.llvm.x86.packed_bytes import PACKED, packed
from compiler.dtype import element_of, with_lanes
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_MOST = 1 << 16  # the numbers of an integer of 16 bits
_BESIDE = 4  # floats on both sides of a step that are tried
_SHIFT = 255  # the largest zero point of bytes
_FUSED = ("fma", "avx512f")  # features of x86; other CPUs are asked nothing


@dataclass(frozen=True)
class Rounded:
    """The integer `dtype(max(min(nearbyint(value) + shift, most), least))`.
    `dtype` has `least` and `most`."""

    value: PrimExpr
    shift: int
    least: int
    most: int
    dtype: str


def rounded(expr: n.Cast) -> Rounded | None:
    """Return what `expr` rounds; None for another expression."""
    dtype, limited = expr.dtype, expr.value
    if code_of(dtype) not in ("int", "uint") or bits_of(dtype) not in (8, 16) or element_of(limited.dtype) != "float32":
        return None
    below = limited.a if isinstance(limited, n.Max) else None
    if not isinstance(limited, n.Max) or not isinstance(below, n.Min):
        return None
    least, most, inner = _whole(limited.b), _whole(below.b), below.a
    shift: int | None = 0
    if isinstance(inner, n.Add):
        shift = _whole(inner.b)
        inner = inner.a
    if least is None or most is None or shift is None or not isinstance(inner, n.Call):
        return None
    signed, bits = code_of(dtype) == "int", bits_of(dtype)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if getattr(inner.op, "name", "") != "tir.nearbyint" or not low <= least <= most <= high or abs(shift) > _MOST:
        return None
    return Rounded(inner.args[0], shift, least, most, dtype)


def as_integer(g: Gen, found: Rounded) -> str:
    """Return `found` as int32."""
    lanes, low, high = lanes_of(found.dtype), found.least - found.shift, found.most - found.shift
    wide, whole = with_lanes("float32", lanes), with_lanes("int32", lanes)
    division = _division(g, found.value, low, high)
    if division is None:
        value = g.value(found.value)
        near = limited = _limited(g, value, lanes, float(low), float(high))
    else:
        value = g.value(division.dividend)
        limited = _limited(g, value, lanes, division.least, division.most)
        small = g.w.value(f"fmul {llvm_type(wide)} {limited}, {_number(division.low, lanes)}", limited)
        near = intrinsic(g, "fma", wide, limited, _number(division.high, lanes), small)
    made = _nearest(g, near, wide, whole)
    if found.shift:
        made = g.w.value(f"add nsw {llvm_type(whole)} {made}, {_integer(found.shift, lanes)}", made)
    if found.least:  # NaN became the least number, but is 0
        ordered = g.w.value(f"fcmp ord {llvm_type(wide)} {value}, {value}", value)
        made = choose(g, ordered, lanes, llvm_type(whole), made, _integer(0, lanes))
    return made


def narrowed(g: Gen, found: Rounded) -> str:
    """Return `found` as its own dtype."""
    are_bytes = (found.least, found.most) == (0, 255) and abs(found.shift) <= _SHIFT
    packs = "avx512bw" in g.module.options.features and g.module.options.device is None
    if lanes_of(found.dtype) in PACKED and are_bytes and packs:
        return packed(g, found.dtype, *_below(g, found), found.shift)
    return convert(g, as_integer(g, found), with_lanes("int32", lanes_of(found.dtype)), found.dtype)


def _below(g: Gen, found: Rounded) -> tuple[str, str]:
    """Return the floats that `found` rounds, none above the most one, and their type. They may be NaN."""
    lanes, low, high = lanes_of(found.dtype), found.least - found.shift, found.most - found.shift
    wide = with_lanes("float32", lanes)
    ty, division = llvm_type(wide), _division(g, found.value, low, high)
    value = g.value(found.value if division is None else division.dividend)
    bound = _number(float(high) if division is None else division.most, lanes)
    above = g.w.value(f"fcmp ogt {ty} {value}, {bound}", value)
    value = choose(g, above, lanes, ty, bound, value)
    if division is not None:
        small = g.w.value(f"fmul {ty} {value}, {_number(division.low, lanes)}", value)
        value = intrinsic(g, "fma", wide, value, _number(division.high, lanes), small)
    return value, ty


def _limited(g: Gen, value: str, lanes: int, least: float, most: float) -> str:
    """Limit `value` to two numbers, by an instruction each; NaN becomes `least`."""
    ty = llvm_type(with_lanes("float32", lanes))
    for relation, bound in (("ogt", _number(least, lanes)), ("olt", _number(most, lanes))):
        inside = g.w.value(f"fcmp {relation} {ty} {value}, {bound}", value)
        value = choose(g, inside, lanes, ty, value, bound)
    return value


def _nearest(g: Gen, value: str, wide: str, whole: str) -> str:
    """Round floats that int32 can hold."""
    ty, tx, lanes = llvm_type(whole), llvm_type(wide), lanes_of(wide)
    if not g.module.options.features or g.module.options.device is not None:
        near = intrinsic(g, "nearbyint", wide, value)
        return g.w.value(f"fptosi {tx} {near} to {ty}", near)
    vector = f"v{lanes}" if lanes > 1 else ""
    name = f"@llvm.lrint.{vector}i32.{vector}f32"
    g.module.declare(name, f"{ty} {name}({tx})")
    return g.w.value(f"call {ty} {name}({tx} {value})", value)


def _number(value: float, lanes: int) -> str:
    text = float_constant(value, "float32")
    return text if lanes == 1 else f"splat (float {text})"


def _integer(value: int, lanes: int) -> str:
    return str(value) if lanes == 1 else f"splat (i32 {value})"


def _whole(expr: PrimExpr) -> int | None:
    """Return the whole number that a constant is."""
    while isinstance(expr, n.Broadcast | n.Cast):
        expr = expr.value
    whole = isinstance(expr, n.IntImm) or (isinstance(expr, n.FloatImm) and float(expr.value).is_integer())
    return int(expr.value) if whole and isinstance(expr, n.IntImm | n.FloatImm) else None


# -------------------------------------------------------------------------------- division


@dataclass(frozen=True)
class Quotient:
    """Divide by a number: multiply by `high` and `low`, after limiting the value to `least` and `most`."""

    high: float
    low: float
    least: float
    most: float


@dataclass(frozen=True)
class _Division(Quotient):
    dividend: PrimExpr


def _division(g: Gen, value: PrimExpr, low: int, high: int) -> _Division | None:
    if not isinstance(value, n.Div) or not is_float(value.dtype) or not g.module.options.features.intersection(_FUSED):
        return None
    divisor = value.b.value if isinstance(value.b, n.Broadcast) else value.b
    found = quotient(float(divisor.value), low, high) if isinstance(divisor, n.FloatImm) else None
    return None if found is None else _Division(found.high, found.low, found.least, found.most, value.a)


@lru_cache(maxsize=1024)
def quotient(divisor: float, low: int, high: int) -> Quotient | None:
    """Return how to divide float32 numbers by `divisor`.
    None if some quotient from `low` to `high` would be rounded to another integer than a division gives."""
    if not 1e-30 < divisor < 1e30 or high <= low or high - low > _MOST:
        return None
    by = np.float32(divisor)
    first = np.float32(1 / float(by))
    second = np.float32((1 - float(first) * float(by)) / float(by))  # the product is exact
    ends = (np.array([low, high], np.float32) * by).astype(np.float32)
    steps = ((np.arange(low, high) + 0.5) * float(by)).astype(np.float32)
    bits = steps.view(np.int32)[:, None] + np.arange(-_BESIDE, _BESIDE + 1, dtype=np.int32)
    tried = np.concatenate([ends, bits.view(np.float32).reshape(-1)])
    tried = tried[(tried >= ends[0]) & (tried <= ends[1])]
    exact = np.rint(tried / by)
    if not np.array_equal(np.rint(ends / by), [low, high]):
        return None
    if not np.array_equal(np.rint(_fused(tried, first, tried * second)), exact):
        return None
    return Quotient(float(first), float(second), float(ends[0]), float(ends[1]))


def _fused(a: NDArray[np.float32], b: np.float32, c: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a * b + c, rounded once.
    The sum of float64 is rounded to odd, so that rounding it again does no harm."""
    product, other = a.astype(np.float64) * np.float64(b), c.astype(np.float64)
    total = product + other
    back = total - product
    error = (product - (total - back)) + (other - back)
    even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even, odd, total).astype(np.float32)
