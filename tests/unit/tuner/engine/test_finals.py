"""How a task ends: its best few in turns, what the store serves, the untuned function again."""

from __future__ import annotations

import pytest

from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tests.kit.tuner.engine import Driver, Point, engine, of
from tuner.engine.events import Incumbent, Job, JobMeasured, RecordTrial, RunEnded, SlotDown, SubmitMeasure, TaskEnded
from tuner.engine.state import EngineState
from tuner.engine.task_state import Finals
from tuner.records.model import TrialPurpose as Purpose


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


def incumbent_run(cost_of_incumbent: float) -> tuple[str, list[str]]:
    """The best in the end, and whose turns the finals had."""
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
    return state.tasks[0].best.digest, finals


def test_the_incumbent_is_measured_with_the_finalists_and_a_tie_keeps_it():
    best, turns = incumbent_run(0.5005)
    assert best == "served"
    assert turns == ["served", "c0", "c1"] * 3  # all of them within what a machine drifts


def test_a_clearly_faster_finalist_beats_the_incumbent():
    best, turns = incumbent_run(0.6)
    assert best == "c0"
    assert turns == ["served", "c0", "c1", *["c0", "c1"] * 2]  # after one round the incumbent is out


def finals_with_draft(served: bool, draft_cost: float | None = None) -> tuple[str, list[str]]:
    """The best in the end, and whose turns the finals had: c2 is the draft, and it was unlucky in the search.
    It is the fastest in the finals, or costs `draft_cost` there."""
    state, _ = engine(trials=6, finalists=2, final_rounds=2, draft=Point("c2"))
    driver = Driver(state)
    plain = driver.cost

    def cost(job: Job) -> MeasureResult:
        if job.candidate is None or job.candidate.digest not in ("c2", "c9"):
            return MeasureResult(costs=plain(job).costs * 3)
        if job.candidate.digest == "c9":
            return MeasureResult(costs=(0.6,) * 3)
        if job.purpose is Purpose.SEARCH:
            return MeasureResult(costs=(100.0,) * 3)
        return MeasureResult(costs=(0.4,) * 3 if draft_cost is None else (draft_cost,) * 3)

    driver.cost = cost  # type: ignore[method-assign]
    if served:
        driver.send(Incumbent(0, Point("c9")))
    driver.run()
    finals = [c.job.candidate.digest for c in of(driver.log, RecordTrial) if c.job.purpose is Purpose.FINAL]
    return state.tasks[0].best.digest, finals


@pytest.mark.parametrize(("served", "first_round"), [(False, ["c2", "c0", "c1"]), (True, ["c9", "c0", "c1", "c2"])])
def test_the_draft_has_its_turns_though_it_was_unlucky(served, first_round):
    best, finals = finals_with_draft(served)
    assert finals[: len(first_round)] == first_round
    assert best == "c2"


def test_the_draft_is_what_is_served_only_where_the_store_serves_nothing():
    assert finals_with_draft(served=False, draft_cost=0.5005)[0] == "c2"  # a tie with c0 keeps it
    assert finals_with_draft(served=True, draft_cost=0.5005)[0] == "c0"


def turns(finals: Finals) -> list[str]:
    """Those that can be given now."""
    given = []
    while (candidate := finals.next_turn()) is not None:
        given.append(candidate.digest)
    return given


def test_finalists_that_are_not_told_apart_have_all_their_turns():
    finals = Finals.of([Point("a"), Point("b")], 2)
    assert turns(finals) == ["a", "b"]
    for digest in ("a", "b"):
        assert turns(finals) == []  # who has further turns is not known before the round is over
        assert not finals.are_over
        finals.measured(digest, [1.0, 1.01, 1.02])
    assert turns(finals) == ["a", "b"]
    assert finals.are_over


def test_a_round_ends_for_all_of_them():
    finals = Finals.of([Point("a"), Point("b"), Point("c")], 3)
    assert turns(finals) == ["a", "b", "c"]
    finals.measured("a", [1.0] * 3)
    finals.measured("b", [0.5] * 3)
    assert turns(finals) == []  # a is clearly slower than b, but c may be anything
    finals.measured("c", [0.5] * 3)
    assert turns(finals) == ["b", "c"]
    finals.drop("b")
    assert not finals.are_over
    finals.measured("c", [0.5] * 3)
    assert finals.are_over  # a single one left needs no more turns
    assert turns(finals) == []


def held(state: EngineState, slot: int = 0) -> list[str]:
    """Return what a slot measures and what it has at hand."""
    return [job.candidate.digest if job.candidate else "untuned" for job in state.jobs.slots.held_by(slot)]


def in_finals(slots: int = 1, **limits: int) -> tuple[Driver, EngineState]:
    """A run that has just come to its finals."""
    state, _ = engine(**{"trials": 6, "finalists": 3, "final_rounds": 2, **limits})
    driver = Driver(state, slots)
    while state.tasks[0].finals is None:
        driver.step()
    return driver, state


def results_of(driver: Driver) -> list[str]:
    """List the candidates whose results are recorded, from the finals on."""
    recorded = [c.job for c in of(driver.log, RecordTrial) if c.job.purpose is not Purpose.SEARCH][1:]
    return [job.candidate.digest if job.candidate else "untuned" for job in recorded]


@pytest.mark.parametrize("slots", [1, 4])
def test_the_device_has_the_next_turn_at_hand_but_for_the_end_of_a_round(slots):
    driver, state = in_finals(slots)
    slot = state.tasks[0].finals.slot
    seen = [held(state, slot)]
    while not state.ended:
        driver.step()
        if held(state, slot) != seen[-1]:
            seen.append(held(state, slot))
    one_round = [["c0", "c1"], ["c1", "c2"], ["c2"]]
    assert seen == [*one_round, *one_round[:2], ["c2", "untuned"], ["untuned"], []]


def test_a_finalist_that_fails_while_the_next_has_its_turn_at_hand():
    driver, state = in_finals()
    [first, second] = state.jobs.slots.held_by(0)
    driver.pending.clear()
    driver.send(JobMeasured(first, 0, MeasureResult(failure=FailureKind.CRASH, text="bang")))
    assert held(state) == ["c1", "c2"]
    driver.send(JobMeasured(second, 0, driver.cost(second)))
    assert held(state) == ["c2"]
    driver.run()
    assert results_of(driver) == ["c0", "c1", "c2", "c1", "c2", "untuned"]


def test_a_device_lost_in_the_finals_takes_no_turn_with_it():
    driver, state = in_finals(slots=2)
    slot = state.tasks[0].finals.slot
    driver.pending.clear()
    driver.send(SlotDown(slot, "gone"))
    assert held(state, 1 - slot) == ["c0", "c1"]  # in their order, on the one device that is left
    driver.run()
    assert results_of(driver) == ["c0", "c1", "c2", "c0", "c1", "c2", "untuned"]
    assert state.tasks[0].best.digest == "c0"


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


def test_the_untuned_function_is_measured_first_and_last():
    state, _ = engine(trials=4, finalists=2, final_rounds=1)
    driver = Driver(state)
    costs = iter([1.0, 1.25])
    plain = driver.cost

    def cost(job: Job) -> MeasureResult:
        return MeasureResult(costs=(next(costs),)) if job.candidate is None else plain(job)

    driver.cost = cost  # type: ignore[method-assign]
    driver.run()
    purposes = [c.job.purpose for c in of(driver.log, RecordTrial)]
    assert purposes == [Purpose.BASELINE, *[Purpose.SEARCH] * 4, *[Purpose.FINAL] * 2, Purpose.BASELINE]
    assert (state.tasks[0].baseline_cost, state.tasks[0].last_baseline_cost) == (1.0, 1.25)
    assert state.ended


def test_an_untuned_function_of_many_seconds_is_measured_once():
    state, _ = engine(trials=4, finalists=2, final_rounds=1)
    driver = Driver(state)
    plain = driver.cost

    def cost(job: Job) -> MeasureResult:
        return MeasureResult(costs=(10.5,)) if job.candidate is None else plain(job)

    driver.cost = cost  # type: ignore[method-assign]
    driver.run()
    purposes = [c.job.purpose for c in of(driver.log, RecordTrial)]
    assert purposes == [Purpose.BASELINE, *[Purpose.SEARCH] * 4, *[Purpose.FINAL] * 2]
    assert (state.tasks[0].baseline_cost, state.tasks[0].last_baseline_cost) == (10.5, None)
    assert state.ended


@pytest.mark.parametrize("result", [FailureKind.RUN_TIMEOUT, FailureKind.DEVICE_LOST])
def test_a_last_baseline_that_fails_changes_nothing(result):
    state, _ = engine(trials=3, finalists=0, lost_retries=0)
    driver = Driver(state)
    plain = driver.cost

    def cost(job: Job) -> MeasureResult:
        late = job.candidate is None and state.tasks[0].done
        return MeasureResult(failure=result, text="no") if late else plain(job)

    driver.cost = cost  # type: ignore[method-assign]
    driver.run()
    assert state.ended
    assert (state.tasks[0].last_baseline_cost, state.tasks[0].best.digest) == (None, "c0")
    assert [c.error for c in of(driver.log, TaskEnded)] == [None]
