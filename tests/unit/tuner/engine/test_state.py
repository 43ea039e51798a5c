"""The engine's decisions: event lists in, command lists out."""

from __future__ import annotations

from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tests.kit.tuner.engine import GOOD, Driver, Point, engine, of
from tuner.build.process_builder import CandidateBuild
from tuner.engine import events
from tuner.engine.state import EngineState
from tuner.engine.task_state import Restored
from tuner.records.model import TrialPurpose as Purpose


def test_the_baseline_comes_first_and_is_everyones_reference():
    state, _ = engine()
    driver = Driver(state)
    assert [c.job.purpose for c in of(driver.pending, events.SubmitBuild)] == [Purpose.BASELINE]
    driver.run()
    measures = of(driver.log, events.SubmitMeasure)
    assert measures[0].job.purpose is Purpose.BASELINE
    assert {m.reference for m in measures} == {b"object"}


def begun_early(*builds: CandidateBuild) -> tuple[EngineState, Driver]:
    """An engine whose baseline is with the device, and candidates already built."""
    state, _ = engine(trials=8, builders=2)
    driver = Driver(state)
    [first] = of(driver.pending, events.SubmitBuild)
    [baseline] = of(driver.send(events.Built(first.job, GOOD)), events.SubmitMeasure)
    assert baseline.job.purpose is Purpose.BASELINE
    claims = of(driver.pending, events.Claim)
    assert len(claims) >= len(builds)
    for claim, build in zip(claims, builds):
        [submitted] = of(driver.send(events.Claimed(claim.job)), events.SubmitBuild)
        assert not of(driver.send(events.Built(submitted.job, build)), events.SubmitMeasure)
    return state, driver


def test_candidates_are_built_while_the_baseline_is_measured():
    state, driver = begun_early(GOOD, GOOD)
    [baseline] = of(driver.log, events.SubmitMeasure)
    measures = of(driver.send(events.JobMeasured(baseline.job, 0, MeasureResult(costs=(1.0,)))), events.SubmitMeasure)
    assert [m.job.purpose for m in measures] == [Purpose.SEARCH, Purpose.SEARCH]
    assert state.jobs.to_come == 3  # at once as many as the device took: builders go on


def test_devices_have_what_is_ready_before_the_search_is_asked_for_more():
    state, driver = begun_early(GOOD, GOOD)
    [strategy] = [task.strategy for task in state.tasks]
    left = len(strategy.left)
    [baseline] = of(driver.log, events.SubmitMeasure)
    heard = state.hear(events.JobMeasured(baseline.job, 0, MeasureResult(costs=(1.0,))))
    assert [type(c) for c in heard] == [events.RecordTrial, events.SubmitMeasure, events.SubmitMeasure]
    assert len(strategy.left) == left
    assert {type(c) for c in state.go_on()} == {events.Claim}
    assert len(strategy.left) == left - 2


def test_what_does_not_build_counts_once_the_baseline_is_known():
    bad = CandidateBuild(None, FailureKind.BUILD, "no", 0.1)
    state, driver = begun_early(bad, GOOD)
    assert (state.tasks[0].done, of(driver.log, events.RecordTrial)) == (0, [])
    [baseline] = of(driver.log, events.SubmitMeasure)
    records = of(driver.send(events.JobMeasured(baseline.job, 0, MeasureResult(costs=(1.0,)))), events.RecordTrial)
    assert [(r.job.purpose, r.failure) for r in records] == [(Purpose.BASELINE, None), (Purpose.SEARCH, "build")]
    assert state.tasks[0].history == [1.0]


def test_a_baseline_that_fails_gives_up_what_was_built_early():
    bad = CandidateBuild(None, FailureKind.BUILD, "no", 0.1)
    state, driver = begun_early(bad, GOOD)
    [baseline] = of(driver.log, events.SubmitMeasure)
    commands = driver.send(events.JobMeasured(baseline.job, 0, MeasureResult(failure=FailureKind.CRASH, text="boom")))
    assert len(of(commands, events.LeaveSlot)) == 2
    [ended] = of(commands, events.TaskEnded)
    assert "the untuned function fails: boom" in ended.error
    assert state.ended


def test_equal_failures_stop_the_task_with_the_first_text_whole():
    state, _ = engine(trials=50, equal_failures=5)
    driver = Driver(state)
    texts = iter(range(1000))

    def broken(job: events.Job) -> MeasureResult:
        if job.candidate is None:
            return MeasureResult(costs=(1.0,))
        return MeasureResult(failure=FailureKind.CRASH, text=f"trace {next(texts)}")

    driver.cost = broken  # type: ignore[method-assign]
    driver.run()
    [ended] = of(driver.log, events.TaskEnded)
    assert "5 trials all failed with crash" in ended.error
    assert ended.error.endswith("trace 0")


def test_build_failures_are_recorded_with_kind_and_text():
    state, [strategy] = engine(trials=2, finalists=0)
    driver = Driver(state)
    bad = CandidateBuild(None, FailureKind.BUILD_TIMEOUT, "took longer", 10.0)
    while not state.ended:
        match driver.pending.pop(0):
            case events.Claim(job):
                driver.send(events.Claimed(job))
            case events.SubmitBuild(job):
                driver.send(events.Built(job, GOOD if job.candidate is None else bad))
            case events.SubmitMeasure(job, slot):
                driver.send(events.JobMeasured(job, slot, driver.cost(job)))
    failures = [(c.failure, c.text) for c in of(driver.log, events.RecordTrial) if c.failure]
    assert failures == [(FailureKind.BUILD_TIMEOUT, "took longer")] * 2
    assert [cost for _, cost in strategy.told] == [None, None]


def test_a_reference_that_does_not_build_ends_the_task():
    state, _ = engine()
    driver = Driver(state)
    job = of(driver.log, events.SubmitBuild)[0].job
    commands = driver.send(events.Built(job, CandidateBuild(None, FailureKind.BUILD, "no rule", 0.0)))
    assert "no rule" in of(commands, events.TaskEnded)[0].error
    assert of(commands, events.RunEnded)


def test_two_tasks_share_the_budget_evenly():
    state, _ = engine(tasks=2, trials=10)
    driver = Driver(state, slots=2)
    driver.run()
    searched = [c.job.task for c in of(driver.log, events.RecordTrial) if c.job.purpose is Purpose.SEARCH]
    assert (searched.count(0), searched.count(1)) == (10, 10)


def test_an_exhausted_space_ends_the_task_early():
    state, _ = engine(offered=3, trials=50)
    driver = Driver(state)
    driver.run()
    assert sum(c.job.purpose is Purpose.SEARCH for c in of(driver.log, events.RecordTrial)) == 3
    assert state.ended


def test_restored_trials_count_and_are_told_but_not_measured():
    state, [strategy] = engine(trials=5, finalists=0)
    done = [Restored(Point(f"c{i}"), 0.1 * (i + 1), None) for i in range(2)]
    done.append(Restored(Point("c2"), None, FailureKind.CRASH))
    strategy.left = strategy.left[3:]
    state.restore(0, 1.0, done)
    driver = Driver(state)
    driver.run()
    measured = [c.job.candidate for c in of(driver.log, events.SubmitMeasure) if c.job.purpose is Purpose.SEARCH]
    assert [c.digest for c in measured] == ["c3", "c4"]
    assert [d for d, _ in strategy.told] == ["c0", "c1", "c2", "c3", "c4"]


def test_stop_ends_at_once():
    state, _ = engine()
    driver = Driver(state)
    assert driver.send(events.Stop("interrupted")) == [events.RunEnded("interrupted")]
    assert driver.send(events.SlotUp(5)) == []


def test_a_task_without_gain_stops_early():
    state, _ = engine(trials=100, early_stopping=5, finalists=0)
    driver = Driver(state)
    driver.run()  # costs only rise from the first on
    assert 6 <= state.tasks[0].done <= 6 + 2 + 2


def test_the_best_so_far_goes_along_with_search_trials_only():
    state, _ = engine(trials=6)
    driver = Driver(state)
    driver.run()
    sent = [(c.job.purpose, c.best) for c in of(driver.log, events.SubmitMeasure)]
    assert sent[0] == (Purpose.BASELINE, None)
    # nothing is known when the first is measured and the second put at hand
    assert [best for purpose, best in sent if purpose is Purpose.SEARCH] == [None, None, 0.5, 0.5, 0.5, 0.5]
    assert {best for purpose, best in sent if purpose is not Purpose.SEARCH} == {None}
