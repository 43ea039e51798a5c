"""Devices in the engine's decisions: each kept busy, each allowed to go."""

from __future__ import annotations

import pytest

from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tests.kit.tuner.engine import GOOD, Driver, engine, of
from tuner.engine import events
from tuner.records.model import TrialPurpose as Purpose


def test_every_slot_is_kept_busy_with_builds_ahead():
    state, _ = engine(trials=50, builders=2, build_ahead=2)
    driver = Driver(state, slots=3)
    # finish the baseline, then let builds finish but no measurement
    while any(isinstance(c, events.Claim | events.SubmitBuild | events.SubmitMeasure) for c in driver.pending):
        command = driver.pending.pop(0)
        if isinstance(command, events.Claim):
            driver.send(events.Claimed(command.job))
        elif isinstance(command, events.SubmitBuild):
            driver.send(events.Built(command.job, GOOD))
        elif isinstance(command, events.SubmitMeasure) and command.job.purpose is Purpose.BASELINE:
            driver.send(events.JobMeasured(command.job, command.slot, driver.cost(command.job)))
    running = [c for c in of(driver.log, events.SubmitMeasure) if c.job.purpose is Purpose.SEARCH]
    assert {c.slot for c in running} == {0, 1, 2}
    assert state.in_flight(0) - len(running) == 2 + 2 * 3  # builders + build_ahead a slot


def up_to_the_first_search(driver: Driver) -> None:
    """Answer commands until a candidate of the search is being measured."""
    while not any(c.job.purpose is Purpose.SEARCH for c in of(driver.log, events.SubmitMeasure)):
        command = driver.pending.pop(0)
        if isinstance(command, events.Claim):
            driver.send(events.Claimed(command.job))
        elif isinstance(command, events.SubmitBuild):
            driver.send(events.Built(command.job, GOOD))
        elif isinstance(command, events.SubmitMeasure):
            driver.send(events.JobMeasured(command.job, command.slot, driver.cost(command.job)))


def test_a_lost_device_requeues_its_trial_on_another():
    state, _ = engine(trials=4)
    driver = Driver(state, slots=2)
    up_to_the_first_search(driver)
    lost = next(c for c in of(driver.log, events.SubmitMeasure) if c.job.purpose is Purpose.SEARCH)
    driver.pending = [c for c in driver.pending if c is not lost]
    driver.send(events.SlotDown(lost.slot, "killed"))
    driver.run()
    again = [c for c in of(driver.log, events.SubmitMeasure) if c.job.id == lost.job.id]
    assert [c.slot for c in again] == [lost.slot, 1 - lost.slot]
    recorded = [c for c in of(driver.log, events.RecordTrial) if c.job.id == lost.job.id]
    assert [c.failure for c in recorded] == [None]


def test_a_candidate_that_loses_two_devices_is_to_blame():
    state, _ = engine(trials=1, finalists=0)
    driver = Driver(state, slots=1)
    up_to_the_first_search(driver)
    driver.send(events.SlotDown(0, "killed"))
    driver.send(events.SlotUp(0))
    driver.send(events.SlotDown(0, "killed again"))
    [record] = [c for c in of(driver.log, events.RecordTrial) if c.job.purpose is Purpose.SEARCH]
    assert record.failure is FailureKind.DEVICE_LOST
    assert "2 times" in record.text


def test_a_late_answer_from_a_slot_that_was_given_up_is_ignored():
    state, _ = engine()
    driver = Driver(state)
    driver.send(events.Built(of(driver.log, events.SubmitBuild)[0].job, GOOD))
    measure = of(driver.log, events.SubmitMeasure)[0]
    driver.send(events.SlotDown(0, "gone"))
    assert driver.send(events.JobMeasured(measure.job, 0, MeasureResult(costs=(1.0,)))) == []


def build_all(driver: Driver) -> list[events.SubmitMeasure]:
    """Through the baseline and all builds; the search trials the slots were given, whose answers are left open."""
    while any(isinstance(c, events.Claim | events.SubmitBuild) or c.job.candidate is None for c in driver.pending):
        match driver.pending.pop(0):
            case events.Claim(job):
                driver.send(events.Claimed(job))
            case events.SubmitBuild(job):
                driver.send(events.Built(job, GOOD))
            case events.SubmitMeasure(job, slot) if job.purpose is Purpose.BASELINE:
                driver.send(events.JobMeasured(job, slot, driver.cost(job)))
            case events.RecordTrial():
                pass
            case given:
                driver.pending.append(given)
    return [c for c in of(driver.log, events.SubmitMeasure) if c.job.purpose is Purpose.SEARCH]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_slot_has_the_next_trial_at_hand_while_it_measures_one(slots):
    state, _ = engine(trials=30)
    driver = Driver(state, slots=slots)
    given = build_all(driver)
    assert sorted(c.slot for c in given) == sorted([*range(slots)] * 2)
    assert state.jobs.ready  # and no slot gets a third
    # none is put at hand while a device idles
    assert sorted(c.slot for c in given[:slots]) == [*range(slots)]
    first = next(c for c in given if c.slot == 0)
    assert [
        c.slot for c in of(driver.send(events.JobMeasured(first.job, 0, driver.cost(first.job))), events.SubmitMeasure)
    ] == [0]


def test_near_the_end_nothing_is_put_at_hand_that_another_slot_could_begin():
    state, _ = engine(trials=3)
    given = build_all(Driver(state, slots=3))
    assert sorted(c.slot for c in given) == [0, 1, 2]


def test_what_a_lost_device_had_not_begun_goes_to_another_and_is_not_suspected():
    state, _ = engine(trials=4, finalists=0)
    driver = Driver(state, slots=1)
    begun, at_hand = build_all(driver)
    for _ in range(2):  # the one that runs is to blame after two losses
        driver.send(events.SlotDown(0, "killed"))
        driver.send(events.SlotUp(0))
    driver.pending = [c for c in driver.pending if not isinstance(c, events.SubmitMeasure)]
    assert state.jobs.slots.current(0).job == at_hand.job
    driver.pending.append(at_hand)
    failures = {c.job.id: c.failure for c in of(driver.log, events.RecordTrial)}
    assert failures[begun.job.id] is FailureKind.DEVICE_LOST
    assert at_hand.job.id not in failures
