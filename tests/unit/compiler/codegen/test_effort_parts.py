"""Functions that need LLVM's full pipeline are compiled apart from those that do not, and linked with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.codegen.llvm import llvm as backend
from compiler.codegen.llvm.effort import Effort, by_effort, effort_for
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.runtime.load import load_artifact
from compiler.tir.intrin.graph import RESULTS
from tunefarm.script import tir as T


@tvm.script.ir_module
class Mixed:
    @T.prim_func
    def scalar(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"global_symbol": "scalar", "tir.noalias": True})
        for i in range(64):
            B[i] = A[i] + T.float32(1)

    @T.prim_func
    def vectors(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"global_symbol": "vectors", "tir.noalias": True})
        for i in range(4):
            for v in T.vectorized(16):
                B[i * 16 + v] = A[i * 16 + v] * T.float32(3)

    @T.prim_func
    def vectors_weight_prepack(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"global_symbol": "vectors_weight_prepack", "tir.noalias": True})
        for i in range(64):
            B[i] = A[i] - T.float32(2)


def test_the_full_pipeline_runs_for_those_that_gain_by_it_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fully: list[str] = []
    original = backend._optimise_fully

    def noted(module: Any, machine: Any, level: int) -> None:
        fully.extend(func.name for func in module.functions if not func.is_declaration)
        original(module, machine, level)

    monkeypatch.setattr(backend, "_optimise_fully", noted)
    made = load_artifact(compile_artifact(Mixed, "llvm", keep=()))
    assert fully
    assert all(name.startswith("scalar") for name in fully)
    given = np.arange(64, dtype="float32")
    for name, wanted in (("scalar", given + 1), ("vectors", given * 3), ("vectors_weight_prepack", given - 2)):
        out = tvm.nd.array(np.zeros(64, "float32"))
        made[name](tvm.nd.array(given), out)
        np.testing.assert_array_equal(out.numpy(), wanted)


@tvm.script.ir_module
class RowsThenVectors:
    """A tenth of the stores is of single elements, and a hundredth of the elements."""

    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((2320,), "float32")) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in range(16):
            B[i] = A[i] + T.float32(1)
        for i in range(144):
            for v in T.vectorized(16):
                B[16 + i * 16 + v] = A[v] * T.float32(3)


def test_an_element_takes_as_long_as_a_vector() -> None:
    assert effort_for(lower_func(RowsThenVectors["main"], 512)) is Effort.FULL


def test_parts_call_each_other() -> None:
    """The function of a graph is in one part, and a kernel that it calls in the other."""
    bb = tvm.relax.BlockBuilder()
    x = tvm.relax.Var("x", tvm.relax.TensorStructInfo((8, 24), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            mean = bb.emit(tvm.relax.op.mean(x, axis=[1], keepdims=True))
            out = bb.emit_output(tvm.relax.op.reshape(tvm.relax.op.subtract(x, mean), (24, 8)))
        bb.emit_func_output(out)
    built = tvm.relax.build(bb.get(), "llvm", exec_mode="compiled")
    given = np.random.default_rng(0).standard_normal((8, 24)).astype("float32")
    made = tvm.relax.VirtualMachine(built, tvm.cpu())["main"](given).numpy()
    np.testing.assert_allclose(made, (given - given.mean(1, keepdims=True)).reshape(24, 8), rtol=1e-5, atol=1e-6)


def test_functions_of_graphs_stay_together() -> None:
    """They share one table of constants."""

    def func(heavy: bool, **attrs: Any) -> Any:
        return Mixed["scalar" if heavy else "vectors"].with_attrs(attrs)

    def light(*functions: Any) -> set[str]:
        named = {str(at): func for at, func in enumerate(functions)}
        return set(by_effort({name: lower_func(func) for name, func in named.items()}).get(Effort.LIGHT, ()))

    graph = {RESULTS: 1}
    assert light(func(False, **graph), func(True, **graph), func(False)) == {"2"}
    assert light(func(False, **graph), func(False, **graph), func(True)) == {"0", "1"}
