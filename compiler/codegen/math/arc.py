"""asin, acos, atan, atan2: a polynomial near 0, and identities that bring every argument there."""

from __future__ import annotations

import math

from compiler.codegen.math import tables as t
from compiler.codegen.math.body import MathBody


def asin(m: MathBody, x: str) -> str:
    """Above 1/2, asin x = pi/2 - 2 asin sqrt((1 - x) / 2)."""
    far, size = _half_angle(m, x)
    near_one = _from(m, t.HALF_PI_OF[m.bits], m.mul(size, -2.0))
    return m.copysign(m.choose(far, near_one, size), x)


def acos(m: MathBody, x: str) -> str:
    """Return acos x: 2 asin sqrt((1 - x) / 2) above 1/2, pi less that of -x below -1/2, or pi/2 - asin x."""
    far, size = _half_angle(m, x)
    twice = m.add(size, size)
    beyond = m.choose(m.test("olt", x, 0.0), _from(m, t.PI[m.bits], m.neg(twice)), twice)
    return m.choose(far, beyond, _from(m, t.HALF_PI_OF[m.bits], m.neg(m.copysign(size, x))))


def _half_angle(m: MathBody, x: str) -> tuple[str, str]:
    """Return whether |x| > 1/2, and asin |x| or, if so, asin sqrt((1 - |x|) / 2). NaN where |x| > 1."""
    size = m.fabs(x)
    far = m.test("ogt", size, 0.5)
    square = m.choose(far, m.mul(m.sub(1.0, size), 0.5), m.mul(x, x))
    root = m.choose(far, m.call("sqrt", square), size)
    return far, m.fma(m.mul(root, square), m.polynomial(square, t.ASIN[m.bits]), root)


def atan(m: MathBody, x: str) -> str:
    """Above 1, atan x = pi/2 - atan 1/x."""
    size = m.fabs(x)
    far = m.test("ogt", size, 1.0)
    angle = _angle(m, m.div(m.choose(far, 1.0, size), m.choose(far, size, 1.0)))
    return m.copysign(m.choose(far, _from(m, t.HALF_PI_OF[m.bits], m.neg(angle)), angle), x)


def atan2(m: MathBody, y: str, x: str) -> str:
    """Return the angle within its eighth of a turn, added to that eighth's own or taken from it."""
    up, across = m.fabs(y), m.fabs(x)
    steep = m.test("ogt", up, across)
    large, small = m.choose(steep, up, across), m.choose(steep, across, up)
    slope = m.choose(m.test("oeq", small, math.inf), 1.0, m.div(small, large))
    angle = _angle(m, m.choose(m.test("oeq", large, 0.0), 0.0, slope))
    left = m.ints("icmp slt", m.to_bits(x), 0)
    turned = m.choose(m.emit(f"xor {m.mask} {steep}, {left}"), m.neg(angle), angle)
    flat = m.choose(left, _from(m, t.PI[m.bits], turned), turned)
    result = m.copysign(m.choose(steep, _from(m, t.HALF_PI_OF[m.bits], turned), flat), y)
    return m.choose(m.test("uno", x, y), math.nan, result)


def _angle(m: MathBody, slope: str) -> str:
    """atan of 0 <= slope <= 1."""
    square = m.mul(slope, slope)
    return m.fma(m.mul(slope, square), m.polynomial(square, t.ATAN[m.bits]), slope)


def _from(m: MathBody, base: tuple[float, float], angle: str) -> str:
    """base + angle, the base in two parts."""
    return m.add(m.add(angle, base[1]), base[0])
