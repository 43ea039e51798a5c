"""The forecast saving of a minute more of tuning, beside what a minute saved in searches of many seeds."""

from __future__ import annotations

import random

import pytest

from tuner.engine.forecaster import Forecaster, ModelCurve, WeightedKernel, replayed
from tuner.records.model import Improvement


def search(seed: int, trials: int) -> list[float]:
    """The best cost after each trial of a search whose candidates' costs scatter as kernels' do."""
    rng, best, found = random.Random(seed), 4.0, []
    for at in range(trials):
        near = 1.0 + 2.0 * 0.98**at  # it learns where the fast ones are
        best = min(best, near * rng.lognormvariate(0.2, 0.4))
        found.append(best)
    return found


@pytest.mark.parametrize(("done", "more"), [(32, 16), (64, 64), (256, 128)])
def test_what_is_forecast_is_about_what_comes(done, more):
    forecast = came = 0.0
    for seed in range(60):
        costs, curve = search(seed, done + more), ModelCurve()
        for at, cost in enumerate(costs[:done], 1):
            curve.note(at, cost)
        forecast += curve.should_save(done, more)
        came += costs[done - 1] - costs[-1]
    assert 0.5 < forecast / came < 2.0


def test_nothing_is_forecast_of_what_is_not_known():
    forecaster = Forecaster()
    forecaster.note(4, [WeightedKernel("net", 2, 1.0), WeightedKernel("net", 1, None), WeightedKernel("", 1, 5.0)])
    assert forecaster.minute(4, 1.0, None) == {}
    forecaster.note(9, [WeightedKernel("net", 2, 1.0), WeightedKernel("net", 1, 3.0)])
    assert forecaster.minute(9, 1.0, None) == {"net": None}  # too few trials since it is known
    forecaster.note(18, [WeightedKernel("net", 2, 0.5), WeightedKernel("net", 1, 3.0)])
    saves = forecaster.minute(18, 1.0, None)["net"]
    assert 0 < saves < 4.0
    assert forecaster.minute(18, 1.0, 0.0)["net"] == 0.0  # the run is over
    assert forecaster.minute(18, 1.0, 30.0)["net"] < saves


def test_records_give_the_same_forecast_as_the_run_itself():
    rng = random.Random(5)
    tasks = [WeightedKernel("net", 2, 1.0), WeightedKernel("other", 1, 2.0), WeightedKernel("net", 3, 0.5)]
    costs, steps, forecaster = [t.cost for t in tasks], [], Forecaster()
    forecaster.note(0, tasks)
    for at in range(1, 101):
        place = rng.randrange(3)
        if (cost := costs[place] * rng.uniform(0.9, 1.1)) < costs[place]:
            costs[place] = cost
            steps.append(Improvement(at, place, cost))
        forecaster.note(at, [WeightedKernel(t.model, t.calls, cost) for t, cost in zip(tasks, costs, strict=True)])
    told = forecaster.minute(100, 2.0, None)
    assert told == pytest.approx(replayed(tasks, steps, 100, 2.0, None))
    assert min(told.values()) > 0
