# ruff: noqa: F821  (names of hybrid functions are no names of Python)
"""Hybrid functions: as te operations they compute what Python computes of the same text on numpy arrays."""

from __future__ import annotations

import ast
import linecache
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tunefarm as tvm
from compiler.errors import IRError
from compiler.interp import interpreter as interp
from compiler.te.prim_func import create_prim_func
from tunefarm import te
from tunefarm.te.hybrid import HybridModule, HybridOp, build, runtime, script, source_to_op

FACTOR = 3


@script
def outer_product(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in parallel(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@script
def fan_out(a):
    """Each element is the mean of three."""
    b = output_tensor((a.shape[0] - 3,), a.dtype)
    for i in range(a.shape[0] - 3):
        total = 0.0
        for j in unroll(3):
            total += a[i + j]
        b[i] = total / 3.0
    return b


@script
def parallel_sums(a):
    b = output_tensor((a.shape[0],), a.dtype)
    for i in parallel(a.shape[0]):
        held = allocate((a.shape[1],), a.dtype, "local")
        best = float32(-100.0)
        for j in range(a.shape[1]):
            held[j] = a[i, j] * 2.0
        for j in range(a.shape[1]):
            best = max(best, held[j])
        b[i] = best
    return b


@script
def branches(a):
    b = output_tensor(a.shape, a.dtype)
    c = output_tensor(a.shape, "int32")
    for i in range(a.shape[0]):
        x = a[i]
        if 0 <= x < 1 and not (i > 1 and i < 3):
            b[i] = x * x
        elif x < 0 or i % 2 == 0:
            b[i] = -x
        else:
            b[i] = x if x < 2 else a[0]
        c[i] = 0
        if FACTOR == 3:
            c[i] += int32(x) + i // 2
        else:
            c[i] = unknown_name
        for j in range(10, 0, -4):
            c[i] = c[i] + j
    return b, c


@script
def several(tensors, scale):
    b = output_tensor((len(tensors[0]),), "float32")
    for i in range(len(tensors[0])):
        b[i] = 0.0
        for k in const_range(len(tensors)):
            step = k + 1
            b[i] = b[i] + tensors[k][i] * scale * step
    return b


@script
def inlines(a, b):
    product = outer_product(a, b)
    d = output_tensor(product.shape, product.dtype)
    for i in range(product.shape[0]):
        for j in vectorize(product.shape[1]):
            d[i, j] = product[i][j] + 1.0
    return d


@script
def math_functions(a):
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        b[i] = exp(a[i]) + log(a[i]) * sqrt(a[i]) - tanh(a[i]) * sigmoid(a[i]) + rsqrt(a[i])
        b[i] += power(a[i], 2.0) + min(a[i], 1.0) + abs(a[i] - 1.0)
    return b


@script
def collatz(a):
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        value = a[i]
        count = 0
        while value > 1:
            if value % 2 == 0:
                value = value // 2
            else:
                value = 3 * value + 1
            count += 1
        b[i] = count
    return b


def agree(function: Any, *arrays: Any) -> None:
    """The operation's outputs are those of the Python run."""

    def placeholder(value: Any, name: str) -> Any:
        if isinstance(value, tuple):
            return tuple(placeholder(item, f"{name}{at}") for at, item in enumerate(value))
        return te.placeholder(value.shape, str(value.dtype), name) if isinstance(value, np.ndarray) else value

    tensors = [placeholder(value, f"in{at}") for at, value in enumerate(arrays)]
    found = function(*tensors)
    outputs = found if isinstance(found, list) else [found]
    wanted = function(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    flat = [t for item in tensors for t in (item if isinstance(item, tuple) else [item])]
    given = [v for item in arrays for v in (item if isinstance(item, tuple) else [item]) if isinstance(v, np.ndarray)]
    made = [np.full(value.shape, 7, value.dtype) for value in wanted]
    interp.run(create_prim_func([*(t for t in flat if isinstance(t, te.Tensor)), *outputs]), *given, *made)
    assert isinstance(outputs[0].op, HybridOp)
    for ours, theirs in zip(made, wanted):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@given(n=st.integers(1, 6), m=st.integers(1, 7), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_an_operation_computes_what_python_computes(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> np.ndarray:
        return rng.uniform(-3, 3, shape).astype("float32")

    agree(outer_product, floats(n), floats(m))
    agree(inlines, floats(n), floats(m))
    agree(fan_out, floats(n + 3))
    agree(parallel_sums, floats(n, m))
    agree(branches, floats(n))
    agree(several, (floats(n), floats(n), floats(n)), 0.5)
    agree(math_functions, np.abs(floats(m)) + 0.5)
    agree(collatz, rng.integers(1, 30, m, dtype="int32"))


def test_it_is_a_stage_like_others_and_builds() -> None:
    a = te.placeholder((8,), name="a")
    twice = te.compute((8,), lambda i: a[i] * 2, name="twice")
    product = outer_product(twice, a)
    final = te.compute((8, 8), lambda i, j: product[i, j] + 1, name="final")
    s = te.create_schedule(final.op)
    s[final].vectorize(final.op.axis[1])
    module = tvm.build(s, [a, final], "llvm")
    x, y = np.arange(8, dtype="float32"), np.zeros((8, 8), "float32")
    held = tvm.nd.array(y)
    module(tvm.nd.array(x), held)
    np.testing.assert_allclose(held.numpy(), np.outer(x * 2, x) + 1)
    sums = parallel_sums(final)
    module = tvm.build(te.create_schedule(sums.op), [a, sums], "llvm")
    held = tvm.nd.array(np.zeros(8, "float32"))
    module(tvm.nd.array(x), held)
    np.testing.assert_allclose(held.numpy(), 2 * (np.outer(x * 2, x) + 1).max(axis=1))


def test_symbolic_sizes_and_scalars() -> None:
    n, scale = te.var("n"), te.var("scale", "float32")
    a = te.placeholder((n,), name="a")
    out = several([a, a], scale)
    assert out.shape[0] is n
    x, y = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    interp.run(create_prim_func([a, scale, out]), x, 2.0, y)
    np.testing.assert_allclose(y, x * 2 + x * 4)


def test_threads_of_a_gpu() -> None:
    text = """
    def add_one(a):
        b = output_tensor(a.shape, a.dtype)
        for tx in bind("threadIdx.x", 32):
            b[tx] = a[tx] + 1.0
        return b
    """
    out = source_to_op(text, [te.placeholder((32,), name="a")])
    func = create_prim_func([*out.op.input_tensors, out])
    assert 'T.thread_binding(32, thread="threadIdx.x")' in func.script()
    tree = ast.parse(textwrap.dedent(text))
    assert source_to_op(tree, [te.placeholder((32,), name="a")]).op.name == "add_one"


BAD = {
    "b = output_tensor(a.shape, a.dtype)\nfor i in range(4):\n    b[i, 0] = a[i]\nreturn b": "b has 1 dimensions",
    "b = output_tensor(a.shape, a.dtype)\nfor i in a:\n    b[i] = a[i]\nreturn b": "a loop goes over a range",
    "b = output_tensor(a.shape, a.dtype)\nreturn b": "b is never written",
    "b = allocate(a.shape, a.dtype)\nb[0] = a[0]\nreturn a": "returns what `output_tensor` made",
    "a[0] = 1.0\nb = output_tensor(a.shape, a.dtype)\nb[0] = a[0]\nreturn b": "writes its argument 'a'",
    "b = output_tensor(a.shape, a.dtype)\nx = 0\nx = x + a[0]\nb[0] = x\nreturn b": "x began as int32",
    "b = output_tensor(a.shape, a.dtype)\nfor i in range(4):\n    break\nreturn b": "a loop .* runs to its end",
    "b = output_tensor(a.shape, a.dtype)\nfor i in range(4):\n    i = 2\nreturn b": "i is a number .* it cannot be",
    "b = output_tensor(a.shape, a.dtype)\nb[0] = nothing\nreturn b": "there is no name 'nothing'",
    "b = output_tensor(a.shape, a.dtype)\nwith b:\n    pass\nreturn b": "has no place in a hybrid function",
    "b = output_tensor(a.shape, a.dtype)\nif a[0] > 0:\n    return b\nreturn b": "returns once, at its end",
}


@pytest.mark.parametrize("body", BAD)
def test_what_cannot_be_read_is_refused_at_its_line(body: str) -> None:
    text = "def broken(a):\n" + "\n".join(f"    {line}" for line in body.splitlines())
    with pytest.raises(IRError, match=BAD[body]):
        source_to_op(text, [te.placeholder((4,), name="a")])


def test_a_schedule_is_printed_as_a_hybrid_function(tmp_path: Path) -> None:
    a, b = te.placeholder((12, 10), name="a"), te.placeholder((10, 9), name="b")
    k = te.reduce_axis((0, 10), "k")
    c = te.compute((12, 9), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    d = te.compute((12, 9), lambda i, j: te.exp(te.if_then_else(i < j, c[i, j], te.min(c[i, j], 1.0))), name="d")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], 5)
    s[c].compute_at(s[d], outer)
    s[c].unroll(c.op.axis[1])
    module = build(s, [a, b], [d], "product")
    text = module.get_source()
    assert text.startswith("def product(a, b):")
    assert "unroll(9)" in text
    x, y = (np.random.default_rng(3).uniform(-1, 1, shape).astype("float32") for shape in ((12, 10), (10, 9)))
    wanted = x @ y
    rows, columns = np.indices(wanted.shape)
    wanted = np.exp(np.where(rows < columns, wanted, np.minimum(wanted, 1.0)))
    np.testing.assert_allclose(module(x, y), wanted, rtol=1e-5)
    module.save(tmp_path / "kernel")
    again = HybridModule()
    again.load(tmp_path / "kernel.py")
    assert (again.name, again.get_source()) == ("product", text)
    op = again(a, b)
    held = np.zeros((12, 9), "float32")
    interp.run(create_prim_func([a, b, op]), x, y, held)
    np.testing.assert_allclose(held, wanted, rtol=1e-5)
    linecache.checkcache()


def test_names_of_the_python_run() -> None:
    assert runtime.popcount(np.int8(-1)) == 8
    assert runtime.ninf("int8") == -128
    assert runtime.inf("float32") == np.inf
    assert runtime.ceil_div(7, 2) == 4
    assert runtime.max_num_threads() == 1
    with tvm.target.Target("cuda"):
        assert runtime.max_num_threads(False) == 1024
    assert list(runtime.bind("threadIdx.x", 3)) == [0, 1, 2]
    assert runtime.likely(True) is True
