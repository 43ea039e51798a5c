"""Operators take their arguments by the names that Apache TVM gives them, in texts and in calls."""

from __future__ import annotations

import inspect

import pytest

import tunefarm as tvm
from compiler.errors import IRError
from compiler.script.source import ScriptError
from tunefarm import te, tir
from tunefarm.script import tir as T

X, Y = tir.Var("x", "float32"), tir.Var("y", "float32")
N, M = tir.Var("i", "int32"), tir.Var("j", "int32")


@pytest.mark.parametrize(
    ("named", "placed"),
    [
        (lambda: T.exp(x=X), lambda: T.exp(X)),
        (lambda: T.atan2(x1=X, x2=Y), lambda: T.atan2(X, Y)),
        (lambda: T.atan2(X, x2=Y), lambda: T.atan2(X, Y)),
        (lambda: T.shift_left(y=M, x=N), lambda: T.shift_left(N, M)),
        (lambda: T.if_then_else(cond=N < M, t=X, f=Y), lambda: T.if_then_else(N < M, X, Y)),
        (lambda: T.reinterpret("int32", value=X), lambda: T.reinterpret("int32", X)),
        (lambda: T.reinterpret(value=X, dtype="int32"), lambda: T.reinterpret("int32", X)),
        (lambda: T.exp(x=X, dtype="float32"), lambda: T.exp(X)),
        (lambda: T.float32(expr=1), lambda: T.float32(1)),
        (lambda: T.max(a=N, b=M), lambda: T.max(N, M)),
        (lambda: T.cast(x=X, dtype="int32"), lambda: T.cast(X, "int32")),
        (lambda: T.ceildiv(lhs=N, rhs=M), lambda: T.ceildiv(N, M)),
        (lambda: T.call_extern("int32", func_name="f"), lambda: T.call_extern("int32", "f")),
        (lambda: te.add(lhs=N, rhs=M), lambda: te.add(N, M)),
        (lambda: te.subtract(lhs=N, rhs=M), lambda: te.subtract(N, M)),
        (lambda: te.multiply(lhs=N, rhs=M), lambda: te.multiply(N, M)),
        (lambda: te.if_then_else(cond=N < M, t=X, f=Y), lambda: te.if_then_else(N < M, X, Y)),
        (lambda: tir.hypot(x1=X, x2=Y), lambda: tir.hypot(X, Y)),
        (lambda: tir.fmod(x=X, y=Y), lambda: tir.fmod(X, Y)),
        (lambda: tir.ldexp(x1=X, x2=N), lambda: tir.ldexp(X, N)),
        (lambda: tir.bitwise_xor(x=N, y=M), lambda: tir.bitwise_xor(N, M)),
        (lambda: tir.bitwise_not(x=N), lambda: tir.bitwise_not(N)),
        (lambda: tir.likely(cond=N < M), lambda: tir.likely(N < M)),
        (lambda: tir.reinterpret("int32", value=X), lambda: tir.reinterpret("int32", X)),
    ],
)
def test_by_name_or_by_place(named: object, placed: object) -> None:
    assert tvm.ir.structural_equal(named(), placed(), True)  # type: ignore[operator]


def test_in_a_text() -> None:
    @T.prim_func
    def func(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            b[i] = T.if_then_else(cond=i < 2, t=T.exp(x=a[i]), f=T.float32(expr=1))

    assert "T.if_then_else(i < 2, T.exp(a[i]), 1.0)" in func.script()


def test_names_that_are_not_there() -> None:
    with pytest.raises(IRError, match=r"T\.exp does not take y there(?s:.)*its arguments: x"):
        T.exp(y=X)
    with pytest.raises(IRError, match="does not take x2"):
        T.atan2(x2=X)
    with pytest.raises(IRError, match="unnamed"):
        T.tvm_tuple(a=X)
    text = "@T.prim_func\ndef f(a: T.Buffer((4,), 'float32')):\n    a[0] = T.exp(y=a[1])\n"
    with pytest.raises(ScriptError, match="does not take y"):
        tvm.script.from_source(text)


def test_signatures_say_the_names() -> None:
    assert list(inspect.signature(T.atan2).parameters) == ["x1", "x2", "dtype"]
    assert list(inspect.signature(T.reinterpret).parameters) == ["dtype", "value"]
    assert "args" in inspect.signature(T.tvm_tuple).parameters


def test_walks_over_a_statement_by_name() -> None:
    seen: list[str] = []
    body = tir.Evaluate(N + 1)
    tir.stmt_functor.post_order_visit(stmt=body, fvisit=lambda node: seen.append(type(node).__name__))
    tir.stmt_functor.pre_order_visit(stmt=body, fvisit=lambda node: seen.append(type(node).__name__))
    assert seen == ["Var", "IntImm", "Add", "Evaluate", "Evaluate", "Add", "Var", "IntImm"]
