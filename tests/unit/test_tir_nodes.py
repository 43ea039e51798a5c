"""Nodes made by hand: numbers become constants, and dtypes that do not fit are refused."""

from __future__ import annotations

import pytest

from compiler.errors import IRError
from compiler.ir.base import Span
from compiler.tir.printer import script
from tunefarm import tir

X = tir.Var("x", "int64")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (tir.Add(X, 1), "x + T.int64(1)"),
        (tir.Sub(1, X), "T.int64(1) - x"),
        (tir.LT(X, 8), "x < T.int64(8)"),
        (tir.Ramp(0, 1, 8), "T.Ramp(0, 1, 8)"),
        (tir.Broadcast(1.0, 4), "T.Broadcast(1.0, 4)"),
        (tir.Cast("float32", 1), 'T.Cast("float32", 1)'),
        (tir.Select(tir.LT(X, 8), 1, 2), "T.Select(x < T.int64(8), 1, 2)"),
        (tir.IntImm("int8", 3), "T.int8(3)"),
    ],
)
def test_numbers_become_constants(node, text):
    assert script(node) == text


def test_dtypes_that_do_not_fit():
    with pytest.raises(IRError, match="Add of different dtypes: int64 and int32"):
        tir.Add(X, tir.IntImm("int32", 1))
    with pytest.raises(IRError, match="Select of different dtypes: int64 and float32"):
        tir.Select(tir.LT(X, 8), X, 1.0)
    with pytest.raises(IRError, match="cannot use None"):
        tir.Broadcast(None, 4)


def test_spans_are_kept():
    span = Span("f.py", 3, 5)
    assert tir.IntImm("int32", 1, span).span is span
    assert tir.Add(X, 1, span).span is span
