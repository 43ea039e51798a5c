"""The text of IR: golden texts, valid Python, names, and the workload key."""

from __future__ import annotations

import ast

import pytest

from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.text import script
from compiler.te import reduction
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.text.print_func import workload_key
from compiler.tir.visit import seq


def matmul(rows=13, a="A", c="C", name="main"):
    left, right = placeholder((rows, 12), name=a), placeholder((12, 11), name="B")
    k = reduction.reduce_axis((0, 12), "k")
    product = compute((rows, 11), lambda i, j: reduction.sum(left[i, k] * right[k, j], axis=k), name=c)
    scaled = compute((rows, 11), lambda i, j: product[i, j] * 2.0 + 1.0, name="D")
    return create_prim_func([left, right, scaled], name)


MATMUL = """\
@T.prim_func
def main(A: T.Buffer((13, 12), "float32"), B: T.Buffer((12, 11), "float32"), D: T.Buffer((13, 11), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    C = T.alloc_buffer((13, 11))
    for i, j, k in T.grid(13, 11, 12):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            T.reads(A[v_i, v_k], B[v_k, v_j])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = 0.0
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
    for i_1, j_1 in T.grid(13, 11):
        with T.block("D"):
            v_i_1, v_j_1 = T.axis.remap("SS", [i_1, j_1])
            T.reads(C[v_i_1, v_j_1])
            T.writes(D[v_i_1, v_j_1])
            D[v_i_1, v_j_1] = C[v_i_1, v_j_1] * 2.0 + 1.0"""


def test_function_text():
    assert script(matmul()) == MATMUL
    assert repr(matmul()) == MATMUL


def test_module_text():
    text = script(IRModule({"main": matmul()}))
    body = "\n".join("    " + line for line in MATMUL.splitlines())
    assert text == f"@I.ir_module\nclass Module:\n{body}"
    ast.parse(text)


def test_empty_module_with_attrs():
    text = script(IRModule({}, {"runtime": 3}))
    assert text == '@I.ir_module\nclass Module:\n    I.module_attrs({"runtime": 3})\n    pass'


ROW, COL, X = n.Var("i"), n.Var("j"), n.Var("x", "float32")
WIDE = n.Var("w", "int64")
A = n.decl_buffer((16, 8), name="A")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (ROW + COL * 2 - 1, "i + j * 2 - 1"),
        (n.Sub(ROW, n.Sub(COL, ROW)), "i - (j - i)"),
        (n.Mul(ROW + COL, ROW), "(i + j) * i"),
        ((ROW + COL) // 4 % 3, "(i + j) // 4 % 3"),
        (n.FloorMod(ROW, n.FloorDiv(COL, ops.const(2))), "i % (j // 2)"),
        (n.Mul(ROW, ops.const(-1)), "i * -1"),
        (WIDE + 1, "w + T.int64(1)"),
        (ops.truncdiv(ROW, 3), "T.truncdiv(i, 3)"),
        (ops.truncmod(ROW, 3), "T.truncmod(i, 3)"),
        (X / 3.0, "x / 3.0"),
        (ops.minimum(ROW, 3), "T.min(i, 3)"),
        (ops.maximum(ROW, COL), "T.max(i, j)"),
        (ops.logical_and(ROW < 3, ops.logical_or(COL >= 2, ROW == COL)), "i < 3 and (j >= 2 or i == j)"),
        (ops.logical_not(ops.logical_and(ROW < 3, COL < 3)), "not (i < 3 and j < 3)"),
        (n.EQ(ROW < 3, COL < 3), "(i < 3) == (j < 3)"),
        (ops.const(True), "T.bool(True)"),
        (ops.const(1.5), "1.5"),
        (ops.const(-0.0), "-0.0"),
        (ops.const(float("inf")), 'T.float32("inf")'),
        (ops.const(0.5, "float16"), "T.float16(0.5)"),
        (ops.const(7, "uint8"), "T.uint8(7)"),
        (ops.const(2, "int32x4"), "T.Broadcast(2, 4)"),
        (ops.cast("float32", ROW), 'T.Cast("float32", i)'),
        (intrin.select(ROW < 2, X, 0.0), "T.Select(i < 2, x, 0.0)"),
        (intrin.if_then_else(ROW < 2, X, 0.0), "T.if_then_else(i < 2, x, 0.0)"),
        (intrin.exp(X) + 1.0, "T.exp(x) + 1.0"),
        (intrin.call("tir.isnan", "bool", X), "T.isnan(x)"),
        (intrin.call("tir.call_extern", "int32", "puts", "hi"), 'T.call_extern("int32", "puts", "hi")'),
        (intrin.call("tir.popcount", "int32", WIDE), 'T.Call("int32", "tir.popcount", w)'),
        (n.Call("int32", GlobalVar("f"), (ROW,)), 'T.Call("int32", "@f", i)'),
        (n.Ramp(ROW, ops.const(1), 8), "T.Ramp(i, 1, 8)"),
        (n.Let(COL, ROW + 1, COL * COL), "T.Let(j * j, where={j: i + 1})"),
        (A[ROW, COL + 1], "A[i, j + 1]"),
        (n.BufferLoad(n.decl_buffer((), name="S"), ()), "S[()]"),
        (n.Not(n.EQ(ROW, COL)), "not i == j"),
    ],
)
def test_expression_text(expr, text):
    assert script(expr) == text
    assert str(expr) == text
    ast.parse(text)


def test_masked_vector_text():
    index = n.Ramp(ROW * 8, ops.const(1), 8)
    mask = n.LT(index, n.Broadcast(ops.const(13), 8))
    flat = n.decl_buffer((16,), name="A")
    store = n.BufferStore(flat, n.BufferLoad(flat, (index,), mask), (index,), mask)
    ramp, mask_text = "T.Ramp(i * 8, 1, 8)", "T.Ramp(i * 8, 1, 8) < T.Broadcast(13, 8)"
    load = f"A.vload([{ramp}], predicate={mask_text})"
    assert script(store) == f"A.vstore([{ramp}], {load}, predicate={mask_text})"


def lowered():
    """A lowered function with temporary storage, views, scopes that close, and thread bindings."""
    size = n.SizeVar("n")
    param = n.Var("var_A", "handle")
    a = n.decl_buffer((size, 4), name="A")
    flat = n.Buffer("A", a.data, (size * 4,), "float32")
    storage = n.Var("tmp", "handle")
    tmp = n.Buffer("tmp", storage, (ops.const(8),), "float32", scope="local")
    i, j, t, y = n.Var("i"), n.Var("j"), n.Var("t"), n.Var("y", "float32")
    true = ops.const(True)
    zero, eight = ops.const(0), ops.const(8)
    fill = n.For(i, zero, eight, n.ForKind.UNROLLED, n.BufferStore(tmp, ops.const(0.0), (i,)))
    scope = n.Allocate(storage, "float32", (eight,), true, seq(fill, n.Evaluate(tmp[0])), "local")
    held = n.LetStmt(y, flat[2], n.BufferStore(flat, y, (ops.const(3),)))
    tag = n.IterVar(None, n.Var("b"), n.IterType.THREAD_INDEX, "blockIdx.x")
    bound = n.For(t, zero, size, n.ForKind.THREAD_BINDING, n.BufferStore(flat, ops.const(1.0), (t,)), tag)
    odd = n.For(j, size, eight, n.ForKind.SERIAL, n.Evaluate(j), annotations={"pragma": "x", "k": [1, 2]})
    check = n.AssertStmt(size > 3, n.StringImm("too small"), odd)
    branch = n.IfThenElse(size < 9, n.Evaluate(eight), n.While(size < 3, n.Evaluate(zero)))
    body = seq(scope, held, bound, branch, n.AttrStmt(a, "hint", ops.const(2), check))
    return n.PrimFunc((param, size), body, None, {param: a}, {"global_symbol": "f"})


LOWERED = """\
@T.prim_func
def f(var_A: T.handle, n: T.int32(is_size_var=True)):
    A = T.match_buffer(var_A, (n, 4), "float32")
    T.func_attr({"global_symbol": "f"})
    A_1 = T.Buffer((n * 4,), "float32", data=A.data)
    with T.allocate([8], "float32", "local") as tmp:
        tmp_1 = T.Buffer((8,), "float32", scope="local", data=tmp)
        for i in T.unroll(8):
            tmp_1[i] = 0.0
        T.evaluate(tmp_1[0])
    with T.LetStmt(A_1[2]) as y:
        A_1[3] = y
    for t in T.thread_binding(n, thread="blockIdx.x"):
        A_1[t] = 1.0
    if n < 9:
        T.evaluate(8)
    else:
        while n < 3:
            T.evaluate(0)
    T.attr(A, "hint", 2)
    assert n > 3, "too small"
    for j in T.serial(n, n + 8, annotations={"pragma": "x", "k": [1, 2]}):
        T.evaluate(j)"""


def test_lowered_text():
    text = script(lowered())
    assert text == LOWERED
    ast.parse(text)


def test_symbolic_shape_is_declared():
    rows = n.SizeVar("m")
    data = placeholder((rows, 4), name="A")
    func = create_prim_func([data, compute((rows, 4), lambda i, j: data[i, j] + 1.0, name="C")])
    lines = script(func).splitlines()
    assert lines[2:5] == [
        "    m = T.int32(is_size_var=True)",
        '    A = T.match_buffer(var_A, (m, 4), "float32")',
        '    C = T.match_buffer(var_C, (m, 4), "float32")',
    ]
    ast.parse(script(func))


def test_block_details():
    """Split axes, a predicate, a region, annotations, a view of a region, an init, a scalar buffer."""
    src, dst = n.decl_buffer((16,), name="S"), n.decl_buffer((4, 4), name="D", scope="shared")
    view = n.decl_buffer((4,), name="V", elem_offset=n.Var("off"))
    i, j, v, u = n.Var("i.outer"), n.Var("i.inner"), n.Var("v"), n.Var("u")
    zero, four = ops.const(0), ops.const(4)
    axis = n.IterVar(n.Range.from_extent(15), v)
    window = n.IterVar(n.Range(ops.const(1), four), u, n.IterType.COMM_REDUCE)
    reads = (n.BufferRegion(src, (n.Range(v, four),)),)
    writes = (n.BufferRegion(dst, (n.Range(zero, four), n.Range(v, ops.const(1)))),)
    body = n.BufferStore(dst, view[0], (ops.const(1), v))
    block = n.Block(
        (axis, window), reads, writes, "B", body, init=n.Evaluate(zero),
        match_buffers=(n.MatchBufferRegion(view, reads[0]),), annotations={"tiles": (4, 2.5), "on": True},
    )  # fmt: skip
    realize = n.BlockRealize((i * 4 + j, j), i * 4 + j < 15, block)
    nest: n.Stmt = n.For(j, zero, four, n.ForKind.VECTORIZED, realize)
    nest = n.For(i, zero, four, n.ForKind.PARALLEL, nest)
    expected = """\
for i_outer in T.parallel(4):
    for i_inner in T.vectorized(4):
        with T.block("B"):
            v = T.axis.spatial(15, i_outer * 4 + i_inner)
            u = T.axis.reduce((1, 5), i_inner)
            T.where(i_outer * 4 + i_inner < 15)
            T.reads(S[v:v + 4])
            T.writes(D[0:4, v])
            T.block_attr({"tiles": (4, 2.5), "on": True})
            off = T.int32()
            V = T.match_buffer(S[v:v + 4], (4,), "float32", elem_offset=off)
            with T.init():
                T.evaluate(0)
            D[1, v] = V[0]"""
    assert script(nest) == expected
    ast.parse(expected)


def test_loops_that_depend_on_each_other_are_not_one_grid():
    i, j = n.Var("i"), n.Var("j")
    inner = n.For(j, ops.const(0), i, n.ForKind.SERIAL, n.Evaluate(j))
    nest = n.For(i, ops.const(0), ops.const(4), n.ForKind.SERIAL, inner)
    assert script(nest) == "for i in range(4):\n    for j in range(i):\n        T.evaluate(j)"


def test_names_are_identifiers_and_unique():
    names = ["i", "i", "i_1", "for", "2x", "a.b", "T"]
    lines = script(seq(*(n.Evaluate(n.Var(name)) for name in names))).splitlines()
    found = [line.removeprefix("T.evaluate(")[:-1] for line in lines]
    assert found == ["i", "i_1", "i_1_1", "v_for", "v_2x", "a_b", "T_1"]


def test_workload_key_ignores_names():
    key = workload_key(matmul())
    assert key == workload_key(matmul(a="left", c="product", name="dense"))
    assert key == workload_key(matmul().with_attr("target", "llvm"))
    assert key != workload_key(matmul(rows=14))
    assert len(key) == 64
    int(key, 16)


def test_unprintable():
    with pytest.raises(IRError, match="cannot print"):
        script(3)
