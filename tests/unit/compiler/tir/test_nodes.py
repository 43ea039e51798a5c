"""Nodes made by hand: numbers become constants, and dtypes that do not fit are refused."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.ir.base import Span
from compiler.ir.text import script
from compiler.tir import nodes as n
from compiler.tir import ops
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


A = tir.decl_buffer((8, 16), "float32", "A")
K = tir.Var("i", "int32")
NOTHING = tir.Evaluate(0)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (lambda: tir.For(tir.Var("i"), 0, 10, "parallel", NOTHING), "for i in T.parallel(10):\n    T.evaluate(0)"),
        (lambda: tir.For(tir.Var("i"), 0, 10, 3, NOTHING), "for i in T.unroll(10):\n    T.evaluate(0)"),
        (lambda: tir.For(X, 0, 10, tir.ForKind.SERIAL, NOTHING).extent, "T.int64(10)"),
        (lambda: tir.BufferStore(A, 1, [0, 2]), "A[0, 2] = 1.0"),
        (lambda: tir.BufferLoad(A, [0, 1]), "A[0, 1]"),
        (lambda: tir.IfThenElse(True, NOTHING, None), "if T.bool(True):\n    T.evaluate(0)"),
        (lambda: tir.LetStmt(X, 4, tir.Evaluate(X)), "x: T.int64 = T.int64(4)\nT.evaluate(x)"),
        (lambda: tir.SeqStmt([NOTHING, NOTHING]), "T.evaluate(0)\nT.evaluate(0)"),
        (
            lambda: tir.Allocate(tir.Var("d", "handle"), "float32", [4], True, NOTHING),
            'd = T.allocate([4], "float32", "global")\nT.evaluate(0)',
        ),
        (lambda: tir.Block([], [], [], "b", NOTHING).iter_vars, None),
        (lambda: tir.Call("float32", "tir.exp", [1.0]), "T.exp(1.0)"),
    ],
)
def test_statements_take_plain_values(node, text):
    made = node()
    assert made == () if text is None else script(made) == text


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (lambda: tir.For(K, 0, 10, "sideways", NOTHING), "no loop kind 'sideways'"),
        (lambda: tir.For(K, 0, 2.5, "serial", NOTHING), "the extent of loop 'i' is float32, not an integer"),
        (lambda: tir.For(4, 0, 2, "serial", NOTHING), "the variable of a loop is an integer tir.Var, got 4"),
        (lambda: tir.For(K, 0, 2, "serial", A[0, 0]), "body of For must be a statement, got BufferLoad"),
        (lambda: tir.BufferStore(A, 1.0, [0]), "buffer 'A' has 2 dimensions, a store 1 indices"),
        (lambda: tir.BufferStore(A, K, [0, 0]), "a store to buffer 'A' takes float32 here, the value is int32"),
        (lambda: tir.BufferStore(tir.decl_buffer((4,), "int32", "N"), 1.5, [0]), "takes int32, got 1.5 of float32"),
        (lambda: tir.IfThenElse(A[0, 0], NOTHING), "the condition of IfThenElse is float32, not bool"),
        (lambda: tir.While(A[0, 0], NOTHING), "the condition of While is float32, not bool"),
        (lambda: tir.AssertStmt(K, "no", NOTHING), "the condition of AssertStmt is int32, not bool"),
        (lambda: tir.LetStmt(K, A[0, 0], NOTHING), "'i' is int32, its value float32"),
        (lambda: tir.Allocate(tir.Var("d", "handle"), "float32", [1.5], True, NOTHING), "an extent of 'd' is float32"),
        (lambda: tir.BlockRealize([1], True, tir.Block([], [], [], "b", NOTHING)), "has 0 iteration variables"),
        (lambda: tir.SeqStmt([K]), "SeqStmt holds statements, got Var"),
    ],
)
def test_statements_that_cannot_be(node, message):
    with pytest.raises(IRError) as caught:
        node()
    assert message in caught.value.message


P, Q = tir.Var("p", "bool"), tir.Var("q", "bool")


@pytest.mark.parametrize("combine", [lambda: P + Q, lambda: P - Q, lambda: P // Q, lambda: -P, lambda: tir.Mod(P, Q)])
def test_bools_are_no_numbers(combine):
    with pytest.raises(IRError, match="of bool: bools are no numbers"):
        combine()


def test_what_bools_take():
    assert (P + 1).dtype == "int32"
    assert (P * Q).dtype == tir.Min(P, Q).dtype == (P & Q).dtype == "bool"


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        ("int8", 2, "int8"),
        ("int8", 300, "int32"),
        ("int8", 1 << 40, "int64"),
        ("uint8", -1, "uint8"),
        ("uint8", 256, "int32"),
        ("int32", 1 << 31, "int64"),
        ("uint32", (1 << 32) - 1, "uint32"),
        ("int64", 1 << 40, "int64"),
        ("float32", 1 << 40, "float32"),
    ],
)
def test_a_number_that_does_not_fit_widens_the_sum(dtype: str, number: int, expected: str) -> None:
    made = ops.add(n.Var("x", dtype), number)
    assert made.dtype == expected
    assert ops.add(number, n.Var("x", dtype)).dtype == expected


def test_constants_have_the_dtype_that_their_value_needs() -> None:
    assert [ops.const(value).dtype for value in (1, 1 << 31, True, 1.5)] == ["int32", "int64", "bool", "float32"]
    assert [ops.const(value).dtype for value in (np.int8(3), np.float64(3))] == ["int8", "float64"]
    assert ops.as_expr(np.float64(3)).dtype == "float32"
    assert ops.as_int(ops.const(1 << 40)) == 1 << 40


def test_an_integer_is_a_condition_unless_it_is_0() -> None:
    assert repr(tir.IfThenElse(K + 1, NOTHING).condition) == "i + 1 != 0"
    assert repr(tir.While(K, NOTHING).condition) == "i != 0"
    assert tir.IfThenElse(2, NOTHING).condition.value == 1
