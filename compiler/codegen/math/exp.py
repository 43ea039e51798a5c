"""exp and what is made of it.

x = n ln 2 + r, a polynomial of r, times 2^n (Cody and Waite's reduction).
"""

from __future__ import annotations

from compiler.codegen.math import tables as t
from compiler.codegen.math.body import MathBody

_EXP = {32: t.EXP32, 64: t.EXP64}
EXP2 = {32: t.EXP2_32, 64: t.EXP2_64}
_EXP10 = {32: t.EXP10_32, 64: t.EXP10_64}
_TANH_LIMIT = {32: 9.5, 64: 20.0}  # tanh is 1 from here on


SMALL = 32.0  # below the logarithm of 2^64, a quarter of the range of float32


class Power:
    """2^n, n the integer nearest to some x, as 2^(n + k) 2^-k: both are normal where 2^n is not.

    k is a quarter of the dtype's range of exponents, or as much below 0 where x is large. Adding `magic` to x rounds
    the fraction away and leaves n + k + bias in the low bits, from which an exponent is built.
    """

    def __init__(self, m: MathBody, k: int, factor: float = 1.0) -> None:
        """`factor` is a power of 2 that `times` multiplies by as well."""
        self.m = m
        self.magic: str | float = 1.5 * 2.0**m.mantissa + m.bias + k
        self.rest: str | float = 2.0**-k * factor

    @classmethod
    def below(cls, m: MathBody) -> Power:
        """The power for x of up to a quarter of the range."""
        return cls(m, (m.bias + 1) // 2)

    @classmethod
    def above(cls, m: MathBody, factor: float) -> Power:
        """The power for large x; at the least x is less than a quarter of the range below 0."""
        return cls(m, -(m.bias + 1) // 2, factor)

    @classmethod
    def by_sign(cls, m: MathBody, x: str) -> Power:
        """The power for any x."""
        power, above = cls.below(m), cls.above(m, 1.0)
        negative = m.ints("icmp slt", m.to_bits(x), 0)
        power.magic = m.choose(negative, power.magic, above.magic)
        power.rest = m.choose(negative, power.rest, above.rest)
        return power

    def whole(self, shifted: str) -> str:
        """n, of x + magic."""
        return self.m.sub(shifted, self.magic)

    def times(self, y: str, shifted: str) -> str:
        """y 2^n, rounded once, of x + magic."""
        m = self.m
        return m.mul(m.mul(y, m.from_bits(m.ints("shl", m.to_bits(shifted), m.mantissa))), self.rest)


def exp(m: MathBody, x: str) -> str:
    limits = t.EXP_LIMITS[m.bits]
    return _exp(m, m.at_least(m.at_most(x, limits.high), limits.low), Power.by_sign(m, x))


def exp_of_small(m: MathBody, x: str) -> str:
    """e^x where x <= SMALL or NaN: shorter, since nothing overflows."""
    return _exp(m, m.at_least(x, t.EXP_LIMITS[m.bits].low), Power.below(m))


def _exp(m: MathBody, x: str, power: Power) -> str:
    shifted = m.fma(x, t.LOG2_E[m.bits][0], power.magic)
    return power.times(m.polynomial(_less(m, x, power.whole(shifted), t.LN2), (1.0, 1.0, *_EXP[m.bits])), shifted)


def _less(m: MathBody, x: str, n: str, unit: dict[int, tuple[float, float]]) -> str:
    """x - n unit, the unit given in two parts."""
    high, low = unit[m.bits]
    return m.fma(n, -low, m.fma(n, -high, x))


def _reduced(m: MathBody, x: str) -> tuple[str, str]:
    """(n, e^r - 1) with x = n ln 2 + r."""
    whole, n = m.nearest(m.mul(x, t.LOG2_E[m.bits][0]))
    r = _less(m, x, whole, t.LN2)
    return n, m.fma(m.mul(r, r), m.polynomial(r, _EXP[m.bits]), r)


def exp2(m: MathBody, x: str) -> str:
    limits, power = t.EXP2_LIMITS[m.bits], Power.by_sign(m, x)
    x = m.at_least(m.at_most(x, limits.high), limits.low)
    shifted = m.add(x, power.magic)
    return power.times(m.polynomial(m.sub(x, power.whole(shifted)), (1.0, *EXP2[m.bits])), shifted)


def exp10(m: MathBody, x: str) -> str:
    limits, power = t.EXP10_LIMITS[m.bits], Power.by_sign(m, x)
    x = m.at_least(m.at_most(x, limits.high), limits.low)
    shifted = m.fma(x, t.LOG2_10, power.magic)
    r = _less(m, x, power.whole(shifted), t.LOG10_2)
    return power.times(m.polynomial(r, (1.0, *_EXP10[m.bits])), shifted)


def tanh(m: MathBody, x: str) -> str:
    """(e^2x - 1) / (e^2x + 1), from e^2x - 1 without cancellation."""
    size = m.at_most(m.fabs(x), _TANH_LIMIT[m.bits])
    n, minus_one = _reduced(m, m.add(size, size))
    power = m.power_of_two(n)
    grown = m.fma(power, minus_one, m.sub(power, 1.0))
    return m.copysign(m.div(grown, m.add(grown, 2.0)), x)


def sinh(m: MathBody, x: str) -> str:
    """(e^|x| - e^-|x|) / 2 from 1 on, a polynomial below."""
    size, square = m.fabs(x), m.mul(x, x)
    near = m.fma(m.mul(square, size), m.polynomial(square, t.SINH[m.bits]), size)
    half = _half_exp(m, size)
    far = m.sub(half, m.div(0.25, half))
    return m.copysign(m.choose(m.test("olt", size, 1.0), near, far), x)


def cosh(m: MathBody, x: str) -> str:
    """(e^|x| + e^-|x|) / 2."""
    half = _half_exp(m, m.fabs(x))
    return m.add(half, m.div(0.25, half))


def _half_exp(m: MathBody, size: str) -> str:
    """e^size / 2 of size >= 0: it overflows only where sinh does."""
    return _exp(m, m.at_most(size, t.EXP_LIMITS[m.bits].high + 1.0), Power.above(m, 0.5))


def sigmoid(m: MathBody, x: str) -> str:
    """1 / (1 + e^-x), written with e^-|x|, which never overflows."""
    power = exp_of_small(m, m.neg(m.fabs(x)))
    over = m.choose(m.test("olt", x, 0.0), power, 1.0)
    return m.div(over, m.add(power, 1.0))


def erf(m: MathBody, x: str) -> str:
    """A polynomial near 0, 1 - e^p(|x|) further out."""
    table, size = t.ERF[m.bits], m.fabs(x)
    near = m.fma(x, m.polynomial(m.mul(x, x), table.near), x)
    far_size = m.sub(m.at_most(size, table.end), table.middle)
    far = _one_less_power(m, m.polynomial(far_size, table.far))
    return m.copysign(m.choose(m.test("olt", size, table.switch), near, far), x)


def _one_less_power(m: MathBody, p: str) -> str:
    """1 - e^p of p from -40 to -1. The power is small beside 1, so that log2 e in one part is exact enough."""
    magic = 1.5 * 2.0**m.mantissa + m.bias
    shifted = m.fma(p, t.LOG2_E[m.bits][0], magic)
    r = m.fma(p, t.LOG2_E[m.bits][0], m.neg(m.sub(shifted, magic)))
    power = m.from_bits(m.ints("shl", m.to_bits(shifted), m.mantissa))
    return m.fma(m.neg(m.polynomial(r, (1.0, *EXP2[m.bits]))), power, 1.0)
