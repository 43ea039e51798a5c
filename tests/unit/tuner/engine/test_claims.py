"""The engine beside other runs on one store: what they know, are at, or let go."""

from __future__ import annotations

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.tuner.engine import GOOD, Driver, engine, of
from tuner.engine import events
from tuner.records.model import TrialPurpose as Purpose


def drive_to_claims(driver: Driver) -> list[events.Claim]:
    """Through the baseline, up to the first claims, which are left open."""
    while not of(driver.pending, events.Claim):
        match driver.pending.pop(0):
            case events.SubmitBuild(job):
                driver.send(events.Built(job, GOOD))
            case events.SubmitMeasure(job, slot):
                driver.send(events.JobMeasured(job, slot, driver.cost(job)))
    return of(driver.pending, events.Claim)


def answer(driver: Driver, claim: events.Claim, event) -> list[events.Command]:
    driver.pending.remove(claim)
    return driver.send(event)


def test_another_runs_result_is_told_and_costs_no_trial():
    state, [strategy] = engine(trials=3, finalists=0)
    driver = Driver(state)
    first, second, *_ = drive_to_claims(driver)
    answer(driver, first, events.Known(first.job, 0.125, None))
    answer(driver, second, events.Known(second.job, None, FailureKind.CRASH))
    driver.run()
    assert strategy.told[:2] == [("c0", 0.125), ("c1", None)]
    assert sum(c.job.purpose is Purpose.SEARCH for c in of(driver.log, events.RecordTrial)) == 3
    assert (state.tasks[0].known, state.tasks[0].best.digest, state.tasks[0].best_cost) == (2, "c0", 0.125)


def test_what_another_run_is_at_is_asked_about_again():
    state, [strategy] = engine(offered=2, trials=8, finalists=0)
    driver = Driver(state)
    first, _second = drive_to_claims(driver)
    answer(driver, first, events.Taken(first.job))
    driver.run()
    assert not state.ended  # nothing else is left: it waits for the other run
    [again] = of(driver.send(events.EngineTick(1.0)), events.Claim)
    answer(driver, again, events.Known(again.job, 0.25, None))
    driver.run()
    assert state.ended
    assert strategy.told == [("c1", 0.501), ("c0", 0.25)]


def test_a_claim_that_its_owner_let_go_is_ours():
    state, [strategy] = engine(offered=1, finalists=0)
    driver = Driver(state)
    [claim] = drive_to_claims(driver)
    answer(driver, claim, events.Taken(claim.job))
    driver.send(events.EngineTick(1.0))
    driver.run()
    assert [d for d, _ in strategy.told] == ["c0"]


def test_when_time_is_up_what_waits_is_released_and_the_finals_follow():
    state, _ = engine(trials=0, seconds=10.0, finalists=2, final_rounds=1)
    driver = Driver(state)
    for _ in range(60):
        driver.step()
    driver.send(events.EngineTick(10.5))
    driver.run()
    assert state.ended
    started = {c.job.id for c in of(driver.log, events.SubmitBuild) if c.job.purpose is Purpose.SEARCH}
    released = {c.job.id for c in of(driver.log, events.LeaveSlot)}
    recorded = {c.job.id for c in of(driver.log, events.RecordTrial) if c.job.purpose is Purpose.SEARCH}
    assert released
    assert started <= released | recorded
    assert not released & recorded
    assert sum(c.job.purpose is Purpose.FINAL for c in of(driver.log, events.RecordTrial)) == 2
