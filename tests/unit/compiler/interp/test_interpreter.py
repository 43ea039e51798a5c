"""The interpreter against numpy: blocks, loops of every kind, memory, vectors, faults."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import ArgumentError, LoweringError
from compiler.interp import interpreter as interp
from compiler.te import reduction
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import ForKind
from compiler.tir.visit import seq
from tests.kit.compiler.interp_functions import RNG, TRUE, ZERO, func_of, loop

# --------------------------------------------------------------------------------- whole kernels


def test_matmul_and_elementwise_blocks():
    a, b = placeholder((7, 9), name="A"), placeholder((9, 5), name="B")
    k = reduction.reduce_axis((0, 9), "k")
    c = compute((7, 5), lambda i, j: reduction.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = compute((7, 5), lambda i, j: intrin.exp(c[i, j]) + 1.0, name="D")
    x, y = RNG.random((7, 9), "float32"), RNG.random((9, 5), "float32")
    out = np.zeros((7, 5), "float32")
    interp.run(create_prim_func([a, b, d]), x, y, out)
    np.testing.assert_allclose(out, np.exp(x @ y) + 1, rtol=1e-6)


def test_float32_sums_are_rounded_at_every_step():
    a = placeholder((1000,), name="A")
    k = reduction.reduce_axis((0, 1000), "k")
    s = compute((1,), lambda i: reduction.sum(a[k] * a[k], axis=k), name="S")
    x = RNG.random(1000, "float32")
    out = np.zeros(1, "float32")
    interp.run(create_prim_func([a, s]), x, out)
    expected = np.float32(0)
    for value in x:
        expected = np.float32(expected + np.float32(value * value))
    assert out[0] == expected


def test_symbolic_shape():
    rows = n.SizeVar("m")
    a = placeholder((rows, 4), name="A")
    func = create_prim_func([a, compute((rows, 4), lambda i, j: a[i, j] * 2.0, name="B")])
    for size in (1, 3, 8):
        x = RNG.random((size, 4), "float32")
        out = np.zeros_like(x)
        interp.run(func, x, out)
        np.testing.assert_array_equal(out, x * 2)


def test_predicate_and_init_run_only_where_they_hold():
    """A split that does not divide: C[i] = 1 + number of reduce steps."""
    out = n.decl_buffer((5,), name="C")
    v, r = n.Var("v"), n.Var("r")
    axes = (n.IterVar(n.Range.from_extent(5), v), n.IterVar(n.Range.from_extent(3), r, n.IterType.COMM_REDUCE))
    update = n.BufferStore(out, out[v] + 1.0, (v,))
    region = (n.BufferRegion(out, (n.Range(v, ops.const(1)),)),)
    block = n.Block(axes, region, region, "C", update, init=n.BufferStore(out, ops.const(1.0), (v,)))

    def inner(i, j, k):
        return n.BlockRealize((i * 2 + j, k), i * 2 + j < 5, block)

    body = loop(3, lambda i: loop(2, lambda j: loop(3, lambda k: inner(i, j, k))))
    result = np.full(5, 100, "float32")
    interp.run(func_of(body, out), result)
    np.testing.assert_array_equal(result, np.full(5, 4, "float32"))


@pytest.mark.parametrize("kind", list(ForKind))
def test_every_kind_of_loop(kind):
    out = n.decl_buffer((6,), "int32", "out")
    body = loop(4, lambda i: n.BufferStore(out, i * i, (i,)), kind, low=2)
    result = np.zeros(6, "int32")
    interp.run(func_of(body, out), result)
    assert result.tolist() == [0, 0, 4, 9, 16, 25]


def test_more_loops_than_python_nests():
    out = n.decl_buffer((1,), "int32", "out")
    body: n.Stmt = n.BufferStore(out, out[0] + 1, (ZERO,))
    for depth in range(45):
        inner = body
        body = loop(2 if depth % 5 == 0 else n.SizeVar("u") * 0 + 1, lambda i, inner=inner: inner)
    size = n.SizeVar("u")
    body = n.LetStmt(size, ops.const(1), _with(body, size))
    result = np.zeros(1, "int32")
    interp.run(func_of(body, out), result)
    assert result[0] == 2**9


def _with(body, size):
    """`body` with every loop extent written in terms of `size`, so that no loop can be left out."""
    from compiler.ir.visit import map_children, replace

    def go(node):
        node = map_children(node, go)
        if isinstance(node, n.For):
            extent = ops.as_int(node.extent)
            return replace(node, extent=n.Add(size, ops.const((extent or 1) - 1)))
        return node

    return go(body)


def test_scratch_memory_and_views_of_it():
    """Temporary storage is poisoned; another view of the same data sees what was stored."""
    out = n.decl_buffer((2, 4), name="out")
    flat = n.Buffer("flat", out.data, (ops.const(8),))
    storage = n.Var("tmp", "handle")
    tmp = n.Buffer("tmp", storage, (ops.const(8),))
    fill = loop(4, lambda i: n.BufferStore(tmp, ops.cast("float32", i), (i,)))
    copy = loop(8, lambda i: n.BufferStore(flat, tmp[i], (i,)))
    body = n.Allocate(storage, "float32", (ops.const(8),), TRUE, seq(fill, copy))
    result = np.zeros((2, 4), "float32")
    interp.run(func_of(body, out), result)
    assert result[0].tolist() == [0, 1, 2, 3]
    assert np.isnan(result[1]).all()


def test_block_view_of_a_region():
    """match_buffer: a 2x2 window at (1, 2) of a matrix, its offset and strides taken from it."""
    src, out = n.decl_buffer((4, 5), name="src"), n.decl_buffer((2, 2), name="out")
    view = n.Buffer(
        "view", n.Var("view", "handle"), (ops.const(2), ops.const(2)), "float32", (n.Var("s0"), n.Var("s1")), n.Var("o")
    )
    region = n.BufferRegion(src, (n.Range(ops.const(1), ops.const(2)), n.Range(ops.const(2), ops.const(2))))
    copy = loop(2, lambda i: loop(2, lambda j: n.BufferStore(out, view[i, j], (i, j))))
    block = n.Block((), (region,), (), "view", copy, match_buffers=(n.MatchBufferRegion(view, region),))
    x = RNG.random((4, 5), "float32")
    result = np.zeros((2, 2), "float32")
    interp.run(func_of(n.BlockRealize((), TRUE, block), src, out), x, result)
    np.testing.assert_array_equal(result, x[1:3, 2:4])


def test_strided_argument_layout():
    """A padded row pitch: the argument is laid out in it and written back."""
    out = n.decl_buffer((3, 4), name="out", strides=(6, 1))
    data = n.Buffer("pitch", out.data, (ops.const(16),))
    body = seq(n.BufferStore(out, ops.const(5.0), (ops.const(1), ops.const(2))), n.Evaluate(data[8]))
    result = np.zeros((3, 4), "float32")
    interp.run(func_of(body, out), result)
    assert result[1, 2] == 5
    assert result.sum() == 5


def test_non_contiguous_array_is_written_in_place():
    out = n.decl_buffer((4,), "int32", "out")
    base = np.zeros((4, 3), "int32")
    interp.run(func_of(loop(4, lambda i: n.BufferStore(out, i + 1, (i,))), out), base[:, 1])
    assert base.tolist() == [[0, 1, 0], [0, 2, 0], [0, 3, 0], [0, 4, 0]]


def test_statements():
    """let, if/else, while, attr with a thread extent, evaluate, prefetch."""
    out = n.decl_buffer((8,), "int32", "out")
    x, t = n.Var("x"), n.Var("t")
    axis = n.IterVar(None, t, n.IterType.THREAD_INDEX, "threadIdx.x")
    threads = n.AttrStmt(axis, "thread_extent", ops.const(4), n.BufferStore(out, t * 3, (t,)))
    branch = n.IfThenElse(x < 3, n.BufferStore(out, x, (ops.const(4),)), n.BufferStore(out, x, (ops.const(5),)))
    count = n.While(out[6] < 5, n.BufferStore(out, out[6] + 2, (ops.const(6),)))
    hint = n.Evaluate(intrin.call("tir.prefetch", "int32", out[0]))
    body = seq(threads, n.LetStmt(x, out[1] + 4, n.AttrStmt(None, "note", ZERO, branch)), count, hint)
    result = np.zeros(8, "int32")
    interp.run(func_of(body, out), result)
    assert result.tolist() == [0, 3, 6, 9, 0, 7, 6, 0]


def test_scalar_arguments():
    scale, shift = n.Var("scale", "float32"), n.Var("shift", "int32")
    out = n.decl_buffer((3,), name="out")
    value = scale * ops.cast("float32", shift)
    interp.run(func_of(n.BufferStore(out, value, (shift,)), out, scale, shift), r := np.zeros(3, "f4"), 0.1, 2)
    assert r[2] == np.float32(np.float32(0.1) * np.float32(2))


# --------------------------------------------------------------------------------------- vectors


def ramp(base, lanes, stride=1):
    return n.Ramp(ops.as_expr(base), ops.const(stride), lanes)


def test_vector_arithmetic_and_strided_access():
    a, out = n.decl_buffer((16,), name="a"), n.decl_buffer((16,), name="out")
    value = a_load = n.BufferLoad(a, (ramp(0, 8, 2),))
    value = a_load * n.Broadcast(a[1], 8) + n.Broadcast(ops.const(1.0), 8)
    x, result = RNG.random(16, "float32"), np.zeros(16, "float32")
    interp.run(func_of(n.BufferStore(out, value, (ramp(8, 8),)), a, out), x, result)
    np.testing.assert_array_equal(result[8:], x[::2] * x[1] + np.float32(1))


def test_vector_store_reads_all_lanes_first():
    out = n.decl_buffer((9,), "int32", "out")
    shift = n.BufferStore(out, n.BufferLoad(out, (ramp(0, 8),)), (ramp(1, 8),))
    result = np.arange(9, dtype="int32")
    interp.run(func_of(shift, out), result)
    assert result.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7]


def test_masked_lanes_are_neither_read_nor_written():
    a, out = n.decl_buffer((5,), name="a"), n.decl_buffer((5,), name="out")
    at = ramp(0, 8)
    mask = n.LT(at, n.Broadcast(ops.const(5), 8))
    body = n.BufferStore(out, n.BufferLoad(a, (at,), mask) + n.Broadcast(ops.const(1.0), 8), (at,), mask)
    x, result = RNG.random(5, "float32"), np.zeros(5, "float32")
    interp.run(func_of(body, a, out), x, result)
    np.testing.assert_array_equal(result, x + np.float32(1))


def test_masked_load_gives_zero():
    a, out = n.decl_buffer((5,), name="a"), n.decl_buffer((8,), name="out")
    at = ramp(0, 8)
    mask = n.LT(at, n.Broadcast(ops.const(5), 8))
    body = n.BufferStore(out, n.BufferLoad(a, (at,), mask), (at,))
    x, result = RNG.random(5, "float32"), np.ones(8, "float32")
    interp.run(func_of(body, a, out), x, result)
    assert result.tolist() == [*x.tolist(), 0, 0, 0]


def test_vector_select_cast_and_let():
    out = n.decl_buffer((8,), name="out")
    lanes, held = ramp(-4, 8), n.Var("held", "int32x8")
    positive = n.GE(held, n.Broadcast(ZERO, 8))
    value = n.Select(positive, ops.cast("float32x8", held), n.Broadcast(ops.const(-1.0), 8))
    body = n.LetStmt(held, lanes, n.BufferStore(out, value, (ramp(0, 8),)))
    result = np.zeros(8, "float32")
    interp.run(func_of(body, out), result)
    assert result.tolist() == [-1, -1, -1, -1, 0, 1, 2, 3]


def test_vector_typed_buffer():
    """Memory allocated as float32x4 elements, seen lane by lane."""
    storage, out = n.Var("tmp", "handle"), n.decl_buffer((8,), name="out")
    wide = n.Buffer("tmp", storage, (ops.const(2),), "float32x4")
    value = n.BufferLoad(out, (ramp(4, 4),))
    body = seq(
        n.BufferStore(wide, value, (ops.const(1),)),
        n.BufferStore(out, n.BufferLoad(wide, (ops.const(1),)), (ramp(0, 4),)),
    )
    result = np.arange(8, dtype="float32")
    interp.run(func_of(n.Allocate(storage, "float32x4", (ops.const(2),), TRUE, body), out), result)
    assert result.tolist() == [4, 5, 6, 7, 4, 5, 6, 7]


# ---------------------------------------------------------------------------------------- faults


def test_out_of_bounds_names_buffer_index_shape_and_loops():
    out = n.decl_buffer((4, 3), name="out")
    body = loop(5, lambda i: loop(3, lambda j: n.BufferStore(out, ops.const(0.0), (i, j)), name="j"))
    with pytest.raises(interp.OutOfBounds) as caught:
        interp.run(func_of(body, out), np.zeros((4, 3), "float32"))
    assert caught.value.message == "out[4, 0] is outside its shape (4, 3) (at i=4, j=0)"
    assert caught.value.detail == {"i": 4, "j": 0}


@pytest.mark.parametrize("index", [-1, 4])
def test_out_of_bounds_load(index):
    a = n.decl_buffer((4,), name="a")
    with pytest.raises(interp.OutOfBounds, match=r"a\[-?\d\] is outside its shape \(4,\)"):
        interp.run(func_of(n.Evaluate(a[index]), a), np.zeros(4, "float32"))


def test_select_evaluates_both_sides():
    a, out = n.decl_buffer((4,), name="a"), n.decl_buffer((6,), name="out")
    body = loop(6, lambda i: n.BufferStore(out, n.Select(i < 4, a[i], ops.const(0.0)), (i,)))
    with pytest.raises(interp.OutOfBounds):
        interp.run(func_of(body, a, out), np.zeros(4, "float32"), np.zeros(6, "float32"))


def test_view_larger_than_its_memory():
    out = n.decl_buffer((4,), name="out")
    wide = n.Buffer("wide", out.data, (ops.const(9),))
    with pytest.raises(interp.OutOfBounds, match="outside the memory"):
        interp.run(func_of(loop(9, lambda i: n.Evaluate(wide[i])), out), np.zeros(4, "float32"))


def test_block_outside_its_domain():
    out, v = n.decl_buffer((8,), name="out"), n.Var("v")
    block = n.Block((n.IterVar(n.Range.from_extent(5), v),), (), (), "B", n.BufferStore(out, ops.const(0.0), (v,)))
    body = loop(6, lambda i: n.BlockRealize((i,), TRUE, block))
    with pytest.raises(interp.OutOfBounds, match=r"block B: v = 5 is outside its domain \[0, 5\)"):
        interp.run(func_of(body, out), np.zeros(8, "float32"))


def test_assertion_and_division_by_zero():
    out = n.decl_buffer((4,), "int32", "out")
    check = n.AssertStmt(out[0] > 3, n.StringImm("too small"), n.Evaluate(ZERO))
    with pytest.raises(interp.AssertionFailed, match="too small"):
        interp.run(func_of(check, out), np.zeros(4, "int32"))
    values = np.array([0, 7, 5, 5], "int32")
    quotient, remainder = n.FloorDiv(out[1], out[0]), n.Mod(out[1], out[0])
    stores = [n.BufferStore(out, value, (ops.const(i),)) for i, value in ((2, quotient), (3, remainder))]
    interp.run(func_of(n.SeqStmt(tuple(stores)), out), values)
    assert values.tolist() == [0, 7, 0, 0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "takes 2 arguments, got 0"),
        ([np.zeros((4, 3), "float64"), 1], r"argument 0 \(a\) is float64, wanted float32"),
        ([np.zeros((4, 2), "float32"), 1], "size 2 in dimension 1, wanted 3"),
        ([np.zeros(4, "float32"), 1], "has 1 dimensions, wanted 2"),
        ([[1, 2], 1], "must be a numpy array"),
        ([np.zeros((4, 3), "float32"), np.zeros(3)], "is a scalar"),
    ],
)
def test_wrong_arguments(args, message):
    a, s = n.decl_buffer((4, 3), name="a"), n.Var("s")
    with pytest.raises(ArgumentError, match=message):
        interp.run(func_of(n.Evaluate(s), a, s), *args)


def test_what_has_no_meaning_is_refused():
    barrier = n.Evaluate(intrin.call("tir.tvm_storage_sync", "int32", "shared"))
    extern = n.Evaluate(intrin.call("tir.call_extern", "int32", "no_such_function", 1))
    loose = n.decl_buffer((4,), name="loose")
    for body, message in [
        (barrier, "barrier"),
        (extern, "neither libc nor libm"),
        (n.Evaluate(loose[0]), "outside the scope that allocates it"),
        (n.Evaluate(n.Var("ghost")), "'ghost' is used where it has no value"),
    ]:
        with pytest.raises(LoweringError, match=message):
            interp.run(func_of(body))
