"""Operands that have no meaning are refused where they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.errors import IRError
from tunefarm import te, tir

X = tir.Var("x", "int32")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: X // 0,
        lambda: X % 0,
        lambda: tir.truncdiv(X, 0),
        lambda: tir.truncmod(X, 0),
        lambda: tir.indexdiv(X, 0),
        lambda: tir.floormod(X, tir.IntImm("int32", 0)),
        lambda: te.compute((4,), lambda i: i // 0),
        lambda: 4 // tir.const(0, "int32"),
    ],
)
def test_divisions_by_zero_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(IRError, match="by zero"):
        wrong()


@pytest.mark.parametrize("condition", [X, 1, 3.0, X + 1])
def test_a_number_is_no_condition(condition: object) -> None:
    with pytest.raises(RuntimeError, match=r"condition of bool(?s:.*)x != 0"):
        tir.Select(condition, 1, 2)
    assert tir.Select(X > 0, 1, 2).dtype == "int32"
    assert tir.Select(True, 1, 2).dtype == "int32"
