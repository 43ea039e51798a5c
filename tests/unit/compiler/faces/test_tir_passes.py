"""Passes, analyses and arithmetic that are here for Apache TVM's programs."""

from __future__ import annotations

import pytest

import tunefarm as tvm
from compiler.errors import IRError
from compiler.ir.structural import assert_structural_equal
from tunefarm import arith, te, tir
from tunefarm.script import tir as T

A = 'A: T.Buffer((16,), "int32")'


def read(lines: str, params: str = A):
    body = "\n".join(f"    {line}" for line in lines.splitlines())
    return tvm.script.from_source(f"@T.prim_func\ndef main({params}):\n{body}\n")


def passed(made, lines: str, params: str = A):
    return made(tvm.IRModule({"main": read(lines, params)}))["main"]


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("for i in range(16):\n    T.evaluate(0)\nA[0] = 1", "A[0] = 1"),
        ("if A[0] == 2:\n    T.evaluate(0)\nA[0] = 1", "A[0] = 1"),
        ("if A[0] == 2:\n    T.evaluate(A[1])\nelse:\n    A[0] = 1", "if not A[0] == 2:\n    A[0] = 1"),
        ("for i in range(4):\n    A[i] = 1\n    T.evaluate(i + 1)", "for i in range(4):\n    A[i] = 1"),
        ('T.evaluate(T.call_extern("int32", "work", 1))', 'T.evaluate(T.call_extern("int32", "work", 1))'),
        ("for i in range(4):\n    T.evaluate(i)", "T.evaluate(0)"),
        ("for i in range(0):\n    A[i] = 2\nA[0] = 1", "A[0] = 1"),
        ("for i in range(4):\n    A[i + 1] = A[i + 1]\nA[0] = 1", "A[0] = 1"),
        ("for i in range(4):\n    A[i + 1] = A[i]", "for i in range(4):\n    A[i + 1] = A[i]"),
    ],
)
def test_statements_without_effect_go(lines, left):
    assert_structural_equal(passed(tir.transform.RemoveNoOp(), lines), read(left))


def test_only_one_side_of_a_select_reads_memory():
    made = tir.transform.RewriteUnsafeSelect()
    after = passed(made, "for i in range(16):\n    A[i] = T.Select(1 <= i, A[i - 1], 0)")
    assert_structural_equal(after, read("for i in range(16):\n    A[i] = T.if_then_else(1 <= i, A[i - 1], 0)"))
    assert "T.Select" in passed(made, "for i in range(16):\n    A[i] = T.Select(1 <= i, i, 0)").script()


def test_the_entry_of_a_module():
    made = tir.transform.AnnotateEntryFunc()
    one = read("A[0] = 1")
    assert made(tvm.IRModule({"main": one}))["main"].attrs["tir.is_entry_func"]
    two = made(tvm.IRModule({"main": one, "other": one.with_attr("global_symbol", "other")}))
    assert "tir.is_entry_func" in two["main"].attrs
    assert "tir.is_entry_func" not in two["other"].attrs


def product():
    a, b = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, te.compute((8, 8), lambda i, j: te.max(c[i, j], 0.0), name="D")])


def test_the_anchor_of_a_module():
    assert tir.analysis.find_anchor_block(tvm.IRModule({"main": product()})).name_hint == "C"
    assert tir.analysis.find_anchor_block(tvm.IRModule({"main": read("A[0] = 1")})) is None


def test_purity():
    assert not tir.analysis.is_pure_function(product())
    assert tir.analysis.assert_pure_function(read('B = T.decl_buffer((4,), "int32")\nB[0] = A[0]'))
    with pytest.raises(IRError, match="has effects"):
        tir.analysis.assert_pure_function(read('T.evaluate(T.call_extern("int32", "work", 1))'))


def test_bounds_and_indices():
    x, y = te.var("x"), te.var("y")
    analyzer = arith.Analyzer()
    analyzer.update(x, arith.ConstIntBound(-3, 11))
    assert analyzer.const_int_bound(x + 1) == arith.ConstIntBound(-2, 12)
    with pytest.raises(IRError, match="two ends"):
        analyzer.update(y, arith.ModularSet(4, 1))
    domains = {x: tvm.ir.Range(0, 12), y: tvm.ir.Range(0, 8)}
    found = arith.iter_map_simplify([(x * 8 + y) // 8, (x * 8 + y) % 8], domains)
    assert [str(index) for index in found] == ["x", "y"]
    assert str(arith.iter_map_simplify([x * y + 0], domains)[0]) == "x * y"


def test_a_split_keeps_its_loops_in_the_predicate():
    @T.prim_func
    def func(a: T.Buffer((128,), "float32")):
        for i in range(128):
            with T.block("B"):
                v = T.axis.spatial(128, i)
                a[v] = a[v] + 1.0

    for keep, text in ((True, "i_0 * 129 + i_1 < 128"), (False, "i_1 < 128")):
        sch = tir.Schedule(func)
        sch.split(sch.get_loops("B")[0], [None, 129], preserve_unit_iters=keep)
        assert f"T.where({text})" in sch.mod.script()


def test_a_render_level_that_is_none():
    with pytest.raises(ValueError, match="error_render_level is one of"):
        tir.Schedule(product(), error_render_level="loud")


def test_undefined_variables_are_those_of_buffers_too():
    func = read("for i in range(16):\n    A[i] = 1")
    data = func.buffer_map[func.params[0]].data
    assert tir.analysis.undefined_vars(func.body, []) == [data]
    assert tir.analysis.undefined_vars(func.body, [data]) == []
    assert tir.analysis.undefined_vars(func.body.body, [data]) == [func.body.loop_var]
    inner = read('C = T.allocate([4], "int32", "global")\nc = T.Buffer((4,), "int32", data=C)\nc[0] = 1')
    assert tir.analysis.undefined_vars(inner.body, []) == []
