"""Regions that indices reach: compared with all values, and with what Apache TVM 0.17 answers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tunefarm as tvm
from tunefarm import arith, te, tir

x, y = te.var("x"), te.var("y")


def pairs(found: Any) -> list[tuple[int, int]]:
    return [(int(item.min_value), int(item.max_value)) for item in found]


def region(first: Any, extent: int) -> tvm.ir.Range:
    return tvm.ir.Range.from_min_extent(first, extent)


def test_answers_of_apache_tvm() -> None:
    five, three = tvm.ir.Range(0, 5), tvm.ir.Range(0, 3)
    assert pairs(arith.estimate_region_lower_bound([region(x * 2, 3)], {x: five}, True)) == [(0, 10)]
    assert pairs(arith.estimate_region_strict_bound([region(x * 2, 2)], {x: five}, True)) == [(0, 9)]
    assert pairs(arith.estimate_region_upper_bound([region(x * 2 + y, 2)], {x: five, y: three}, True)) == [(0, 11)]
    both = [region(x * 2, 2), region(y, 1)]
    assert pairs(arith.estimate_region_lower_bound(both, {x: five, y: three}, x < 3)) == [(0, 5), (0, 2)]
    assert pairs([arith.IntSet.single_point(3), arith.IntSet.vector(tir.Ramp(0, 2, 4))]) == [(3, 3), (0, 6)]
    assert not arith.IntSet.single_point(3).is_nothing()
    assert arith.estimate_region_lower_bound([region(x, 1), region(x + 1, 1)], {x: five}, True) is None


small = st.integers(1, 4)


@given(a=st.integers(-4, 4), b=st.integers(0, 4), size=small, nx=small, ny=small, limit=st.integers(0, 5))
def test_bounds_hold_for_every_value(a: int, b: int, size: int, nx: int, ny: int, limit: int) -> None:
    domains = {x: tvm.ir.Range(0, nx), y: tvm.ir.Range(1, 1 + ny)}
    item = region(x * a + y * b, size)
    reached = {a * i + b * j + k for i in range(nx) for j in range(1, 1 + ny) for k in range(size) if i < limit}
    if not reached:
        return
    ((low, high),) = pairs(arith.estimate_region_upper_bound([item], domains, x < limit))
    assert (low, high) == (min(reached), max(reached))
    strict = arith.estimate_region_strict_bound([item], domains, x < limit)
    if strict is not None:
        assert reached == set(range(low, high + 1))
