"""pow of float64: log2 |x| as the sum of two numbers, times y, and 2 to the power of that.

The error of the logarithm is multiplied by up to 1074, so it is carried in pairs (high, low) of twice the precision
(Dekker's products, which need no fused operation). log(1 + f) = 2 atanh s with s = f / (2 + f).
"""

from __future__ import annotations

import math

from compiler.codegen.math import tables as t
from compiler.codegen.math.body import MathBody
from compiler.codegen.math.exp import Power
from compiler.codegen.math.log import normal, power_rules

Pair = tuple[str, str]

_ANY_RESULT = 2.0**65  # |y| beyond this gives 0, 1 or infinity, whatever |x| is
_UPPER_HALF = -1 << 27  # of a significand


def power(m: MathBody, x: str, y: str) -> str:
    size = m.fabs(x)
    limited = m.at_least(m.at_most(y, _ANY_RESULT), -_ANY_RESULT)
    product, rest = _times(m, _log2(m, size), (limited, m.number(0.0)))
    product = m.choose(m.test("oeq", size, math.inf), m.mul(limited, math.inf), product)
    product = m.choose(m.test("oeq", size, 0.0), m.mul(limited, -math.inf), product)
    rest = m.choose(m.test("olt", m.fabs(product), 1100.0), rest, 0.0)
    limits = t.EXP2_LIMITS[64]
    product = m.at_least(m.at_most(product, limits.high), limits.low)
    scale = Power.by_sign(m, product)
    shifted = m.add(product, scale.magic)
    near = m.polynomial(m.sub(product, scale.whole(shifted)), (1.0, *t.EXP2_64))
    near = m.fma(near, m.mul(rest, math.log(2)), near)
    return power_rules(m, x, y, scale.times(near, shifted))


def _log2(m: MathBody, x: str) -> Pair:
    """log2 x for x > 0."""
    exponent, f = normal(m, x)
    s = _quotient(m, f)
    square = _times(m, s, s)
    third, third_low = _times(m, square, _constant(m, t.THIRD))
    rest = m.mul(m.mul(square[0], square[0]), m.polynomial(square[0], t.ATANH_POW64))
    one, lost = _sum(m, m.number(1.0), third)
    factor = _sum(m, one, m.add(m.add(lost, third_low), rest))
    high, low = _times(m, _times(m, s, factor), _constant(m, t.TWICE_LOG2_E))
    total, lost = _sum(m, exponent, high)
    return _sum(m, total, m.add(lost, low))


def _quotient(m: MathBody, f: str) -> Pair:
    """f / (2 + f)."""
    below = m.add(f, 2.0)
    below_low = m.sub(f, m.sub(below, 2.0))
    high = m.div(f, below)
    product, lost = _product(m, high, below)
    left = m.sub(m.sub(m.sub(f, product), lost), m.mul(high, below_low))
    return high, m.div(left, below)


def _constant(m: MathBody, parts: tuple[float, float]) -> Pair:
    return m.number(parts[0]), m.number(parts[1])


def _times(m: MathBody, a: Pair, b: Pair) -> Pair:
    high, low = _product(m, a[0], b[0])
    return _sum(m, high, m.add(low, m.add(m.mul(a[0], b[1]), m.mul(a[1], b[0]))))


def _sum(m: MathBody, a: str, b: str) -> Pair:
    """Return a + b as rounded, and what that lost; |a| >= |b| or a = 0."""
    total = m.add(a, b)
    return total, m.add(m.sub(a, total), b)


def _product(m: MathBody, a: str, b: str) -> Pair:
    """a b as rounded, and what that lost: the halves' products are exact."""
    product = m.mul(a, b)
    (p, q), (r, s) = _halves(m, a), _halves(m, b)
    lost = m.add(m.add(m.sub(m.mul(p, r), product), m.mul(p, s)), m.mul(q, r))
    return product, m.add(lost, m.mul(q, s))


def _halves(m: MathBody, a: str) -> Pair:
    upper = m.from_bits(m.ints("and", m.to_bits(a), _UPPER_HALF))
    return upper, m.sub(a, upper)
