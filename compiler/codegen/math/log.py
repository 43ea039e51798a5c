"""log, log2, log10, log1p and pow.

x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and a polynomial of f.
"""

from __future__ import annotations

import math

from compiler.codegen.math import tables as t
from compiler.codegen.math.body import MathBody


def _split(m: MathBody, x: str) -> tuple[str, str]:
    """(e, bits of 1 + f) of a normal number x."""
    offset = 0x3F3504F3 if m.bits == 32 else 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
    shifted = m.ints("sub", m.to_bits(x), offset)
    exponent = m.ints("ashr", shifted, m.mantissa)
    fraction = m.ints("and", shifted, (1 << m.mantissa) - 1)
    return exponent, m.ints("add", fraction, offset)


def _to_float(m: MathBody, exponent: str) -> str:
    """Convert a small integer to a float.
    64-bit ones go by their bits, because not every machine converts them in vectors."""
    if m.bits == 32:
        return m.emit(f"sitofp {m.whole} {exponent} to {m.type}")
    magic = 1.5 * 2.0**m.mantissa
    bits = (m.bias + m.mantissa) << m.mantissa | 1 << (m.mantissa - 1)
    return m.sub(m.from_bits(m.ints("add", exponent, bits)), magic)


def normal(m: MathBody, x: str) -> tuple[str, str]:
    """(e, f), for denormal x too."""
    small = m.test("olt", x, 2.0 ** (1 - m.bias))
    shift = m.mantissa + 2
    grown = m.choose(small, m.mul(x, 2.0**shift), x)
    exponent, bits = _split(m, grown)
    e = _to_float(m, exponent)
    return m.choose(small, m.sub(e, float(shift)), e), m.sub(m.from_bits(bits), 1.0)


def _bent(m: MathBody, f: str) -> str:
    """(log(1 + f) - f) / f² of float32."""
    return m.fma(f, m.polynomial(f, t.LOG32), -0.5)


def _rest(m: MathBody, f: str) -> str:
    """log(1 + f) - f."""
    square = m.mul(f, f)
    if m.bits == 32:
        return m.mul(square, _bent(m, f))
    s = m.div(f, m.add(f, 2.0))
    z = m.mul(s, s)
    half = m.mul(square, 0.5)
    return m.fma(s, m.fma(m.polynomial(z, t.LOG64), z, half), m.neg(half))


def _sum(m: MathBody, e: str, f: str, scale: tuple[float, float], step: tuple[float, float]) -> str:
    """Return e * step + log(1 + f) * scale. Both numbers come as a leading part and the rest."""
    if scale == (1.0, 0.0):
        return m.fma(e, step[0], m.add(f, m.fma(e, step[1], _rest(m, f))))
    if m.bits == 32:
        low = m.mul(f, m.fma(m.mul(f, _bent(m, f)), scale[0], scale[1]))
    else:
        low = m.fma(_rest(m, f), scale[0], m.mul(f, scale[1]))
    if step[1]:
        low = m.fma(e, step[1], low)
    return m.fma(e, step[0], m.fma(f, scale[0], low))


def _finish(m: MathBody, x: str, result: str) -> str:
    """The special values: 0, infinity, negative numbers, NaN."""
    positive = m.choose(m.test("oeq", x, math.inf), x, result)
    nonzero = m.choose(m.test("oeq", x, 0.0), -math.inf, positive)
    return m.choose(m.test("ult", x, 0.0), math.nan, nonzero)


def _logarithm(m: MathBody, x: str, scale: tuple[float, float], step: tuple[float, float]) -> str:
    """Return the sum of the parts of x.
    In float32 the parts carry the special values, so that most vectors need only one test. In float64 a step's second
    part may be negative, and infinity less infinity is no number."""
    if m.bits == 32:
        return _sum(m, *_parts(m, x), scale, step)
    return _finish(m, x, _sum(m, *normal(m, x), scale, step))


def _parts(m: MathBody, x: str) -> tuple[str, str]:
    """Return (e, f) of any x: e is infinite or NaN where the logarithm is, f is never.
    Vectors with a number that is not positive and normal take a separate path."""
    exponent, bits = _split(m, x)
    e, f = _to_float(m, exponent), m.sub(m.from_bits(bits), 1.0)
    low, high = m.test("ult", x, 2.0 ** (1 - m.bias)), m.test("oeq", x, math.inf)
    rare, after = "rare", "after"
    m.lines.append(f"  br i1 {m.any(m.emit(f'or {m.mask} {low}, {high}'))}, label %{rare}, label %{after}")
    m.lines.append(f"{rare}:")
    rare_e, rare_f = normal(m, x)
    rare_e = _finish(m, x, rare_e)
    m.lines += [f"  br label %{after}", f"{after}:"]
    return (
        m.emit(f"phi {m.type} [ {e}, %entry ], [ {rare_e}, %{rare} ]"),
        m.emit(f"phi {m.type} [ {f}, %entry ], [ {rare_f}, %{rare} ]"),
    )


def log(m: MathBody, x: str) -> str:
    return _logarithm(m, x, (1.0, 0.0), t.LN2[m.bits])


def log2(m: MathBody, x: str) -> str:
    return _logarithm(m, x, t.LOG2_E[m.bits], (1.0, 0.0))


def log10(m: MathBody, x: str) -> str:
    return _logarithm(m, x, t.LOG10_E[m.bits], t.LOG10_2[m.bits])


def log1p(m: MathBody, x: str) -> str:
    """Return (e, f) of 1 + x.
    e comes from 1 + x as rounded; f = 2^-e x + (2^-e - 1) has what that lost."""
    u = m.add(x, 1.0)
    exponent, bits = _split(m, u)
    direct = m.sub(m.from_bits(bits), 1.0)
    shrink = m.power_of_two(m.ints("sub", m.integer(0), exponent))
    exact = m.fma(shrink, x, m.sub(shrink, 1.0))
    f = m.choose(m.test("ogt", x, 2.0 ** (m.mantissa + 1)), direct, exact)
    result = _sum(m, _to_float(m, exponent), f, (1.0, 0.0), t.LN2[m.bits])
    return m.choose(m.test("oeq", x, 0.0), x, _finish(m, u, result))


def power(m: MathBody, x: str, y: str) -> str:
    """Return float32 x^y as 2^(y log2 |x|) in binary64.
    C's rules then apply to what is not a positive number."""
    d = m.at("float64")
    base = d.emit(f"fpext {m.type} {m.fabs(x)} to {d.type}")
    exponent, bits = _split(d, base)
    fraction = d.from_bits(bits)
    s = d.div(d.sub(fraction, 1.0), d.add(fraction, 1.0))
    log2 = d.fma(s, d.polynomial(d.mul(s, s), t.LOG2_POW), _to_float(d, exponent))
    log2 = d.choose(d.test("oeq", base, 0.0), -math.inf, d.choose(d.test("oeq", base, math.inf), math.inf, log2))
    product = d.mul(log2, d.emit(f"fpext {m.type} {y} to {d.type}"))
    product = d.at_least(d.at_most(product, 300.0), -300.0)
    whole, n = d.nearest(product)
    r = d.sub(product, whole)
    size = d.mul(d.fma(r, d.polynomial(r, t.EXP2_POW), 1.0), d.power_of_two(n))
    result = m.emit(f"fptrunc {d.type} {size} to {m.type}")
    return power_rules(m, x, y, result)


def power_rules(m: MathBody, x: str, y: str, size: str) -> str:
    """Return |x|^y with its sign.
    It is 1 if x is 1 or y is 0, whatever the other is, and NaN for a negative x and a fractional y."""
    odd = _is_odd(m, y)
    signed = m.choose(odd, m.copysign(size, x), size)
    negative = m.emit(f"and {m.mask} {m.test('olt', x, 0.0)}, {m.test('ogt', x, -math.inf)}")
    broken = m.emit(f"and {m.mask} {negative}, {m.test('une', m.call('trunc', y), y)}")
    nowhere = m.emit(f"or {m.mask} {broken}, {m.test('uno', x, 0.0)}")
    result = m.choose(nowhere, math.nan, signed)
    still = m.emit(f"and {m.mask} {m.test('oeq', m.fabs(y), math.inf)}, {m.test('oeq', m.fabs(x), 1.0)}")
    one = m.emit(f"or {m.mask} {m.test('oeq', x, 1.0)}, {m.test('oeq', y, 0.0)}")
    return m.choose(m.emit(f"or {m.mask} {still}, {one}"), 1.0, result)


def _is_odd(m: MathBody, y: str) -> str:
    """Whether y is an odd integer: y/2 is then half an integer. Large y, and infinity, are even."""
    half = m.mul(y, 0.5)
    whole = m.test("oeq", m.call("trunc", y), y)
    return m.emit(f"and {m.mask} {whole}, {m.test('one', m.call('trunc', half), half)}")
