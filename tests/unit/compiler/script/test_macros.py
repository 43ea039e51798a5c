"""Macros, and functions of the program that scripts call."""

from __future__ import annotations

import pytest

from compiler.errors import IRError
from compiler.ir.structural import assert_structural_equal
from compiler.script.source import ScriptError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from tunefarm.script import tir as T

SCALE = 3


@T.macro
def add_scaled(dst, src, i, by=1.0):
    dst[i] = src[i] + T.float32(by) * T.float32(SCALE)


@T.macro(hygienic=False)
def update(k):
    with T.block("update"):
        vi = T.axis.spatial(4, k)
        B[vi] = B[vi] + A[vi]  # noqa: F821


def root(x: n.PrimExpr) -> n.PrimExpr:
    return intrin.sqrt(x) * 2


def test_macros_are_read_as_their_statements() -> None:
    @T.prim_func
    def used(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        SCALE = 7  # noqa: F841
        for i in range(4):
            add_scaled(B, A, i)
        add_scaled(B, src=B, i=2, by=2.0)
        for i in range(4):
            update(i)

    @T.prim_func
    def written(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + T.float32(1) * T.float32(3)
        B[2] = B[2] + T.float32(2) * T.float32(3)
        for i in range(4):
            with T.block("update"):
                vi = T.axis.spatial(4, i)
                B[vi] = B[vi] + A[vi]

    body = n.SeqStmt(tuple(written.body.block.body.seq))
    found = used.body.block.body
    while isinstance(found, n.LetStmt):
        found = found.body
    assert_structural_equal(
        n.PrimFunc(used.params, found, None, used.buffer_map),
        n.PrimFunc(written.params, body, None, written.buffer_map),
    )


def test_a_decorated_function_calls_functions_of_the_program() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = root(A[i])

    store = f.body.body
    assert isinstance(store, n.BufferStore)
    assert isinstance(store.value, n.Mul)
    assert ops.as_int(f.body.extent) == 4


def test_what_is_wrong_with_a_use_is_said_at_its_place() -> None:
    with pytest.raises(ScriptError, match="the macro add_scaled is not given src, i"):

        @T.prim_func
        def f(A: T.Buffer((4,), "float32")):
            add_scaled(A)

    with pytest.raises(ScriptError, match="the macro add_scaled takes dst, src, i, by"):

        @T.prim_func
        def g(A: T.Buffer((4,), "float32")):
            add_scaled(A, A, 1, 2.0, 3)

    with pytest.raises(IRError, match="means something only inside a function"):
        add_scaled(1)
