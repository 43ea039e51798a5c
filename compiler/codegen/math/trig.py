"""sin, cos and tan of float32: x = q pi/2 + r, and a polynomial of r.

q pi/2 is subtracted in binary64 with pi/2 in two parts (Cody and Waite). Where |x| is 2^20 or more, r comes from
the bits of 2/pi that matter for its exponent, in integers (Payne and Hanek). No library is called for any x.
"""

from __future__ import annotations

import math

from compiler.codegen.math import tables as t
from compiler.codegen.math.body import MathBody

_LARGE = 2.0**20


def sin(m: MathBody, x: str) -> str:
    quadrant, r = _reduced(m, x)
    return _finish(m, x, _wave(m, quadrant, r), zero=x)


def cos(m: MathBody, x: str) -> str:
    quadrant, r = _reduced(m, x)
    return _finish(m, x, _wave(m, m.ints("add", quadrant, 1), r), zero=1.0)


def tan(m: MathBody, x: str) -> str:
    quadrant, r = _reduced(m, x)
    z = m.mul(r, r)
    value = m.fma(m.mul(z, r), m.polynomial(z, t.TAN32), r)
    odd = m.ints("icmp ne", m.ints("and", quadrant, 1), 0)
    return _finish(m, x, m.choose(odd, m.div(-1.0, value), value), zero=x)


def _wave(m: MathBody, quadrant: str, r: str) -> str:
    """sin(quadrant pi/2 + r)."""
    z = m.mul(r, r)
    sine = m.fma(m.mul(z, r), m.polynomial(z, t.SIN32), r)
    cosine = m.fma(m.mul(z, z), m.polynomial(z, t.COS32), m.fma(z, -0.5, 1.0))
    odd = m.ints("icmp ne", m.ints("and", quadrant, 1), 0)
    size = m.to_bits(m.choose(odd, cosine, sine))
    return m.from_bits(m.ints("xor", size, m.ints("shl", m.ints("and", quadrant, 2), 30)))


def _finish(m: MathBody, x: str, result: str, zero: str | float) -> str:
    """Zero keeps its sign; infinity and NaN give NaN."""
    finite = m.choose(m.test("olt", m.fabs(x), math.inf), result, math.nan)
    return m.choose(m.test("oeq", x, 0.0), zero, finite)


def _reduced(m: MathBody, x: str) -> tuple[str, str]:
    """(q, r) with x = q pi/2 + r and |r| <= pi/4; q modulo 4."""
    d = m.at("float64")
    wide = d.emit(f"fpext {m.type} {x} to {d.type}")
    count, whole = d.nearest(d.mul(wide, 2 / math.pi))
    near = d.fma(count, -t.HALF_PI[1], d.fma(count, -t.HALF_PI[0], wide))
    r = m.emit(f"fptrunc {d.type} {near} to {m.type}")
    q = m.emit(f"trunc {d.whole} {whole} to {m.whole}")
    large = m.test("oge", m.fabs(x), _LARGE)
    start, far, after = "entry", "far", "after"
    m.lines.append(f"  br i1 {m.any(large)}, label %{far}, label %{after}")
    m.lines.append(f"{far}:")
    far_q, far_r = _far(m, d, x)
    far_q, far_r = m.choose_int(large, far_q, q), m.choose(large, far_r, r)
    m.lines += [f"  br label %{after}", f"{after}:"]
    return (
        m.emit(f"phi {m.whole} [ {q}, %{start} ], [ {far_q}, %{far} ]"),
        m.emit(f"phi {m.type} [ {r}, %{start} ], [ {far_r}, %{far} ]"),
    )


def _far(m: MathBody, d: MathBody, x: str) -> tuple[str, str]:
    """Reduce |x| >= 2^20: x = M 2^k with M < 2^24, times 96 bits of 2/pi from bit k on, modulo 4."""
    words = [(t.TWO_OVER_PI >> (192 - 64 * i)) & (1 << 64) - 1 for i in range(4)]
    bits = m.to_bits(m.fabs(x))
    where = m.ints("sub", m.ints("lshr", bits, 23), 150 - 6)  # k + 6: eight zeros stand first, and two bits are kept
    mantissa = m.ints("or", m.ints("and", bits, (1 << 23) - 1), 1 << 23)
    k = d.emit(f"zext {m.whole} {where} to {d.whole}")
    big = d.emit(f"zext {m.whole} {mantissa} to {d.whole}")
    second = d.ints("icmp uge", k, 64)

    def word(i: int) -> str:
        return d.choose_int(second, d.integer(_signed(words[i + 1])), d.integer(_signed(words[i])))

    shift = d.ints("and", k, 63)
    first, middle, last = word(0), word(1), word(2)
    high, low = _funnel(d, first, middle, shift), _funnel(d, middle, last, shift)
    product = d.ints("mul", big, high)
    carried = d.ints("lshr", d.ints("mul", big, d.ints("lshr", low, 32)), 32)
    turns = d.ints("add", product, carried)  # quarter turns, the top two bits whole
    q = d.ints("lshr", d.ints("add", turns, 1 << 61), 62)
    fraction = d.ints("sub", turns, d.ints("shl", q, 62))
    r = d.mul(d.emit(f"sitofp {d.whole} {fraction} to {d.type}"), math.pi / 2 * 2.0**-62)
    single = m.emit(f"fptrunc {d.type} {r} to {m.type}")
    quadrant = m.emit(f"trunc {d.whole} {q} to {m.whole}")
    negative = m.test("olt", x, 0.0)
    back = m.ints("sub", m.integer(0), quadrant)
    return m.choose_int(negative, back, quadrant), m.choose(negative, m.neg(single), single)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _funnel(d: MathBody, a: str, b: str, shift: str) -> str:
    """The high 64 bits of a:b shifted left."""
    suffix = f"v{d.lanes}i64" if d.lanes > 1 else "i64"
    name = f"@llvm.fshl.{suffix}"
    d.declared[name] = f"{d.whole} {name}({d.whole}, {d.whole}, {d.whole})"
    return d.emit(f"call {d.whole} {name}({d.whole} {a}, {d.whole} {b}, {d.whole} {shift})")
