"""autotvm's databases in memory, logs from buffers and in parts, curves, the cost model and coordinate descent."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunefarm import autotvm, te
from tunefarm.autotvm.database import DummyDatabase, filter_inputs
from tunefarm.autotvm.measure import MeasureInput, MeasureResult
from tunefarm.autotvm.measure.measure import Builder, Runner
from tunefarm.autotvm.task.dispatcher import FallbackContext
from tunefarm.autotvm.tuner.metric import average_recall, cover_curve, max_curve, mean_curve, recall_curve
from tunefarm.autotvm.tuner.xgboost_cost_model import XGBoostCostModel
from tuner.faces.autotvm.errors import ConfigError


@autotvm.template("test_autotvm_results/scaled")
def scaled(n: int) -> Any:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", b.op.axis[0], num_outputs=2)
    cfg.define_knob("unroll", [0, 1, 2])
    cfg["tile"].apply(s, b, b.op.axis[0])
    return s, [a, b]


def a_task(n: int = 64) -> Any:
    return autotvm.task.create("test_autotvm_results/scaled", args=(n,), target="llvm")


def pairs(count: int = 4) -> list[tuple[MeasureInput, MeasureResult]]:
    task = a_task()
    return [
        (
            MeasureInput(task.target, task, task.config_space.get(at)),
            MeasureResult((0.001 * (at + 1),), 0, 0.5, 100.0 + at),
        )
        for at in range(count)
    ]


class NoBuilder(Builder):
    def __init__(self) -> None:
        super().__init__(1, 1)

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        return [None for _ in measure_inputs]


class IndexRunner(Runner):
    """The later the config, the faster."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def get_build_kwargs(self) -> dict[str, Any]:
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Any) -> list[MeasureResult]:
        return [MeasureResult((1.0 / (1 + inp.config.index),), 0, 0.0, time.time()) for inp in measure_inputs]


def options() -> Any:
    return autotvm.measure_option(builder=NoBuilder(), runner=IndexRunner())


def test_a_database_gives_the_newest_result_or_all() -> None:
    database = DummyDatabase()
    (inp, result), (other, later), *_ = pairs()
    database.save(inp, result)
    assert database.load(other) is None
    database.save(inp, later, extend=True)
    assert database.load(inp) == later
    assert database.load(inp, get_all=True) == [result, later]
    database.save(inp, result)
    assert database.load(inp, get_all=True) == [result]
    assert [str(found.config) for found, _ in database.filter(lambda _inp, results: len(results) == 1)] == [
        str(inp.config)
    ]
    database.flush()
    assert database.load(inp) is None


def test_inputs_with_results_are_not_measured_again() -> None:
    database = DummyDatabase()
    given = pairs(3)
    autotvm.callback.log_to_database(database)(None, [given[1][0]], [given[1][1]])  # type: ignore[arg-type]
    results, left = filter_inputs(database, [inp for inp, _ in given])
    assert results == [None, given[1][1], None]
    assert left == [given[0][0], given[2][0]]
    database.save(given[0][0], MeasureResult((1e9,), 4, 0.1, 200.0))
    assert filter_inputs(database, [given[0][0]])[1] == []
    assert filter_inputs(database, [given[0][0]], retry=True) == ([None], [given[0][0]])


def test_a_log_is_read_from_a_buffer_and_split_by_workload(tmp_path: Path) -> None:
    lines = [autotvm.record.encode(inp, result) + "\n" for inp, result in pairs()]
    assert len(list(autotvm.record.load_from_buffer(io.StringIO("".join(lines))))) == 4
    log = tmp_path / "x.log"
    other = a_task(32)
    small = MeasureInput(other.target, other, other.config_space.get(0))
    log.write_text("".join([*lines, lines[0], autotvm.record.encode(small, pairs()[0][1]) + "\n"]))
    autotvm.record.split_workload(log)
    assert [len(Path(f"{log}.{part:02d}.log").read_text().splitlines()) for part in (0, 1)] == [4, 1]
    autotvm.record.split_workload(log, clean=False)
    assert len(Path(f"{log}.00.log").read_text().splitlines()) == 5


def test_curves_of_trials() -> None:
    assert max_curve([3.0, 1, 5]).tolist() == [3, 3, 5]
    assert mean_curve([3.0, 1, 5]).tolist() == [3, 2, 3]
    assert recall_curve([1, 0, 2]).tolist() == pytest.approx([0, 1, 1], abs=0.51)
    assert recall_curve([1, 0, 2], 2).tolist() == [0.5, 1, 1]
    assert cover_curve([2, 0, 1]).tolist() == pytest.approx([0, 0.5, 1])
    assert average_recall([1.0, 2, 3], [1.0, 2, 3], 2) == 1


def test_a_cost_model_ranks_configs() -> None:
    task = a_task()
    model = XGBoostCostModel(task, feature_type="itervar", loss_type="rank")
    with pytest.raises(ConfigError, match="not fitted"):
        model.predict([0])
    indices = list(range(len(task.config_space)))
    model.fit(indices, [1.0 + index % 7 for index in indices], plan_size=16)
    scores = model.predict(indices)
    assert np.corrcoef(scores, [index % 7 for index in indices])[0, 1] > 0.9
    base = model.spawn_base_model()
    assert not base.fit_log(pairs(), plan_size=4)
    assert base.fit_log(pairs(), plan_size=4, min_seed_records=4)
    fresh = XGBoostCostModel(task, feature_type="knob")
    fresh.load_basemodel(model)
    assert fresh.predict([3]).tolist() == model.predict([3]).tolist()


def test_coordinate_descent_climbs_to_the_best_config() -> None:
    task = a_task()
    tuner = autotvm.tuner.DropletTuner(task)
    assert (tuner.dims, tuner.best_choice[1], tuner.total_execution) == ([7, 3], [0, 0], 7)
    assert [config.index for config in tuner.next_batch(1)] == [0]
    tuner = autotvm.tuner.DropletTuner(task, start_position=[1, 0])
    monitor = autotvm.callback.Monitor()
    tuner.tune(21, options(), callbacks=[monitor])
    assert tuner.best_config is not None
    assert tuner.best_config.index == 20
    assert monitor.trial_scores().max() == pytest.approx(tuner.best_flops)
    assert len(monitor.trial_timestamps()) == len(monitor.trial_scores()) <= 21
    monitor.reset()
    assert not len(monitor.trial_scores())


def test_a_difference_that_chance_explains_moves_nothing() -> None:
    tuner = autotvm.tuner.DropletTuner(a_task())
    first, second = tuner.next_batch(1)[0], a_task().config_space.get(1)
    task = a_task()
    tuner.update([MeasureInput(task.target, task, first)], [MeasureResult((1.0, 3.0, 2.0), 0, 0.0, 0.0)])
    tuner.update([MeasureInput(task.target, task, second)], [MeasureResult((0.9, 2.9, 1.9), 0, 0.0, 0.0)])
    assert tuner.best_choice[0] == 0
    tuner.update([MeasureInput(task.target, task, second)], [MeasureResult((0.2, 0.21, 0.2), 0, 0.0, 0.0)])
    assert tuner.best_choice[0] == 1


def test_the_log_is_silent_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    context = FallbackContext()
    with caplog.at_level(logging.WARNING):
        try:
            autotvm.GLOBAL_SCOPE.silent = True
            context.query(None, ("quiet",))
        finally:
            autotvm.GLOBAL_SCOPE.silent = False
        assert not caplog.records
        context.query(None, ("loud",))
    assert len(caplog.records) == 1
    assert len(context.memory) == 2
    context.clear_cache(None, ("quiet",))
    assert len(context.memory) == 1


def test_caches_are_anchored_at_several_axes() -> None:
    space = autotvm.ConfigSpace()
    axes = [space.axis(n) for n in (2, 3, 4)]
    space.define_annotate("cache", axes, policy="locate_cache", num_anchor=2)
    assert [entity.anns.count("locate_cache") for entity in space.space_map["cache"].entities] == [2, 2, 2]
