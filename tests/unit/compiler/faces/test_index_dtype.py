"""Functions whose sizes, loops and indices are of 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from compiler.ir.visit import walk
from tunefarm import te, tir


def sums_of_rows():
    n = te.var("n")
    A = te.placeholder((n, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    B = te.compute((n, 16), lambda i, j: A[i, j] + (i * 2).astype("float32"), name="B")
    C = te.compute((n,), lambda i: te.sum(te.if_then_else(k < 8, B[i, k], 0.0), axis=k), name="C")
    return [A, C]


def test_sizes_loops_and_indices_are_wide() -> None:
    func = te.create_prim_func(sums_of_rows(), index_dtype_override="int64")
    assert {size.dtype for buffer in func.buffer_map.values() for size in buffer.shape} == {"int64"}
    assert {node.loop_var.dtype for node in walk(func.body) if isinstance(node, tir.For)} == {"int64"}
    assert 'T.Cast("float32", v_i * T.int64(2))' in func.script()
    values = np.arange(48, dtype="float32").reshape(3, 16)
    out = tvm.nd.empty((3,))
    tvm.build(func, target="llvm")(tvm.nd.array(values), out)
    expected = (values[:, :8] + 2 * np.arange(3)[:, None]).sum(axis=1)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


def test_values_keep_their_type() -> None:
    rows = te.placeholder((8,), "int32", name="rows")
    X = te.placeholder((16,), name="X")
    Y = te.compute((8,), lambda i: X[rows[i]], name="Y")
    func = te.create_prim_func([rows, X, Y], "int64")
    assert [buffer.dtype for buffer in func.buffer_map.values()] == ["int32", "float32", "float32"]
    given, out = np.array([3, 1, 2, 0, 5, 6, 7, 15], "int32"), tvm.nd.empty((8,))
    tvm.build(func, target="llvm")(tvm.nd.array(given), tvm.nd.array(np.arange(16, dtype="float32")), out)
    assert out.numpy().tolist() == given.tolist()


def test_other_types_are_refused() -> None:
    narrow = te.create_prim_func(sums_of_rows(), index_dtype_override="int32")
    tvm.ir.assert_structural_equal(narrow, te.create_prim_func(sums_of_rows()), map_free_vars=True)
    with pytest.raises(IRError, match="indices are int32 or int64, not 'int8'"):
        te.create_prim_func(sums_of_rows(), index_dtype_override="int8")
