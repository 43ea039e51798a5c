"""Stages that tensor intrinsics compute, and calls that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from tunefarm import te

A = te.placeholder((2, 4), name="A")


def double(n: int = 4):
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] * 2, name="y")

    def lowered(ins, outs):
        ib = tvm.tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n) as i:
            target[i] = source[i] * 2.0
        return ib.get()

    return te.decl_tensor_intrin(y.op, lowered, default_buffer_params={"offset_factor": 1})


@pytest.mark.parametrize("target", ["llvm", "stackvm"])
def test_rows_are_computed_by_the_intrinsic(target: str) -> None:
    intrin = double()
    B = te.compute((2, 4), lambda i: intrin(A[i, 0:4]), name="B")
    C = te.compute((2, 4), lambda i: intrin(B[i]), name="C")
    function = tvm.build(te.create_schedule(C.op), [A, C], target)
    values, out = np.arange(8, dtype="float32").reshape(2, 4), tvm.nd.empty((2, 4))
    function(tvm.nd.array(values), out)
    np.testing.assert_array_equal(out.numpy(), 4 * values)


def test_a_schedule_takes_it_as_written_by_hand() -> None:
    intrin = double()
    B = te.compute((2, 4), lambda i: intrin(A[i, 0:4]), name="B")
    assert isinstance(B.op, te.ExternOp)
    assert B.op.input_tensors == (A,)
    assert te.create_schedule(B.op)[B].leaf_iter_vars == []


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda f, k: te.compute((2, 4), lambda i: f(A[i, 0:4], 3)), "1 regions of tensors and 0 numbers, not 1 and 1"),
        (lambda f, k: te.compute((2, 4), lambda i: f(A[i, 0:4:2])), "has step 2"),
        (lambda f, k: te.compute((2, 4), lambda i: f(A[i, 0:4], reduce_axis=k)), "no reduce_init and reduce_update"),
        (lambda f, k: te.compute((2, 4), lambda i: A[i]), "has 2 dimensions but its function takes 1 arguments"),
        (lambda f, k: te.compute((2, 4), lambda i: A[i] + 1), "has 2 dimensions but its function takes 1 arguments"),
        (lambda f, k: te.compute((2, 4), lambda i, j: A[i, 0:4]), "must be an integer, got slice"),
    ],
)
def test_calls_that_do_not_fit_are_refused(made, message: str) -> None:
    with pytest.raises(IRError, match=message):
        made(double(), te.reduce_axis((0, 2), name="k"))
