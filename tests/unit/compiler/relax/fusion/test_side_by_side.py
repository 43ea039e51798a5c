"""Kernels that run side by side: which do, in what order calls come then, and that results stay what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.graph import unscheduled
from compiler.driver.kernel_schedules import scheduled
from compiler.ir.base import GlobalVar
from compiler.ir.visit import walk
from compiler.relax.analysis import problems
from compiler.relax.fusion.side_by_side import Stage, seconds_of, stages_of
from compiler.relax.interp import run as interpret
from compiler.relax.nodes import Call, Constant, Function, TensorStructInfo, Var, const
from compiler.relax.transform.fusion import run_side_by_side as rules
from compiler.relax.transform.fusion.run_side_by_side import run_side_by_side
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import PACKING
from compiler.target.target import Target
from compiler.tir import nodes as n
from tests.kit.compiler.pass_checks import becomes, same_values
from tests.kit.compiler.random_graphs import random_graph
from tests.kit.compiler.random_images import random_image_graph
from tunefarm import relax
from tunefarm.relax import BlockBuilder, op, transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

CORES = Target(f"{Target.host()} -num-cores=4")


def weights(rng: np.random.Generator, *shape: int) -> Constant:
    return const(rng.standard_normal(shape).astype("float32"))


def fire(channels: int = 16, out: int = 32, size: int = 13, seed: int = 0, join: bool = True) -> Any:
    """Two convolutions of one value, and their results joined, or as a tuple."""
    rng, bb = np.random.default_rng(seed), BlockBuilder()
    x = Var("x", TensorStructInfo((1, channels, size, size), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            parts = [
                bb.emit(op.nn.relu(op.nn.conv2d(x, weights(rng, out, channels, k, k), padding=k // 2))) for k in (1, 3)
            ]
            found = bb.emit_output(op.nn.avg_pool2d(op.concat(parts, 1), (2, 2)) if join else relax.Tuple(parts))
        bb.emit_func_output(found)
    return bb.get()


def with_schedules(mod: Any, target: Target = CORES) -> Any:
    with target:
        made = unscheduled(mod, target)
        kernels = {name: func for name, func in made.items() if isinstance(func, n.PrimFunc)}
        made = made.with_functions({**made.functions, **scheduled(kernels, target)})
        return tvm.transform.Sequential([pass_of(function).make() for function in PACKING])(made)


def after(mod: Any, target: Target = CORES) -> Any:
    with target:
        made = run_side_by_side(with_schedules(mod, target), tvm.transform.PassContext())
    assert problems(made) == []
    return made


def called(mod: Any) -> list[str]:
    """The kernels that "main" calls, in order."""
    calls = [node for node in walk(mod["main"]) if isinstance(node, Call)]
    return [call.args[0].name_hint for call in calls if isinstance(call.args[0], GlobalVar)]


def run(mod: Any, *data: np.ndarray, apart: bool = False) -> list[np.ndarray]:
    with tvm.transform.PassContext(disabled_pass=["RunSideBySide"] if apart else []):
        machine = relax.VirtualMachine(relax.build(mod, CORES, exec_mode="compiled"), tvm.cpu())
    found = machine["main"](*map(tvm.nd.array, data))
    return [item.numpy() for item in (found if isinstance(found, tuple | list) else [found])]


@pytest.fixture(autouse=True)
def four_threads() -> Any:
    before = tvm.runtime.num_threads()
    tvm.runtime.set_num_threads(4)
    yield
    tvm.runtime.set_num_threads(before)


def test_convolutions_of_one_value_become_one_kernel() -> None:
    names = called(after(fire()))
    assert len([name for name in names if "conv" in name]) == 1
    assert "_and_" in names[0]


def test_on_one_core_they_stay_apart() -> None:
    alone = Target(f"{Target.host()} -num-cores=1")
    assert not [name for name in called(after(fire(), alone)) if "_and_" in name]


@pytest.mark.parametrize("seed", range(6))
def test_results_are_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels, out, size = int(rng.integers(1, 40)), int(rng.integers(1, 70)), int(rng.integers(3, 30))
    mod = fire(channels, out, size, seed, join=bool(seed % 2))
    data = rng.standard_normal((1, channels, size, size)).astype("float32")
    for found, wanted in zip(run(mod, data), run(mod, data, apart=True), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_parts_of_a_concatenation_still_lie_in_place() -> None:
    made = relax.build(fire(), CORES, exec_mode="bytecode")
    assert "concat" not in str(made.as_text())
    assert "_and_" in str(made.as_text())


def chain(rng: np.random.Generator, lengths: list[int], size: int) -> Any:
    """Independent chains of products, whose steps take turns, and the sum of their ends."""
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((size, size), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            ends: list[Any] = [x] * len(lengths)
            for step in range(max(lengths)):
                for place, length in enumerate(lengths):
                    if step < length:
                        ends[place] = bb.emit(op.nn.relu(op.matmul(ends[place], weights(rng, size, size))))
            total = ends[0]
            for end in ends[1:]:
                total = bb.emit(op.add(total, end))
            out = bb.emit_output(op.nn.softmax(total))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize("seed", range(8))
def test_chains_that_need_their_own_results_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = [int(length) for length in rng.integers(1, 5, rng.integers(2, 4))]
    size = int(rng.integers(20, 70))
    mod = chain(rng, lengths, size)
    data = (rng.standard_normal((size, size)) / size).astype("float32")
    made = after(mod)
    order = [binding.var for block in made["main"].body.blocks for binding in block.bindings]
    assert len(set(order)) == len(order)
    np.testing.assert_allclose(run(mod, data)[0], run(mod, data, apart=True)[0], rtol=1e-6)


def test_a_kernel_runs_beside_itself() -> None:
    bb, rng = BlockBuilder(), np.random.default_rng(0)
    x, y = (Var(name, TensorStructInfo((37, 64), "float32")) for name in "xy")
    matrix = weights(rng, 64, 64)
    with bb.function("main", [x, y]):
        with bb.dataflow():
            both = [bb.emit(op.nn.relu(op.matmul(value, matrix))) for value in (x, y)]
            out = bb.emit_output(relax.Tuple(both))
        bb.emit_func_output(out)
    data = [rng.standard_normal((37, 64)).astype("float32") for _ in range(2)]
    found = run(bb.get(), *data)
    for value, got in zip(data, found, strict=True):
        np.testing.assert_allclose(got, np.maximum(value @ matrix.data.numpy(), 0), rtol=1e-4, atol=1e-4)
    assert len(called(after(bb.get()))) == 1


def test_calls_that_may_do_more_than_compute_keep_their_place() -> None:
    bb, rng = BlockBuilder(), np.random.default_rng(0)
    x = Var("x", TensorStructInfo((37, 64), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            first = bb.emit(op.nn.relu(op.matmul(x, weights(rng, 64, 64))))
            said = bb.emit(relax.op.call_pure_packed("told", x, sinfo_args=TensorStructInfo((37, 64), "float32")))
            second = bb.emit(op.nn.relu(op.matmul(x, weights(rng, 64, 64))))
            out = bb.emit_output(relax.Tuple([first, said, second]))
        bb.emit_func_output(out)
    assert not [name for name in called(after(bb.get())) if "_and_" in name]


def test_kernels_with_dimensions_that_a_call_tells_stay_apart() -> None:
    func = with_schedules(fire())
    kernels = [kernel for kernel in func.functions.values() if isinstance(kernel, n.PrimFunc)]
    assert all(stages_of(kernel) for kernel in kernels if "relax.joined_parts" not in kernel.attrs)
    size = n.Var("m", "int64")
    buffer = n.decl_buffer((size,), "float32", "x")
    param = n.Var("x", "handle")
    root = n.Block((), (), (), "root", n.Evaluate(tvm.tir.const(0)))
    body = n.BlockRealize((), tvm.tir.const(True), root)
    assert stages_of(n.PrimFunc((param,), body, None, {param: buffer}, {})) == ()


def test_how_long_stages_take_together() -> None:
    launch, slower = 1e-6, 1.1  # one thread is a tenth slower than the others
    assert seconds_of([[Stage(2, 1.0)]], 2) == pytest.approx(slower + launch)
    assert seconds_of([[Stage(13, 1.0)]], 2) == pytest.approx(7 + launch)
    assert seconds_of([[Stage(4, 1.0)], [Stage(30, 0.1)]], 2) == pytest.approx(3.7 + launch, abs=0.1)
    assert seconds_of([[Stage(1, 2.0)]], 8) == pytest.approx(2.0)  # nothing is launched
    assert seconds_of([[Stage(4, 1.0), Stage(8, 2.0)], [Stage(2, 1.0)]], 1) == pytest.approx(22 + 2 * launch)
    assert seconds_of([[Stage(10_000, 1.0)]], 2) == pytest.approx(5000 + launch)
    assert seconds_of([[Stage(10_000, 1.0)], [Stage(1, 1.0)]], 2) == float("inf")  # too many for a table


def test_kernels_of_empty_arrays_are_left_alone() -> None:
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((0, 8), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.Tuple([bb.emit(op.nn.relu(x)), bb.emit(op.exp(x))]))
        bb.emit_func_output(out)
    assert [item.shape for item in run(bb.get(), np.zeros((0, 8), "float32"))] == [(0, 8), (0, 8)]


def test_unused_kernels_are_gone_after_a_build() -> None:
    with CORES:
        made = relax.get_pipeline("scheduled")(with_schedules(fire()))
    kernels = [gvar for gvar, func in made.items() if isinstance(func, n.PrimFunc)]
    used = {node for func in made.values() if isinstance(func, Function) for node in walk(func)}
    assert set(kernels) <= used


@I.ir_module
class Apart:
    @T.prim_func(private=True)
    def long(A: T.Buffer((4, 65536), "float32"), B: T.Buffer((4, 65536), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(4):
            for j in range(65536):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)

    @T.prim_func(private=True)
    def short(A: T.Buffer((4, 65536), "float32"), C: T.Buffer((16,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = A[0, vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4, 65536), "float32")):
        cls = Apart
        with R.dataflow():
            lv = R.call_tir(cls.long, (x,), out_sinfo=R.Tensor((4, 65536), "float32"))
            lv1 = R.call_tir(cls.long, (lv,), out_sinfo=R.Tensor((4, 65536), "float32"))
            lv2 = R.call_tir(cls.short, (x,), out_sinfo=R.Tensor((16,), "float32"))
            gv = (lv1, lv2)
            R.output(gv)
        return gv


@I.ir_module
class Beside:
    @T.prim_func(private=True)
    def long(A: T.Buffer((4, 65536), "float32"), B: T.Buffer((4, 65536), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(4):
            for j in range(65536):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)

    @T.prim_func(private=True)
    def long_and_short(
        x: T.Buffer((4, 65536), "float32"), B: T.Buffer((4, 65536), "float32"), C: T.Buffer((16,), "float32")
    ):
        T.func_attr({"tir.noalias": True})
        T.attr(None, "side_by_side", 4)
        for i in T.parallel(4):
            for j in range(65536):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = x[vi, vj] + T.float32(1)
        for i in T.parallel(16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = x[0, vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4, 65536), "float32")):
        cls = Beside
        with R.dataflow():
            both = R.call_tir(
                cls.long_and_short, (x,), out_sinfo=[R.Tensor((4, 65536), "float32"), R.Tensor((16,), "float32")]
            )
            lv = both[0]
            lv2 = both[1]
            lv1 = R.call_tir(cls.long, (lv,), out_sinfo=R.Tensor((4, 65536), "float32"))
            gv = (lv1, lv2)
            R.output(gv)
        return gv


def test_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_LEAST_GAIN", -1.0)
    with CORES:
        becomes(tvm.transform.Sequential([transform.RunSideBySide(), transform.DeadCodeElimination()]), Apart, Beside)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_compute_what_they_did_with_all_neighbours_joined(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "_LEAST_GAIN", float("-inf"))
    graph = random_image_graph(seed) if seed % 2 else random_graph(seed, symbolic=False)
    machine = relax.VirtualMachine(relax.build(graph.module, CORES, exec_mode="compiled"), tvm.cpu())
    found = machine["main"](*[tvm.nd.array(item) for item in graph.args])
    same_values(_arrays(found), interpret(graph.module, *graph.args))


def _arrays(value: Any) -> Any:
    return tuple(map(_arrays, value)) if isinstance(value, tuple | list) else value.numpy()
