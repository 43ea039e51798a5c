"""The record store's contract: the catalogue, runs and trials, over every backend."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import URL

from compiler.errors import TargetError
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, V4, ZEN3, Farm, failed, measured
from tests.kit.threads import in_threads
from tuner.records.db.database import parse_url
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.lookup.result import measurements, result_of
from tuner.records.model import (
    IMPORTED,
    NewDevice,
    NewRun,
    NewRunTask,
    NewTrial,
    NewWorkload,
    RunState,
    TrialPurpose,
    TrialStatus,
)
from tuner.records.store import RecordStore


class TestCatalog:
    def test_a_workload_is_stored_once_and_gains_what_it_lacked(self, store: RecordStore) -> None:
        first = store.workloads.upsert(NewWorkload(key=KEY, name="matmul"))
        again = store.workloads.upsert(
            NewWorkload(key=KEY, name="other name", spec={"op": "matmul", "args": [512]}, function="f", flops=5.0)
        )
        assert again.id == first.id
        assert (again.name, again.spec, again.function, again.flops) == (
            "matmul",
            {"op": "matmul", "args": [512]},
            "f",
            5.0,
        )
        assert store.workloads.find(KEY) == again
        assert store.workloads.find(OTHER_KEY) is None

    def test_targets_are_known_by_their_canonical_text(self, store: RecordStore) -> None:
        one = store.targets.upsert("llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu")
        two = store.targets.upsert("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3")
        assert one == two
        assert "avx2" in one.features
        assert store.targets.page() == (one,)
        with pytest.raises(TargetError):
            store.targets.upsert("warp-drive")

    def test_another_fingerprint_is_another_device(self, store: RecordStore) -> None:
        old = store.devices.upsert(NewDevice(name="box", key="cpu", device_class="a", fingerprint={"cpu": 1}))
        same = store.devices.upsert(NewDevice(name="box", key="cpu", device_class="a", fingerprint={"cpu": 1}))
        new = store.devices.upsert(NewDevice(name="box", key="cpu", device_class="b", fingerprint={"cpu": 2}))
        assert same.id == old.id
        assert same.last_seen >= old.last_seen
        assert new.id != old.id
        assert [d.device_class for d in store.devices.page()] == ["a", "b"]
        assert store.devices.classes() == ("a", "b")

    def test_a_class_has_the_features_all_its_devices_have(self, store: RecordStore) -> None:
        store.devices.upsert(NewDevice(name="x", key="k", device_class="a", features=("avx2", "fma")))
        second = store.devices.upsert(NewDevice(name="y", key="k", device_class="a", features=("avx2",)))
        assert second.features == ("avx2",)

    def test_the_file_that_the_newest_run_took_a_workload_from(self, store: RecordStore, farm: Farm) -> None:
        assert store.workloads.source(KEY) is None
        old, new = ({"file": file, "digest": "d", "name": "m"} for file in ("/a.toml", "/b.toml"))
        farm.run(options={"workloads": [{"op": "matmul"}]})
        assert store.workloads.source(KEY) is None
        farm.run(options={"workloads": [old]})
        farm.run(options={IMPORTED: {"workloads": [new]}})
        farm.run(options={"workloads": [{"family": new}]})
        assert store.workloads.source(KEY) == new
        assert store.workloads.source("no such key") is None

    def test_pages_of_workloads(self, store: RecordStore) -> None:
        made = [store.workloads.upsert(NewWorkload(key=f"{i:064d}", name=f"w{i}")) for i in range(5)]
        assert store.workloads.called("w3") == (made[3],)
        assert store.workloads.called(made[4].key[:12]) == tuple(made)  # keys that begin with so many zeros
        assert store.workloads.called(made[4].key) == (made[4],)
        assert store.workloads.called("w_") == ()
        page = store.workloads.page(limit=3)
        assert [w.name for w in page] == ["w0", "w1", "w2"]
        assert store.workloads.page(after=page[-1].id, limit=3) == tuple(made[3:])
        with pytest.raises(InvalidRecord):
            store.workloads.page(limit=0)


class TestRuns:
    def test_a_run_comes_back_as_it_was_started(self, farm: Farm) -> None:
        run = farm.run(budget=7, name="nightly", options={"seed": 3}, command="tunefarm tune x", host="h", user="u")
        assert farm.store.runs.get(run.id) == run
        assert (run.state, run.name, run.options, run.command) == (
            RunState.RUNNING,
            "nightly",
            {"seed": 3},
            "tunefarm tune x",
        )
        assert run.budget == 7
        assert run.tasks[0].workload == farm.workload
        assert run.started_at.tzinfo is UTC

    def test_states(self, farm: Farm) -> None:
        run = farm.run()
        ended = farm.store.runs.set_state(run.id, RunState.INTERRUPTED, "Ctrl-C")
        assert ended.finished_at is not None
        assert ended.message == "Ctrl-C"
        resumed = farm.store.runs.set_state(run.id, RunState.RUNNING)
        assert resumed.finished_at is None
        assert resumed.message == "Ctrl-C"
        with pytest.raises(RecordNotFound):
            farm.store.runs.set_state(run.id + 99, RunState.FAILED)

    def test_a_run_brought_in_later_keeps_its_times(self, farm: Farm) -> None:
        began = datetime(2025, 1, 2, 3, tzinfo=UTC)
        run = farm.run(started_at=began)
        ended = farm.store.runs.set_state(run.id, RunState.FINISHED, at=began + timedelta(hours=1))
        assert (ended.started_at, ended.finished_at) == (began, began + timedelta(hours=1))

    def test_unknown_runs(self, farm: Farm) -> None:
        run = farm.run()
        with pytest.raises(RecordNotFound):
            farm.store.runs.get(run.id + 99)

    def test_newest_first_with_a_cursor(self, farm: Farm) -> None:
        made = [farm.run().id for _ in range(5)]
        first = [run.id for run in farm.store.runs.newest(limit=2)]
        assert first == made[:-3:-1]
        assert [run.id for run in farm.store.runs.newest(limit=9, before=first[-1])] == made[2::-1]

    def test_a_budget_can_grow(self, farm: Farm) -> None:
        run = farm.run(budget=10)
        assert farm.store.runs.set_budgets(run.id, {0: 20}).budget == 20
        with pytest.raises(RecordNotFound):
            farm.store.runs.set_budgets(run.id, {1: 20})

    def test_a_run_must_name_rows_that_exist(self, farm: Farm) -> None:
        with pytest.raises(InvalidRecord, match="at least one task"):
            farm.store.runs.start(NewRun(tasks=(), toolchain={}))
        task = NewRunTask(workload_id=999, target_id=farm.v3.id, budget=1)
        with pytest.raises(InvalidRecord, match="workloads has no row 999"):
            farm.store.runs.start(NewRun(tasks=(task,), toolchain={}))
        assert farm.store.runs.newest() == ()


class TestTrials:
    def test_a_trial_comes_back_exactly(self, farm: Farm) -> None:
        run = farm.run()
        start = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
        samples = (0.1 + 0.2, 1e-9, 3.0000000000000004e-3)
        new = measured(
            run,
            "d1",
            *samples,
            device=farm.zen3,
            noise=("load",),
            build_s=0.2,
            measure_s=0.3,
            environment={"load": 1.5},
            measured_by="7-abc",
            started_at=start,
            finished_at=start + timedelta(seconds=1),
        )
        got = farm.store.trials.get(farm.store.trials.add(new))
        assert got.samples == samples
        assert got.cost == sorted(samples)[1]
        assert (got.status, got.failure, got.sequence, got.improved) == (TrialStatus.OK, None, 1, True)
        assert (got.device, got.device_class, got.target, got.workload_key) == ("zen", ZEN3, farm.v3.text, KEY)
        assert (got.digest, got.trace) == ("d1", new.trace)
        assert (got.noise, got.build_s, got.measure_s) == (("load",), 0.2, 0.3)
        assert (got.environment, got.measured_by) == ({"load": 1.5}, "7-abc")
        assert (got.started_at, got.finished_at) == (start, start + timedelta(seconds=1))

    def test_times_in_other_zones_are_the_same_instant(self, farm: Farm) -> None:
        from datetime import timezone

        local = datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))
        new = measured(farm.run(), "d", 1.0, device=farm.zen3, finished_at=local)
        got = farm.store.trials.get(farm.store.trials.add(new))
        assert got.finished_at == local
        assert got.finished_at.utcoffset() == timedelta(0)

    def test_sequence_counts_and_pages(self, farm: Farm) -> None:
        run = farm.run()
        kinds = [FailureKind.CRASH, None, FailureKind.BUILD, None, FailureKind.CRASH]
        farm.store.trials.add_all(
            [
                measured(run, f"d{i}", 1.0 + i, device=farm.zen3)
                if kind is None
                else failed(run, f"d{i}", kind, f"t{i}")
                for i, kind in enumerate(kinds)
            ]
        )
        pages = [farm.store.trials.page(run.id, limit=2), farm.store.trials.page(run.id, after=2, limit=9)]
        assert [t.sequence for page in pages for t in page] == [1, 2, 3, 4, 5]
        assert [t.sequence for t in farm.store.trials.page(run.id, status=TrialStatus.FAILED)] == [1, 3, 5]
        assert [t.sequence for t in farm.store.trials.page(run.id, status=TrialStatus.OK, after=2)] == [4]
        assert [t.sequence for t in farm.store.trials.page(run.id, before=4, limit=2)] == [3, 2]
        assert [t.sequence for t in farm.store.trials.all(run.id, page=2)] == [1, 2, 3, 4, 5]
        assert farm.store.trials.page(run.id, with_trace=False)[0].trace is None
        now = farm.store.runs.get(run.id)
        assert (now.trials, now.failed) == (5, 3)
        assert (now.tasks[0].trials, now.tasks[0].failed, now.tasks[0].best_cost) == (5, 3, 2.0)
        assert farm.store.trials.page(run.id + 1) == ()

    def test_failures_by_kind_with_the_first_text(self, farm: Farm) -> None:
        run = farm.run()
        first = farm.store.trials.add(failed(run, "d0", FailureKind.CRASH, "SIGSEGV at 0x0"))
        farm.store.trials.add_all(
            [
                failed(run, "d1", FailureKind.BUILD, "x" * 50_000),
                failed(run, "d2", FailureKind.CRASH, "another", device=farm.zen3),
            ]
        )
        crash, build = farm.store.runs.failures(run.id)
        assert (crash.kind, crash.count, crash.first_trial_id, crash.first_text) == (
            FailureKind.CRASH,
            2,
            first,
            "SIGSEGV at 0x0",
        )
        assert (build.kind, build.count) == (FailureKind.BUILD, 1)
        assert "left out" in build.first_text
        assert len(build.first_text) < 17_000

    def test_a_bad_trial_stores_nothing_of_its_batch(self, farm: Farm) -> None:
        run = farm.run()
        good = measured(run, "d", 1.0, device=farm.zen3)
        bad: list[NewTrial] = [
            dataclasses.replace(good, samples=()),
            dataclasses.replace(good, samples=(float("nan"),)),
            dataclasses.replace(good, samples=(0.0,)),
            dataclasses.replace(good, device_id=None),
            dataclasses.replace(good, device_id=99),
            dataclasses.replace(good, task_id=99),
            dataclasses.replace(good, trace=None),
            dataclasses.replace(good, digest=None, trace=None),
            dataclasses.replace(good, failure=FailureKind.CRASH),
        ]
        for trial in bad:
            with pytest.raises(InvalidRecord):
                farm.store.trials.add_all([good, trial])
        assert farm.store.trials.page(run.id) == ()
        assert farm.store.best.look_up(KEY, V3, ZEN3).match == "miss"

    def test_baselines_and_finals_are_no_search_trials(self, farm: Farm) -> None:
        run = farm.run()
        farm.store.trials.add_all(
            [
                NewTrial(
                    task_id=run.tasks[0].id,
                    device_id=farm.zen3,
                    purpose=TrialPurpose.BASELINE,
                    samples=(0.5,),
                    verified=True,
                ),
                measured(run, "d", 2.0, device=farm.zen3),
                measured(run, "d", 1.8, device=farm.zen3, purpose=TrialPurpose.FINAL),
            ]
        )
        now = farm.store.runs.get(run.id)
        assert (now.trials, now.tasks[0].baseline_cost, now.tasks[0].best_cost) == (1, 0.5, 1.8)
        best = farm.store.best.look_up(KEY, V3, ZEN3).config
        assert best is not None
        assert (best.digest, best.samples) == ("d", (1.8,))
        assert [t.digest for t in farm.store.trials.page(run.id)] == [None, "d", "d"]
        assert [t.improved for t in farm.store.trials.page(run.id)] == [False, True, False]

    def test_the_result_of_a_run_is_that_of_its_finals(self, farm: Farm) -> None:
        run = farm.run()

        def final(digest: str, cost: float) -> NewTrial:
            return measured(run, digest, cost, device=farm.zen3, purpose=TrialPurpose.FINAL)

        def said() -> tuple[float | None, ...]:
            """The task's, the result's, the statistics' and the curve's."""
            task = farm.store.runs.get(run.id).tasks[0]
            result = farm.store.runs.task_result(run.id, task.id)
            [row] = farm.store.stats(5).by_workload
            curve = farm.store.runs.best_curve(run.id, KEY)
            ended = result_of(measurements(farm.store.trials.all(run.id)))
            assert (ended and ended.trial_id) == (result and result.trial_id)
            return task.best_cost, result and result.cost, row.best_cost, curve[-1].cost if curve else None

        assert said() == (None, None, None, None)
        farm.store.trials.add_all([measured(run, name, c, device=farm.zen3) for name, c in [("a", 2.0), ("b", 3.0)]])
        assert said() == (2.0, 2.0, 2.0, 2.0)
        farm.store.trials.add_all([final("a", 2.5), final("b", 2.8)])
        assert said() == (2.5, 2.5, 2.5, 2.0)
        best = farm.store.best.look_up(KEY, V3, ZEN3).config
        assert best is not None
        assert farm.store.trials.get(best.trial_id).samples == best.samples  # not the search trial's, which took 2.0 s
        farm.store.trials.add_all([final("a", 3.5), final("b", 2.6)])  # a now has 3.0, b 2.7
        assert said() == (pytest.approx(2.7), pytest.approx(2.7), pytest.approx(2.7), 2.0)
        later = [measured(run, name, cost, device=farm.zen3) for name, cost in (("c", 2.2), ("d", 1.0))]
        farm.store.trials.add_all(later)
        assert said() == (pytest.approx(2.7), pytest.approx(2.7), pytest.approx(2.7), 1.0)  # until the next finals
        assert [t.improved for t in farm.store.trials.page(run.id)][-2:] == [False, True]

    def test_statistics_name_the_time_of_the_served_config(self, farm: Farm) -> None:
        """Measured in two runs, it has samples of both; a later run that is a tie does not replace it."""
        for cost, other in ((2.0, 2.1), (2.2, 1.995)):
            run = farm.run()
            measured_ = [measured(run, digest, c, device=farm.zen3) for digest, c in (("a", cost), ("b", other))]
            farm.store.trials.add_all(measured_)
        served = farm.store.best.look_up(KEY, V3, ZEN3).config
        assert served is not None
        [row] = farm.store.stats(5).by_workload
        assert row.best_cost == served.cost

    def test_finals_decide_over_what_the_search_measured(self, farm: Farm) -> None:
        """The fastest of many that were measured once each is the luckiest of them."""
        run = farm.run()
        for digest, cost in (("lucky", 1.0), ("second", 1.1), ("third", 1.2)):
            farm.store.trials.add_all([measured(run, digest, cost, device=farm.zen3)])

        def served() -> tuple[str, tuple[float, ...]]:
            config = farm.store.best.look_up(KEY, V3, ZEN3).config
            assert config is not None
            return config.digest, config.samples

        assert served() == ("lucky", (1.0,))
        for digest, cost in (("third", 1.5), ("second", 1.4), ("third", 1.3), ("third", 1.3)):
            farm.store.trials.add_all([measured(run, digest, cost, device=farm.zen3, purpose=TrialPurpose.FINAL)])
        assert served() == ("third", (1.5, 1.3, 1.3))
        farm.store.trials.add_all([measured(run, "late", 0.9, device=farm.zen3)])
        assert served() == ("third", (1.5, 1.3, 1.3))

    def test_of_two_baselines_the_shorter_counts(self, farm: Farm) -> None:
        """A baseline that was disturbed must not make a speed-up larger; a failed one counts for nothing."""
        run = farm.run()
        for samples in ((0.5,), (0.25,), (0.75,), ()):
            failure, text = (None, "") if samples else (FailureKind.CRASH, "SIGSEGV at 0x0")
            new = NewTrial(
                task_id=run.tasks[0].id,
                device_id=farm.zen3,
                purpose=TrialPurpose.BASELINE,
                samples=samples,
                failure=failure,
                failure_text=text,
            )
            farm.store.trials.add_all([new])
        assert farm.store.runs.get(run.id).tasks[0].baseline_cost == 0.25

    def test_curve(self, farm: Farm) -> None:
        run = farm.run()
        at = run.started_at
        costs = [5.0, 6.0, 4.0, 4.5, 3.0, 3.5, 2.0]
        farm.store.trials.add_all(
            [
                measured(run, f"d{i}", cost, device=farm.zen3, finished_at=at + timedelta(seconds=i + 1))
                for i, cost in enumerate(costs)
            ]
        )
        farm.store.trials.add(measured(run, "wrong", 1.0, device=farm.zen3, verified=False))
        curve = farm.store.runs.best_curve(run.id, KEY)
        assert [(p.sequence, p.elapsed_s, p.cost) for p in curve] == [
            (1, 1.0, 5.0),
            (3, 3.0, 4.0),
            (5, 5.0, 3.0),
            (7, 7.0, 2.0),
        ]
        assert [p.sequence for p in farm.store.runs.best_curve(run.id, KEY, max_points=2)] == [1, 7]
        assert farm.store.runs.best_curve(run.id, KEY, target=V3) == curve
        with pytest.raises(RecordNotFound):
            farm.store.runs.best_curve(run.id, OTHER_KEY)
        with pytest.raises(RecordNotFound):
            farm.store.runs.best_curve(run.id, KEY, target=V4)

    def test_a_sample_spans_the_run(self, farm: Farm) -> None:
        run = farm.run()
        farm.store.trials.add_all([measured(run, f"d{i}", 1.0 + i, device=farm.zen3) for i in range(100)])
        picked = [t.sequence for t in farm.store.trials.sample(run.id, KEY, max_points=10)]
        assert len(picked) == 10
        assert picked[0] == 1
        assert picked[-1] > 80
        assert len(farm.store.trials.sample(run.id, KEY, max_points=500)) == 100

    def test_digests_for_resuming(self, farm: Farm) -> None:
        run, later = farm.run(), farm.run()
        farm.store.trials.add_all([measured(run, "m", 1.0, device=farm.zen3), failed(run, "b", FailureKind.BUILD, "")])
        farm.store.trials.add(measured(later, "s", 1.0, device=farm.spr))
        assert farm.store.runs.digests(run.id) == {"m", "b"}
        assert farm.store.trials.measured_digests(KEY, V3, ZEN3) == {"m", "b"}
        assert farm.store.trials.measured_digests(KEY, V3, SPR) == {"s", "b"}
        assert farm.store.trials.measured_digests(KEY, V4, ZEN3) == frozenset()

    def test_top_traces_are_distinct_and_fastest_first(self, farm: Farm) -> None:
        run = farm.run()
        for digest, cost in [("a", 3.0), ("b", 1.0), ("b", 1.5), ("c", 2.0), ("a", 2.5)]:
            farm.trial(run, digest, cost)
        farm.trial(run, "unverified", 0.1, verified=False)
        assert [(t.digest, t.cost) for t in farm.store.trials.fastest(KEY, 2)] == [("b", 1.0), ("c", 2.0)]
        assert farm.store.trials.fastest(KEY, 5, device_class=SPR) == ()
        assert len(farm.store.trials.fastest(KEY, 5, target=V3, device_class=ZEN3)) == 3

    def test_threads_lose_nothing(self, farm: Farm) -> None:
        run = farm.run()

        def add(worker: int) -> None:
            for i in range(20):
                farm.trial(run, f"w{worker}i{i}", 1.0 + (worker * 20 + i) * 1e-3)

        in_threads(add, range(4))
        assert [t.sequence for t in farm.store.trials.page(run.id, limit=1000)] == list(range(1, 81))
        assert farm.store.runs.get(run.id).trials == 80
        assert farm.best_digest() == "w0i0"


WRITER = """
import sys
from tuner.records.model import NewTrial
from tuner.records.store import RecordStore
from tests.kit.threads import in_threads
address, task, device = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = RecordStore.open(address)
for i in range(100_000):
    trials = [
        NewTrial(task_id=task, digest=f"{i}-{j}", trace="{}", device_id=device, samples=(1 / (i + 1),), verified=True)
        for j in range(3)
    ]
    for number in store.trials.add_all(trials):
        print(number, flush=True)
"""


def test_a_killed_writer_loses_no_acknowledged_trial(current_address: str) -> None:
    with RecordStore.open(current_address) as store:
        farm = Farm(store)
        run = farm.run()
        for wanted in (5, 40):
            command = [sys.executable, "-c", WRITER, current_address, str(run.tasks[0].id), str(farm.zen3)]
            writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert writer.stdout is not None
            seen = [int(writer.stdout.readline()) for _ in range(wanted)]
            writer.kill()
            seen += [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
            writer.wait()
            writer.stdout.close()
            stored = list(store.trials.all(run.id))
            assert set(seen) <= {trial.id for trial in stored}
            assert len(stored) % 3 == 0
            assert [trial.sequence for trial in stored] == list(range(1, len(stored) + 1))
            assert store.runs.get(run.id).trials == len(stored)
            best = store.best.look_up(KEY, V3, ZEN3).config
            assert best is not None
            assert best.cost <= min(trial.cost for trial in stored if trial.cost is not None) * 1.01


def test_urls_are_shown_without_their_password() -> None:
    from tuner.records.db.database import show_url

    url = parse_url("postgresql://me:secret@host/db")
    assert isinstance(url, URL)
    assert "secret" not in show_url(url)
    assert show_url(url).startswith("postgresql://me:")


def test_a_number_of_more_than_64_bits_is_no_fault_of_the_database(store: RecordStore) -> None:
    with pytest.raises((InvalidRecord, RecordNotFound)):
        store.runs.get(10**30)
