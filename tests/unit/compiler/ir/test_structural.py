"""Structural equality and hashing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal, structural_hash
from compiler.te import reduction
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin


def matmul(rows=13, dtype="float32", scale=2.0, names="ABCD"):
    a, b = placeholder((rows, 12), dtype, names[0]), placeholder((12, 11), dtype, names[1])
    k = reduction.reduce_axis((0, 12), names.lower())
    c = compute((rows, 11), lambda i, j: reduction.sum(a[i, k] * b[k, j], axis=k), name=names[2])
    return create_prim_func([a, b, compute((rows, 11), lambda i, j: c[i, j] * scale, name=names[3])])


def same(a, b, **options):
    equal = structural_equal(a, b, **options)
    assert structural_equal(b, a, **options) == equal
    if equal:
        assert structural_hash(a, **options) == structural_hash(b, **options)
    return equal


def test_functions_equal_up_to_names():
    assert same(matmul(), matmul(names="WXYZ"))
    assert same(IRModule({"f": matmul()}), IRModule({"f": matmul()}))


@pytest.mark.parametrize(
    "other",
    [matmul(rows=14), matmul(dtype="float64"), matmul(scale=3.0), matmul().with_attr("tir.noalias", False)],
    ids=["shape", "dtype", "constant", "attr"],
)
def test_functions_that_differ(other):
    assert not same(matmul(), other)
    assert structural_hash(matmul()) != structural_hash(other)


def test_modules_differ_by_function_name():
    assert not same(IRModule({"f": matmul()}), IRModule({"g": matmul()}))


X, Y = n.Var("x"), n.Var("y")


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (X + 1, X + 1, True),
        (X + 1, X + 2, False),
        (X + 1, n.Add(ops.const(1), X), False),
        (X + Y, Y + X, False),
        (n.Var("i", "int64"), n.Var("i", "int64"), False),
        (ops.const(1), ops.const(1, "int64"), False),
        (ops.const(0.0), ops.const(-0.0), False),
        (ops.const(float("nan")), ops.const(float("nan")), True),
        (intrin.exp(n.FloatImm("float32", 1.0)), intrin.log(n.FloatImm("float32", 1.0)), False),
        (n.Let(X, ops.const(1), X + X), n.Let(Y, ops.const(1), Y + Y), True),
        (n.Let(X, ops.const(1), X + Y), n.Let(Y, ops.const(1), Y + X), False),
        (n.LT(X, Y), n.LE(X, Y), False),
    ],
)
def test_expressions(a, b, equal):
    assert same(a, b) is equal


def test_free_variables_may_be_mapped():
    a, b, c = n.Var("a"), n.Var("b"), n.Var("c")
    assert not same(a + b, X + Y)
    assert same(a + b, X + Y, map_free_vars=True)
    assert not same(a + b, X + X, map_free_vars=True)
    assert not same(a + a, X + Y, map_free_vars=True)
    assert not same(a, n.Var("a", "int64"), map_free_vars=True)
    assert not same(a, n.SizeVar("a"), map_free_vars=True)
    assert same((a + b) * c, (X + Y) * n.Var("z"), map_free_vars=True)


def test_buffers_compare_by_layout():
    def load(shape, scope="global"):
        return n.BufferLoad(n.decl_buffer(shape, name="B", scope=scope), (ops.const(0),))

    assert same(load((4,)), load((4,)), map_free_vars=True)
    assert not same(load((4,)), load((4,)))
    assert not same(load((4,)), load((5,)), map_free_vars=True)
    assert not same(load((4,)), load((4,), "local"), map_free_vars=True)


def test_two_buffers_are_not_one():
    a, b = n.decl_buffer((4,), name="A"), n.decl_buffer((4,), name="B")
    assert not same(a[0] + b[0], a[0] + a[0], map_free_vars=True)
    assert same(a[0] + b[0], b[0] + a[0], map_free_vars=True)
    assert not same(a[0] + b[0], b[0] + a[0])


def test_symbolic_shapes_correspond():
    def func(size):
        a = placeholder((size, 4), name="A")
        return create_prim_func([a, compute((size, 4), lambda i, j: a[i, j] + 1.0, name="B")])

    assert same(func(n.SizeVar("n")), func(n.SizeVar("m")))
    assert not same(func(n.SizeVar("n")), func(n.Var("n")))


def test_statements_and_annotations():
    def loop(kind=n.ForKind.SERIAL, annotations=None):
        i = n.Var("i")
        return n.For(i, ops.const(0), ops.const(4), kind, n.Evaluate(i + X), None, annotations or {})

    assert same(loop(), loop())
    assert not same(loop(), loop(n.ForKind.PARALLEL))
    assert same(loop(annotations={"k": [1, ops.const(2)]}), loop(annotations={"k": [1, ops.const(2)]}))
    assert not same(loop(annotations={"k": [1, 2]}), loop(annotations={"k": [1, 3]}))
    assert not same(loop(), n.Evaluate(X))


def test_hash_is_the_same_in_every_process():
    code = (
        "from compiler.tir import nodes as n, ops\n"
        "from compiler.ir.structural import structural_hash\n"
        "x = n.Var('x'); print(structural_hash(n.Let(x, ops.const(3), x * x)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    x = n.Var("other")
    assert int(found) == structural_hash(n.Let(x, ops.const(3), x * x))
