"""exp, exp2, exp10, tanh, sigmoid, erf: x = n ln 2 + r, a polynomial of r, times 2^n (Cody and Waite's reduction)."""

from __future__ import annotations

from compiler.codegen import math_tables as t
from compiler.codegen.math_body import MathBody

_EXP = {32: t.EXP32, 64: t.EXP64}
_EXP2 = {32: t.EXP2_32, 64: t.EXP2_64}
_EXP10 = {32: t.EXP10_32, 64: t.EXP10_64}
_TANH_LIMIT = {32: 9.5, 64: 20.0}  # tanh is 1 from here on


def exp(m: MathBody, x: str) -> str:
    limits = t.EXP_LIMITS[m.bits]
    n, minus_one = _reduced(m, m.at_least(m.at_most(x, limits.high), limits.low))
    return m.scale(m.add(minus_one, 1.0), n)


def _reduced(m: MathBody, x: str) -> tuple[str, str]:
    """(n, e^r - 1) with x = n ln 2 + r."""
    high, low = t.LN2[m.bits]
    whole, n = m.nearest(m.mul(x, t.LOG2_E[m.bits][0]))
    r = m.fma(whole, -low, m.fma(whole, -high, x))
    return n, m.fma(m.mul(r, r), m.polynomial(r, _EXP[m.bits]), r)


def exp2(m: MathBody, x: str) -> str:
    limits = t.EXP2_LIMITS[m.bits]
    x = m.at_least(m.at_most(x, limits.high), limits.low)
    whole, n = m.nearest(x)
    r = m.sub(x, whole)
    return m.scale(m.fma(r, m.polynomial(r, _EXP2[m.bits]), 1.0), n)


def exp10(m: MathBody, x: str) -> str:
    limits = t.EXP10_LIMITS[m.bits]
    high, low = t.LOG10_2[m.bits]
    x = m.at_least(m.at_most(x, limits.high), limits.low)
    whole, n = m.nearest(m.mul(x, t.LOG2_10))
    r = m.fma(whole, -low, m.fma(whole, -high, x))
    return m.scale(m.fma(r, m.polynomial(r, _EXP10[m.bits]), 1.0), n)


def tanh(m: MathBody, x: str) -> str:
    """(e^2x - 1) / (e^2x + 1), from e^2x - 1 without cancellation."""
    size = m.at_most(m.fabs(x), _TANH_LIMIT[m.bits])
    n, minus_one = _reduced(m, m.add(size, size))
    power = m.power_of_two(n)
    grown = m.fma(power, minus_one, m.sub(power, 1.0))
    return m.copysign(m.div(grown, m.add(grown, 2.0)), x)


def sigmoid(m: MathBody, x: str) -> str:
    """1 / (1 + e^-x), written with e^-|x|, which never overflows."""
    power = exp(m, m.neg(m.fabs(x)))
    over = m.choose(m.test("olt", x, 0.0), power, 1.0)
    return m.div(over, m.add(power, 1.0))


def erf(m: MathBody, x: str) -> str:
    """float32 only: a polynomial near 0, 1 - e^p(|x|) further out."""
    near = m.fma(x, m.polynomial(m.mul(x, x), t.ERF_NEAR32), x)
    size = m.fabs(x)
    far_size = m.at_most(size, 4.0)
    n, minus_one = _reduced(m, m.polynomial(far_size, t.ERF_FAR32))
    far = m.sub(1.0, m.mul(m.add(minus_one, 1.0), m.power_of_two(n)))
    return m.copysign(m.choose(m.test("olt", size, 1.0), near, far), x)
