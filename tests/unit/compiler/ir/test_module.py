"""Modules as mappings, saving IR, comparing it, and functions with parameters known."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import tunefarm as tvm
from compiler.arith import analysis
from compiler.errors import IRError
from compiler.interp.interpreter import run
from compiler.ir.module import IRModule
from compiler.ir.text import script
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from compiler.tir import stmt_functor
from tests.kit.compiler.lowering import matmul
from tunefarm import te

SYMBOLIC = """
@T.prim_func
def main(a: T.handle, b: T.handle, size: T.int32, twice: T.bool):
    m = T.int32()
    A = T.match_buffer(a, (size, m))
    B = T.match_buffer(b, (size, m))
    for i, j in T.grid(size, m):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = T.if_then_else(twice, A[v, w] * 2.0, A[v, w])
"""


def test_a_module_is_a_mapping():
    func = matmul(3, 4, 5)
    module = IRModule({"f": func})
    module["g"] = func
    assert [g.name_hint for g in module.get_global_vars()] == ["f", "g"]
    assert "g" in module
    assert 3 not in module
    assert module.get("h") is None
    module.update({"h": func})
    del module["f"]
    assert [g.name_hint for g in module.keys()] == ["g", "h"]  # noqa: SIM118
    assert module.values() == [func, func]
    other = IRModule({"g": func.with_attr("x", 1)}, {"runtime": "r"})
    merged = module.merge(other)
    assert merged["g"].attrs["x"] == 1
    assert "x" not in module["g"].attrs
    assert merged.get_attr("runtime") == "r"
    assert merged.without_attr("runtime").attrs == {}
    module.update_func("g", other["g"])
    assert module["g"] is other["g"]
    with pytest.raises(IRError, match="no function 'f'"):
        module.update_func("f", func)
    with pytest.raises(IRError, match="holds functions, not int"):
        module["f"] = 3
    assert IRModule.from_expr(func).get_global_var("main").name_hint == "main"


def test_show(capsys):
    module = IRModule({"f": matmul(3, 4, 5)})
    module.show()
    assert capsys.readouterr().out == module.script() + "\n"


def test_attributes_of_functions():
    func = matmul(3, 4, 5).with_attrs({"a": 1, "b": 2}).with_attr({"c": 3}).without_attr("a")
    assert {k: func.attrs[k] for k in ("b", "c")} == {"b": 2, "c": 3}
    assert "a" not in func.attrs


@pytest.mark.parametrize("node", [matmul(3, 4, 5), matmul(3, 4, 5).without_attr("global_symbol"), IRModule({})])
def test_saved_ir_reads_back(node):
    text = tvm.ir.save_json(node)
    tvm.ir.assert_structural_equal(tvm.ir.load_json(text), node)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "this is no JSON"),
        ("[1]", "no saved IR"),
        ('{"format": "tunefarm.ir", "version": 2, "script": ""}', "reads version 1, this is 2"),
        ('{"format": "tunefarm.ir", "version": 1, "script": "import os"}', "this is no definition"),
        ("[" * 100000, "this is no JSON"),
        (3, "needs text"),
    ],
)
def test_what_is_no_saved_ir(text, says):
    with pytest.raises(IRError, match=says):
        tvm.ir.load_json(text)


def test_saving_something_else():
    with pytest.raises(IRError, match="cannot keep a object"):
        tvm.ir.save_json(object())
    assert json.loads(tvm.ir.save_json(IRModule({})))["version"] == 1


def test_where_two_functions_differ():
    a = matmul(3, 4, 5)
    text = a.script()
    tvm.ir.assert_structural_equal(a, from_source(text))
    b = from_source(text.replace("= 0.0", "= 1.0"))
    with pytest.raises(AssertionError) as raised:
        tvm.ir.assert_structural_equal(a, b)
    said = str(raised.value)
    assert said.startswith("the two differ at <root>.body.block.body.body.body.body.block.init.value.value:")
    assert "0.0    (float)" in said
    assert "1.0    (float)" in said


def test_specialize():
    func = from_source(SYMBOLIC)
    a, _, size, twice = func.params
    known = func.specialize({a: n.decl_buffer((3, 4)), twice: True})
    assert [p.name for p in known.params] == ["a", "b"]  # the shape says the size too
    assert [script(d) for d in known.buffer_map[known.params[1]].shape] == ["3", "4"]
    data, out = np.random.rand(3, 4).astype("float32"), np.zeros((3, 4), "float32")
    run(known, data, out)
    np.testing.assert_allclose(out, data * 2)
    assert "size" not in [p.name for p in func.specialize({size: 3}).params]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda f: {n.Var("x"): 1}, "x is no parameter"),
        (lambda f: {f.params[0]: 3}, "parameter a is a buffer"),
        (lambda f: {f.params[0]: n.decl_buffer((3,))}, "is no buffer like A"),
        (lambda f: {f.params[2]: n.Var("v", "int64")}, "size is int32, its value int64"),
    ],
)
def test_what_does_not_fit(given, says):
    func = from_source(SYMBOLIC)
    with pytest.raises(IRError, match=says):
        func.specialize(given(func))


def test_visiting():
    func = matmul(3, 4, 5)
    seen: list[str] = []
    stmt_functor.post_order_visit(func.body, lambda node: seen.append(type(node).__name__))
    assert seen[-1] == "BlockRealize"
    outside: list[str] = []

    def stop(node):
        outside.append(type(node).__name__)
        return not isinstance(node, n.For)

    stmt_functor.pre_order_visit(func, stop)
    assert outside[-1] == "For"
    assert outside.count("For") == 1


def test_analysis():
    func = from_source(SYMBOLIC)
    assert analysis.verify_well_formed(IRModule({"main": func}))
    i, j = n.Var("i"), n.Var("j")
    assert analysis.expr_deep_equal(i + j, i + j)
    assert not analysis.expr_deep_equal(i + j, j + i)
    assert analysis.undefined_vars(j + i + j, [i]) == [j]
    broken = func.with_body(n.Evaluate(i))
    assert not analysis.verify_well_formed(broken, assert_mode=False)
    with pytest.raises(IRError, match="scope: variable i"):
        analysis.verify_well_formed(broken)
    block = func.body.block.body.body.body.block
    found = [[script(region) for region in part] for part in analysis.get_block_access_region(block)]
    assert found == [["A[v, w]"], ["B[v, w]"], []]


def test_transforming():
    func = matmul(3, 4, 5)
    doubled = stmt_functor.ir_transform(
        func.body, None, lambda node: n.FloatImm(node.dtype, 9.0), only_enable=["tir.FloatImm"]
    )
    assert "= 9.0" in script(func.with_body(doubled))
    with pytest.raises(IRError, match=r"no node type 'tir\.Nothing'"):
        stmt_functor.ir_transform(func.body, None, None, ["tir.Nothing"])
    x = n.Var("x", "int64")
    assert script(stmt_functor.substitute(x + 1, {x: 3})) == "T.int64(3) + T.int64(1)"


def test_attributes_are_read_as_a_mapping_and_as_python_attributes() -> None:
    func = te.create_prim_func([a := te.placeholder((4,), name="a"), te.compute((4,), lambda i: a[i], name="b")])
    func = func.with_attr({"n": 3, "text": "s"})
    for attrs in (
        func.attrs,
        IRModule({"f": func}, {"n": 3, "text": "s"}).attrs,
        IRModule({"f": func}).with_attr("n", 3).attrs,
    ):
        assert isinstance(attrs, tvm.ir.DictAttrs)
        assert (attrs["n"], attrs.n, attrs.get_int("n"), attrs.get("q", 1), "q" in attrs) == (3, 3, 3, 1, False)
        with pytest.raises(AttributeError, match="cannot be changed"):
            attrs.n = 4
    assert str(IRModule({}, {"n": 3, "a": "s"}).attrs) == '{"a": "s", "n": 3}'
    assert IRModule({}, {"n": 3}).merge(IRModule({}, {"n": 4, "m": 1})).attrs == {"n": 4, "m": 1}
    assert pickle.loads(pickle.dumps(func.attrs)) == func.attrs
