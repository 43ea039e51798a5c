"""Configs chosen by energy, on every database: who is elected, what is left out, and that no query reads a whole
table."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict

import pytest

from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, V4, ZEN3, Farm, measured
from tests.kit.records.plans import Plans
from tuner.goals import Goal
from tuner.records.errors import RecordNotFound
from tuner.records.farm.model_farm import DeviceEventKind
from tuner.records.lookup.best import Evidence, elect
from tuner.records.model import BestConfig, NewTrial, Run, TrialPurpose


def drawn(farm: Farm, run: Run, digest: str, seconds: float, joules: float | None, **more: object) -> NewTrial:
    """A trial of three samples whose call takes `joules`; None: its device tells none."""
    told = {} if joules is None else {"joules": joules}
    given = {"device": farm.zen3, "environment": told, **more}
    return measured(run, digest, seconds, seconds, seconds, **given)  # type: ignore[arg-type]


def frugal(farm: Farm, **place: object) -> BestConfig | None:
    return farm.store.best.look_up(KEY, V3, **{"device_class": ZEN3, "goal": Goal.ENERGY, **place}).config  # type: ignore[arg-type]


def test_the_most_frugal_is_served_and_the_fastest_stays_the_fastest(farm: Farm) -> None:
    run = farm.run()
    farm.store.trials.add_all(
        [
            drawn(farm, run, "fast", 1.0, 30.0), drawn(farm, run, "frugal", 1.5, 20.0),
            drawn(farm, run, "silent", 0.9, None), drawn(farm, run, "slow", 3.0, 45.0),
        ]
    )  # fmt: skip
    found = farm.store.best.look_up(KEY, V3, ZEN3, goal=Goal.ENERGY)
    config = found.config
    assert found.match == "exact"
    assert config is not None
    assert (config.digest, config.joules, config.cost, config.run_id) == ("frugal", pytest.approx(20.0), 1.5, run.id)
    assert config.goal is Goal.ENERGY
    assert config.bounds.low < 20.0 < config.bounds.high
    said = "; ".join(found.explain)
    assert "median 20 J of 3 samples on zen" in said
    assert "the fastest config takes 900 ms a call" in said
    assert "1 of the 4 fastest trials told no energy and were left out" in said
    assert farm.best_digest() == "silent"
    assert farm.store.best.get(config.id, Goal.ENERGY) == config
    assert farm.store.best.get(config.id).digest == "silent"
    runners = farm.store.best.runners_up(config)
    assert [(runner.digest, runner.joules, runner.verdict) for runner in runners] == [
        ("fast", pytest.approx(30.0), "slower"), ("slow", pytest.approx(45.0), "slower"),
    ]  # fmt: skip


def test_nothing_is_given_where_no_trial_told_its_energy(farm: Farm) -> None:
    farm.store.trials.add(drawn(farm, farm.run(), "silent", 1.0, None))
    farm.store.trials.add(drawn(farm, farm.run(), "liar", 1.0, -3.0))
    found = farm.store.best.look_up(KEY, V3, ZEN3, goal=Goal.ENERGY)
    assert (found.match, found.config) == ("miss", None)
    assert "none of their trials reported its energy" in found.explain[0]
    assert "no workload" in farm.store.best.look_up(OTHER_KEY, V3, ZEN3, goal=Goal.ENERGY).explain[0]
    [config] = farm.store.best.page()
    assert farm.store.best.page(goal=Goal.ENERGY) == ()
    with pytest.raises(RecordNotFound, match="reported its energy"):
        farm.store.best.get(config.id, Goal.ENERGY)


def test_the_list_has_those_that_told_it_a_page_at_a_time(farm: Farm) -> None:
    for device, target, joules in [(farm.zen3, farm.v3, None), (farm.spr, farm.v3, 2.0), (farm.spr, farm.v4, 3.0)]:
        farm.store.trials.add(drawn(farm, farm.run(target.id), "d", 1.0, joules, device=device))
    [first] = farm.store.best.page(limit=1, goal=Goal.ENERGY)
    [second] = farm.store.best.page(first.id, limit=1, goal=Goal.ENERGY)
    assert [(each.target, each.joules) for each in (first, second)] == [(V3, 2.0), (V4, 3.0)]
    assert farm.store.best.page(second.id, goal=Goal.ENERGY) == ()
    assert frugal(farm, device_class=SPR) == first
    release = farm.store.releases.create("frugal", goal=Goal.ENERGY)
    assert release.entry_count == 2


def test_the_function_as_written_is_compared_by_energy(farm: Farm) -> None:
    run = farm.run()
    baseline = drawn(farm, run, "", 0.5, 9.0, purpose=TrialPurpose.BASELINE)
    farm.store.trials.add(dataclasses.replace(baseline, digest=None, trace=None))
    farm.store.trials.add(drawn(farm, run, "a", 1.0, 8.0))
    found = frugal(farm)
    assert found is not None
    assert (found.untuned, found.untuned_joules, found.worse_than_untuned) == (0.5, 9.0, False)
    by_time = farm.store.best.look_up(KEY, V3, ZEN3).config
    assert by_time is not None
    assert by_time.worse_than_untuned


def test_what_a_doubted_device_told_does_not_count(farm: Farm) -> None:
    farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_PASSED)
    farm.store.trials.add(drawn(farm, farm.run(), "a", 1.0, 8.0))
    assert frugal(farm) is not None
    farm.store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_FAILED)
    assert frugal(farm) is None


@pytest.mark.parametrize("seed", range(3))
def test_it_is_whom_the_rules_elect_among_all_that_told_their_energy(farm: Farm, seed: int) -> None:
    rng = random.Random(seed)
    runs = [farm.run() for _ in range(3)]
    trials: list[tuple[int, Run, NewTrial]] = []
    for _ in range(60):
        run, digest = rng.choice(runs), f"c{rng.randrange(20)}"
        purpose = rng.choice([TrialPurpose.SEARCH] * 5 + [TrialPurpose.FINAL])
        trial = drawn(farm, run, digest, rng.uniform(1, 3), rng.choice([None, rng.uniform(10, 30)]), purpose=purpose)
        trials.append((farm.store.trials.add(trial), run, trial))
    told = defaultdict(list)
    for number, run, trial in trials:
        if "joules" in trial.environment:
            told[trial.digest].append((number, run, trial))
    evidence = []
    for place, found in enumerate(told.values()):
        finals = [each for each in found if each[2].purpose is TrialPurpose.FINAL]
        samples = tuple(trial.environment["joules"] for _, _, trial in finals or found for _ in trial.samples)
        evidence.append(Evidence(place, found[0][1].id, found[0][0], samples, final=bool(finals)))
    expected = elect(evidence)
    config = frugal(farm)
    assert config is not None
    assert (config.trial_id, config.joules) == (expected.trial_id, pytest.approx(expected.interval.median))


def test_no_query_of_energy_walks_a_growing_table(farm: Farm) -> None:
    run = farm.run()
    farm.store.trials.add_all([drawn(farm, run, digest, 1.0, 8.0) for digest in "abc"])
    plans = Plans(farm.store)
    with plans.watched():
        config = frugal(farm)
        assert config is not None
        frugal(farm, device_class="another")
        farm.store.best.runners_up(config)
        farm.store.best.page(limit=5, goal=Goal.ENERGY)
        farm.store.best.get(config.id, Goal.ENERGY)
    assert plans.scans == []
