"""fmod, ldexp and hypot.

Those of float32 are computed in float64, where the steps are exact; those of float64 use powers of two that keep all
steps in range.
"""

from __future__ import annotations

import math

from compiler.codegen.math.body import MathBody

_QUOTIENT_BITS = 28  # times the 24 of a divisor: a product that float64 holds


def ldexp(m: MathBody, x: str, power: str) -> str:
    """Return x 2^power, rounded once.
    `power` is an integer held as a float. Its conversion rounds only numbers that are far out of range."""
    d = m.at("float64")
    limited = m.at_least(m.at_most(power, 300.0), -300.0)
    _, exponent = d.nearest(_wide(m, d, limited))
    return _narrow(m, d, d.mul(_wide(m, d, x), d.power_of_two(exponent)))


def hypot(m: MathBody, x: str, y: str) -> str:
    """Square without overflow or underflow.
    The result is infinite if either operand is, even if the other is NaN."""
    d = m.at("float64")
    a, b = _wide(m, d, x), _wide(m, d, y)
    length = _narrow(m, d, d.call("sqrt", d.fma(a, a, d.mul(b, b))))
    infinite = (m.test("oeq", m.fabs(v), math.inf) for v in (x, y))
    return m.choose(m.emit(f"or {m.mask} {next(infinite)}, {next(infinite)}"), math.inf, length)


def ldexp64(m: MathBody, x: str, power: str) -> str:
    """Return x 2^power, rounded once.
    The last of three factors is the only one that makes a number denormal, unless the result is 0."""
    rest = m.at_least(m.at_most(power, 2200.0), -2200.0)
    last = _factor(m, rest)
    rest = m.sub(rest, last)
    middle = _factor(m, rest)
    scaled = x
    for count in (m.sub(rest, middle), middle, last):
        scaled = m.mul(scaled, m.power_of_two(m.nearest(count)[1]))
    return scaled


def _factor(m: MathBody, power: str) -> str:
    """Return `power`, cut to where 2^power is a normal number."""
    return m.at_least(m.at_most(power, 1023.0), -1022.0)


def hypot64(m: MathBody, x: str, y: str) -> str:
    """Return sqrt(x² + y²), bringing the numbers near 1 where squares would overflow or vanish.
    It is infinite if either is, even if the other is NaN."""
    a, b = m.fabs(x), m.fabs(y)
    larger = m.choose(m.test("ogt", a, b), a, b)
    huge, tiny = m.test("ogt", larger, 2.0**500), m.test("olt", larger, 2.0**-450)
    scale = m.choose(huge, 2.0**-600, m.choose(tiny, 2.0**600, 1.0))
    back = m.choose(huge, 2.0**600, m.choose(tiny, 2.0**-600, 1.0))
    u, v = m.mul(a, scale), m.mul(b, scale)
    length = m.mul(m.call("sqrt", m.fma(u, u, m.mul(v, v))), back)
    infinite = m.emit(f"or {m.mask} {m.test('oeq', a, math.inf)}, {m.test('oeq', b, math.inf)}")
    return m.choose(infinite, math.inf, length)


def fmod(m: MathBody, x: str, y: str) -> str:
    """Subtract multiples of |y| from |x|.
    Each quotient has few bits, so nothing is rounded. One step is mostly enough."""
    d = m.at("float64")
    size, divisor = m.fabs(x), m.fabs(y)
    finite = m.test("olt", size, math.inf)
    defined = m.emit(f"and {m.mask} {finite}, {m.test('ogt', divisor, 0.0)}")
    start = _wide(m, d, m.choose(defined, size, 0.0))
    by = _wide(m, d, m.choose(defined, divisor, 1.0))
    twice = d.add(by, by)
    m.lines += ["  br label %less", "less:", ""]
    rest, slot = f"%m{len(m.lines) - 1}", len(m.lines) - 1
    quotient = d.mul(d.div(rest, by), 1.0 - 2.0**-40)  # never above the true one
    few = d.from_bits(d.ints("and", d.to_bits(quotient), -1 << (53 - _QUOTIENT_BITS)))
    less = d.sub(rest, d.mul(d.call("trunc", few), by))
    large = d.test("oge", rest, twice)
    following = d.choose(large, less, rest)
    again = m.any(d.test("oge", following, twice))
    m.lines[slot] = f"  {rest} = phi {d.type} [ {start}, %entry ], [ {following}, %less ]"
    m.lines += [f"  br i1 {again}, label %less, label %done", "done:"]
    last = d.choose(d.test("oge", following, by), d.sub(following, by), following)
    signed = m.copysign(_narrow(m, d, last), x)
    return m.choose(defined, m.choose(m.test("oeq", divisor, math.inf), x, signed), math.nan)


def _wide(m: MathBody, d: MathBody, x: str) -> str:
    return m.emit(f"fpext {m.type} {x} to {d.type}")


def _narrow(m: MathBody, d: MathBody, x: str) -> str:
    return m.emit(f"fptrunc {d.type} {x} to {m.type}")
