"""asinh, acosh, atanh, logaddexp, made of other functions, against numpy; names that Apache TVM has in te and tir."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te, tir

WIDE = np.concatenate([-np.logspace(-12, 30, 60), [0.0], np.logspace(-12, 30, 60)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("make", "wanted", "points"),
    [
        (te.asinh, np.arcsinh, WIDE),
        (te.acosh, np.arccosh, np.concatenate([1 + np.logspace(-7, 0, 30), np.logspace(0, 30, 60)])),
        (te.atanh, np.arctanh, np.concatenate([np.linspace(-1, 1, 41), np.logspace(-12, -1, 30)])),
    ],
)
def test_inverse_hyperbolic_functions(make: Callable[..., Any], wanted: Any, points: np.ndarray, dtype: str) -> None:
    x = points.astype(dtype)
    X = te.placeholder(x.shape, dtype, name="X")
    Y = te.compute(x.shape, lambda i: make(X[i]), name="Y")
    out = tvm.nd.empty(x.shape, dtype)
    tvm.build(te.create_schedule(Y.op), [X, Y], "llvm")(tvm.nd.array(x), out)
    with np.errstate(divide="ignore"):
        expected = wanted(x.astype("longdouble"))
    np.testing.assert_allclose(out.numpy(), expected.astype(dtype), rtol=8 * np.finfo(dtype).eps)


def test_logaddexp() -> None:
    a = np.array([0.0, 1000.0, -1000.0, 3.0, np.inf, -np.inf, -np.inf], "float32")
    b = np.array([0.0, 1000.0, 0.0, -2.0, np.inf, -np.inf, 1.0], "float32")
    A, B = te.placeholder(a.shape, name="A"), te.placeholder(b.shape, name="B")
    C = te.compute(a.shape, lambda i: te.logaddexp(A[i], B[i]), name="C")
    out = tvm.nd.empty(a.shape, "float32")
    tvm.build(te.create_schedule(C.op), [A, B, C], "llvm")(tvm.nd.array(a), tvm.nd.array(b), out)
    np.testing.assert_allclose(out.numpy(), np.logaddexp(a, b), rtol=1e-6)


def test_reducers_and_operators_have_their_names_in_tir() -> None:
    k = te.reduce_axis((0, 4), name="k")
    X = te.placeholder((4,), "int32", name="X")
    for reduce in (tir.sum, tir.max, tir.min):
        assert isinstance(reduce(X[k], axis=k), tir.Reduce)
    assert isinstance(tir.max(X[0], X[1]), tir.Max)
    assert tir.indexdiv(7, 2).value == tir.floordiv(7, 2).value == 3
    assert tir.indexmod(7, 2).value == 1
    assert float(tir.infinity("float32").value) == np.inf
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"):
        assert getattr(tir, name)(X[0], 3).op.name == f"tir.{name}"
    assert isinstance(tir.stmt_seq(tir.Evaluate(0), tir.Evaluate(1)), tir.SeqStmt)


def test_classes_stand_in_the_modules_that_documents_name() -> None:
    assert te.tensor.Tensor is te.Tensor
    assert te.schedule.Schedule is te.Schedule
    assert tir.expr.Var is tir.function.Var is tir.Var
    assert tir.buffer.Buffer is tir.Buffer
    assert tir.function.PrimFunc is tir.PrimFunc
    assert tir.schedule.Schedule is tir.Schedule
    assert tvm.ir.module.IRModule is tvm.IRModule
    assert tvm.target.target.Target is tvm.Target
