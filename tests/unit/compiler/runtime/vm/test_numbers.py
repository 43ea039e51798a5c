"""Numbers that are no integers, computed from dimensions while a graph runs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tunefarm as tvm
from compiler.runtime.core.registry import remove_global_func
from compiler.runtime.vm.builtins import VMError
from compiler.runtime.vm.number_builtins import compute_number
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var

NAME = "test.numbers.keep"
N, M = tir.Var("n", "int64"), tir.Var("m", "int64")


@pytest.fixture(autouse=True)
def packed() -> Iterator[list[Any]]:
    kept: list[Any] = []

    def keep(x: Any, value: Any) -> Any:
        kept.append(value)
        return x

    tvm.register_func(NAME, keep)
    yield kept
    remove_global_func(NAME)


def graph(value: tir.PrimExpr) -> Any:
    info = TensorStructInfo(relax.ShapeExpr((N, M)), "float32")
    x = Var("x", info)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.call_pure_packed(NAME, x, relax.PrimValue(value), sinfo_args=info)))
    return bb.get()


def f32(value: Any) -> Any:
    return tir.Cast("float32", value)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (tir.rsqrt(f32(N)), lambda n, m: 1 / np.sqrt(np.float32(n))),
        (f32(N * 2 + M) * 0.5, lambda n, m: np.float32(n * 2 + m) * np.float32(0.5)),
        (tir.Cast("float64", N) / tir.Cast("float64", M), lambda n, m: n / m),
        (tir.Max(tir.exp(f32(N)), f32(M)), lambda n, m: np.maximum(np.exp(np.float32(n)), np.float32(m))),
        (tir.pow(f32(N), f32(M)) - 1.0, lambda n, m: np.power(np.float32(n), np.float32(m)) - np.float32(1)),
    ],
)
def test_numbers_follow_from_dimensions(value: Any, wanted: Any, packed: list[Any]) -> None:
    vm = relax.VirtualMachine(relax.build(graph(value), "llvm"), tvm.cpu())
    for n, m in ((3, 2), (1, 5)):
        vm["main"](np.zeros((n, m), "float32"))
        assert packed[-1] == pytest.approx(float(wanted(n, m)), rel=1e-6)


def test_machine_code_passes_numbers() -> None:
    info = TensorStructInfo(relax.ShapeExpr((N, M)), "float32")
    x, y, s = Var("x", info), Var("y", info), Var("s", relax.PrimStructInfo("float32"))
    bb = BlockBuilder()
    with bb.function("helper", [x, s]):
        helper = bb.emit_func_output(x)
    with bb.function("main", [y]):
        value = relax.PrimValue(tir.rsqrt(f32(N)) * f32(M))
        bb.emit_func_output(bb.emit(relax.Call(helper, [y, value])))
    executable = relax.build(bb.get(), "llvm", exec_mode="compiled")
    assert executable.program.interpreted == ()
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(got.numpy(), np.ones((2, 3), "float32"))


@given(st.integers(0, 1000), st.floats(-100, 100, width=32))
@settings(max_examples=30)
def test_values_are_rounded_to_their_dtype(n: int, x: float) -> None:
    got = compute_number([n], "slot", 0, "cast", "float32", "number", "float32", x, "mul")
    assert got == float(np.float32(n) * np.float32(x))


@pytest.mark.parametrize(
    "steps",
    [(), ("add",), ("slot", 7), ("slot",), ("number", "float32"), ("number", "what", 1.0), ("eval", "1"), (1, 2),
     ("number", "float32", 1.0, "number", "float32", 2.0), ("cast", "float32")],
)  # fmt: skip
def test_odd_steps_are_refused(steps: tuple[Any, ...]) -> None:
    with pytest.raises((VMError, tvm.TunefarmError)):
        compute_number([1, 2], *steps)
