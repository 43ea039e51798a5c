"""Ranges of integers, and what sums, products, quotients and choices of them can be.

A range is its least and its greatest value. Ends are ints; one that is not known is an infinity, so comparisons need no
special case. The interpreter has rules of its own: it judges what was made by these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

Bounds = tuple[float, float]

NEG = -math.inf
POS = math.inf
ANY: Bounds = (NEG, POS)
NATURAL: Bounds = (0, POS)


def is_known(bounds: Bounds) -> bool:
    """Whether both ends are known."""
    return bounds[0] != NEG and bounds[1] != POS


def weighted_sum(terms: Iterable[tuple[Bounds, int]], offset: int = 0) -> Bounds:
    """Range of offset + sum(x * scale), for scales other than 0."""
    low: float = offset
    high: float = offset
    for (least, greatest), scale in terms:
        low += scale * (least if scale > 0 else greatest)
        high += scale * (greatest if scale > 0 else least)
    return low, high


def product(a: Bounds, b: Bounds) -> Bounds:
    """Range of x * y."""
    values = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(values), max(values)


def quotient(x: Bounds, y: Bounds) -> Bounds:
    """Return the range of x // y, rounded down, where y is not 0."""
    if y[0] < 0:
        return ANY
    values = [_rounded_down(a, max(b, 1)) for a in x for b in y]
    return min(values), max(values)


def _rounded_down(a: float, b: float) -> float:
    if a in ANY:
        return a
    if b == POS:
        return 0 if a >= 0 else -1
    return a // b


def remainder(x: Bounds, y: Bounds) -> Bounds:
    """Return the range of x % y, with the sign of y, where y is not 0."""
    low, high = y
    if low < 0:
        return ANY
    if x[0] >= 0 and x[1] < low:
        return x
    greatest = max(high - 1, 0)
    return 0, min(greatest, x[1]) if x[0] >= 0 else greatest


def truncated_quotient(x: Bounds, y: Bounds) -> Bounds:
    """Range of x / y, rounded towards 0."""
    (low, high), least = x, y[0]
    if least <= 0:
        return ANY
    return (low if low == NEG else -(-low // least) if low < 0 else 0), (
        high if high == POS else high // least if high > 0 else 0
    )


def truncated_remainder(x: Bounds, y: Bounds) -> Bounds:
    """Return the range of the remainder of that quotient; it has the sign of x."""
    (low, high), (least, greatest) = x, y
    if least <= 0:
        return ANY
    return (max(low, 1 - greatest) if low < 0 else 0), (min(high, greatest - 1) if high > 0 else 0)


def minimum(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), min(a[1], b[1])


def maximum(a: Bounds, b: Bounds) -> Bounds:
    return max(a[0], b[0]), max(a[1], b[1])


def either(a: Bounds, b: Bounds) -> Bounds:
    """Return the range of a value that is in one of the two ranges."""
    return min(a[0], b[0]), max(a[1], b[1])
