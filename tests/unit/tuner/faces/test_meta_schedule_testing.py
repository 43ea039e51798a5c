"""Helpers for tests of meta_schedule: workloads, spaces, and builders and runners of a program's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.interp.interpreter import run
from tunefarm import meta_schedule as ms
from tunefarm import te, tir
from tunefarm.meta_schedule.testing import dummy_object, space_generation, te_workload, tune_utils
from tunefarm.meta_schedule.testing.te_workload import CONFIGS, create_te_workload
from tuner.errors import TuningError


def results(tensors: Sequence[te.Tensor]) -> list[np.ndarray[Any, Any]]:
    """Random inputs, and what the function makes of them."""
    func = te.create_prim_func(tensors)
    rng = np.random.default_rng(0)
    shapes = [tuple(int(extent) for extent in func.buffer_map[param].shape) for param in func.params]
    arrays = [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]
    run(func, *arrays)
    return arrays


def convolved(data: Any, weight: Any, stride: int, padding: int, groups: int = 1) -> Any:
    """A convolution along every dimension between the first and the last."""
    count = data.ndim - 2
    data = np.pad(data, [(0, 0), *[(padding, padding)] * count, (0, 0)])
    axes = tuple(range(1, count + 1))
    windows = np.lib.stride_tricks.sliding_window_view(data, weight.shape[:count], axes)
    windows = windows[(slice(None), *[slice(None, None, stride)] * count)]
    letters = "xyz"[:count]
    parts = zip(np.split(windows, groups, axis=count + 1), np.split(weight, groups, axis=-1))
    ranks = "abc"[:count]
    return np.concatenate([np.einsum(f"n{ranks}i{letters},{letters}io->n{ranks}o", w, k) for w, k in parts], axis=-1)


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        (te_workload.matmul(4, 5, 6), lambda a, b: a @ b),
        (te_workload.matmul_relu(4, 5, 6), lambda a, b: np.maximum(a @ b, 0)),
        (te_workload.batch_matmul_nkkm(2, 3, 4, 5), lambda a, b: a @ b),
        (te_workload.transpose_batch_matmul(1, 3, 2, 4), lambda q, v: np.einsum("bihk,bjhk->bhij", q, v)),
        (te_workload.conv1d_nlc(2, 9, 4, 6, 3, 2, 1, groups=2), lambda x, w: convolved(x, w, 2, 1, 2)),
        (te_workload.conv2d_nhwc(1, 7, 6, 4, 6, 3, 1, 1), lambda x, w: convolved(x, w, 1, 1)),
        (te_workload.conv3d_ndhwc(1, 4, 4, 5, 2, 3, 2, 2, 0), lambda x, w: convolved(x, w, 2, 0)),
        (te_workload.norm_bmn(2, 3, 4), lambda a: np.sqrt((a * a).sum((1, 2)))),
        (te_workload.softmax_mn(3, 5), lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True)),
        (
            te_workload.conv2d_nhwc_bn_relu(1, 5, 5, 3, 4, 3, 2, 1),
            lambda x, w, b, o, s: np.maximum((convolved(x, w, 2, 1) + b) * s + o, 0),
        ),
        (
            te_workload.conv2d_nchw_bias_bn_relu(1, 5, 5, 3, 4, 3, 3, 1, 1),
            lambda x, w, b, s, o: np.maximum(
                (convolved(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), 1, 1).transpose(0, 3, 1, 2) + b) * s + o, 0
            ),
        ),
        (
            te_workload.depthwise_conv2d_nhwc(1, 5, 5, 3, 3, 2, 1),
            lambda x, w: np.concatenate(
                [convolved(x[..., c, None], w[0, ..., c, None, None], 2, 1) for c in range(3)], -1
            ),
        ),
    ],
)  # fmt: skip
def test_workloads_compute_what_they_say(tensors: Sequence[te.Tensor], expected: Any) -> None:
    *inputs, result = results(tensors)
    np.testing.assert_allclose(result, expected(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", [3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_the_transposed_convolution(kernel: int, stride: int, padding: int) -> None:
    data, weight, result = results(te_workload.conv2d_transpose_nhwc(1, 3, 4, 2, 3, kernel, stride, padding))
    spread = np.zeros((1, 2 * stride + kernel, 3 * stride + kernel, 3), "float32")
    for y in range(3):
        for x in range(4):
            at = (slice(None), slice(y * stride, y * stride + kernel), slice(x * stride, x * stride + kernel))
            spread[at] += np.einsum("ni,hwio->nhwo", data[:, y, x], weight)
    height, width = spread.shape[1:3]
    wanted = spread[:, padding : height - padding, padding : width - padding]
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_capsules_and_pools() -> None:
    data, weight, result = results(te_workload.conv2d_capsule_nhwijc(1, 4, 4, 2, 3, 3, 1, 1, 2))
    padded = np.pad(data, [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    np.testing.assert_allclose(result, np.einsum("nhwikcyx,yxkjco->nhwijo", windows, weight), rtol=1e-4, atol=1e-5)
    data, result = results(te_workload.max_pool2d_nchw(1, 4, 4, 2, 0))
    np.testing.assert_array_equal(result, np.lib.stride_tricks.sliding_window_view(data, (2, 2), (2, 3)).max((4, 5)))


def test_sizes_of_networks() -> None:
    for name, (_, sizes) in CONFIGS.items():
        assert isinstance(create_te_workload(name, len(sizes) - 1), tir.PrimFunc)
    assert [tuple(b.shape) for b in create_te_workload("T2D", 0).buffer_map.values()][-1] == (1, 8, 8, 256)
    for name, number in (("C9D", 0), ("C2D", 4)):
        with pytest.raises(TuningError):
            create_te_workload(name, number)


def test_spaces_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    func = te.create_prim_func(te_workload.matmul(64, 64, 64))
    rules = space_generation.get_rules("llvm", ms.schedule_rule.MultiLevelTiling)
    assert [type(rule).__name__ for rule in rules] == ["MultiLevelTiling"]
    spaces = space_generation.generate_design_space(
        "llvm", func, "llvm -num-cores=4", ms.schedule_rule.MultiLevelTiling
    )
    space_generation.print_sketches(spaces)
    assert capsys.readouterr().out.count("# sketch") == len(spaces) >= 1
    mods = [sch.mod for sch in spaces]
    decisions = [[(inst.kind.name, sch.trace.decisions[inst]) for inst in sch.trace.insts if inst in sch.trace.decisions] for sch in spaces]  # fmt: skip  # noqa: E501
    space_generation.check_sketches(func, spaces, mods, decisions)
    space_generation.check_sketches(func, spaces[::-1], mods, decisions)
    with pytest.raises(AssertionError):
        space_generation.check_sketches(func, spaces, [tvm.IRModule({"main": func})] * len(spaces), decisions)


def test_input_data() -> None:
    assert tune_utils.generate_input_data([3, 4], "float16").dtype == np.float16
    made = tune_utils.generate_input_data([1000], "int8")
    assert made.min() < 0 <= made.max()
    assert set(tune_utils.generate_input_data([50], "int32", low=3, high=5)) == {3, 4}
    with pytest.raises(TuningError):
        tune_utils.generate_input_data([1], "bool")


class Builds(ms.builder.PyBuilder):
    def __init__(self, folder: Any) -> None:
        self.folder, self.count = folder, 0

    def build(self, build_inputs: Sequence[ms.builder.BuilderInput]) -> list[ms.builder.BuilderResult]:
        made = []
        for given in build_inputs:
            self.count += 1
            if self.count == 2:
                made.append(ms.builder.BuilderResult(None, "no wish to"))
                continue
            path = str(self.folder / f"{self.count}.tunefarm")
            tvm.build(given.mod, target=given.target).export_library(path)
            made.append(ms.builder.BuilderResult(path, None))
        return made


class Runs(ms.runner.PyRunner):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def run(self, runner_inputs: Sequence[ms.runner.RunnerInput]) -> list[ms.runner.RunnerFuture]:
        done = []
        for given in runner_inputs:
            self.seen.append(given)
            count = len(self.seen)
            arrays = [tvm.nd.empty(info.shape, info.dtype) for info in given.args_info]
            tvm.runtime.load_module(given.artifact_path)["main"](*arrays)
            done.append(ms.runner.RunnerFuture(lambda: True, partial(ms.runner.RunnerResult, [1e-3 / count], None)))
        return done


def test_builders_and_runners_of_a_program(tmp_path: Any) -> None:
    builder, runner = Builds(tmp_path), Runs()
    func = te.create_prim_func(te_workload.matmul(16, 16, 16))
    database = ms.tune_tir(
        func, "llvm -num-cores=1", str(tmp_path / "work"), 4, builder=builder, runner=runner, database="memory",
        strategy="replay-trace",
    )  # fmt: skip
    assert builder.count >= 4
    assert len(runner.seen) >= 3
    assert {info.shape for info in runner.seen[0].args_info} == {(16, 16)}
    assert len(database) >= 3


@pytest.mark.parametrize("kept", [True, False], ids=["a database", "none"])
def test_a_scheduler_tunes_tasks(tmp_path: Any, kept: bool) -> None:
    database = ms.Database.create("memory") if kept else None
    contexts = [
        ms.TuneContext(
            te.create_prim_func(te_workload.matmul(16, 16, size)), target="llvm -num-cores=1", task_name=f"by {size}",
            space_generator="post-order-apply", search_strategy="replay-trace", rand_state=1,
        )
        for size in (8, 16)
    ]  # fmt: skip
    told: list[int] = []

    class Tells(ms.MeasureCallback):
        def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
            assert task_scheduler is scheduler
            told.append(task_id)

    scheduler = ms.TaskScheduler.create("round-robin")
    builder = Builds(tmp_path)
    builder.count = 2  # past the one it fails: the second task's function as written, without which it ends
    given = (contexts, [1, 2], 6, 2, 2, builder, Runs())
    callbacks = [Tells(), *ms.MeasureCallback.create("default")]
    scheduler.tune(*given, measure_callbacks=callbacks, database=database, cost_model=None)
    assert database is None or scheduler.database_ is database
    assert {0, 1} == set(told)
    assert all(scheduler.database_.get_top_k(ms.database.Workload(c.mod), 1) for c in contexts)


def test_dummies() -> None:
    (result,) = dummy_object.DummyBuilder().build([ms.builder.BuilderInput(tvm.IRModule(), tvm.target.Target("llvm"))])
    assert result.artifact_path == "test_path"
    (future,) = dummy_object.DummyRunner().run([ms.runner.RunnerInput("test_path", "cpu", ())])
    assert future.done()
    assert future.result().run_secs
    sch = tir.Schedule(te.create_prim_func(te_workload.matmul(16, 16, 16)))
    sch.sample_perfect_tile(sch.get_loops(sch.get_block("C"))[0], 2)
    mutated = dummy_object.DummyMutator().apply(sch.trace)
    assert mutated is not None
    assert list(mutated.decisions) == [None]


def measured(candidate: ms.MeasureCandidate) -> ms.runner.RunnerResult:
    """Say that longer texts take longer."""
    return ms.runner.RunnerResult([len(candidate.sch.mod.script()) * 1e-6], None)


@pytest.mark.parametrize("strategy", ["replay-trace", "replay-func", "evolutionary"])
def test_a_program_drives_the_search(strategy: str) -> None:
    func = te.create_prim_func(te_workload.matmul(32, 32, 32))

    def tiled(sch: tir.Schedule) -> None:
        i, _, _ = sch.get_loops(sch.get_block("C"))
        sch.split(i, sch.sample_perfect_tile(i, 3))

    context = ms.TuneContext(func, target="llvm", space_generator=tiled, search_strategy=strategy)
    with pytest.raises(TuningError, match="not begun"):
        context.generate_measure_candidates()
    context.pre_tuning(max_trials=7, num_trials_per_iter=3, design_spaces=context.generate_design_space())
    with pytest.raises(TuningError, match="begun already"):
        context.pre_tuning(max_trials=1)
    rounds = []
    while (candidates := context.generate_measure_candidates()) is not None:
        rounds.append(len(candidates))
        assert all(info.shape == (32, 32) for candidate in candidates for info in candidate.args_info)
        context.notify_runner_results(candidates, [measured(candidate) for candidate in candidates])
    assert rounds == [3, 3, 1]
    again = context.clone()
    context.post_tuning()
    again.pre_tuning(max_trials=2)
    assert len(again.generate_measure_candidates() or ()) == 2


def test_a_search_needs_a_module() -> None:
    with pytest.raises(TuningError, match="no module"):
        ms.SearchStrategy.create("replay-trace").pre_tuning(1, 1, [])


def test_futures() -> None:
    class Mine(ms.runner.PyRunnerFuture):
        def done(self) -> bool:
            return False

    assert not Mine().done()
    with pytest.raises(TuningError, match="no result"):
        Mine().result()
