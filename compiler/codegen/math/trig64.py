"""sin, cos and tan of float64: x = q pi/2 + r, r in two parts, and polynomials of r.

q pi/2 is subtracted with pi/2 in four parts, of which q times the first three is exact (Cody and Waite). What each
difference rounds away is kept (Knuth's TwoSum). From 2^20 on the C library is called, for all lanes if one needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.codegen.math import tables as t
from compiler.codegen.math.body import MathBody
from compiler.dtype import element_of

_LARGE = 2.0**20  # a count of quarter turns of 20 bits, times 33 bits of pi/2, is exact


def sin(m: MathBody, x: str) -> str:
    return _by_range(m, x, "sin", lambda: _wave(m, x, 0))


def cos(m: MathBody, x: str) -> str:
    return _by_range(m, x, "cos", lambda: _wave(m, x, 1))


def tan(m: MathBody, x: str) -> str:
    return _by_range(m, x, "tan", lambda: _tangent(m, x))


def _by_range(m: MathBody, x: str, library: str, near: Callable[[], str]) -> str:
    """`near`, or the library's where |x| is large."""
    result = near()
    large = m.test("oge", m.fabs(x), _LARGE)
    m.lines += [f"  br i1 {m.any(large)}, label %far, label %after", "far:"]
    far = m.choose(large, _called(m, library, x), result)
    m.lines += ["  br label %after", "after:"]
    return m.emit(f"phi {m.type} [ {result}, %entry ], [ {far}, %far ]")


def _called(m: MathBody, library: str, x: str) -> str:
    element = "double" if element_of(m.dtype) == "float64" else "float"
    m.declared[f"@{library}"] = f"{element} @{library}({element}) nounwind willreturn memory(none)"
    if m.lanes == 1:
        return m.emit(f"call {element} @{library}({element} {x})")
    result = "poison"
    for lane in range(m.lanes):
        one = m.emit(f"extractelement {m.type} {x}, i64 {lane}")
        found = m.emit(f"call {element} @{library}({element} {one})")
        result = m.emit(f"insertelement {m.type} {result}, {element} {found}, i64 {lane}")
    return result


def _wave(m: MathBody, x: str, ahead: int) -> str:
    """sin(x + ahead pi/2)."""
    quadrant, sine, cosine = _parts(m, x)
    quadrant = m.ints("add", quadrant, ahead)
    size = m.to_bits(m.choose(_odd(m, quadrant), cosine, sine))
    return m.from_bits(m.ints("xor", size, m.ints("shl", m.ints("and", quadrant, 2), 62)))


def _tangent(m: MathBody, x: str) -> str:
    quadrant, sine, cosine = _parts(m, x)
    odd = _odd(m, quadrant)
    return m.div(m.choose(odd, m.neg(cosine), sine), m.choose(odd, sine, cosine))


def _odd(m: MathBody, quadrant: str) -> str:
    return m.ints("icmp ne", m.ints("and", quadrant, 1), 0)


def _parts(m: MathBody, x: str) -> tuple[str, str, str]:
    """(q, sin r, cos r)."""
    quadrant, r, low = _reduced(m, x)
    z = m.mul(r, r)
    change = m.mul(low, m.fma(z, -0.5, 1.0))  # of the sine, by the low part of r
    sine = m.add(r, m.fma(m.mul(z, r), m.polynomial(z, t.SIN64), change))
    half = m.mul(z, 0.5)
    most = m.sub(1.0, half)
    lost = m.sub(m.sub(1.0, most), half)
    rest = m.sub(m.mul(m.mul(z, z), m.polynomial(z, t.COS64)), m.mul(r, low))
    signed = m.choose(m.test("oeq", x, 0.0), x, sine)  # the differences make 0 of -0
    return quadrant, signed, m.add(most, m.add(lost, rest))


def _reduced(m: MathBody, x: str) -> tuple[str, str, str]:
    """(q, r, low) with x = q pi/2 + r + low, |r| <= pi/4 and low less than half of r's last place."""
    count, quadrant = m.nearest(m.mul(x, 2 / math.pi))
    first, second, third, last = t.HALF_PI64
    r = m.sub(x, m.mul(count, first))  # exact
    r, lost = _difference(m, r, m.mul(count, second))
    r, lost_too = _difference(m, r, m.mul(count, third))
    low = m.sub(m.add(lost, lost_too), m.mul(count, last))
    total = m.add(r, low)
    return quadrant, total, m.add(m.sub(r, total), low)


def _difference(m: MathBody, a: str, b: str) -> tuple[str, str]:
    """a - b as rounded, and what that lost."""
    total = m.sub(a, b)
    other = m.sub(total, a)
    return total, m.sub(m.sub(a, m.sub(total, other)), m.add(b, other))
