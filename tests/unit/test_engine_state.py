"""The engine's decisions: event lists in, command lists out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from rpc_server.measure import FailureKind, MeasureResult
from tuner.budget import Limits
from tuner.builder import BuildResult
from tuner.engine_events import (
    Built,
    Claim,
    Claimed,
    Command,
    Incumbent,
    Job,
    Known,
    Measured,
    RecordTrial,
    Release,
    RunEnded,
    SlotDown,
    SlotUp,
    Stop,
    SubmitBuild,
    SubmitMeasure,
    Taken,
    TaskEnded,
    Tick,
)
from tuner.engine_state import EngineState, Restored
from tuner.records.model import TrialPurpose as Purpose
from tuner.task_state import Plan


@dataclass(frozen=True)
class Point:
    """Stands where a Candidate stands: the state machine only looks at its digest."""

    digest: str
    trace_json: str = "[]"


class Listed:
    """A strategy that offers a fixed list."""

    def __init__(self, count: int) -> None:
        self.left = [Point(f"c{i}") for i in range(count)]
        self.told: list[tuple[str, float | None]] = []

    def ask(self, count: int) -> Sequence[Point]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def tell(self, candidate: Point, cost: float | None) -> None:
        self.told.append((candidate.digest, cost))


GOOD = BuildResult(b"object", None, "", 0.1)


def engine(tasks: int = 1, offered: int = 100, **limits: int) -> tuple[EngineState, list[Listed]]:
    strategies = [Listed(offered) for _ in range(tasks)]
    plans = [Plan(s) for s in strategies]
    return EngineState(plans, Limits(**{"trials": 8, **limits})), strategies  # type: ignore[arg-type]


def of(commands: Sequence[Command], kind: type) -> list:
    return [c for c in commands if isinstance(c, kind)]


class Driver:
    """Plays builders and devices: every build succeeds, a measurement costs what `cost(job)` says."""

    def __init__(self, state: EngineState, slots: int = 1) -> None:
        self.state = state
        self.log: list[Command] = []
        self.pending: list[Command] = list(state.start())
        self.log += self.pending
        for slot in range(slots):
            self.send(SlotUp(slot))

    def send(self, event) -> list[Command]:
        commands = self.state.handle(event)
        self.log += commands
        self.pending += commands
        return commands

    def cost(self, job: Job) -> MeasureResult:
        if job.candidate is None:
            return MeasureResult(costs=(1.0,))
        return MeasureResult(costs=(0.5 + int(job.candidate.digest[1:]) / 1000,))

    def run(self, limit: int = 10_000) -> None:
        for _ in range(limit):
            if self.state.ended or not self.pending:
                return
            match self.pending.pop(0):
                case Claim(job):
                    self.send(Claimed(job))
                case SubmitBuild(job):
                    self.send(Built(job, GOOD))
                case SubmitMeasure(job, slot):
                    self.send(Measured(job, slot, self.cost(job)))


def test_the_baseline_comes_first_and_is_everyones_reference():
    state, _ = engine()
    driver = Driver(state)
    assert [c.job.purpose for c in of(driver.pending, SubmitBuild)] == [Purpose.BASELINE]
    driver.run()
    measures = of(driver.log, SubmitMeasure)
    assert measures[0].job.purpose is Purpose.BASELINE
    assert {m.reference for m in measures} == {b"object"}


def test_a_run_uses_its_budget_then_measures_the_finalists_in_turns():
    state, [strategy] = engine(trials=8, finalists=3, final_rounds=2)
    driver = Driver(state)
    driver.run()
    purposes = [c.job.purpose for c in of(driver.log, RecordTrial)]
    assert purposes.count(Purpose.SEARCH) == 8
    finals = [c.job.candidate.digest for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.FINAL]
    assert finals == ["c0", "c1", "c2", "c0", "c1", "c2"]
    assert len(strategy.told) == 8
    assert driver.log[-1] == RunEnded("done")
    assert state.tasks[0].best.digest == "c0"


def test_every_slot_is_kept_busy_with_builds_ahead():
    state, _ = engine(trials=50, builders=2, build_ahead=2)
    driver = Driver(state, slots=3)
    # finish the baseline, then let builds finish but no measurement
    while any(isinstance(c, Claim | SubmitBuild | SubmitMeasure) for c in driver.pending):
        command = driver.pending.pop(0)
        if isinstance(command, Claim):
            driver.send(Claimed(command.job))
        elif isinstance(command, SubmitBuild):
            driver.send(Built(command.job, GOOD))
        elif isinstance(command, SubmitMeasure) and command.job.purpose is Purpose.BASELINE:
            driver.send(Measured(command.job, command.slot, driver.cost(command.job)))
    running = [c for c in of(driver.log, SubmitMeasure) if c.job.purpose is Purpose.SEARCH]
    assert {c.slot for c in running} == {0, 1, 2}
    assert state.in_flight(0) - len(running) == 2 + 2 * 3  # builders + build_ahead a slot


def test_a_lost_device_requeues_its_trial_on_another():
    state, _ = engine(trials=4)
    driver = Driver(state, slots=2)
    while not any(c.job.purpose is Purpose.SEARCH for c in of(driver.log, SubmitMeasure)):
        command = driver.pending.pop(0)
        if isinstance(command, Claim):
            driver.send(Claimed(command.job))
        elif isinstance(command, SubmitBuild):
            driver.send(Built(command.job, GOOD))
        elif isinstance(command, SubmitMeasure):
            driver.send(Measured(command.job, command.slot, driver.cost(command.job)))
    lost = next(c for c in of(driver.log, SubmitMeasure) if c.job.purpose is Purpose.SEARCH)
    driver.pending = [c for c in driver.pending if c is not lost]
    driver.send(SlotDown(lost.slot, "killed"))
    driver.run()
    again = [c for c in of(driver.log, SubmitMeasure) if c.job.id == lost.job.id]
    assert [c.slot for c in again] == [lost.slot, 1 - lost.slot]
    recorded = [c for c in of(driver.log, RecordTrial) if c.job.id == lost.job.id]
    assert [c.failure for c in recorded] == [None]


def test_a_candidate_that_loses_two_devices_is_to_blame():
    state, _ = engine(trials=1, finalists=0)
    driver = Driver(state, slots=1)
    while not any(c.job.purpose is Purpose.SEARCH for c in of(driver.log, SubmitMeasure)):
        command = driver.pending.pop(0)
        if isinstance(command, Claim):
            driver.send(Claimed(command.job))
        elif isinstance(command, SubmitBuild):
            driver.send(Built(command.job, GOOD))
        elif isinstance(command, SubmitMeasure):
            driver.send(Measured(command.job, command.slot, driver.cost(command.job)))
    driver.send(SlotDown(0, "killed"))
    driver.send(SlotUp(0))
    driver.send(SlotDown(0, "killed again"))
    [record] = [c for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.SEARCH]
    assert record.failure is FailureKind.DEVICE_LOST
    assert "2 times" in record.text


def test_a_late_answer_from_a_slot_that_was_given_up_is_ignored():
    state, _ = engine()
    driver = Driver(state)
    driver.send(Built(of(driver.log, SubmitBuild)[0].job, GOOD))
    measure = of(driver.log, SubmitMeasure)[0]
    driver.send(SlotDown(0, "gone"))
    assert driver.send(Measured(measure.job, 0, MeasureResult(costs=(1.0,)))) == []


def test_equal_failures_stop_the_task_with_the_first_text_whole():
    state, _ = engine(trials=50, equal_failures=5)
    driver = Driver(state)
    texts = iter(range(1000))

    def broken(job: Job) -> MeasureResult:
        if job.candidate is None:
            return MeasureResult(costs=(1.0,))
        return MeasureResult(failure=FailureKind.CRASH, text=f"trace {next(texts)}")

    driver.cost = broken  # type: ignore[method-assign]
    driver.run()
    [ended] = of(driver.log, TaskEnded)
    assert "5 trials all failed with crash" in ended.error
    assert ended.error.endswith("trace 0")


def test_build_failures_are_recorded_with_kind_and_text():
    state, [strategy] = engine(trials=2, finalists=0)
    driver = Driver(state)
    bad = BuildResult(None, FailureKind.BUILD_TIMEOUT, "took longer", 10.0)
    while not state.ended:
        match driver.pending.pop(0):
            case Claim(job):
                driver.send(Claimed(job))
            case SubmitBuild(job):
                driver.send(Built(job, GOOD if job.candidate is None else bad))
            case SubmitMeasure(job, slot):
                driver.send(Measured(job, slot, driver.cost(job)))
    failures = [(c.failure, c.text) for c in of(driver.log, RecordTrial) if c.failure]
    assert failures == [(FailureKind.BUILD_TIMEOUT, "took longer")] * 2
    assert [cost for _, cost in strategy.told] == [None, None]


def test_a_reference_that_does_not_build_ends_the_task():
    state, _ = engine()
    driver = Driver(state)
    job = of(driver.log, SubmitBuild)[0].job
    commands = driver.send(Built(job, BuildResult(None, FailureKind.BUILD, "no rule", 0.0)))
    assert "no rule" in of(commands, TaskEnded)[0].error
    assert of(commands, RunEnded)


def test_two_tasks_share_the_budget_evenly():
    state, _ = engine(tasks=2, trials=10)
    driver = Driver(state, slots=2)
    driver.run()
    searched = [c.job.task for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.SEARCH]
    assert (searched.count(0), searched.count(1)) == (10, 10)


def test_an_exhausted_space_ends_the_task_early():
    state, _ = engine(offered=3, trials=50)
    driver = Driver(state)
    driver.run()
    assert sum(c.job.purpose is Purpose.SEARCH for c in of(driver.log, RecordTrial)) == 3
    assert state.ended


def test_restored_trials_count_and_are_told_but_not_measured():
    state, [strategy] = engine(trials=5, finalists=0)
    done = [Restored(Point(f"c{i}"), 0.1 * (i + 1), None) for i in range(2)]
    done.append(Restored(Point("c2"), None, FailureKind.CRASH))
    strategy.left = strategy.left[3:]
    state.restore(0, 1.0, done)
    driver = Driver(state)
    driver.run()
    measured = [c.job.candidate for c in of(driver.log, SubmitMeasure)]
    assert [c.digest for c in measured] == ["c3", "c4"]
    assert [d for d, _ in strategy.told] == ["c0", "c1", "c2", "c3", "c4"]


def test_stop_ends_at_once():
    state, _ = engine()
    driver = Driver(state)
    assert driver.send(Stop("interrupted")) == [RunEnded("interrupted")]
    assert driver.send(SlotUp(5)) == []


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_no_slot_ever_holds_two_jobs(slots):
    state, _ = engine(trials=30)
    driver = Driver(state, slots=slots)
    held: dict[int, int] = {}
    while driver.pending and not state.ended:
        match driver.pending.pop(0):
            case Claim(job):
                driver.send(Claimed(job))
            case SubmitBuild(job):
                driver.send(Built(job, GOOD))
            case SubmitMeasure(job, slot):
                assert slot not in held
                held[slot] = job.id
                if len(held) == slots:
                    for s, j in list(held.items()):
                        del held[s]
                        done = next(c for c in of(driver.log, SubmitMeasure) if c.job.id == j)
                        driver.send(Measured(done.job, s, driver.cost(done.job)))
            case _:
                pass
        if not any(isinstance(c, Claim | SubmitBuild | SubmitMeasure) for c in driver.pending):
            for s, j in list(held.items()):
                del held[s]
                done = next(c for c in of(driver.log, SubmitMeasure) if c.job.id == j)
                driver.send(Measured(done.job, s, driver.cost(done.job)))
    assert state.ended


# ------------------------------------------------------- claims, budgets of time, the incumbent


def drive_to_claims(driver: Driver) -> list[Claim]:
    """Through the baseline, up to the first claims, which are left open."""
    while not of(driver.pending, Claim):
        match driver.pending.pop(0):
            case SubmitBuild(job):
                driver.send(Built(job, GOOD))
            case SubmitMeasure(job, slot):
                driver.send(Measured(job, slot, driver.cost(job)))
    return of(driver.pending, Claim)


def answer(driver: Driver, claim: Claim, event) -> list[Command]:
    driver.pending.remove(claim)
    return driver.send(event)


def test_another_runs_result_is_told_and_costs_no_trial():
    state, [strategy] = engine(trials=3, finalists=0)
    driver = Driver(state)
    first, second, *_ = drive_to_claims(driver)
    answer(driver, first, Known(first.job, 0.125, None))
    answer(driver, second, Known(second.job, None, FailureKind.CRASH))
    driver.run()
    assert strategy.told[:2] == [("c0", 0.125), ("c1", None)]
    assert sum(c.job.purpose is Purpose.SEARCH for c in of(driver.log, RecordTrial)) == 3
    assert (state.tasks[0].known, state.tasks[0].best.digest, state.tasks[0].best_cost) == (2, "c0", 0.125)


def test_what_another_run_is_at_is_asked_about_again():
    state, [strategy] = engine(offered=2, trials=8, finalists=0)
    driver = Driver(state)
    first, _second = drive_to_claims(driver)
    answer(driver, first, Taken(first.job))
    driver.run()
    assert not state.ended  # nothing else is left: it waits for the other run
    [again] = of(driver.send(Tick(1.0)), Claim)
    answer(driver, again, Known(again.job, 0.25, None))
    assert state.ended
    assert strategy.told == [("c1", 0.501), ("c0", 0.25)]


def test_a_claim_that_its_owner_let_go_is_ours():
    state, [strategy] = engine(offered=1, finalists=0)
    driver = Driver(state)
    [claim] = drive_to_claims(driver)
    answer(driver, claim, Taken(claim.job))
    driver.send(Tick(1.0))
    driver.run()
    assert [d for d, _ in strategy.told] == ["c0"]


def test_when_time_is_up_what_waits_is_released_and_the_finals_follow():
    state, _ = engine(trials=0, seconds=10.0, finalists=2, final_rounds=1)
    driver = Driver(state)
    for _ in range(60):
        command = driver.pending.pop(0)
        match command:
            case Claim(job):
                driver.send(Claimed(job))
            case SubmitBuild(job):
                driver.send(Built(job, GOOD))
            case SubmitMeasure(job, slot):
                driver.send(Measured(job, slot, driver.cost(job)))
    driver.send(Tick(10.5))
    driver.run()
    assert state.ended
    started = {c.job.id for c in of(driver.log, SubmitBuild) if c.job.purpose is Purpose.SEARCH}
    released = {c.job.id for c in of(driver.log, Release)}
    recorded = {c.job.id for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.SEARCH}
    assert released
    assert started <= released | recorded
    assert not released & recorded
    assert sum(c.job.purpose is Purpose.FINAL for c in of(driver.log, RecordTrial)) == 2


def test_a_task_without_gain_stops_early():
    state, _ = engine(trials=100, early_stopping=5, finalists=0)
    driver = Driver(state)
    driver.run()  # costs only rise from the first on
    assert 6 <= state.tasks[0].done <= 6 + 2 + 2


def incumbent_run(cost_of_incumbent: float) -> EngineState:
    state, _ = engine(trials=6, finalists=2, final_rounds=3)
    driver = Driver(state)
    plain = driver.cost

    def cost(job: Job) -> MeasureResult:
        served = job.candidate is not None and job.candidate.digest == "served"
        return MeasureResult(costs=(cost_of_incumbent,) * 3) if served else MeasureResult(costs=plain(job).costs * 3)

    driver.cost = cost  # type: ignore[method-assign]
    driver.send(Incumbent(0, Point("served")))
    driver.run()
    finals = [c.job.candidate.digest for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.FINAL]
    assert finals == ["served", "c0", "c1"] * 3
    return state


def test_the_incumbent_is_measured_with_the_finalists_and_a_tie_keeps_it():
    assert incumbent_run(0.5005).tasks[0].best.digest == "served"


def test_a_clearly_faster_finalist_beats_the_incumbent():
    assert incumbent_run(0.6).tasks[0].best.digest == "c0"


def test_a_finalist_that_fails_is_out():
    state, _ = engine(trials=6, finalists=3, final_rounds=2)
    driver = Driver(state)
    plain = driver.cost

    def cost(job: Job) -> MeasureResult:
        if job.purpose is Purpose.FINAL and job.candidate.digest == "c0":
            return MeasureResult(failure=FailureKind.CRASH, text="bang")
        return plain(job)

    driver.cost = cost  # type: ignore[method-assign]
    driver.run()
    finals = [c.job.candidate.digest for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.FINAL]
    assert finals == ["c0", "c1", "c2", "c1", "c2"]
    assert state.tasks[0].best.digest == "c1"


def test_finals_stay_on_one_device():
    state, _ = engine(trials=8)
    driver = Driver(state, slots=3)
    driver.run()
    assert len({c.slot for c in of(driver.log, SubmitMeasure) if c.job.purpose is Purpose.FINAL}) == 1


def test_the_best_so_far_goes_along_with_search_trials_only():
    state, _ = engine(trials=6)
    driver = Driver(state)
    driver.run()
    sent = [(c.job.purpose, c.best) for c in of(driver.log, SubmitMeasure)]
    assert sent[:3] == [(Purpose.BASELINE, None), (Purpose.SEARCH, None), (Purpose.SEARCH, 0.5)]
    assert {best for purpose, best in sent if purpose is Purpose.FINAL} == {None}
