"""float16 to float32 and back in integer operations, for machines without the conversions.

LLVM would call a compiler's support library instead. A process that only loads our code may not have it.
"""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import float_constant, vector_of

_SHIFT = 13  # mantissa bits that float32 has more


class _Lanes:
    """Shorthand for values of one number of lanes."""

    def __init__(self, g: Gen, lanes: int) -> None:
        self.g, self.lanes = g, lanes
        self.single, self.whole = vector_of("float", lanes), vector_of("i32", lanes)
        self.mask, self.short, self.half = (vector_of(t, lanes) for t in ("i1", "i16", "half"))

    def constant(self, value: int | float) -> str:
        text = str(value) if isinstance(value, int) else float_constant(value, "float32")
        kind = "i32" if isinstance(value, int) else "float"
        return text if self.lanes == 1 else f"splat ({kind} {text})"

    def ints(self, op: str, a: str, b: str | int) -> str:
        right = b if isinstance(b, str) else self.constant(b)
        return self.g.w.value(f"{op} {self.whole} {a}, {right}", a, right)

    def choose(self, test: str, a: str, b: str) -> str:
        return self.g.w.value(f"select {self.mask} {test}, {self.whole} {a}, {self.whole} {b}", test, a, b)

    def cast(self, op: str, source: str, value: str, target: str) -> str:
        return self.g.w.value(f"{op} {source} {value} to {target}", value)


def half_to_single(g: Gen, value: str, lanes: int) -> str:
    """Convert exactly. The exponent is adjusted by a multiplication, which also normalises denormals."""
    v = _Lanes(g, lanes)
    bits = v.cast("zext", v.short, v.cast("bitcast", v.half, value, v.short), v.whole)
    size = v.ints("and", bits, 0x7FFF)
    small = v.cast("bitcast", v.whole, v.ints("shl", size, _SHIFT), v.single)
    factor = v.constant(2.0**112)
    moved = v.cast("bitcast", v.single, g.w.value(f"fmul {v.single} {small}, {factor}", small), v.whole)
    special = v.ints("icmp uge", size, 0x7C00)  # infinity and NaN
    moved = v.choose(special, v.ints("or", v.ints("shl", size, _SHIFT), 0x7F800000), moved)
    sign = v.ints("shl", v.ints("and", bits, 0x8000), 16)
    return v.cast("bitcast", v.whole, v.ints("or", moved, sign), v.single)


def single_to_half(g: Gen, value: str, lanes: int) -> str:
    """Round to the nearest half, ties to even.
    Denormal results are rounded by adding 1/2, because its last place equals the step between denormal halves."""
    v = _Lanes(g, lanes)
    bits = v.cast("bitcast", v.single, value, v.whole)
    size = v.ints("and", bits, 0x7FFFFFFF)
    odd = v.ints("and", v.ints("lshr", size, _SHIFT), 1)
    rounded = v.ints("add", v.ints("add", size, odd), 0xFFF - (112 << 23))
    normal = v.ints("lshr", rounded, _SHIFT)
    number = v.cast("bitcast", v.whole, size, v.single)
    near_half = g.w.value(f"fadd {v.single} {number}, {v.constant(0.5)}", number)
    tiny = v.ints("sub", v.cast("bitcast", v.single, near_half, v.whole), 0x3F000000)
    finite = v.choose(v.ints("icmp ult", size, 0x38800000), tiny, normal)
    bounded = v.choose(v.ints("icmp uge", size, 0x477FF000), v.constant(0x7C00), finite)
    kept = v.choose(v.ints("icmp ugt", size, 0x7F800000), v.constant(0x7E00), bounded)
    sign = v.ints("and", v.ints("lshr", bits, 16), 0x8000)
    short = v.cast("trunc", v.whole, v.ints("or", kept, sign), v.short)
    return v.cast("bitcast", v.short, short, v.half)
