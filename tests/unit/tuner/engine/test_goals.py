"""Runs that make energy small: candidates are told apart by joules, and devices that tell none are found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpc_server.wire.trial_messages import MeasureResult
from tests.kit.tuner.engine import Driver, engine, of
from tuner.devices.supplies import local_target
from tuner.engine.engine import EngineRun, tune
from tuner.engine.events import SubmitMeasure, TaskEnded
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, sketch_search
from tuner.engine.replay import UNTUNED, ReplayBuilder, ReplayFleet
from tuner.engine.run_recorder import RunRecorder
from tuner.errors import TuningError
from tuner.goals import Goal, watts_of
from tuner.records.store import RecordStore
from tuner.task import TuningTask


def result(seconds: float, joules: float | None) -> MeasureResult:
    told = {} if joules is None else {"joules": joules}
    return MeasureResult(costs=(seconds, 0.999 * seconds, 1.001 * seconds), environment=told)


def test_costs_are_what_the_run_makes_small():
    samples, told = (1.0, 2.0, 3.0), {"joules": 10.0}
    assert Goal.TIME.costs(samples, told) == samples
    assert Goal.ENERGY.costs(samples, told) == (5.0, 10.0, 15.0)
    assert Goal.ENERGY.costs(samples, {}, watts=2.0) == (2.0, 4.0, 6.0)
    assert Goal.ENERGY.costs(samples, {}) is None
    assert watts_of((), told) is None
    with pytest.raises(TuningError, match="no objective 'money'"):
        RunOptions(objective="money")


class Meters(Driver):
    """The faster a candidate, the more it draws; short trials of every other candidate tell no energy."""

    def cost(self, job):
        if job.candidate is None:
            return result(1.0, 40.0)
        number = int(job.candidate.digest[1:])
        return result(0.5 + number / 10, None if number % 2 else 30.0 - number)


def test_the_candidate_that_takes_the_least_energy_wins():
    state, [strategy] = engine(trials=8, goal=Goal.ENERGY)
    driver = Meters(state)
    driver.run()
    assert state.tasks[0].best.digest == "c6"
    assert state.tasks[0].best_cost == pytest.approx(24.0)
    assert state.tasks[0].baseline_cost == pytest.approx(40.0)
    assert all(cost is not None for _, cost in strategy.told)
    assert all(command.best is None for command in of(driver.log, SubmitMeasure))  # which would be in seconds


def test_a_device_that_tells_no_energy_is_found_out_at_once():
    state, _ = engine(trials=8, goal=Goal.ENERGY)
    driver = Driver(state)
    driver.run()
    [ended] = of(driver.log, TaskEnded)
    assert "tells no energy" in ended.error


def answer(name: str) -> MeasureResult:
    if name == UNTUNED:
        return result(5e-3, 0.4)
    seconds = 1e-3 * (1 + int(name[:4], 16) / 0xFFFF)
    return result(seconds, 1e-4 / seconds)


def search() -> TaskSearch:
    return sketch_search(TuningTask.from_spec("matmul:16,16,16", local_target()), "random")


def test_a_run_goes_by_joules_whatever_times_other_runs_found(tmp_path: Path) -> None:
    quick = RunOptions(trials=6, finalists=0)
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        tune([search()], fleet=ReplayFleet(answer), builder=ReplayBuilder(), options=quick, store=store)
        options = RunOptions(trials=6, finalists=2, final_rounds=1, objective="energy")
        outcome = tune([search()], fleet=ReplayFleet(answer), builder=ReplayBuilder(), options=options, store=store)
        trials = [trial for trial in store.trials.all(2) if trial.purpose == "search"]
        assert len(trials) == 6  # the times that the first run found of them say nothing of energy
        least = min(trials, key=lambda trial: trial.environment["joules"])
        assert outcome.best[0] is not None
        assert outcome.best[0].candidate.digest == least.digest
        assert outcome.best[0].cost == pytest.approx(least.environment["joules"])
        assert outcome.snapshot.tasks[0].unit == "J"
        again = EngineRun(
            [search()], ReplayFleet(answer), ReplayBuilder(), RunRecorder.resume(store, 2, [search().task]), options
        )
        [task] = again.run().tasks
        assert (task.done, task.baseline_cost) == (6, pytest.approx(0.4))
        assert task.best_cost == pytest.approx(least.environment["joules"])
