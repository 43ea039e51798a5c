"""Linear equations and bounds under Apache TVM's names; the answers are those that TVM 0.17 gave."""

from __future__ import annotations

import pytest

from tunefarm import arith, te, tir

x, y, n, m = (te.var(name) for name in "xynm")


@pytest.mark.parametrize(
    ("expr", "over", "wanted"),
    [
        (x * 4 + 3, [x], ["4", "3"]),
        (x * y, [x], ["y", "0"]),
        (x * n + m, [x], ["n", "m"]),
        (x * 4 + y * 2 + 1, [x, y], ["4", "2", "1"]),
        (x * y, [x, y], []),
        (x * x, [x], []),
        (x // 2, [x], []),
        (y + 1, [x], ["0", "y + 1"]),
    ],
)
def test_linear_equations(expr: tir.PrimExpr, over: list[tir.Var], wanted: list[str]) -> None:
    assert [str(part) for part in arith.detect_linear_equation(expr, over)] == wanted


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (tir.all(x >= 0, x < 10), ["0", "9"]),
        (tir.all(x * 2 >= 4, x <= 10), ["2", "10"]),
        (x < n, ["None", "n - 1"]),
        (tir.all(x + y < 10, x > 0), ["1", "9 - y"]),
        (tir.EQ(x, 3), ["3", "3"]),
        (x * x < 3, []),
    ],
)
def test_clip_bounds(expr: tir.PrimExpr, wanted: list[str]) -> None:
    assert [str(end) for end in arith.detect_clip_bound(expr, [x])] == wanted


@pytest.mark.parametrize(
    ("cond", "relaxed", "wanted"),
    [
        (x + 3 < 10, {}, ["neg_inf", "6"]),
        (x * 3 >= 10, {}, ["4", "pos_inf"]),
        (tir.EQ(x, 3), {}, ["3", "3"]),
        (x + y < 20, {y: arith.IntervalSet(tir.const(0), tir.const(4))}, ["neg_inf", "15"]),
        (x * x < 3, {}, ["pos_inf", "neg_inf"]),
    ],
)
def test_deduced_bounds(cond: tir.PrimExpr, relaxed: dict, wanted: list[str]) -> None:
    found = arith.deduce_bound(x, cond, {}, relaxed)
    assert [str(found.min_value), str(found.max_value)] == wanted


@pytest.mark.parametrize(
    ("dtype", "least", "greatest"),
    [("uint8", 0, 255), ("int8", -128, 127), ("bool", 0, 1), ("int16", -(2**15), 2**15 - 1)],
)
def test_bounds_of_narrow_types(dtype: str, least: int, greatest: int) -> None:
    bound = arith.Analyzer().const_int_bound(te.var("v", dtype))
    assert (bound.min_value, bound.max_value) == (least, greatest)


def test_strides_of_one_of_two_values() -> None:
    known = arith.Analyzer().modular_set(tir.min(x * 4, y * 6))
    assert (known.coeff, known.base) == (2, 0)
