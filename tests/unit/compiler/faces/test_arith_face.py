"""Analyzers and ranges under Apache TVM's names; what they answer is compared with all values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import tunefarm as tvm
from tunefarm import te, tir

small = st.integers(-6, 6)


@given(begin=small, size=st.integers(1, 9), a=small, b=small, step=st.integers(1, 5))
def test_bounds_and_strides_hold_for_every_value(begin: int, size: int, a: int, b: int, step: int) -> None:
    x = te.var("x")
    analyzer = tvm.arith.Analyzer()
    analyzer.bind(x, tvm.ir.Range(begin, begin + size))
    values = [a * i + b for i in range(begin, begin + size)]
    bound = analyzer.const_int_bound(x * a + b)
    assert (bound.min_value, bound.max_value) == (min(values), max(values))
    known = analyzer.modular_set(x * a + b)
    assert all(v == known.base if known.coeff == 0 else (v - known.base) % known.coeff == 0 for v in values)
    assert analyzer.can_prove(x * a + b <= max(values))
    assert not analyzer.can_prove(x * a + b < max(values))
    found = analyzer.int_set(x * a + b, {x: tvm.arith.IntervalSet(tir.const(begin), tir.const(begin + size - 1))})
    assert (found.min_value.value, found.max_value.value) == (min(values), max(values))
    factor, rest = tvm.arith.detect_linear_equation(x * a + b, [x])
    assert (factor.value, rest.value) == (a, b)


def test_ranges_are_made_of_begin_and_end() -> None:
    span = tvm.ir.Range(2, 8)
    assert (span.min.value, span.extent.value) == (2, 6)
    assert isinstance(span, tvm.ir.Range)
    assert tvm.ir.Range(5).extent.value == 5
    assert tvm.ir.Range.from_min_extent(3, 4).extent.value == 4


def test_what_is_known_in_a_scope_is_forgotten_after_it() -> None:
    n = te.var("n")
    analyzer = tvm.arith.Analyzer()
    with analyzer.constraint_scope(n > 4):
        assert analyzer.can_prove(n >= 5)
    assert not analyzer.can_prove(n >= 5)
    assert analyzer.const_int_bound(n).max_value in (tvm.arith.ConstIntBound.POS_INF, 2**31 - 1)
    assert tvm.arith.detect_linear_equation(n * n, [n]) == []
