"""Who works on what, on every backend: candidates are claimed once, runs have one owner."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.threads import in_threads
from tuner.records.db.database import writing
from tuner.records.db.types import utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound, RunBusy, RunStopped, RunTakenOver
from tuner.records.farm.model_farm import DeviceEventKind
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, Run, RunState, RunUse
from tuner.records.runs import claims, stopping
from tuner.records.runs.claims import ClaimAnswer, ClaimState, WantedClaims
from tuner.records.store import RecordStore

TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu"
CLAIMED, TAKEN = ClaimAnswer(ClaimState.CLAIMED), ClaimAnswer(ClaimState.TAKEN)


class Bench:
    """Two runs of one task each on the same workload and target, and two devices of one class and one of another."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.here, self.twin, self.other = (
            store.devices.upsert(NewDevice(name=n, key="k", device_class=c)).id
            for n, c in (("a", "zen"), ("b", "zen"), ("c", "arm"))
        )
        self.one, self.two = self.run(), self.run()

    def run(self, toolchain: str = "1.2", key: str = "w" * 8) -> Run:
        workload = self.store.workloads.upsert(NewWorkload(key=key, name="w"))
        target = self.store.targets.upsert(TARGET)
        task = NewRunTask(workload_id=workload.id, target_id=target.id, budget=9)
        return self.store.runs.start(NewRun(tasks=(task,), toolchain={"tunefarm": toolchain}))

    def claim(self, run: Run, *digests: str, device: int | None = None) -> dict[str, ClaimAnswer]:
        return self.store.trials.claim(run.tasks[0].id, device or self.here, digests)

    def trial(self, run: Run, digest: str, cost: float = 1.0, device: int | None = None) -> None:
        trial = NewTrial(task_id=run.tasks[0].id, digest=digest, trace=f'["{digest}"]', device_id=device or self.here)
        self.store.trials.add(replace(trial, samples=(cost,), verified=True))

    def failure(self, run: Run, digest: str, kind: FailureKind, device: int | None = None) -> None:
        trial = NewTrial(task_id=run.tasks[0].id, digest=digest, trace=f'["{digest}"]', device_id=device)
        self.store.trials.add(replace(trial, failure=kind, failure_text="why"))


@pytest.fixture
def bench(store: RecordStore) -> Bench:
    return Bench(store)


def test_one_run_gets_a_candidate_and_others_hear_so(bench: Bench) -> None:
    assert bench.claim(bench.one, "a", "b") == {"a": CLAIMED, "b": CLAIMED}
    assert bench.claim(bench.two, "b", "c", device=bench.twin) == {"b": TAKEN, "c": CLAIMED}
    assert bench.claim(bench.one, "a") == {"a": CLAIMED}  # still its own
    assert bench.claim(bench.two, "a", device=bench.other) == {"a": CLAIMED}  # times there do not compare
    assert bench.claim(bench.run("9.9"), "a") == {"a": CLAIMED}  # another toolchain makes other code
    assert bench.claim(bench.run(key="x" * 8), "a") == {"a": CLAIMED}  # another workload
    assert bench.claim(bench.one) == {}


def test_a_released_candidate_is_anyones(bench: Bench) -> None:
    bench.claim(bench.one, "a")
    bench.store.trials.release(bench.two.tasks[0].id, bench.here, ["a"])  # not theirs to give
    assert bench.claim(bench.two, "a") == {"a": TAKEN}
    bench.store.trials.release(bench.one.tasks[0].id, bench.here, ["a"])
    assert bench.claim(bench.two, "a") == {"a": CLAIMED}


def test_a_result_is_known_to_everyone_and_ends_the_claim(bench: Bench) -> None:
    bench.claim(bench.one, "a")
    bench.trial(bench.one, "a", 0.25)
    known = ClaimAnswer(ClaimState.KNOWN, 0.25)
    assert bench.claim(bench.two, "a", device=bench.twin) == {"a": known}
    assert bench.claim(bench.one, "a") == {"a": known}
    assert bench.claim(bench.two, "a", device=bench.other) == {"a": CLAIMED}
    with writing(bench.store._engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM claims")).scalar_one() == 1


@pytest.mark.parametrize("kind", list(FailureKind))
def test_what_failed_is_not_tried_again_where_it_would_fail_again(bench: Bench, kind: FailureKind) -> None:
    built = kind not in (FailureKind.INSTANTIATE, FailureKind.BUILD, FailureKind.BUILD_TIMEOUT)
    bench.failure(bench.one, "a", kind, bench.here if built else None)
    known = ClaimAnswer(ClaimState.KNOWN, None, kind)
    retried = kind is FailureKind.UPLOAD
    anywhere = not built or kind in (FailureKind.CRASH, FailureKind.DEVICE_LOST)
    assert bench.claim(bench.two, "a") == {"a": CLAIMED if retried else known}
    assert bench.claim(bench.two, "a", device=bench.other) == {"a": known if anywhere else CLAIMED}
    assert bench.claim(bench.run("9.9"), "a", device=bench.other) == {"a": CLAIMED}


def test_a_failure_outweighs_a_time(bench: Bench) -> None:
    bench.trial(bench.one, "a")
    bench.failure(bench.one, "a", FailureKind.WRONG_RESULT, bench.here)
    assert bench.claim(bench.two, "a")["a"].failure is FailureKind.WRONG_RESULT


def test_what_a_failing_device_measured_is_measured_again(bench: Bench) -> None:
    bench.trial(bench.one, "a")
    bench.failure(bench.one, "b", FailureKind.CRASH, device=bench.here)
    bench.trial(bench.one, "c", device=bench.twin)
    bench.failure(bench.one, "d", FailureKind.BUILD)
    bench.store.devices.record_event(bench.here, DeviceEventKind.CHECK_FAILED)
    states = {digest: answer.state for digest, answer in bench.claim(bench.two, *"abcd", device=bench.twin).items()}
    known, claimed = ClaimState.KNOWN, ClaimState.CLAIMED
    assert states == {"a": claimed, "b": claimed, "c": known, "d": known}
    bench.trial(bench.two, "a", 2.0, device=bench.twin)
    assert bench.claim(bench.one, "a") == {"a": ClaimAnswer(known, 2.0)}
    bench.store.devices.record_event(bench.here, DeviceEventKind.CLEARED)
    assert bench.claim(bench.one, "a") == {"a": ClaimAnswer(known, 1.0)}


def test_claims_lapse_with_their_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.store.runs.take(bench.one.id, "me")
    bench.claim(bench.one, "a", "b")
    now = utcnow()
    monkeypatch.setattr(claims, "current_time", lambda _: now + timedelta(seconds=0.9 * claims.LEASE_S))
    bench.store.runs.renew(bench.one.id, "me")
    monkeypatch.setattr(claims, "current_time", lambda _: now + timedelta(seconds=1.8 * claims.LEASE_S))
    assert bench.claim(bench.two, "a") == {"a": TAKEN}
    monkeypatch.setattr(claims, "current_time", lambda _: now + timedelta(seconds=2 * claims.LEASE_S))
    assert bench.claim(bench.two, "a") == {"a": CLAIMED}
    assert bench.claim(bench.one, "a", "b") == {"a": TAKEN, "b": CLAIMED}


def test_many_runs_ask_at_once_and_each_candidate_goes_to_one(bench: Bench) -> None:
    digests = [f"d{i}" for i in range(40)]
    given: Counter[str] = Counter()
    lock = threading.Lock()

    def work(run: Run) -> None:
        for start in range(0, 40, 4):
            answers = bench.claim(run, *digests[start : start + 4])
            mine = [d for d, answer in answers.items() if answer == CLAIMED]
            with lock:
                given.update(mine)
            for digest in mine:
                bench.trial(run, digest)

    in_threads(work, [bench.run() for _ in range(6)])
    assert given == Counter(digests)


def test_results_and_the_next_claims_are_one(bench: Bench) -> None:
    task, store = bench.one.tasks[0].id, bench.store
    store.runs.take(bench.one.id, "me")
    bench.claim(bench.one, "a", "b")
    trial = NewTrial(task_id=task, digest="a", trace="[]", device_id=bench.here, samples=(1.0,), verified=True)
    wanted = [WantedClaims(task, bench.here, ["a", "c"]), WantedClaims(task, bench.other, ["a"])]
    with pytest.raises(RunTakenOver):
        store.trials.add_and_claim([trial], wanted, "another")
    assert bench.claim(bench.two, "a", "c") == {"a": TAKEN, "c": CLAIMED}  # neither was done
    store.trials.release(bench.two.tasks[0].id, bench.here, ["c"])
    with pytest.raises(InvalidRecord):
        store.trials.add_and_claim([trial, replace(trial, samples=())], wanted, "me")
    [_], [here, other] = store.trials.add_and_claim([trial], wanted, "me")
    assert here == {"a": ClaimAnswer(ClaimState.KNOWN, 1.0), "c": CLAIMED}
    assert other == {"a": CLAIMED}
    assert bench.claim(bench.two, "c") == {"c": TAKEN}
    assert store.trials.add_and_claim([], [], "me") == ((), [])


def test_an_unknown_task_or_device(bench: Bench) -> None:
    for task, device in ((999, bench.here), (bench.one.tasks[0].id, 999)):
        with pytest.raises(RecordNotFound):
            bench.store.trials.claim(task, device, ["a"])


# ---------------------------------------------------------------------------------------- runs


def test_a_run_has_one_owner_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.one.id
    bench.store.runs.take(run, "first")
    bench.store.runs.take(run, "first")
    with pytest.raises(RunBusy, match=f"run {run} is being tuned by first") as caught:
        bench.store.runs.take(run, "second")
    assert "the run is free in" in (caught.value.hint or "")
    now = utcnow()
    monkeypatch.setattr(claims, "current_time", lambda _: now + timedelta(seconds=claims.LEASE_S + 1))
    bench.store.runs.take(run, "second")
    with pytest.raises(RunTakenOver, match="taken over by second"):
        bench.store.runs.renew(run, "first")


def test_a_dead_owner_is_replaced_at_once_and_its_claims_are_dropped(bench: Bench) -> None:
    bench.store.runs.take(bench.one.id, "dead")
    bench.claim(bench.one, "a")
    bench.store.runs.take(bench.one.id, "next", is_gone=lambda owner: owner == "dead")
    assert bench.claim(bench.two, "a") == {"a": CLAIMED}


def test_an_owner_that_lost_its_run_records_nothing(bench: Bench) -> None:
    run = bench.one
    bench.store.runs.take(run.id, "old")
    trial = NewTrial(task_id=run.tasks[0].id, digest="d", trace="[]", device_id=bench.here, samples=(1.0,))
    bench.store.trials.add(trial, owner="old")
    bench.store.runs.take(run.id, "new", is_gone=lambda _: True)
    with pytest.raises(RunTakenOver):
        bench.store.trials.add(trial, owner="old")
    with pytest.raises(RunTakenOver):
        bench.store.runs.leave(run.id, "old", RunState.INTERRUPTED)
    assert len(list(bench.store.trials.all(run.id))) == 1
    assert bench.store.runs.get(run.id).state is RunState.RUNNING


def test_leaving_a_run_frees_it_and_its_claims(bench: Bench) -> None:
    bench.store.runs.take(bench.one.id, "me")
    bench.claim(bench.one, "a")
    left = bench.store.runs.leave(bench.one.id, "me", RunState.INTERRUPTED, "stopped")
    assert (left.state, left.message) == (RunState.INTERRUPTED, "stopped")
    assert bench.claim(bench.two, "a") == {"a": CLAIMED}
    bench.store.runs.take(bench.one.id, "you")


def test_what_a_run_has_used_is_kept_for_whoever_goes_on_with_it(bench: Bench) -> None:
    run, store = bench.one.id, bench.store
    assert store.runs.get(run).use == RunUse()
    store.runs.take(run, "me")
    store.runs.renew(run, "me", RunUse(held_s=20.0, busy_s=12.0))
    store.runs.renew(run, "me")
    assert store.runs.get(run).use == RunUse(held_s=20.0, busy_s=12.0)
    assert (
        store.runs.leave(run, "me", RunState.INTERRUPTED, "", RunUse(held_s=24.0, busy_s=18.0)).use.utilisation == 0.75
    )
    store.runs.take(run, "you")
    with pytest.raises(RunTakenOver):
        store.runs.renew(run, "me", RunUse(held_s=1.0))
    assert store.runs.get(run).use.held_s == 24.0


def test_an_unknown_run(bench: Bench) -> None:
    with pytest.raises(RecordNotFound, match="no run 999"):
        bench.store.runs.take(999, "me")


# ------------------------------------------------------------------- runs that were left, or stopped before they began


def test_a_run_whose_process_is_gone_is_left(bench: Bench) -> None:
    store = bench.store
    for run, owner in ((bench.one, "dead"), (bench.two, "alive")):
        store.runs.take(run.id, owner)
    bench.claim(bench.one, "a" * 32)
    assert store.runs.left(lambda owner: False) == ()
    assert store.runs.left(lambda owner: owner == "dead") == (bench.one.id,)
    assert not store.runs.end_left(bench.two.id, lambda owner: owner == "dead", "gone")
    assert store.runs.end_left(bench.one.id, lambda owner: owner == "dead", "gone")
    assert (store.runs.get(bench.one.id).state, store.runs.get(bench.one.id).message) == (RunState.INTERRUPTED, "gone")
    assert store.runs.left(lambda owner: owner == "dead") == ()
    assert bench.claim(bench.two, "a" * 32) == {"a" * 32: CLAIMED}  # nothing is held for it any more
    with pytest.raises(RunTakenOver):
        store.runs.renew(bench.one.id, "dead")
    store.runs.take(bench.one.id, "next")


def test_a_run_not_heard_of_for_long_is_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.records.runs.claims.LEASE_S", -stopping.QUIET_S - 1)
    queued = bench.store.runs.set_state(bench.two.id, RunState.QUEUED)
    bench.store.runs.take(bench.one.id, "elsewhere")
    assert bench.store.runs.left(lambda owner: False) == (bench.one.id,)
    monkeypatch.setattr("tuner.records.runs.stopping.QUIET_S", -1.0)
    assert set(bench.store.runs.left(lambda owner: False)) == {bench.one.id, queued.id}
    assert bench.store.runs.end_left(queued.id, lambda owner: False, "no process took it up")


def test_a_run_cancelled_before_it_begins_stays_so(bench: Bench) -> None:
    bench.store.runs.set_state(bench.one.id, RunState.QUEUED)
    bench.store.runs.request_stop(bench.one.id, "ada")
    with pytest.raises(RunStopped, match="was stopped before it began"):
        bench.store.runs.take(bench.one.id, "late", queued_only=True)
    bench.store.runs.set_state(bench.one.id, RunState.QUEUED)
    bench.store.runs.take(bench.one.id, "in time", queued_only=True)
    bench.store.runs.request_stop(bench.one.id, "ada")
    with pytest.raises(RunStopped, match="stopped by ada"):
        bench.store.runs.renew(bench.one.id, "in time")
