"""The record store's contract: candidates that were fastest alone and slower in their model."""

from __future__ import annotations

from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, ZEN3, Farm, measured
from tuner.records.model import TrialPurpose


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


def test_other_workloads_keep_theirs(farm: Farm) -> None:
    farm.trial(farm.run(), "one", 1.0)
    assert farm.store.best.give_back(OTHER_KEY, V3, ZEN3) == 0
    assert farm.store.best.look_up(KEY, V3, ZEN3).config is not None
