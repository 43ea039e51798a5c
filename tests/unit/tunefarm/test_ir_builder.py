"""Functions made with frames equal those that are read from texts."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from compiler.ir.structural import assert_structural_equal
from compiler.tir.nodes import Var
from tunefarm.ir import PrimType
from tunefarm.script import tir
from tunefarm.script.ir_builder import IRBuilder
from tunefarm.script.ir_builder import ir as I
from tunefarm.script.ir_builder import tir as T
from tunefarm.script.ir_builder.base import IRBuilderFrame


@tir.prim_func
def matmul(A: tir.Buffer((8, 8), "float32"), B: tir.Buffer((8, 8), "float32"), C: tir.Buffer((8, 8), "float32")):
    for i, j, k in tir.grid(8, 8, 8):
        with tir.block("C"):
            vi, vj, vk = tir.axis.remap("SSR", [i, j, k])
            with tir.init():
                C[vi, vj] = tir.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_a_block_with_an_initialisation() -> None:
    with IRBuilder() as builder, T.prim_func():
        T.func_name("matmul")
        a, b, c = (T.arg(name, T.Buffer((8, 8), "float32")) for name in "ABC")
        with T.grid(8, 8, 8) as (i, j, k), T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                T.buffer_store(c, 0, [vi, vj])
            T.buffer_store(c, c[vi, vj] + a[vi, vk] * b[vk, vj], [vi, vj])
    assert_structural_equal(builder.get(), matmul)


@tir.prim_func
def statements(A: tir.Buffer((8,), "int32"), n: tir.int32):
    with tir.LetStmt(n * 2) as v:
        for i in tir.unroll(2, 6):
            if i < v:
                A[i] = v
            else:
                tir.evaluate(A[i])
    while A[0] > 0:
        A[0] = A[0] - 1


def test_loops_branches_and_lets() -> None:
    with IRBuilder() as builder, T.prim_func():
        T.func_name("statements")
        a, n = T.arg("A", T.Buffer((8,), "int32")), T.arg("n", T.int32())
        with T.LetStmt(n * 2) as v, T.unroll(2, 6) as i, T.If(i < v):
            with T.Then():
                T.buffer_store(a, v, [i])
            with T.Else():
                T.evaluate(a[i])
        with T.While(a[0] > 0):
            T.buffer_store(a, a[0] - 1, [0])
    assert_structural_equal(builder.get(), statements)


def test_frames_stand_where_they_belong() -> None:
    with pytest.raises(IRError, match="only inside an IRBuilder"):
        T.evaluate(0)
    with IRBuilder() as builder:
        with pytest.raises(IRError, match="a module holds functions"), I.ir_module():
            T.evaluate(0)
        with pytest.raises(IRError, match=r"T\.where stands inside Block frames"), T.prim_func():
            T.where(True)
    with pytest.raises(IRError, match="has made nothing yet"):
        builder.get()


def test_a_block_around_all_is_the_root() -> None:
    @tir.prim_func
    def wanted(A: tir.Buffer((8,), "int32")):
        with tir.block("root"):
            A[0] = 1

    with IRBuilder() as builder, T.prim_func():
        T.func_name("wanted")
        a = T.arg("A", T.Buffer((8,), "int32"))
        with T.block("root"):
            T.buffer_store(a, 1, [0])
    assert_structural_equal(builder.get(), wanted)


def test_what_would_be_lost_is_refused() -> None:
    with IRBuilder(), T.prim_func():
        a = T.arg("A", T.Buffer((8,), "int32"))
        with pytest.raises(IRError, match="whole elements"):
            T.buffer_store(a, 1, [0], predicate=a[0] > 0)
        branch = T.If(a[0] > 0)
        branch.__enter__()
        with T.Then():
            T.evaluate(0)
        T.evaluate(1)
        with pytest.raises(IRError, match="no statements of its own"):
            branch.__exit__(None, None, None)
        with T.serial(8) as i:
            pass
        with T.serial(8) as j, T.block("b"):
            T.axis.remap("S", [j])
            T.where(j < 4)
            T.reads(a[j])
            for again in (lambda: T.where(j < 2), lambda: T.reads(a[0])):
                with pytest.raises(IRError, match="once"):
                    again()
            with pytest.raises(IRError, match="around the block"):
                T.axis.remap("S", [i])
            with pytest.raises(IRError, match="kind 'X'"):
                T.axis.remap("X", [j])


def test_statements_by_themselves_are_made_and_printed() -> None:
    i = Var("i", "int32")
    with IRBuilder() as builder, T.block("inner"):
        v = IRBuilder.name("vi", T.axis.spatial(128, i))
        T.reads()
        T.writes()
        T.evaluate(v)
    assert builder.get().script(verbose_expr=True) == (
        'i = T.int32()\nwith T.block("inner"):\n    vi = T.axis.spatial(128, i)\n    T.reads()\n    T.writes()\n'
        "    T.evaluate(vi)"
    )
    with IRBuilder() as builder, T.LetStmt(T.float32(10)) as value:
        IRBuilder.name("value", value)
        T.evaluate(0)
    assert builder.get().script(verbose_expr=True) == "with T.LetStmt(T.float32(10)) as value:\n    T.evaluate(0)"
    with IRBuilder() as builder, T.grid(8, 4) as axes:
        IRBuilder.name_many(["x", "y"], list(axes))
        T.evaluate(0)
    assert builder.get().script() == "for x, y in T.grid(8, 4):\n    T.evaluate(0)"


def test_a_function_says_what_it_returns() -> None:
    with IRBuilder() as builder, T.prim_func():
        T.func_ret(PrimType("int64"))
        T.evaluate(0)
    assert builder.get().ret_type == "int64"


def test_an_expression_in_which_variables_have_values() -> None:
    x, y = tvm.tir.Var("x", "int32"), tvm.tir.Var("y", "int32")
    made = T.Let(x + y, where={x: 2, y: x})
    assert isinstance(made, tvm.tir.Let)
    assert (made.var, made.body.var) == (x, y)
    assert tvm.ir.structural_equal(T.let(x, 2, x + 1), T.Let(x + 1, where={x: 2}), True)
    assert isinstance(made, tvm.ir.BaseExpr)
    assert not isinstance(tvm.tir.Evaluate(1), tvm.ir.BaseExpr)
    assert issubclass(tvm.ir.PrimExpr, tvm.ir.BaseExpr)


def test_a_function_is_declared_before_it_is_defined() -> None:
    empty = tvm.tir.PrimFunc([], tvm.tir.Evaluate(0))
    with IRBuilder() as builder, I.ir_module() as frame:
        called = I.decl_function("called", empty)
        I.decl_function("left", empty)
        with T.prim_func():
            T.func_name("main")
            T.evaluate(tvm.tir.Call("int32", called, []))
        I.def_function("called", tvm.tir.PrimFunc([], tvm.tir.Evaluate(1)))
        with T.prim_func():
            T.func_name("left")
            T.evaluate(2)
    made = builder.get()
    assert isinstance(frame, I.IRModuleFrame)
    assert issubclass(I.IRModuleFrame, IRBuilderFrame)
    assert [made[name].body.value.value for name in ("called", "left")] == [1, 2]
    assert len(made.functions) == 3
    assert made["main"].body.value.op is called
    assert called in made.functions


def test_memory_that_is_filled_where_it_is_made() -> None:
    with IRBuilder() as builder, T.prim_func():
        T.func_name("main")
        given = T.arg("B", T.Buffer((4,), "float32"))
        with T.allocate_const(np.array([1, 2, 3, 4.5]), "float32", [4]) as memory:
            values = T.decl_buffer((4,), "float32", data=memory)
            with values as held, T.serial(0, 4) as i:
                T.buffer_store(given, held[i], [i])
    out = tvm.nd.array(np.zeros(4, "float32"))
    tvm.build(builder.get(), target="llvm")(out)
    assert out.numpy().tolist() == [1, 2, 3, 4.5]
