"""Several tuners on one store: nothing is measured twice, and a run has one tuner at a time."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence

import pytest

from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tunefarm.notebook import load_run
from tuner.devices.supplies import local_target
from tuner.engine.engine import EngineRun, tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, sketch_search
from tuner.engine.progress import NoWatcher, Outcome, TrialDone
from tuner.engine.replay import ReplayBuilder, ReplayFleet, answers, recorded
from tuner.engine.run_recorder import RunRecorder
from tuner.records.errors import RunBusy, RunTakenOver
from tuner.records.model import RunState, TrialPurpose
from tuner.records.run_pairs import pairs_of
from tuner.records.store import RecordStore
from tuner.task import TuningTask


class Farm:
    """Devices that make up a cost for each candidate, and remember whom they measured."""

    def __init__(self, devices: int = 1, seconds: float = 0.002) -> None:
        self.measured: Counter[str] = Counter()
        self.fleet = ReplayFleet(self.answer, devices, seconds)
        self.crash = ""

    def answer(self, name: str) -> MeasureResult:
        self.measured[name] += 1
        if name == self.crash:
            return MeasureResult(failure=FailureKind.CRASH, text="SIGSEGV")
        cost = 1e-3 * (1 + int(name[:6], 16) / (1 << 24)) if name != "untuned" else 5e-3
        return MeasureResult(costs=(cost, cost, cost))


def task() -> TuningTask:
    return TuningTask.from_spec("matmul:16,16,16", local_target())


def search(strategy: str = "random", seed: int = 0) -> TaskSearch:
    return sketch_search(task(), strategy, seed)


@pytest.fixture
def store(tmp_path) -> RecordStore:
    with RecordStore.open(tmp_path / "r.db", create=True) as opened:
        yield opened


def searched(store: RecordStore) -> Counter[str]:
    found: Counter[str] = Counter()
    for run in store.runs.newest():
        found.update(t.digest for t in store.trials.all(run.id) if t.purpose is TrialPurpose.SEARCH)
    return found


def test_tuners_at_once_measure_no_candidate_twice(store: RecordStore) -> None:
    """Alike in every way, so each asks for what the others are at."""
    outcomes: list[Outcome] = []
    options = RunOptions(trials=40, finalists=0)

    def work() -> None:
        outcomes.append(tune([search()], fleet=Farm(2).fleet, builder=ReplayBuilder(), options=options, store=store))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3
    counts = searched(store)
    assert set(counts.values()) == {1}
    assert sum(counts.values()) == 120
    assert sum(o.snapshot.tasks[0].known for o in outcomes) > 0


def test_a_later_run_learns_from_an_earlier_one_for_nothing(store: RecordStore) -> None:
    farm = Farm()
    for _ in range(2):
        outcome = tune(
            [search()],
            fleet=farm.fleet,
            builder=ReplayBuilder(),
            options=RunOptions(trials=20, finalists=0),
            store=store,
        )
    assert outcome.snapshot.tasks[0].known == 20
    del farm.measured["untuned"]
    assert set(farm.measured.values()) == {1}
    assert len(farm.measured) == 40
    everything = [t for run in store.runs.newest() for t in store.trials.all(run.id)]
    costs = [t.cost for t in everything if t.purpose is TrialPurpose.SEARCH]
    assert outcome.best[0] is not None
    assert outcome.best[0].cost == min(c for c in costs if c is not None)


def test_every_place_has_one_result_of_a_run(store: RecordStore) -> None:
    """The store goes on serving an earlier run's candidate on a tie; what this run came to is its own result."""
    calls = itertools.count()

    def answer(name: str) -> MeasureResult:
        cost = 5e-3 if name == "untuned" else 1e-3 * (1 + (next(calls) * 7 % 13) / 1000)
        return MeasureResult(costs=(cost, cost * 1.001, cost * 0.999))

    for seed in range(3):
        outcome = tune(
            [search(seed=seed)],
            fleet=ReplayFleet(answer, 1, 0.001),
            builder=ReplayBuilder(),
            options=RunOptions(trials=8, finalists=3, final_rounds=2),
            store=store,
        )
        run = store.runs.get(outcome.snapshot.run_id)
        result = store.runs.task_result(run.id, run.tasks[0].id)
        assert result is not None
        assert result.final
        [pair] = pairs_of(store, run, run)
        loaded = load_run(store.address.removeprefix("sqlite:///"), run.id).best()[0]
        [shown] = outcome.snapshot.tasks
        costs = (shown.best_cost, run.tasks[0].best_cost, pair.a and pair.a.best.median, loaded and loaded.cost)
        assert costs == (result.cost,) * 4


def test_what_crashed_a_box_is_sent_to_no_other(store: RecordStore) -> None:
    farm = Farm()
    farm.crash = search().strategy.ask(3)[2].digest
    for _ in range(2):
        tune([search()], fleet=farm.fleet, builder=ReplayBuilder(), options=RunOptions(trials=5), store=store)
    assert farm.measured[farm.crash] == 1


def test_recorded_results_play_a_search_again(store: RecordStore, tmp_path) -> None:
    farm = Farm()
    options = RunOptions(trials=15, finalists=2)
    first = tune([search()], fleet=farm.fleet, builder=ReplayBuilder(), options=options, store=store)
    results = recorded(store, task().key)
    assert len(results) == 16
    again = tune([search()], fleet=ReplayFleet(answers(results)), builder=ReplayBuilder(), options=options)
    assert again.best[0] is not None
    assert first.best[0] is not None
    assert again.best[0].candidate.digest == first.best[0].candidate.digest
    beyond = tune([search(seed=99)], fleet=ReplayFleet(answers(results)), builder=ReplayBuilder(), options=options)
    assert beyond.snapshot.failures[FailureKind.LAUNCH] >= 10  # nothing was recorded of these


class Watch(NoWatcher):
    def __init__(self, after: int) -> None:
        self.reached = threading.Event()
        self._left = after

    def trial(self, done: TrialDone) -> None:
        self._left -= 1
        if self._left == 0:
            self.reached.set()


def begin(
    store: RecordStore, options: RunOptions, farm: Farm
) -> tuple[EngineRun, threading.Thread, list[BaseException]]:
    """A run under way in a thread; what it raised."""
    watch, raised = Watch(5), []
    recorder = RunRecorder.create(store, [task()], options)
    run = EngineRun([search()], farm.fleet, ReplayBuilder(), recorder, options, watch)

    def work() -> None:
        try:
            run.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert watch.reached.wait(60)
    return run, thread, raised


def owned_by(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("tuner.engine.run_recorder.process_name", lambda: name)


def test_a_run_under_way_is_not_resumed_twice(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    run, thread, raised = begin(store, RunOptions(trials=100_000), Farm())
    owned_by(monkeypatch, "somebody else")
    with pytest.raises(RunBusy, match="run 1 is being tuned by"):
        RunRecorder.resume(store, 1, [task()])
    run.stop()
    thread.join(60)
    assert [type(e) for e in raised] == [KeyboardInterrupt]
    assert store.runs.get(1).state is RunState.INTERRUPTED
    RunRecorder.resume(store, 1, [task()])


def test_a_tuner_that_was_taken_for_dead_stops(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _, thread, raised = begin(store, RunOptions(trials=100_000), Farm())
    owned_by(monkeypatch, "the next")
    monkeypatch.setattr("tuner.engine.run_recorder.is_gone", lambda _: True)
    resumed = RunRecorder.resume(store, 1, [task()])
    before = len(list(store.trials.all(1)))
    thread.join(60)
    assert [type(e) for e in raised] == [RunTakenOver]
    assert len(list(store.trials.all(1))) == before
    assert store.runs.get(1).state is RunState.RUNNING
    resumed.finish("")


def test_budgets_of_time_end_a_run(store: RecordStore) -> None:
    """The run has no number of trials; however few a busy machine gets done, it ends by itself."""
    options = RunOptions(trials=0, seconds=0.5, finalists=0)
    outcome = tune([search()], fleet=Farm(2, 0.01).fleet, builder=ReplayBuilder(), options=options, store=store)
    assert outcome.snapshot.done == store.runs.get(1).trials
    assert store.runs.get(1).state is RunState.FINISHED


def test_a_resumed_run_goes_on_counting_what_it_used(store: RecordStore) -> None:
    """A budget of device hours that an earlier session has used up leaves nothing to search."""
    run, thread, _ = begin(store, RunOptions(trials=100_000), Farm())
    run.stop()
    thread.join(60)
    used = store.runs.get(1).use
    assert 0 < used.busy_s <= used.held_s
    options = RunOptions(trials=0, device_hours=used.held_s / 3600 / 2, finalists=0)
    again = EngineRun([search()], Farm().fleet, ReplayBuilder(), RunRecorder.resume(store, 1, [task()]), options)
    before = store.runs.get(1).trials
    told = again.run()
    assert told.held_s > used.held_s
    assert store.runs.get(1).trials == before
    assert store.runs.get(1).use.held_s > used.held_s


def many(count: int) -> Sequence[TaskSearch]:
    specs = [f"matmul:{16 * (i + 1)},16,16" for i in range(count)]
    return [sketch_search(TuningTask.from_spec(s, local_target()), "random", 0) for s in specs]


@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
def test_tasks_share_a_budget(store: RecordStore, scheduler: str) -> None:
    options = RunOptions(trials=0, total_trials=60, scheduler=scheduler, finalists=2)
    outcome = tune(many(3), fleet=Farm(2).fleet, builder=ReplayBuilder(), options=options, store=store)
    done = [t.done for t in outcome.snapshot.tasks]
    assert sum(done) == 60
    assert min(done) >= 8
    assert max(done) - min(done) <= 1 or scheduler == "gradient"
    assert all(outcome.best)
