"""The range of an operation holds every value it can have, and its ends are reached where both operands are known."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.arith import bounds
from compiler.arith.bounds import ANY, NEG, POS, Bounds

ENDS = st.integers(-7, 7)
FULL = 12


@st.composite
def ranges(draw: st.DrawFn) -> Bounds:
    low, high = sorted((draw(ENDS), draw(ENDS)))
    return draw(st.sampled_from([(low, high), (NEG, high), (low, POS), ANY]))


def values(of: Bounds) -> range:
    return range(int(max(of[0], -FULL)), int(min(of[1], FULL)) + 1)


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


OPERATIONS: dict[str, tuple[Callable[[Bounds, Bounds], Bounds], Callable[[int, int], int]]] = {
    "product": (bounds.product, lambda x, y: x * y),
    "quotient": (bounds.quotient, lambda x, y: x // y),
    "remainder": (bounds.remainder, lambda x, y: x % y),
    "truncated quotient": (bounds.truncated_quotient, truncated),
    "truncated remainder": (bounds.truncated_remainder, lambda x, y: x - y * truncated(x, y)),
    "minimum": (bounds.minimum, min),
    "maximum": (bounds.maximum, max),
    "sum": (lambda a, b: bounds.weighted_sum([(a, 3), (b, -2)], 5), lambda x, y: 3 * x - 2 * y + 5),
}
EXACT = {"product", "minimum", "maximum", "sum"}


@pytest.mark.parametrize("name", OPERATIONS)
@given(a=ranges(), b=ranges())
def test_a_range_holds_what_can_be(name: str, a: Bounds, b: Bounds) -> None:
    of_ranges, of_values = OPERATIONS[name]
    divides = "quotient" in name or "remainder" in name
    low, high = of_ranges(a, b)
    found = [of_values(x, y) for x, y in itertools.product(values(a), values(b)) if y or not divides]
    assert all(low <= value <= high for value in found)
    if name in EXACT and bounds.is_known(a) and bounds.is_known(b):
        assert (low, high) == (min(found), max(found))


@given(a=ranges(), b=ranges())
def test_either_holds_both(a: Bounds, b: Bounds) -> None:
    low, high = bounds.either(a, b)
    assert all(low <= end <= high for end in (*a, *b))
