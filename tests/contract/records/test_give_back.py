"""The record store's contract: candidates that were slower in their model, or failed when they were measured again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, ZEN3, Farm, failed, measured
from tuner.records.model import Run, TrialPurpose


def test_the_best_of_the_others_is_served_and_trials_stay(farm: Farm) -> None:
    run = farm.run()
    for digest, cost in [("draft", 3.0), ("lucky", 1.0), ("second", 2.0)]:
        farm.trial(run, digest, cost, cost, cost)
    for digest, cost in [("draft", 3.0), ("lucky", 1.1)]:
        farm.store.trials.add(measured(run, digest, cost, device=farm.zen3, purpose=TrialPurpose.FINAL))
    farm.trial(run, "lucky", 1.0, device=farm.spr)
    for _ in range(64):  # answers are remembered once a store is asked often
        assert farm.best_digest() == "lucky"
    assert farm.store.best.give_back(KEY, V3, ZEN3, ["draft"]) == 3
    found = farm.store.best.look_up(KEY, V3, ZEN3)
    assert found.match == "exact"
    assert found.config is not None
    assert (found.config.digest, found.config.cost) == ("draft", 3.0)
    assert [task.best_cost for task in farm.store.runs.get(run.id).tasks] == [3.0]
    assert len(list(farm.store.trials.all(run.id))) == 6
    elsewhere = farm.store.best.look_up(KEY, V3, SPR).config
    assert elsewhere is not None
    assert elsewhere.digest == "lucky"


def test_without_one_to_keep_nothing_is_served_until_a_later_trial(farm: Farm) -> None:
    run = farm.run()
    farm.trial(run, "lucky", 1.0)
    assert farm.store.best.give_back(KEY, V3, ZEN3) == 1
    assert farm.store.best.give_back(KEY, V3, ZEN3) == 0
    assert farm.store.best.look_up(KEY, V3, ZEN3).config is None
    farm.trial(farm.run(), "later", 2.0)
    config = farm.store.best.look_up(KEY, V3, ZEN3).config
    assert config is not None
    assert config.digest == "later"


def final(farm: Farm, run: Run, digest: str, *samples: float) -> None:
    farm.store.trials.add(measured(run, digest, *samples, device=farm.zen3, purpose=TrialPurpose.FINAL))


def final_failed(farm: Farm, run: Run, digest: str, kind: FailureKind) -> None:
    trial = failed(run, digest, kind, "it says so", device=farm.zen3)
    farm.store.trials.add(replace(trial, purpose=TrialPurpose.FINAL))


def test_what_failed_in_the_finals_is_served_no_more(farm: Farm) -> None:
    first = farm.run()
    farm.trial(first, "served", 1.0, 1.0, 1.0)
    farm.trial(first, "second", 2.0, 2.0, 2.0)
    farm.trial(first, "served", 1.0, device=farm.spr)
    run = farm.run()
    farm.trial(run, "new", 3.0, 3.0, 3.0)
    final(farm, run, "served", 1.0)
    final_failed(farm, run, "served", FailureKind.WRONG_RESULT)
    final(farm, run, "new", 3.0)
    assert farm.best_digest() == "second"  # of an earlier run, and the new one is no faster
    assert farm.best_digest(device_class=SPR) == "served"  # it did not fail there
    assert [task.best_cost for task in farm.store.runs.get(run.id).tasks] == [3.0]
    farm.trial(farm.run(), "served", 1.0, 1.0, 1.0)  # measured well again, it counts again
    assert farm.best_digest() == "served"


@pytest.mark.parametrize("kind", [FailureKind.DEVICE_LOST, FailureKind.UPLOAD])
def test_a_box_that_fails_in_the_finals_costs_no_candidate(farm: Farm, kind: FailureKind) -> None:
    run = farm.run()
    farm.trial(run, "served", 1.0)
    final_failed(farm, run, "served", kind)
    assert farm.best_digest() == "served"


@pytest.mark.parametrize(("kind", "best"), [(FailureKind.CRASH, "served"), (FailureKind.WRONG_RESULT, "second")])
def test_a_failure_in_the_search_leaves_what_other_runs_measured_unless_it_is_a_wrong_result(
    farm: Farm, kind: FailureKind, best: str
) -> None:
    farm.trial(farm.run(), "served", 1.0)
    farm.trial(farm.run(), "second", 2.0)
    farm.store.trials.add(failed(farm.run(), "served", kind, "it says so", device=farm.zen3))
    assert farm.best_digest() == best


def test_a_candidate_is_rejected_by_its_digest(farm: Farm) -> None:
    run = farm.run()
    farm.trial(run, "lucky", 1.0)
    farm.trial(run, "second", 2.0)
    assert farm.store.best.reject(KEY, V3, ZEN3, "unknown") == 0
    assert farm.store.best.reject(KEY, V3, ZEN3, "lucky") == 1
    assert farm.best_digest() == "second"


def test_other_workloads_keep_theirs(farm: Farm) -> None:
    farm.trial(farm.run(), "one", 1.0)
    assert farm.store.best.give_back(OTHER_KEY, V3, ZEN3) == 0
    assert farm.store.best.look_up(KEY, V3, ZEN3).config is not None
