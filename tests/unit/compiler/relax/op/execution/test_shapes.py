"""Shapes as tensors and back, and results whose shape the data decides: interpreted and on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, IRError
from compiler.relax.interp import run
from compiler.runtime.vm.builtins import BUILTINS
from tests.kit.compiler.relax_ops import Case, check
from tests.kit.compiler.struct_info import tensor
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, ShapeExpr, TensorStructInfo, Var, op

N = tir.Var("n", "int64")


def check_both(make: Any, infos: list[TensorStructInfo], wanted: Any, *arrays: np.ndarray) -> None:
    """A function of one call gives `wanted`, interpreted and on the machine."""
    params = [Var(f"x{i}", info) for i, info in enumerate(infos)]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(make(*params)))
    machine = relax.VirtualMachine(relax.build(bb.get(), "llvm"), tvm.cpu())
    on_machine = machine["main"](*[tvm.nd.array(a) for a in arrays])
    several = isinstance(wanted, tuple) and isinstance(wanted[0], np.ndarray)
    for found in (run(bb.get(), *arrays), on_machine):
        for got, want in zip(found if several else [found], wanted if several else [wanted], strict=True):
            got = got.numpy() if hasattr(got, "numpy") else got
            np.testing.assert_array_equal(got, want)
            assert np.shape(got) == np.shape(want)
            if isinstance(want, np.ndarray):
                assert got.dtype == want.dtype


X = np.array([[3, 0, 1], [0, 0, 3], [3, 0, 1]], "int32")
NONZERO = np.array(np.nonzero(X))
UNIQUE = tuple(np.unique(X, return_index=True, return_inverse=True, return_counts=True))
UNIQUE = (UNIQUE[0], UNIQUE[1], UNIQUE[2].reshape(-1), UNIQUE[3])
BOUNDS = [np.array(b, "int64") for b in ([2, 0], [-4, 3], [-1, 2])]


@pytest.mark.parametrize(
    ("make", "infos", "arrays", "wanted"),
    [
        (op.size, [tensor(N, 3)], [np.ones((4, 3), "float32")], np.array(12)),
        (op.size, [TensorStructInfo(None, "float32", ndim=2)], [np.ones((4, 0), "float32")], np.array(0)),
        (lambda x: op.shape_to_tensor(op.shape_of(x)), [tensor(N, 3)], [np.ones((4, 3), "float32")], np.array([4, 3])),
        (lambda x: op.shape_to_tensor(ShapeExpr([N * 2])), [tensor(N)], [np.ones(4, "float32")], np.array([8])),
        (
            lambda x: op.shape_to_tensor(op.shape_of(x)),
            [TensorStructInfo(None, "float32")],
            [np.ones((2, 1, 3), "float32")],
            np.array([2, 1, 3]),
        ),
        (op.tensor_to_shape, [tensor(2, dtype="int64")], [np.array([5, 7])], (5, 7)),
        (op.nonzero, [tensor(N, 3, dtype="int32")], [X], NONZERO),
        (op.nonzero, [tensor(N, 3, dtype="int32")], [X[:0]], np.zeros((2, 0), "int64")),
        (op.unique, [tensor(N, 3, dtype="int32")], [X], np.array([0, 1, 3], "int32")),
        (lambda x: op.unique(x, False), [tensor(N, 3, dtype="int32")], [X], np.array([3, 0, 1], "int32")),
        (lambda x: op.unique(x, True, True, True, True), [tensor(N, 3, dtype="int32")], [X], UNIQUE),
        (lambda x: op.unique(x, axis=0), [tensor(N, 3, dtype="int32")], [X], np.unique(X, axis=0)),
        (
            op.dynamic_strided_slice,
            [tensor(N, 3, dtype="int32"), *[tensor(2, dtype="int64")] * 3],
            [X, *BOUNDS],
            X[::-1, 0:3:2],
        ),
    ],
)
def test_interpreted_and_on_the_machine(make: Any, infos: Any, arrays: Any, wanted: Any) -> None:
    check_both(make, infos, wanted, *arrays)


def test_the_kernel_of_size() -> None:
    check(Case("size", op.size, lambda a: np.array(a.size, "int64"), ["n m"], ("float32", "bool")))


def test_refusals() -> None:
    for make, message in [
        (lambda: op.tensor_to_shape(Var("x", tensor(2))), "expr must have integer elements, got float32"),
        (lambda: op.tensor_to_shape(Var("x", tensor(2, 2, dtype="int64"))), "expr must have 1 dimensions, got 2"),
        (lambda: op.shape_to_tensor(Var("x", tensor(2))), "expr must be a shape, got"),
        (lambda: op.size(ShapeExpr([2])), "expr must be a tensor, got"),
    ]:
        with pytest.raises(IRError, match=message):
            BlockBuilder().normalize(make())


def test_the_machine_checks_what_it_is_given() -> None:
    x, two = tvm.nd.array(X), tvm.nd.array(np.array([1, 1], "int64"))
    none = tvm.nd.array(np.array([0, 1], "int64"))
    one = tvm.nd.array(np.array([1], "int64"))
    for name, args, message in [
        ("nonzero", ((2,),), "nonzero takes an array, not a tuple"),
        ("unique", (x, 1, 0, 0, 0, 7), "axis is 7, but there are 2 dimensions"),
        ("dynamic_strided_slice", (x, two, two, none), "a stride is 0"),
        ("dynamic_strided_slice", (x, one, two, two), "bounds must have 2 numbers"),
        ("shape_to_tensor", (x,), "takes a shape, not a NDArray"),
        ("size", (3,), "size takes an array, not a int"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            BUILTINS[f"vm.builtin.{name}"](*args)
