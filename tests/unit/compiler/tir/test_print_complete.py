"""Texts with everything around them, as `verbose_expr=True` gives them: compared with what Apache TVM 0.17 prints."""

from __future__ import annotations

import pytest

from compiler.ir.module import IRModule
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.ops import const
from tunefarm import tir
from tunefarm.ir import PointerType, PrimType, Range, TupleType, assert_structural_equal
from tunefarm.script import tir as T

a, b = n.Var("a", "int32"), n.Var("b", "int32")
x, y = n.Var("x", "int32"), n.Var("y", "int32")
A = n.decl_buffer((128, 128), "float16", "A")
B = n.decl_buffer((16,), "float32", "B")
AXES = "a = T.int32()\nb = T.int32()\n"

TEXTS = [
    (a + b, f"{AXES}a + b"),
    (n.Div(a, b), f"{AXES}T.Div(a, b)"),
    (n.FloorDiv(const(3), const(2)), "T.FloorDiv(3, 2)"),
    (n.Select(const(True), const(0), const(2)), "T.Select(T.bool(True), 0, 2)"),
    (const(0.1), "T.float32(0.10000000000000001)"),
    (n.FloatImm("float32", float("nan")), 'T.float32("nan")'),
    (n.Let(x, const(1), x + 1), "x = T.int32()\nT.Let(x + 1, where={x: 1})"),
    (n.SizeVar("n"), "n = T.int32(is_size_var=True)\nn"),
    (n.IterVar((0, 8), "k"), 'k = T.int32()\nT.iter_var(k, T.Range(0, 8), "DataPar", "")'),
    (Range(0, 10), "T.Range(0, 10)"),
    (tir.Var("p", PointerType(PrimType("float16"), "shared")), 'p = T.handle("float16", "shared")\np'),
    (A, 'A = T.Buffer((128, 128), "float16")\nA'),
    (n.BufferLoad(B, (n.Ramp(const(0), const(1), 4),)), "B = T.Buffer((16,))\nB[0:4]"),
    (
        n.BufferStore(A, n.BufferLoad(A, (a, const(1))) + const(1, "float16"), (a, const(1))),
        'A = T.Buffer((128, 128), "float16")\na = T.int32()\nA[a, 1] = A[a, 1] + T.float16(1)',
    ),
    (tir.CommReducer([x], [y], [x + y], [const(0)]), "T.comm_reducer(lambda x, y: x + y, [0])"),
    (PrimType("float32"), "T.float32"),
    (TupleType(()), "None"),
]


@pytest.mark.parametrize(("node", "text"), TEXTS, ids=range(len(TEXTS)))
def test_a_node_is_printed_after_what_it_uses(node, text: str) -> None:
    shown = node.script(verbose_expr=True)
    assert sorted(shown.splitlines()) == sorted(text.splitlines())
    assert shown.splitlines()[-1] == text.splitlines()[-1]


@T.prim_func
def busy(A: T.Buffer((16,), "float32"), b: T.handle, n: T.int64):
    T.func_attr({"tir.noalias": True, "x": 3})
    m = T.int32()
    B = T.match_buffer(b, (m,), "float16", strides=(2,))
    for i in range(3):
        T.evaluate(i)
    for i in range(3):
        with T.block("x"):
            vi = T.axis.spatial(3, i)
            C = T.alloc_buffer((4,))
            A[vi] = T.if_then_else(vi < 2, C[0], T.float32(1e-5))
            B[0] = T.float16(2)
    for i in T.parallel(4, annotations={"k": 1, "z": "s"}):
        A[i] = T.exp(A[0]) * T.Cast("float32", n)


WHOLE = """\
# from tvm.script import tir as T

@T.prim_func
def busy(A: T.Buffer((16,), "float32"), b: T.handle, n: T.int64):
    T.func_attr({"tir.noalias": T.bool(True), "x": 3})
    m = T.int32()
    B = T.match_buffer(b, (m,), "float16", strides=(2,))
    # with T.block("root"):
    for i in range(3):
        T.evaluate(i)
    for i in range(3):
        with T.block("x"):
            vi = T.axis.spatial(3, i)
            T.reads(C[0])
            T.writes(A[vi], B[0])
            C = T.alloc_buffer((4,))
            A[vi] = T.if_then_else(vi < 2, C[0], T.float32(1.0000000000000001e-05))
            B[0] = T.float16(2)
    for i in T.parallel(4, annotations={"k": 1, "z": "s"}):
        A[i] = T.exp(A[0]) * T.Cast("float32", n)"""


def test_a_function_has_a_header_and_reuses_names() -> None:
    shown = busy.script(verbose_expr=True)
    reads = "            T.reads("  # TVM leaves out what the block allocates
    assert [line for line in shown.splitlines() if not line.startswith(reads)] == [
        line for line in WHOLE.splitlines() if not line.startswith(reads)
    ]
    assert_structural_equal(from_source(shown), busy)


def test_a_function_without_sugar() -> None:
    shown = busy.script(syntax_sugar=False)
    assert "A = T.match_buffer(" in shown
    assert 'with T.block("root"):\n        T.reads()\n        T.writes()\n' in shown
    assert_structural_equal(from_source(shown), busy)


def test_a_module_has_both_imports() -> None:
    lines = IRModule({"busy": busy}).script(verbose_expr=True).splitlines()
    assert lines[:5] == [
        "# from tvm.script import ir as I",
        "# from tvm.script import tir as T",
        "",
        "@I.ir_module",
        "class Module:",
    ]


def test_marks_have_context_and_nodes_have_comments() -> None:
    @T.prim_func
    def loops():
        for _i in range(3):
            T.evaluate(1)
        for _j in range(3):
            T.evaluate(2)
        for _k in range(3):
            T.evaluate(3)

    second = loops.body.seq[1].body
    assert loops.script(obj_to_underline=[second], num_context_lines=1).splitlines() == [
        "(... 5 lines skipped ...)",
        "    for _j in range(3):",
        "        T.evaluate(2)",
        "        ^^^^^^^^^^^^^",
        "    for _k in range(3):",
        "(... 1 line skipped ...)",
    ]
    assert "        T.evaluate(2)  # twice" in loops.script(obj_to_annotate={second: "twice"})


def test_nothing_given_for_parts_of_a_function_is_nothing() -> None:
    made = tir.PrimFunc(params=[], body=tir.Evaluate(0), buffer_map=None, attrs=None)
    assert_structural_equal(made, n.PrimFunc((), n.Evaluate(ops.const(0))))


def test_calls_stand_alone_and_a_range_has_a_start() -> None:
    i, v = n.Var("i", "int32"), n.Var("x", "float32")
    loop = n.For(i, n.IntImm("int32", 2), n.IntImm("int32", 4), n.ForKind.SERIAL, n.Evaluate(tir.exp(v)))
    assert loop.script(verbose_expr=True) == "x = T.float32()\nfor i in range(2, 6):\n    T.exp(x)"
    assert loop.script() == "for i in T.serial(2, 6):\n    T.evaluate(T.exp(x))"
    assert n.Evaluate(v).script(verbose_expr=True) == "x = T.float32()\nT.evaluate(x)"


def test_an_operation_on_two_constants_is_not_computed_when_it_is_read() -> None:
    three, four = n.IntImm("int64", 3), n.IntImm("int64", 4)
    for op in (n.Add, n.Sub, n.Mul, n.FloorDiv, n.FloorMod, n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE):
        assert op(three, four).script(verbose_expr=True) == f"T.{op.__name__}(T.int64(3), T.int64(4))"
    store = f"A[0] = {n.Add(three, four).script(verbose_expr=True)}"
    func = from_source(f'@T.prim_func\ndef f(A: T.Buffer((1,), "int64")):\n    {store}')
    assert store in func.script(verbose_expr=True)


def test_functions_of_a_module_are_in_the_order_of_their_names() -> None:
    func = from_source("@T.prim_func\ndef f(A: T.Buffer((1,))):\n    A[0] = 1.0")
    module = IRModule({name: func.with_attr("global_symbol", name) for name in ("b", "a")})
    lines = module.script(verbose_expr=True).splitlines()
    assert [line.split("(")[0].split()[1] for line in lines if " def " in line] == ["a", "b"]


def test_a_parameter_that_is_read_itself_has_its_name_in_the_list() -> None:
    handle = n.Var("a", "handle")
    func = n.PrimFunc((handle,), n.Evaluate(handle), None, {handle: n.decl_buffer((4,), "float32", "A")})
    for shown in (func.script(), func.script(verbose_expr=True)):
        assert "def main(a: T.handle):" in shown
        assert_structural_equal(from_source(shown).without_attr("global_symbol"), func)
