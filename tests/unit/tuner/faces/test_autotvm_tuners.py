"""Tuners on made-up costs: none repeats itself, all end, and those that learn beat chance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.kit.tuner.autotvm_templates import matmul_task, records
from tunefarm import autotvm
from tunefarm.autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner
from tuner.faces.common.boosted_trees import BoostedTrees

TUNERS = [GridSearchTuner, RandomTuner, GATuner, XGBTuner]


def made_up(config) -> float:
    """Seconds, the least at tiles of 8 x 32, vectorised."""
    y, x = config["tile_y"].size[-1], config["tile_x"].size[-1]
    return 1e-3 * (1 + abs(math.log2(y / 8)) + abs(math.log2(x / 32)) + 2 * (not config["vectorize"].val))


def run(tuner, trials, outstanding=1):
    """Offer, measure and tell, with some configs always on the way; the configs in order."""
    task, waiting, seen = tuner.task, [], []
    while len(seen) < trials and (tuner.has_next() or waiting):
        waiting += tuner.next_batch(outstanding + 1 - len(waiting))
        if not waiting:
            break
        config = waiting.pop(0)
        seen.append(config)
        ((inp, result),) = records(task, made_up, [config.index])
        tuner.note(len(seen), inp, result)
        tuner.update([inp], [result])
    return seen


@pytest.mark.parametrize("kind", TUNERS)
def test_a_tuner_offers_every_config_once(kind):
    task = matmul_task(16)
    seen = run(kind(task), 10_000, outstanding=3)
    assert sorted(c.index for c in seen) == list(range(len(task.config_space)))


@pytest.mark.parametrize("kind", TUNERS)
def test_a_space_without_knobs_has_one_config(kind):
    task = matmul_task(16)
    task.config_space = autotvm.ConfigSpace()
    tuner = kind(task)
    assert [c.index for c in tuner.next_batch(4)] == [0]
    assert not tuner.has_next()


def test_grid_search_goes_in_order():
    tuner = GridSearchTuner(matmul_task(16), range_idx=(3, 7))
    assert [c.index for c in tuner.next_batch(10)] == [3, 4, 5, 6, 7]


def test_filters_are_kept():
    task = matmul_task(16)
    task.config_space.multi_filter(lambda c: c["tile_y"].size[-1] == c["tile_x"].size[-1])
    for kind in TUNERS:
        seen = run(kind(task), 1000)
        assert len(seen) == 10
        assert all(c["tile_y"] == c["tile_x"] for c in seen)


def trials_to_best(kind, seed):
    task = matmul_task(512)
    tuner = kind(task, pop_size=24, seed=seed) if kind is GATuner else kind(task, seed=seed)
    run(tuner, 60)
    return tuner.best_measure_pair[1].cost


@pytest.mark.parametrize("kind", [GATuner, XGBTuner])
def test_tuners_that_learn_beat_chance(kind):
    learned = [trials_to_best(kind, seed) for seed in range(5)]
    chance = [trials_to_best(RandomTuner, seed) for seed in range(5)]
    assert np.mean(learned) < np.mean(chance)


def test_the_model_tuner_finds_the_best_of_a_space_it_cannot_list():
    task = matmul_task(512)
    for name in "abcd":  # knobs without effect: 140 * 4096 configs
        task.config_space.define_knob(name, list(range(8)))
    tuner = XGBTuner(task, plan_size=16)
    run(tuner, 96)
    assert tuner.best_measure_pair[1].cost <= 2e-3


def test_the_model_tuner_learns_from_a_log_of_another_size():
    task, other = matmul_task(512), matmul_task(256)
    tuner = XGBTuner(task)
    tuner.load_history(records(other, made_up, range(0, len(other.config_space), 2)), min_seed_records=20)
    first = tuner.next_batch(8)
    assert min(made_up(c) for c in first) <= 2e-3
    ignoring = XGBTuner(task)
    ignoring.load_history(records(other, made_up, range(5)), min_seed_records=20)
    assert ignoring._seeds == ([], [])


def test_failed_trials_are_learnt_from():
    task = matmul_task(64)
    tuner = XGBTuner(task, plan_size=16)
    for config in tuner.next_batch(40):
        inp = autotvm.MeasureInput(task.target, task, config)
        bad = config["vectorize"].val
        cost = ("crash",) if bad else (made_up(config),)
        tuner.update([inp], [autotvm.MeasureResult(cost, 4 if bad else 0, 0.1, 1.0)])
    assert sum(c["vectorize"].val for c in tuner.next_batch(12)) <= 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda t: XGBTuner(t, feature_type="bytes"), "feature_type 'bytes'"),
        (lambda t: XGBTuner(t, optimizer=print), "optimizer"),
        (lambda t: XGBTuner(t, diversity_filter_ratio=2.0), "diversity_filter_ratio"),
        (lambda t: XGBTuner(t, plan_size=0), "plan_size"),
        (lambda t: GATuner(t, pop_size=2), "elite_num"),
        (lambda t: GridSearchTuner(t, range_idx=(0, 10**6)), "range_idx"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make(matmul_task(16))


def test_boosted_trees_fit_what_trees_can_say():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, (400, 6)).astype(float)
    y = np.where(x[:, 0] > 4, x[:, 1], -x[:, 2]) + 0.1 * x[:, 3]
    model = BoostedTrees.fit(x[:300], y[:300])
    assert np.corrcoef(model.predict(x[300:]), y[300:])[0, 1] > 0.9
    np.testing.assert_array_equal(model.predict(x), BoostedTrees.fit(x[:300], y[:300]).predict(x))
    assert BoostedTrees.fit(x[:1], y[:1]).predict(x[:2]) == pytest.approx([y[0], y[0]])
