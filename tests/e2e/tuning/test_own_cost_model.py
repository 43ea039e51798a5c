"""tune_tir asks cost models and task schedulers that the program wrote."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tests.kit.compiler.schedules.workloads import matmul
from tunefarm import meta_schedule as ms
from tunefarm import te
from tuner.engine.scheduling import TaskView
from tuner.errors import TuningError
from tuner.faces.meta_schedule import search_strategy
from tuner.search.evolutionary import EvolutionOptions


@pytest.fixture(autouse=True)
def _small_populations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's model is shown the schedule of each candidate, which takes 10 ms to make."""
    small = partial(EvolutionOptions, first=48, population=24, children=12)
    monkeypatch.setattr(search_strategy, "EvolutionOptions", small)


def module() -> tvm.IRModule:
    x = te.placeholder((64, 64), name="x")
    twice = te.compute((64, 64), lambda i, j: x[i, j] * 2, name="twice")
    turned = te.compute((64, 64), lambda i, j: x[j, i] + 1, name="turned")
    return tvm.IRModule({"first": te.create_prim_func([x, twice]), "second": te.create_prim_func([x, turned])})


@ms.derived_object
class Counting(ms.cost_model.PyCostModel):
    """Scores by how many steps a trace has, and notes what it is told."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.told: list[tuple[str, float]] = []

    def load(self, path: str) -> None: ...

    def save(self, path: str) -> None: ...

    def predict(self, context: Any, candidates: Any) -> np.ndarray:
        self.asked.append(len(candidates))
        return np.array([len(candidate.sch.trace.steps) for candidate in candidates], "float64")

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        self.told += [(context.task_name, result.run_secs[0]) for result in results if result.run_secs]


@ms.derived_object
class SecondFirst(ms.task_scheduler.PyTaskScheduler):
    """Gives the second task every trial that it can have."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def next_task_id(self) -> int:
        self.names = [task.task_name for task in self.tasks_]
        return 1


def test_a_run_asks_the_model_and_the_scheduler_of_the_program(tmp_path: Path) -> None:
    model, scheduler = Counting(), SecondFirst()
    database = ms.tune_tir(
        module(),
        "llvm -num-cores=1",
        str(tmp_path),
        4,
        max_trials_per_task=3,
        builder=ms.builder.LocalBuilder(max_workers=1),
        cost_model=model,
        task_scheduler=scheduler,
        seed=1,
    )
    assert sum(model.asked) >= 1
    assert model.told
    assert scheduler.names == ["first", "second"]
    assert scheduler.database_ is database
    assert scheduler.cost_model_ is model
    assert {type(c) for c in scheduler.measure_callbacks_} == {
        ms.measure_callback.AddToDatabase,
        ms.measure_callback.UpdateCostModel,
    }
    assert {r.run_secs[0] for r in database.get_all_tuning_records()} == {secs for _, secs in model.told}


def test_a_run_teaches_the_model_and_asks_it_once_it_knows(tmp_path: Path) -> None:
    """The engine's own model guides the search while this one knows nothing; afterwards this one does."""
    model = ms.cost_model.XGBModel(num_warmup_samples=3)
    given = {"builder": ms.builder.LocalBuilder(max_workers=1), "cost_model": model, "seed": 1}
    product = matmul(32, 32, 32)
    ms.tune_tir(product, "llvm -num-cores=1", str(tmp_path / "a"), 4, **given)
    assert model.data_size >= 3
    assert model.booster is not None
    asked: list[int] = []
    predict = model.predict

    def counting(context: Any, candidates: Any) -> np.ndarray:
        asked.append(len(candidates))
        return predict(context, candidates)

    model.predict = counting
    known = model.data_size
    ms.tune_tir(product, "llvm -num-cores=1", str(tmp_path / "b"), 2, **given)
    assert sum(asked) >= 2
    assert model.data_size > known


def view(index: int, asked: int) -> TaskView:
    return TaskView(index, asked, 1.0)


def test_a_task_that_cannot_be_asked_gives_its_turn_to_the_one_with_fewest_trials() -> None:
    scheduler = SecondFirst()
    everyone = [view(0, 1), view(1, 9), view(2, 0)]
    assert scheduler.choose(everyone, everyone) == 1
    assert scheduler.choose([everyone[0], everyone[2]], everyone) == 2
    assert scheduler.choose([], everyone) is None


def test_models_and_schedulers_are_made_by_name(tmp_path: Path) -> None:
    model = ms.cost_model.create("random", seed=3)
    model.save(str(tmp_path / "state"))
    drawn = model.predict(None, [None] * 4)
    assert drawn.min() >= 0
    assert drawn.max() < 100
    np.testing.assert_array_equal(
        ms.cost_model.RandomModel(path=str(tmp_path / "state")).predict(None, [None] * 4), drawn
    )
    assert isinstance(ms.CostModel.create("xgb", num_warmup_samples=2), ms.cost_model.XGBModel)
    assert ms.CostModel.create("none") is None
    with pytest.raises(TuningError, match="no cost model 'oracle'"):
        ms.CostModel.create("oracle")
    (tmp_path / "state").write_text("[]")
    with pytest.raises(TuningError, match="holds no state"):
        model.load(str(tmp_path / "state"))
    assert isinstance(ms.TaskScheduler.create("round-robin"), ms.task_scheduler.RoundRobin)
    assert ms.task_scheduler.create("gradient", alpha=0.5).engine_options()["alpha"] == 0.5
    with pytest.raises(TuningError, match="no task scheduler 'best'"):
        ms.TaskScheduler.create("best")
