"""Operands that have no meaning are refused where they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tunefarm as tvm
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


F = tir.Var("f", "float32")
B = tir.decl_buffer((4,), "float32", name="B")
V = tir.Var("v", "int32x4")
NOTHING = tir.Evaluate(0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: F / 0.0,
        lambda: F / 0,
        lambda: X / 0.0,
        lambda: F // 2,
        lambda: 2 // F,
        lambda: F % 2,
        lambda: X % 2.0,
        lambda: tir.ceildiv(F, 2),
        lambda: tir.truncdiv(F, 2),
        lambda: ~F,
        lambda: tir.power(X, 2),
        lambda: X << -1,
        lambda: X >> 32,
        lambda: tir.if_then_else(X, 1, 2),
        lambda: tir.if_then_else(1, 1, 2),
        lambda: tir.all(X, X > 0),
        lambda: tir.any(X > 0, 3),
        lambda: tir.all(),
        lambda: tir.any(),
        lambda: tir.Not(X),
        lambda: tir.And(X, X),
        lambda: tir.Or(1, 1),
        lambda: tir.const(300, "uint8"),
        lambda: tir.const(-1, "uint8"),
        lambda: tir.const(2**31, "int32"),
        lambda: tir.const(1e6, "float16"),
        lambda: tir.const(0, "handle"),
        lambda: tir.max_value("handle"),
        lambda: tir.IntImm("int8", 128),
        lambda: tir.IntImm("uint8", -1),
        lambda: tir.IntImm("int32", 1.5),
        lambda: tir.IntImm("float32", 1),
        lambda: tir.IntImm("int32x4", 1),
        lambda: tir.IntImm("nope", 1),
        lambda: tir.FloatImm("int32", 1.0),
        lambda: tir.StringImm(3),
        lambda: tir.Cast("nope", X),
        lambda: tir.Cast("int32x4", X),
        lambda: tir.Broadcast(X, 1),
        lambda: tir.Broadcast(V, 2),
        lambda: tir.Ramp(X, 1, 1),
        lambda: tir.Let(X, 1.0, X),
        lambda: tir.SeqStmt([]),
        lambda: tir.SeqStmt([NOTHING]),
        lambda: tir.Var(3, "int32"),
        lambda: tir.Var("x", 3),
        lambda: tir.decl_buffer("a"),
        lambda: tir.decl_buffer((4,), name=3),
        lambda: tir.decl_buffer((4,), data=X),
        lambda: tir.BufferLoad(B, [0, 0]),
        lambda: tir.BufferLoad(B, []),
        lambda: tir.IterVar((0, 4), "i", 99),
    ],
)
def test_what_has_no_meaning_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        wrong()


def test_what_has_one_is_taken() -> None:
    assert tir.FloorDiv(F, F).dtype == "float32"
    assert tir.const(-128, "int8").value == -128
    assert tir.IntImm("uint64", 2**64 - 1).value == 2**64 - 1
    assert tir.IntImm("int32", True).value == 1
    assert repr(tir.IntImm("int32", True)) == "1"
    assert tir.Ramp(X, F, 4).stride.dtype == "int32"
    assert tir.floor(X) is X
    assert tir.nearbyint(F, None).dtype == "float32"
    assert tir.all(X > 0, X < 3, span=None).dtype == "bool"
    assert te.floordiv(X, 2, span=None).b.value == 2
    assert repr(1 | X) == repr(tir.bitwise_or(1, X))
    assert repr(2 << X) == repr(tir.shift_left(2, X))
    assert tir.StringImm("a") == "a"
    assert tir.ForKind(1) is tir.ForKind.PARALLEL
    assert tir.IterVar((0, 4), X, 2).iter_type == tir.IterVar.CommReduce
    assert [int(stmt.value) for stmt in tir.stmt_list(tir.stmt_seq(1, 2))] == [1, 2]
    assert tir.stmt_list(NOTHING) == [NOTHING]


def test_slices_of_a_buffer_are_regions() -> None:
    region = B[1:3]
    assert isinstance(region, tir.BufferRegion)
    assert [(int(r.min), int(r.extent)) for r in region.region] == [(1, 2)]
    both = tir.decl_buffer((4, 8))[X, 2:]
    assert [str(r.extent) for r in both.region] == ["1", "6"]
    with pytest.raises(ValueError, match="no steps"):
        B[0:4:2]


def test_a_scope_is_read_both_ways() -> None:
    shared = tir.decl_buffer((4,), scope="shared")
    assert shared.scope() == shared.scope == "shared"
    assert type(shared.scope()) is str
    same = [tir.Allocate(B.data, "float32", [4], tir.const(True), NOTHING, name) for name in ("shared", shared.scope)]
    assert tvm.ir.structural_equal(*same)
