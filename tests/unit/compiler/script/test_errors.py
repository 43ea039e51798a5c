"""A script that is wrong says where and why."""

from __future__ import annotations

import pytest

from compiler.errors import IRError
from compiler.script.entry import from_source
from compiler.script.source import ScriptError
from tunefarm.script import tir as T

HEAD = '@T.prim_func\ndef main(A: T.Buffer((16, 8), "float32"), n: T.int32):\n'


def error(body: str, extra: dict | None = None) -> ScriptError:
    with pytest.raises(ScriptError) as raised:
        from_source(HEAD + "".join(f"    {line}\n" for line in body.splitlines()), extra)
    return raised.value


def test_the_place_is_shown():
    said = error("for i in range(16):\n    A[i, 0] = T.expp(A[i, 1])")
    assert str(said).startswith("<script>:4:19: TVMScript has no expression 'T.expp'\n")
    assert str(said).splitlines()[1:] == [
        '  2 | def main(A: T.Buffer((16, 8), "float32"), n: T.int32):',
        "  3 |     for i in range(16):",
        "  4 |         A[i, 0] = T.expp(A[i, 1])",
        "    |                   ^^^^^^",
        "  hint: did you mean T.exp or T.exp2 or T.ldexp?",
    ]
    assert said.detail == {"file": "<script>", "line": 4, "column": 19}
    assert isinstance(said, IRError)
    assert said.kind == "script"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for i in T.grd(3):\n    pass", "cannot loop over T.grd(3)"),
        ("for i in [1, 2]:\n    pass", "accepted here: range, T.grid, T.serial"),
        ("for i, j in T.grid(3):\n    pass", "T.grid has 1 extents for 2 variables"),
        ("for i in range(8, 0, -2):\n    pass", "a positive constant as step"),
        ("for i in range(1.5):\n    pass", "the bounds of a loop are integers, not float32"),
        ("for i in T.thread_binding(3):\n    pass", "names a thread"),
        ("for i in range(3):\n    pass\nelse:\n    pass", "a loop has no else"),
        ("A[0] = 1.0", "buffer 'A' has 2 dimensions, indexed with 1"),
        ("A[0, 1.5] = 1.0", "an index is an integer, not float32"),
        ("A[0, 0:n] = 1.0", "a vector has a constant, positive length"),
        ("A[0, 0] = T.int64(3) + n + m", "there is no name 'm'"),
        ("A[0, 0] = n", "a value of dtype int32 is stored to buffer 'A' of float32"),
        ("A[0, 0] = n / 2", "'/' on integers is ambiguous"),
        ("A[0, 0] = T.int8(300)", "outside the range of int8: [-128, 127]"),
        ("A[0, 0] = T.Broadcast(1.0, 0)", "positive constant number of lanes"),
        ("x: T.int64 = n", "x is T.int64, its value int32"),
        ("x += 1", "only elements are updated"),
        ("n", "an expression by itself does nothing"),
        ("return n", "this statement (Return) has no place in a script"),
        ("import os", "this statement (Import) has no place"),
        ("def f(): pass", "this statement (FunctionDef)"),
        ("T.evaluate([i for i in range(3)])", "this (ListComp) has no place in a script"),
        ("T.evaluate(open('/etc/passwd'))", "there is no name 'open'"),
        ("T.evaluate(n.dtype.upper())", "cannot be called in a script"),
        ("T.evaluate(n.__class__)", "'__class__' is private"),
        ("T.evaluate(9 ** 9 ** 9)", "the exponent is too large"),
        ("T.evaluate('x' * 10 ** 9)", "is no arithmetic on numbers"),
        ("T.evaluate(1 << 10 ** 9)", "the exponent is too large"),
        ("if n:\n    pass", "a condition is a bool, not int32"),
        ("with open('x'):\n    pass", "accepted here: T.block, T.init"),
        ("with T.blok('x'):\n    pass", "did you mean T.block?"),
        ("with T.init():\n    pass", "T.init stands in a block"),
        ("v = T.axis.spatial(3, n)", "takes a domain and a value, in a block"),
        ("B = T.match_buffer(n2, (3,))", "there is no name 'n2'"),
        ("B = T.alloc_buffer((3,), 'float31')", "unknown dtype 'float31'"),
        ("B = T.alloc_buffer((3,), size=1)", "a buffer has no argument 'size'"),
        ("B = T.alloc_buffer((3, 4), axis_separators=[1])", "buffers have no axis separators"),
        ('B = T.alloc_buffer((3, 4), buffer_type="auto")', "buffers have no type"),
        ("T.evaluate(T.call_packed(3))", "the name of a registered function"),
        ("T.evaluate(T.Call('int32', 'tir.no_such', n))", "there is no operator 'tir.no_such'"),
        ("T.func_attr(3)", "attributes are a dict"),
        ("T.reads(n)", "a region is a buffer"),
        ("lambda: 0", "an expression by itself does nothing"),
        ("T.evaluate(T.min())", "Min of nothing"),
        ("T.evaluate(T.exp())", "T.exp takes 1 argument, not 0"),
        ("T.evaluate(n and 1.0)", "`and` needs conditions"),
        ("a, b = n", "2 names need as many values"),
    ],
)
def test_what_is_wrong(body, says):
    said = error(body)
    assert says in str(said)
    assert "<script>:" in said.message
    assert "^" in said.message


def test_block_rules():
    said = error('with T.block("b"):\n    v = T.axis.remap("S", [n])\n    A[v, 0] = 1.0')
    assert "T.axis.remap" in str(said)
    twice = 'for i, j in T.grid(3, 4):\n    with T.block("b"):\n'
    for axes in ("        v = T.axis.S(3, i)\n        v = T.axis.S(4, j)", '        v, v = T.axis.remap("SS", [i, j])'):
        assert "the block has two axes 'v'" in str(error(f"{twice}{axes}\n        A[v, 0] = 1.0"))
    start = "        with T.init():\n            A[0, 0] = 0.0\n"
    assert "the block has two T.init" in str(error(f"{twice}{start}{start}        A[0, 0] = A[0, 0] + 1.0"))
    assert "T.grid has 2 extents for 1 variables" in str(error("for i in T.grid(3, 4):\n    A[0, 0] = 1.0"))
    said = error('for i in range(3):\n    with T.block("b"):\n        v = T.axis.remap("X", [i])')
    assert "there is no kind of axis 'X'" in str(said) or "needs as many values" in str(said) or "remap" in str(said)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def f(:", "no valid Python"),
        ("", "not 0"),
        ("x = 1", "this is no definition"),
        ("import os\n", "this is no definition"),
        ("from os import path\n", "nothing is imported from os"),
        ("from tvm.script import relay as R\n", "tvm.script has no 'relay'"),
        ("def f():\n    pass", "f is not decorated"),
        ("@T.prim_func\ndef f(x):\n    pass", "parameter 'x' has no type"),
        ("@T.prim_func\ndef f(x: 3):\n    pass", "3 is no type of a parameter"),
        ("@T.prim_func\ndef f(*x: T.int32):\n    pass", "plain parameters only"),
        ("@T.prim_func(fast=True)\ndef f():\n    pass", "T.prim_func takes"),
        ("@I.ir_module\nclass M:\n    x = 1", "this has no place in a module"),
        ("@I.ir_module\nclass M:\n    def f():\n        pass", "decorate it with @T.prim_func"),
        ("@T.prim_func\ndef f():\n    pass\n@T.prim_func\ndef g():\n    pass", "not 2"),
    ],
)
def test_texts_that_are_no_scripts(text, says):
    with pytest.raises(ScriptError) as raised:
        from_source(text)
    assert says in str(raised.value)


def test_a_deep_text_is_refused():
    with pytest.raises(ScriptError):
        from_source(HEAD + "    T.evaluate(" + "-" * 100000 + "1)")
    with pytest.raises(ScriptError):
        from_source(HEAD + "    T.evaluate(" + "+".join(["n"] * 3000) + ")")


def test_an_error_in_a_decorated_function_points_into_the_file():
    with pytest.raises(ScriptError) as raised:

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            A[0] = undefined  # noqa: F821

    assert raised.value.detail["file"] == __file__
    assert "A[0] = undefined" in str(raised.value)


def test_a_function_without_source():
    space = {"T": T}
    with pytest.raises(ScriptError, match="the source of f is not available"):
        exec("@T.prim_func\ndef f():\n    pass", space)
