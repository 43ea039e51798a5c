"""Machine code of graphs whose shapes follow from data, and of loops: no step and no call needs the interpreter."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import helper as h

import tunefarm as tvm
from compiler.driver.graph import build_graph
from compiler.errors import ArgumentError, ArtifactError
from compiler.frontend.onnx.from_onnx import from_onnx
from compiler.runtime.vm import interpreter
from compiler.runtime.vm.builtins import VMError
from tests.kit.compiler.c_models import run_any_in_c
from tests.kit.compiler.library import needs_cc
from tests.kit.compiler.model_forms import check_interpreted, results_of
from tests.kit.compiler.struct_info import tensor
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, Var, op

N, M = tir.Var("n", "int64"), tir.Var("m", "int64")
vi, node = h.make_tensor_value_info, h.make_node
ONE = h.make_tensor("one", T.FLOAT, [1], [1.0])


def machine(mod: Any) -> relax.VirtualMachine:
    """A machine none of whose calls goes through the interpreter."""
    executable = build_graph(mod, "llvm", exec_mode="compiled")
    assert executable.interpreted == ()
    return relax.VirtualMachine(executable, tvm.cpu())


# -- shapes that data tell ---------------------------------------------------------------------------
def columns() -> Any:
    """exp of twice the sums of columns, of an array that is laid out as a vector says."""
    bb = BlockBuilder()
    x, s = Var("x", tensor(12)), Var("s", tensor(2, dtype="int64"))
    with bb.function("main", [x, s]):
        named = bb.match_cast(bb.emit(op.tensor_to_shape(s)), relax.ShapeStructInfo([N, M]), "named")
        y = bb.emit(op.reshape(x, named))
        bb.emit_func_output(bb.emit(op.exp(bb.emit(op.sum(op.add(y, y), axis=0)))))
    return bb.get()


def test_results_have_shapes_that_data_tell() -> None:
    vm, x = machine(columns()), np.arange(12, dtype="float32") / 12
    for shape in ((3, 4), (4, 3), (12, 1), (1, 12), (3, 4)):
        got = vm["main"](x, np.array(shape))
        np.testing.assert_allclose(got.numpy(), np.exp(x.reshape(shape).sum(0) * 2), rtol=1e-5)
        check_interpreted(vm, [x, np.array(shape)], results_of(got))
    timed = vm.time_evaluator("main", tvm.cpu(), number=3)(tvm.nd.array(x), tvm.nd.array(np.array([3, 4])))
    assert timed.mean > 0
    with pytest.raises(ArtifactError, match="shapes"):
        build_graph(columns(), "llvm", exec_mode="compiled").measurable()


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
def test_shapes_that_cannot_be_are_errors(exec_mode: str) -> None:
    main = relax.VirtualMachine(build_graph(columns(), "llvm", exec_mode=exec_mode), tvm.cpu())["main"]
    for shape in ((5, 5), (-3, -4), (1 << 40, 1 << 40), (1 << 62, 4)):
        with pytest.raises(ArgumentError, match=r"shape|below 0"):
            main(np.ones(12, "float32"), np.array(shape))


@needs_cc
def test_saved_models_make_results_too(tmp_path: Path) -> None:
    executable, x = build_graph(columns(), "llvm", exec_mode="compiled"), np.arange(12, dtype="float32") / 12
    for name in ("model.tunefarm", "model.so"):
        executable.export_library(str(tmp_path / name))
        loaded = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / name)), tvm.cpu())
        got = loaded["main"](x, np.array([3, 4])).numpy()
        np.testing.assert_allclose(got, np.exp(x.reshape(3, 4).sum(0) * 2), rtol=1e-5)


def test_entries_whose_results_are_no_cells_are_refused() -> None:
    entry = build_graph(columns(), "llvm", exec_mode="compiled").program.kernels["cpu"].entry("main")
    (made,) = entry.made
    for wrong in (replace(made, index=0), replace(made, index=9), replace(made, ndim=made.ndim + 1)):
        with pytest.raises(ArtifactError, match="no cell"):
            replace(entry, made=(wrong,))
    with pytest.raises(ArtifactError, match="dimensions"):
        replace(made, ndim=-1)


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def test_the_memory_of_such_results_is_freed_with_them() -> None:
    bb = BlockBuilder()
    x, s = Var("x", tensor(1)), Var("s", tensor(2, dtype="int64"))
    with bb.function("main", [x, s]):
        named = bb.match_cast(bb.emit(op.tensor_to_shape(s)), relax.ShapeStructInfo([N, M]), "named")
        bb.emit_func_output(bb.emit(op.add(bb.emit(op.broadcast_to(x, named)), x)))
    vm, shape = machine(bb.get()), np.array([1 << 10, 1 << 10])
    kept = vm["main"](np.ones(1, "float32"), shape)
    before = resident_mib()
    for _ in range(60):
        vm["main"](np.ones(1, "float32"), shape)
    assert resident_mib() - before < 40
    assert kept.shape == (1 << 10, 1 << 10)
    assert (kept.numpy() == 2).all()


# -- loops -------------------------------------------------------------------------------------------
def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], more: Any = ()) -> Any:
    graph = h.make_graph(nodes, "g", inputs, outputs, list(more))
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def looped(body: list[Any], states: dict[str, list[Any]], scans: Any = (), more: Any = (), going: str = "c") -> Any:
    """A loop of `n` steps over states by name, each of which a node of the body makes anew as NAME_next."""
    inside = h.make_graph(
        [*body, node("Identity", [going], ["goes"])],
        "body",
        [vi("i", T.INT64, []), vi("c", T.BOOL, []), *(vi(name, T.FLOAT, dims) for name, dims in states.items())],
        [
            vi("goes", T.BOOL, []),
            *(vi(f"{name}_next", T.FLOAT, dims) for name, dims in states.items()),
            *(vi(name, T.FLOAT, None) for name in scans),
        ],
        [ONE, *more],
    )
    outs = [*(f"{name}_out" for name in states), *(f"{name}_all" for name in scans)]
    loop = node("Loop", ["n", "", *(f"{name}_in" for name in states)], outs, body=inside)
    given = [vi("n", T.INT64, []), *(vi(f"{name}_in", T.FLOAT, dims) for name, dims in states.items())]
    return model([loop], given, [vi(name, T.FLOAT, None) for name in outs])


def agree(onnx_model: onnx.ModelProto, *args: Any) -> tuple[relax.VirtualMachine, list[Any]]:
    """Fail unless machine code, bytecode and onnxruntime agree."""
    vm = machine(from_onnx(onnx_model))
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, dict(zip([item.name for item in onnx_model.graph.input], args)))
    for _ in range(2):
        made = results_of(vm["main"](*args))
        for ours, theirs in zip(made, wanted):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    check_interpreted(vm, args, made)
    return vm, made


def counter() -> Any:
    return looped([node("Add", ["a", "one"], ["a_next"])], {"a": [4]})


def test_a_loop_of_many_steps_does_not_fill_the_stack() -> None:
    main = machine(from_onnx(counter()))["main"]
    assert main(np.array(400_000), np.zeros(4, "float32")).numpy().tolist() == [400_000.0] * 4
    assert main(np.array(0), np.ones(4, "float32")).numpy().tolist() == [1.0] * 4


def test_states_may_take_each_others_place() -> None:
    swap = looped([node("Identity", ["b"], ["a_next"]), node("Identity", ["a"], ["b_next"])], {"a": [3], "b": [3]})
    turn = looped([node("Add", ["b", "one"], ["a_next"]), node("Identity", ["a"], ["b_next"])], {"a": [3], "b": [3]})
    for steps in (17, 18):
        for onnx_model in (swap, turn):
            agree(onnx_model, np.array(steps), np.arange(3, dtype="float32"), -np.arange(3, dtype="float32"))


def growing() -> Any:
    body = [
        node("Add", ["a", "one"], ["a_next"]),
        node("Concat", ["w", "a_next"], ["w_next"], axis=0),
        node("Mul", ["a_next", "a_next"], ["squares"]),
    ]
    return looped(body, {"a": [4], "w": ["k"]}, scans=("squares",))


def test_states_and_stacks_grow() -> None:
    for steps in (1, 20, 200):
        agree(growing(), np.array(steps), np.zeros(4, "float32"), np.arange(3, dtype="float32"))


def test_branches_of_different_shapes_in_a_loop_that_data_end() -> None:
    double = h.make_graph([node("Concat", ["w", "w"], ["t"], axis=0)], "double", [], [vi("t", T.FLOAT, ["a"])])
    add = h.make_graph([node("Add", ["w", "one"], ["e"])], "add", [], [vi("e", T.FLOAT, ["b"])])
    body = [
        node("Size", ["w"], ["size"]),
        node("Less", ["size", "few"], ["is_small"]),
        node("If", ["is_small"], ["w_next"], then_branch=double, else_branch=add),
        node("ReduceSum", ["w_next"], ["total"], keepdims=0),
        node("Less", ["total", "most"], ["below"]),
    ]
    more = [h.make_tensor("few", T.INT64, [], [40]), h.make_tensor("most", T.FLOAT, [], [1e3])]
    onnx_model = looped(body, {"w": ["k"]}, more=more, going="below")
    for steps in (2, 1000):
        agree(onnx_model, np.array(steps), np.ones(3, "float32"))


def test_loops_in_loops() -> None:
    inner = h.make_graph(
        [node("Identity", ["d"], ["d2"]), node("Add", ["v", "a_in"], ["v2"])],
        "inner",
        [vi("j", T.INT64, []), vi("d", T.BOOL, []), vi("v", T.FLOAT, [3])],
        [vi("d2", T.BOOL, []), vi("v2", T.FLOAT, [3])],
    )
    onnx_model = looped([node("Loop", ["i", "", "a"], ["a_next"], body=inner)], {"a": [3]})
    agree(onnx_model, np.array(30), np.ones(3, "float32"))


@cache
def stacking() -> relax.VirtualMachine:
    body = [node("Concat", ["w", "r"], ["w_next"], axis=0), node("Add", ["r", "one"], ["r_next"])]
    return machine(from_onnx(looped(body, {"w": ["k", "m"], "r": ["l", "m"]})))


@settings(max_examples=30)
@given(st.integers(0, 40), st.integers(0, 5), st.integers(1, 6))
def test_loops_of_random_lengths_and_widths(steps: int, rows: int, columns: int) -> None:
    w, r = np.zeros((rows, columns), "float32"), np.ones((1, columns), "float32")
    grown, last = results_of(stacking()["main"](np.array(steps), w, r))
    np.testing.assert_array_equal(grown, np.concatenate([w, *(r + k for k in range(steps))]))
    np.testing.assert_array_equal(last, r + steps)


@needs_cc
def test_such_models_run_from_c(tmp_path: Path) -> None:
    vm, made = agree(growing(), np.array(30), np.zeros(4, "float32"), np.arange(3, dtype="float32"))
    arrays = [np.array(30), np.zeros(4, "float32"), np.arange(3, dtype="float32")]
    out, maps = run_any_in_c(vm, arrays, made, tmp_path)
    assert out == b"".join(x.tobytes() for x in made)
    assert "python" not in maps
    vm.module.save(str(tmp_path / "model.h"))
    assert "float32 of 1 dimensions, as address, bytes and extents" in (tmp_path / "model.h").read_text()


def test_recursion_that_is_no_loop_is_counted_by_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    scalar = tensor()
    again, a = Var("again", relax.FuncStructInfo([scalar], scalar)), Var("a", scalar)
    inside = BlockBuilder()
    with inside.function("inner", [a]):
        cond = inside.emit(op.greater(a, relax.const(0.0)))
        deeper = BlockBuilder()
        with deeper.function("deeper", [a]):
            made = deeper.emit(relax.Call(again, [deeper.emit(op.subtract(a, relax.const(1.0)))]))
            deeper.emit_func_output(deeper.emit(op.add(made, relax.const(2.0))))
        body: Any = deeper.get()["deeper"]
        inside.emit_func_output(inside.emit(relax.If(cond, body.body, relax.SeqExpr((), a))))
    whole: Any = inside.get()["inner"]
    bb, x = BlockBuilder(), Var("x", scalar)
    with bb.function("main", [x]):
        bb.emit_normalized(relax.VarBinding(again, relax.Function([a], whole.body, scalar)))
        bb.emit_func_output(bb.emit(relax.Call(again, [x])))
    executable = build_graph(bb.get(), "llvm", exec_mode="compiled")
    assert any("calls itself, and goes on after it" in line for line in executable.interpreted)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    assert main(np.float32(50).reshape(())).numpy() == 100
    monkeypatch.setattr(interpreter, "MOST_NESTED", 200)
    with pytest.raises(VMError, match="nested"):
        main(np.float32(500).reshape(()))
