"""Builds and measurements in turns, where both want all cores of one machine."""

from __future__ import annotations

import msgspec
import pytest

from rpc_server.machine.fingerprint import local_fingerprint
from tests.kit.tuner.engine import GOOD, Driver, Listed, of
from tuner.engine.budget import BudgetLimits
from tuner.engine.events import Built, Claim, Claimed, RecordTrial, SlotUp, SubmitBuild, SubmitMeasure
from tuner.engine.state import EngineState
from tuner.engine.task_state import Plan
from tuner.engine.turns import BATCH, cores_shared, crowded
from tuner.records.model import TrialPurpose as Purpose


def crowded_run(trials: int = 16, tasks: int = 1, cores: int = 2, threads: int = 2, quiet_from: float = 0.0) -> Driver:
    strategies = [Listed(100) for _ in range(tasks)]
    plans = [Plan(s, threads=threads) for s in strategies]
    driver = Driver(EngineState(plans, BudgetLimits(trials=trials, finalists=2, quiet_from=quiet_from)), slots=0)
    driver.send(SlotUp(0, cores))
    return driver


def doings(driver: Driver) -> str:
    """Return what was begun of the search and the finals, in order: b for a build, m for a measurement."""
    wanted = (SubmitBuild, SubmitMeasure)
    return "".join(
        "b" if isinstance(command, SubmitBuild) else "m"
        for command in driver.log
        if isinstance(command, wanted) and command.job.purpose is not Purpose.BASELINE
    )


def test_a_batch_is_built_then_measured():
    driver = crowded_run(trials=16)
    driver.run()
    assert driver.state.ended
    one = "b" * BATCH + "m" * BATCH
    assert doings(driver).startswith(one + one + "bb" + "mm")
    assert "b" not in doings(driver)[2 * len(one) + 2 :]  # the finals
    assert len([c for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.SEARCH]) == 16


def test_the_first_batch_is_built_while_the_untuned_function_is_measured():
    driver = crowded_run()
    while not (begun := of(driver.log, SubmitMeasure)):
        driver.step()
    assert [c.job.purpose for c in begun] == [Purpose.BASELINE]
    while driver.pending[0] is begun[0]:  # the device takes its time
        driver.pending.append(driver.pending.pop(0))
        driver.step()
    assert doings(driver).startswith("b")


def test_the_search_is_asked_for_one_until_something_is_built():
    driver = crowded_run()
    driver.pending = [c for c in driver.pending if isinstance(c, SubmitBuild)]
    driver.step()
    [claim] = of(driver.log, Claim)
    driver.send(Claimed(claim.job))
    assert len(of(driver.log, Claim)) == 3  # two to be built at once and one ahead
    driver.send(Built(claim.job, GOOD))
    assert len(of(driver.log, Claim)) == 3  # the other two are claimed, and nothing is built beside that


def test_the_next_turn_begins_with_what_the_search_thought_of_while_builds_went_on():
    driver = crowded_run(trials=3 * BATCH)
    strategy, asked = driver.state.tasks[0].strategy, []
    ask = strategy.ask
    strategy.ask = lambda count: (asked.append(list(driver.state.jobs.building)), ask(count))[1]  # type: ignore[method-assign]
    driver.run()
    assert len(asked) == 3 * BATCH
    first_of_turns = [0]  # at first there is nothing to build beside
    assert all(building for number, building in enumerate(asked) if number not in first_of_turns)


def test_turns_may_begin_later():
    driver = crowded_run(trials=28, quiet_from=0.5)
    driver.run()
    done = doings(driver)
    half = [i for i, what in enumerate(done) if what == "b"][13]
    assert "b" * BATCH not in done[:half]
    assert "b" * (BATCH - 2) + "m" * (BATCH - 2) in done[half:]


@pytest.mark.parametrize(("cores", "threads"), [(0, 2), (2, 1), (8, 2)])
def test_what_is_not_in_the_way_goes_on_beside(cores, threads):
    driver = crowded_run(cores=cores, threads=threads)
    driver.run()
    assert not doings(driver).startswith("b" * BATCH)


def test_tasks_do_not_interrupt_the_finals_of_another():
    driver = crowded_run(trials=5, tasks=2)
    driver.run()
    assert driver.state.ended
    log = [c for c in driver.log if isinstance(c, SubmitBuild | SubmitMeasure)]
    finals = [i for i, c in enumerate(log) if c.job.purpose is Purpose.FINAL]
    assert finals
    first = log[finals[0]].job.task
    of_first = [i for i in finals if log[i].job.task == first]
    assert not any(isinstance(c, SubmitBuild) for c in log[of_first[0] : of_first[-1]])


def test_a_second_device_elsewhere_keeps_the_builders_busy():
    limits = BudgetLimits(trials=16, finalists=0, quiet_from=0.0)
    driver = Driver(EngineState([Plan(Listed(100), threads=2)], limits), slots=0)
    driver.send(SlotUp(0, 2))
    driver.send(SlotUp(1))
    driver.run()
    assert driver.state.ended
    assert not doings(driver).startswith("b" * BATCH)


def test_when_cores_are_crowded():
    assert crowded(threads=2, builders=1, cores=2)
    assert not crowded(threads=1, builders=2, cores=1)  # builds give way to a single thread
    assert not crowded(threads=4, builders=4, cores=8)
    assert not crowded(threads=64, builders=2, cores=0)


def test_only_cpus_of_this_machine_share_its_cores():
    here = local_fingerprint()
    assert cores_shared(here, 4) == 4
    assert cores_shared(here, 0) == 0  # the builders are elsewhere
    assert cores_shared(msgspec.structs.replace(here, hostname="another"), 4) == 0
    assert cores_shared(msgspec.structs.replace(here, target="cuda -arch=sm_90"), 4) == 0
