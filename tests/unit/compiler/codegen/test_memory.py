"""Loads, stores, masks, gathers, temporaries and parallel loops, as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.codegen.llvm.llvm import options_for
from compiler.codegen.llvm.module import llvm_text
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.errors import CodegenError
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import Broadcast, BufferLoad, BufferStore, For, ForKind, PrimFunc, Ramp
from compiler.tir.visit import seq
from tests.kit.compiler.lowering import HOST, outputs_by_interpreter, outputs_by_machine


def function(buffers: list[n.Buffer], body: n.Stmt, scalars: tuple[n.Var, ...] = ()) -> PrimFunc:
    handles = tuple(n.Var(f"p{i}", "handle") for i in range(len(buffers)))
    return PrimFunc((*handles, *scalars), body, None, dict(zip(handles, buffers)), {"tir.noalias": True})


def loop(var: n.Var, extent: Any, body: n.Stmt, kind: ForKind = ForKind.SERIAL) -> For:
    return For(var, ops.const(0), ops.as_expr(extent), kind, body)


def buffer(name: str, size: Any, dtype: str = "float32", scope: str = "global") -> n.Buffer:
    return n.decl_buffer(size, dtype, name, scope=scope)


def agree(func: PrimFunc, *args: Any) -> list[Any]:
    want = outputs_by_interpreter(func, list(args))
    got = outputs_by_machine(func, list(args))
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)
    return got


def numbers(count: int, dtype: str = "float32") -> Any:
    return np.arange(count).astype(dtype)


@pytest.mark.parametrize("stride", [-3, -1, 0, 1, 2, 5])
def test_strided_vectors(stride: int) -> None:
    a, b = buffer("a", 64), buffer("b", 64)
    start = 40 if stride < 0 else 3
    where = Ramp(ops.const(start), ops.const(stride), 8)
    agree(function([a, b], BufferStore(b, BufferLoad(a, (where,)), (Ramp(ops.const(8), ops.const(1), 8),))),
          numbers(64), np.zeros(64, "float32"))  # fmt: skip
    if stride:
        agree(function([a, b], BufferStore(b, BufferLoad(a, (Ramp(ops.const(8), ops.const(1), 8),)), (where,))),
              numbers(64), np.zeros(64, "float32"))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "bool", "float16"])
def test_masked_vectors(dtype: str) -> None:
    a, b = buffer("a", 16, dtype), buffer("b", 16, dtype)
    lanes = Ramp(ops.const(8), ops.const(1), 8)
    mask = n.LT(Ramp(ops.const(0), ops.const(1), 8), Broadcast(ops.const(5), 8))
    body = BufferStore(b, BufferLoad(a, (lanes,), mask), (lanes,), n.GT(lanes, Broadcast(ops.const(9), 8)))
    agree(function([a, b], body), numbers(16, dtype), np.ones(16, dtype))


def test_masked_lanes_are_not_touched() -> None:
    """The lanes that are masked off lie beyond the arrays' end, on a page that may not exist."""
    a, b, i = buffer("a", 13), buffer("b", 13), n.Var("i")
    body = n.IfThenElse(i < 13, BufferStore(b, a[i] + 1.0, (i,)))
    func = function([a, b], loop(i, 16, body, ForKind.VECTORIZED))
    (_, got) = agree(func, numbers(13), np.zeros(13, "float32"))
    np.testing.assert_array_equal(got, numbers(13) + 1)


@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(masked: bool) -> None:
    a, where, b = buffer("a", 32), buffer("where", 16, "int32"), buffer("b", 32)
    i = n.Var("i")
    gather: n.Stmt = BufferStore(b, a[where[i]] + 1.0, (where[i] * 2 % 31,))
    if masked:
        gather = n.IfThenElse(where[i] < 20, gather)
    func = function([a, where, b], loop(i, 16, gather, ForKind.VECTORIZED))
    spots = np.random.default_rng(0).permutation(31)[:16].astype("int32")
    agree(func, numbers(32), spots, np.zeros(32, "float32"))
    assert "masked.gather" in llvm_text({"f": lower_func(func)}, options_for(HOST))


def test_if_then_else_evaluates_one_side() -> None:
    a, b, i = buffer("a", 8), buffer("b", 16), n.Var("i")
    for kind in (ForKind.SERIAL, ForKind.VECTORIZED):
        value = if_then_else(i < 8, a[i], ops.const(-1.0))
        agree(function([a, b], loop(i, 16, BufferStore(b, value, (i,)), kind)), numbers(8), np.zeros(16, "float32"))


def test_guarded_division_does_not_fault() -> None:
    a, b, i = buffer("a", 16, "int32"), buffer("b", 16, "int32"), n.Var("i")
    for kind in (ForKind.SERIAL, ForKind.VECTORIZED):
        body = n.IfThenElse(n.NE(a[i], ops.const(0)), BufferStore(b, ops.floordiv(100, a[i]), (i,)))
        values = np.array([0, 1, -2, 3] * 4, "int32")
        agree(function([a, b], loop(i, 16, body, kind)), values, np.zeros(16, "int32"))


def test_while_and_let() -> None:
    a, total, count = buffer("a", 20, "int32"), buffer("total", 1, "int32"), buffer("count", 1, "int32")
    zero = ops.const(0)
    x = n.Var("x")
    step = n.LetStmt(
        x,
        a[count[0]] * 3,
        seq(BufferStore(total, total[0] + ops.floordiv(x, 2), (zero,)), BufferStore(count, count[0] + 1, (zero,))),
    )
    func = function([a, total, count], n.While(count[0] < 20, step))
    agree(func, np.arange(-7, 13, dtype="int32"), np.zeros(1, "int32"), np.zeros(1, "int32"))


def test_data_bound_by_let_wraps() -> None:
    a, b, i, x = buffer("a", 8, "int32"), buffer("b", 8, "int32"), n.Var("i"), n.Var("x")
    body = n.LetStmt(x, a[i] * 2, BufferStore(b, ops.floordiv(x + 5, 3), (i,)))
    values = np.array([2**31 - 1, -(2**31), 2**30, 7, -7, 0, 1, 2**30 - 1], "int32")
    for kind in (ForKind.SERIAL, ForKind.VECTORIZED):
        agree(function([a, b], loop(i, 8, body, kind)), values, np.zeros(8, "int32"))


@pytest.mark.parametrize(("size", "scope"), [(32, "local"), (32, "global"), (5000, "global"), (100_000, "local")])
def test_temporaries(size: int, scope: str) -> None:
    """Small ones live on the stack, large ones in memory taken once for the call."""
    a, b, t = buffer("a", size), buffer("b", size), buffer("t", size, scope=scope)
    i, j, r = n.Var("i"), n.Var("j"), n.Var("r")
    inner = seq(
        loop(i, size, BufferStore(t, a[i] * 2.0, (i,))), loop(j, size, BufferStore(b, b[j] + t[size - 1 - j], (j,)))
    )
    body = loop(r, 3, n.Allocate(t.data, "float32", (ops.const(size),), ops.const(True), inner, scope))
    func = function([a, b], body)
    agree(func, numbers(size), np.zeros(size, "float32"))
    text = llvm_text({"f": lower_func(func)}, options_for(HOST))
    assert ("tunefarm_alloc" in text) == (size * 4 > 16 << 10)
    assert text.count("call ptr @tunefarm_alloc") <= 1


def test_unrolled_copies_share_their_temporary() -> None:
    a, t, i, j, k = buffer("a", 64), buffer("t", 8), n.Var("i"), n.Var("j"), n.Var("k")
    inner = seq(
        loop(j, 8, BufferStore(t, a[i * 8 + j] * 2.0, (j,))), loop(k, 8, BufferStore(a, t[7 - k], (i * 8 + k,)))
    )
    alloc = n.Allocate(t.data, "float32", (ops.const(8),), ops.const(True), inner)
    func = function([a], loop(i, 8, alloc, ForKind.UNROLLED))
    agree(func, numbers(64))
    assert llvm_text({"f": lower_func(func)}, options_for(HOST)).count("alloca") == 1


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL])
def test_no_memory_is_an_error_code(kind: ForKind) -> None:
    size = 1 << 46
    a, t, i = buffer("a", 4), n.decl_buffer(ops.const(size, "int64"), "float32", "t"), n.Var("i")
    zero = ops.const(0)
    inner = seq(BufferStore(t, a[i], (zero,)), BufferStore(a, t[zero], (i,)))
    alloc = n.Allocate(t.data, "float32", (ops.const(size, "int64"),), ops.const(True), inner)
    module = load_artifact(compile_artifact(function([a], loop(i, 4, alloc, kind)), HOST))
    with pytest.raises(KernelError, match="could not allocate"):
        module(array(numbers(4)))


def test_a_failed_assertion_is_an_error_code(capfd: pytest.CaptureFixture[str]) -> None:
    a, zero = buffer("a", 4), ops.const(0)
    holds = n.LT(a[zero], ops.const(2.0))
    body = n.AssertStmt(holds, n.StringImm('a[0] is "too" large'), BufferStore(a, ops.const(7.0), (zero,)))
    module = load_artifact(compile_artifact(function([a], body), HOST, name="checked"))
    small, large = array(numbers(4)), array(numbers(4) + 3)
    module(small)
    assert small.numpy()[0] == 7
    with pytest.raises(KernelError, match="failed with code 1"):
        module(large)
    assert large.numpy()[0] == 3
    assert 'checked: a[0] is "too" large' in capfd.readouterr().err


def test_parallel_loops_see_what_is_around_them() -> None:
    """Scalars, outer loop variables, temporaries and buffers reach the tasks."""
    a, b, t = buffer("a", 64), buffer("b", 64), buffer("t", 64)
    i, j, k, scale, shift = n.Var("i"), n.Var("j"), n.Var("k"), n.Var("scale", "float32"), n.Var("shift")
    fill = loop(i, 64, BufferStore(t, a[i] * scale, (i,)), ForKind.PARALLEL)
    rows = loop(k, 8, BufferStore(b, t[j * 8 + k] + ops.cast("float32", shift + j), (j * 8 + k,)), ForKind.PARALLEL)
    outer = n.Var("outer")
    body = n.Allocate(
        t.data, "float32", (ops.const(64),), ops.const(True),
        seq(fill, loop(outer, 2, For(j, ops.const(4) * outer, ops.const(4), ForKind.PARALLEL, rows))),
    )  # fmt: skip
    func = function([a, b], body, (scale, shift))
    a_values, args = numbers(64), (0.5, 3)
    module = load_artifact(compile_artifact(func, HOST))
    got = array(np.zeros(64, "float32"))
    module(array(a_values), got, *args)
    want = a_values * 0.5 + np.repeat(np.arange(8), 8) + 3
    np.testing.assert_array_equal(got.numpy(), want.astype("float32"))


def test_symbolic_sizes_given_as_arguments() -> None:
    size, i = n.SizeVar("size"), n.Var("i")
    a, b = buffer("a", size), buffer("b", size)
    for kind in (ForKind.SERIAL, ForKind.PARALLEL):
        func = function([a, b], loop(i, size, BufferStore(b, a[size - 1 - i] * 2.0, (i,)), kind), (size,))
        module = load_artifact(compile_artifact(func, HOST))
        for count in (0, 1, 7, 100):
            got = array(np.zeros(count, "float32"))
            module(array(numbers(count)), got, count)
            np.testing.assert_array_equal(got.numpy(), numbers(count)[::-1] * 2)


def test_a_variable_that_nothing_gives_a_value_is_refused() -> None:
    a, i, size = buffer("a", 4), n.Var("i"), n.SizeVar("size")
    with pytest.raises(CodegenError, match="variable 'size' of default_function has no value"):
        compile_artifact(function([a], loop(i, size, BufferStore(a, ops.const(0.0), (i,)))), HOST)


def test_scalars_of_every_type() -> None:
    dtypes = ["int8", "int32", "int64", "uint8", "uint64", "float32", "float64", "bool"]
    values = [-5, -(2**31), 2**62, 200, 2**64 - 1, 0.1, 0.1, True]
    scalars = tuple(n.Var(f"s{i}", d) for i, d in enumerate(dtypes))
    outs = [buffer(f"o{i}", 1, d) for i, d in enumerate(dtypes)]
    body = seq(*(BufferStore(o, s, (ops.const(0),)) for o, s in zip(outs, scalars)))
    module = load_artifact(compile_artifact(function(outs, body, scalars), HOST))
    arrays = [array(np.zeros(1, d)) for d in dtypes]
    module(*arrays, *values)
    for held, dtype, value in zip(arrays, dtypes, values):
        assert held.numpy()[0] == np.asarray(value, dtype)


def test_calls_of_c_functions() -> None:
    a, b, i = buffer("a", 16), buffer("b", 16), n.Var("i")
    call = intrin.call("tir.call_extern", "float32", "cbrtf", a[i])
    for kind in (ForKind.SERIAL, ForKind.VECTORIZED):
        func = function([a, b], loop(i, 16, BufferStore(b, call, (i,)), kind))
        got = outputs_by_machine(func, [numbers(16), np.zeros(16, "float32")])[1]
        np.testing.assert_allclose(got, np.cbrt(numbers(16)), rtol=1e-6)


def test_loops_over_threads_are_refused() -> None:
    a, i = buffer("a", 8), n.Var("i")
    axis = n.IterVar(None, n.Var("threadIdx.x"), n.IterType.THREAD_INDEX, "threadIdx.x")
    body = For(i, ops.const(0), ops.const(8), ForKind.THREAD_BINDING, BufferStore(a, ops.const(0.0), (i,)), axis)
    with pytest.raises(CodegenError, match=r"binds loop 'i' to threadIdx\.x"):
        compile_artifact(function([a], body), HOST)


def test_buffers_that_may_overlap_are_read_again_after_a_store() -> None:
    """Two arguments may be one array, since the function has no tir.noalias."""
    a, b, zero = buffer("a", 2), buffer("b", 2), ops.const(0)
    body = seq(BufferStore(b, a[zero] + 1.0, (zero,)), BufferStore(b, a[zero] + 1.0, (ops.const(1),)))
    handles = (n.Var("p", "handle"), n.Var("q", "handle"))
    func = PrimFunc(handles, body, None, dict(zip(handles, (a, b))))
    module = load_artifact(compile_artifact(func, HOST))
    both = array(np.zeros(2, "float32"))
    module(both, both)
    np.testing.assert_array_equal(both.numpy(), [1, 2])


def test_text_is_stable_and_hoists_addresses() -> None:
    """The same function gives the same text; the inner loop computes no address from scratch."""
    a, b, i, j = buffer("a", 4096), buffer("b", 4096), n.Var("i"), n.Var("j")
    body = loop(i, 64, loop(j, 64, BufferStore(b, a[i * 64 + j] * 2.0, (i * 64 + j,))))
    func = lower_func(function([a, b], body))
    texts = {llvm_text({"f": func}, options_for(HOST)) for _ in range(3)}
    assert len(texts) == 1
    (text,) = texts
    lines = text.splitlines()
    inner = lines[[k for k, line in enumerate(lines) if line.startswith("loop")][1] :]
    inner = inner[: next(k for k, line in enumerate(inner) if "br i1" in line)]
    assert sum(" mul " in line for line in inner) == 0
    assert "ptr align 64 noalias readonly %arg0, ptr align 64 noalias %arg1" in text


APART = [("float32", 2), ("float32", 3), ("float32", 4), ("int64", 2), ("int64", 4), ("int8", 2)]


@pytest.mark.parametrize("lanes", [2, 4, 7, 8, 16])
@pytest.mark.parametrize(("dtype", "apart"), APART)
def test_elements_apart_up_to_the_last_of_a_buffer(lanes: int, dtype: str, apart: int) -> None:
    """Loaded as whole vectors, of which nothing lies before the first lane or behind the last."""
    size = apart * (lanes - 1) + 1
    a, b, zero = buffer("a", size, dtype), buffer("b", lanes, dtype), ops.const(0)
    value = BufferLoad(a, (Ramp(zero, ops.const(apart), lanes),))
    func = function([a, b], BufferStore(b, value, (Ramp(zero, ops.const(1), lanes),)))
    given = np.arange(size).astype(dtype)
    (_, got) = agree(func, given, np.zeros(lanes, dtype))
    np.testing.assert_array_equal(got, given[::apart])


@pytest.mark.parametrize(("lanes", "count"), [(4, 1), (4, 3), (8, 7), (16, 2), (16, 9), (16, 14)])
@pytest.mark.parametrize(("dtype", "apart"), APART)
def test_elements_apart_of_the_first_lanes_up_to_the_last_of_a_buffer(
    lanes: int, count: int, dtype: str, apart: int
) -> None:
    """A mask leaves the first lanes. Nothing behind the last element is touched, wherever the buffer ends."""
    size = apart * (count - 1) + 1
    a, b, zero, one = buffer("a", size, dtype), buffer("b", count, dtype), ops.const(0), ops.const(1)
    mask = n.LT(Ramp(zero, one, lanes), Broadcast(ops.const(count), lanes))
    value = BufferLoad(a, (Ramp(zero, ops.const(apart), lanes),), mask)
    func = function([a, b], BufferStore(b, value, (Ramp(zero, one, lanes),), mask))
    given = np.arange(size).astype(dtype)
    (_, got) = agree(func, given, np.zeros(count, dtype))
    np.testing.assert_array_equal(got, given[::apart])
    picked = dtype != "int8" and (apart == 2 or (lanes * given.itemsize <= 64 <= HOST.vector_bits // 8))
    assert ("gather" in llvm_text({"main": lower_func(func)}, options_for(HOST))) != picked


def test_a_mask_that_an_unrolled_loop_moves_leaves_first_lanes_too() -> None:
    """Phases of a row: every fourth element from each of the first four on, as far as the row goes."""
    a, b, i, one = buffer("a", 58), buffer("b", 64), n.Var("i"), ops.const(1)
    places = Ramp(i, ops.const(4), 16)
    value = BufferLoad(a, (places,), n.LT(places, Broadcast(ops.const(58), 16)))
    store = BufferStore(b, value, (Ramp(ops.mul(i, 16), one, 16),))
    func = function([a, b], loop(i, 4, store, ForKind.UNROLLED))
    (_, got) = agree(func, numbers(58), np.zeros(64, "float32"))
    np.testing.assert_array_equal(got.reshape(4, 16), np.pad(numbers(58), (0, 6)).reshape(16, 4).T)
    if HOST.vector_bits >= 512:
        assert "gather" not in llvm_text({"main": lower_func(func)}, options_for(HOST))


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize(("low", "high"), [(0, 99), (3, 99), (0, 20), (5, 13), (17, 18)])
@pytest.mark.parametrize("row", [0, 1])
def test_lanes_outside_a_condition_are_zero(step: int, low: int, high: int, row: int) -> None:
    lanes = 16
    size = step * lanes
    data, out, given = buffer("data", 2 * size), buffer("out", lanes), n.Var("row", "int32")
    i = n.Var("i", "int32")
    at = ops.mul(i, step)
    between = n.And(n.GE(at, ops.const(low)), n.LT(at, ops.const(high)))
    inside = n.And(between, n.LT(given, ops.const(1)))
    read = if_then_else(inside, BufferLoad(data, (ops.add(at, ops.mul(given, size)),)), ops.const(0.0, "float32"))
    func = function([data, out], loop(i, lanes, BufferStore(out, read, (i,)), ForKind.VECTORIZED), (given,))
    values = np.arange(1, 2 * size + 1, dtype="float32")
    result = array(np.full(lanes, np.nan, "float32"))
    load_artifact(compile_artifact(func, HOST, name="main"))["main"](array(values), result, row)
    places = np.arange(lanes) * step
    wanted = np.where((places >= low) & (places < high) & (row < 1), values[places], 0)
    np.testing.assert_array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("lanes", [8, 16])
def test_a_place_is_not_looked_up_where_a_condition_forbids_it(lanes: int) -> None:
    data, places, out = buffer("data", 64), buffer("places", 4, "int32"), buffer("out", lanes)
    i, row = n.Var("i", "int32"), n.Var("row", "int32")
    start = BufferLoad(places, (row,))
    read = if_then_else(n.LT(row, ops.const(4)), BufferLoad(data, (ops.add(start, i),)), ops.const(0.0, "float32"))
    func = function([data, places, out], loop(i, lanes, BufferStore(out, read, (i,)), ForKind.VECTORIZED), (row,))
    values, result = np.arange(64, dtype="float32"), array(np.full(lanes, np.nan, "float32"))
    main = load_artifact(compile_artifact(func, HOST, name="main"))["main"]
    held = array(values), array(np.array([0, 8, 16, 24], "int32")), result
    main(*held, 3)
    np.testing.assert_array_equal(result.numpy(), values[24 : 24 + lanes])
    main(*held, 1 << 28)  # a gigabyte behind the places
    np.testing.assert_array_equal(result.numpy(), np.zeros(lanes))
