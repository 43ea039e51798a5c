"""Models in the store, on every database."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from compiler.runtime.measure.peaks import Peaks
from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, ZEN3, Farm
from tests.kit.records.plans import Plans
from tuner.interchange import jsonl, transfer
from tuner.kernels.coverage import coverage_of
from tuner.kernels.peaks import GBYTES, GFLOPS, class_peaks
from tuner.process_identity import is_gone, process_name
from tuner.records.db.schema_models import ProfileJobRow
from tuner.records.db.types import utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.model import NewWorkload, RunState, RunUse
from tuner.records.model_store.facts import (
    GraphCall,
    JobState,
    KernelShare,
    NewModelTask,
    NewModelTime,
    NewModelVersion,
    Viewer,
)
from tuner.records.runs.stopping import QUIET_S
from tuner.records.store import RecordStore
from webui.launcher import MESSAGE, LeftRuns

FILE = bytes(range(256)) * 40
DIGEST = hashlib.sha256(FILE).hexdigest()
ADA, BOB = Viewer(name="ada"), Viewer(name="bob")


def task(key: str, calls: int, *names: str) -> NewModelTask:
    return NewModelTask(workload=NewWorkload(key=key, name=f"k{key[0]}", flops=8.0), names=names, calls=calls)


def version(**changed: object) -> NewModelVersion:
    made = NewModelVersion(
        name="net", digest=DIGEST, file_digest=DIGEST, form="onnx", kind="llvm", file_bytes=len(FILE),
        tasks=(task(KEY, 3, "conv", "conv1"), task(OTHER_KEY, 1, "dense")),
        graph=(GraphCall(name="conv", workload=KEY, inputs=()), GraphCall(name="add", workload=None, inputs=(0,))),
    )  # fmt: skip
    return dataclasses.replace(made, **changed)  # type: ignore[arg-type]


def time(version_id: int, device_id: int, *samples: float, **more: object) -> NewModelTime:
    return NewModelTime(version_id=version_id, device_id=device_id, target=V3, samples=samples, **more)  # type: ignore[arg-type]


def test_a_version_is_kept_once_and_its_kernels_are_those_of_the_last_registration(store: RecordStore) -> None:
    first = store.models.register(version())
    again = store.models.register(version(tasks=(task(OTHER_KEY, 7, "dense"),)))
    gpu = store.models.register(version(kind="cuda"))
    assert first == again == gpu
    assert [(t.workload_key, t.calls, t.names) for t in store.models.tasks(first.id, "llvm")] == [
        (OTHER_KEY, 7, ("dense",))
    ]
    assert [t.kind for t in store.models.tasks(first.id)] == ["cuda", "cuda", "llvm"]
    assert store.models.graph(first.id) == version().graph
    other = store.models.register(version(digest="f" * 64, sizes={"batch": 8}))
    model = store.models.find("net")
    assert (model.versions, model.latest, model.readers) == (2, "f" * 64, ("*",))
    assert store.models.versions(model.id) == (other, first)
    assert store.models.version_of(model.id) == other
    assert store.models.version_of(model.id, DIGEST[:10]) == first
    with pytest.raises(RecordNotFound):
        store.models.version_of(model.id, "0000")


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "a b"},
        {"digest": "12"},
        {"tasks": (task(KEY, 0, "x"),)},
        {"tasks": (task(KEY, 1, "x"), task(KEY, 1, "y"))},
        {"graph": (GraphCall(name="a", workload=None, inputs=(0,)),)},
        {"file_bytes": -1},
    ],
)
def test_what_contradicts_itself_is_refused_whole(store: RecordStore, changed: dict[str, object]) -> None:
    with pytest.raises(InvalidRecord):
        store.models.register(version(**changed))
    assert store.models.page() == ()


def test_a_model_is_there_for_its_owner_and_readers_alone(store: RecordStore) -> None:
    mine = store.models.register(version(owner="ada", readers=()))
    theirs = store.models.register(version(owner="bob", readers=()))  # the same file: nothing tells bob of ada's
    assert theirs.kept_bytes == 0
    store.models.add_part(mine.id, 0, FILE, ADA)
    assert store.models.version(theirs.id, BOB).kept_bytes == 0
    assert [model.owner for model in store.models.page(viewer=BOB)] == ["bob"]
    assert store.models.find("net", ADA).owner == "ada"
    for ask in (
        lambda: store.models.get(mine.model_id, BOB),
        lambda: store.models.version(mine.id, BOB),
        lambda: store.models.remove(mine.model_id, BOB),
        lambda: store.models.remove_version(mine.id, BOB),
        lambda: store.models.set_readers(mine.model_id, ["bob"], BOB),
        lambda: next(store.models.file(mine.id, BOB)),
        lambda: store.models.add_part(mine.id, 0, FILE, BOB),
    ):
        with pytest.raises(RecordNotFound) as refused:
            ask()
        with pytest.raises(RecordNotFound) as nothing:
            store.models.get(999, BOB)
        assert type(refused.value) is type(nothing.value)
    store.models.set_readers(mine.model_id, ["bob"], ADA)
    assert b"".join(store.models.file(mine.id, BOB)) == FILE
    with pytest.raises(RecordNotFound):  # who may read may not change
        store.models.remove(mine.model_id, BOB)


def test_a_file_comes_in_pieces_and_is_checked(store: RecordStore) -> None:
    made = store.models.register(version())
    store.models.add_part(made.id, 0, FILE[:4096])
    with pytest.raises(InvalidRecord, match="4096 bytes are here"):
        store.models.add_part(made.id, 0, FILE[:4096])
    with pytest.raises(RecordNotFound):
        next(store.models.file(made.id))
    assert store.models.add_part(made.id, 4096, FILE[4096:]).kept
    assert b"".join(store.models.file(made.id)) == FILE

    other = store.models.register(version(name="other"))
    with pytest.raises(InvalidRecord, match="not the file"):
        store.models.add_part(other.id, 0, bytes(len(FILE)))
    assert store.models.version(other.id).kept_bytes == 0
    with pytest.raises(InvalidRecord):
        store.models.add_part(other.id, 0, FILE + b"x")


def test_times_and_profiles(farm: Farm) -> None:
    store = farm.store
    made = store.models.register(version())
    kernels = (KernelShare(name="conv", calls=3, seconds=0.5, workload=KEY, config="hit", roofline=0.7),)
    first = store.models.add_time(time(made.id, farm.zen3, 1.0, 1.2, 1.1, kernels=kernels, tuned_share=0.5))
    second = store.models.add_time(time(made.id, farm.spr, 2.0, release="r1"))
    newest, oldest = store.models.times(made.model_id)
    assert (newest.id, newest.device_class, newest.release, newest.cost) == (second, SPR, "r1", 2.0)
    assert (oldest.id, oldest.cost, oldest.tuned_share, oldest.samples) == (first, 1.1, 0.5, (1.0, 1.2, 1.1))
    assert store.models.times(made.model_id, ZEN3) == (oldest,)
    third = store.models.add_time(time(made.id, farm.zen3, 3.0))
    empty = store.models.register(version(name="empty", digest="e" * 64)).model_id
    [last, before] = store.models.last_times([made.model_id, empty, 99]).pop(made.model_id)
    assert (last.id, before) == (third, oldest)
    assert store.models.last_times([empty]) == {}
    assert store.models.times(made.model_id, version_id=made.id, before=second) == (oldest,)
    assert store.models.device_classes(made.model_id) == tuple(sorted((ZEN3, SPR)))
    assert store.models.newest_profile(made.id, ZEN3) == (first, kernels)
    assert store.models.newest_profile(made.id, SPR) == (0, ())
    newer = store.models.register(version(digest="e" * 64))
    assert store.models.newest_profile(newer.id, ZEN3) == (0, ())
    assert store.models.newest_profile_of(made.model_id, ZEN3) == (first, kernels)
    assert store.models.profile(second) == ()
    for wrong in (time(made.id, farm.zen3), time(made.id, farm.zen3, -1.0), time(made.id, 99, 1.0)):
        with pytest.raises(InvalidRecord):
            store.models.add_time(wrong)
    with pytest.raises(RecordNotFound):
        store.models.add_time(time(99, farm.zen3, 1.0))


def test_profiles_that_nobody_makes_any_more_are_found(store: RecordStore) -> None:
    made = store.models.register(version())
    here, gone = process_name(), re.sub(r"begun \d+", "begun 1", process_name())
    waiting, mine, dead, quiet, over = (store.models.add_job(made.id).id for _ in range(5))
    store.models.renew_job(mine, here)
    store.models.renew_job(mine, here)
    store.models.renew_job(dead, gone)
    store.models.renew_job(quiet, "a process on another machine")
    store.models.end_job(over, message="no luck")
    for job in (mine, over):
        with pytest.raises(InvalidRecord):
            store.models.renew_job(job, "somebody else")
    assert store.models.left_jobs(is_gone) == (dead,)
    with store._engine.begin() as connection:
        long_ago = utcnow() - timedelta(seconds=QUIET_S + 1)
        connection.execute(update(ProfileJobRow).where(ProfileJobRow.id == quiet).values(worker_until=long_ago))
        connection.execute(update(ProfileJobRow).where(ProfileJobRow.id == waiting).values(asked_at=long_ago))
    LeftRuns(store).look()
    told = {job.id: (job.state, job.message) for job in store.models.jobs(made.id)}
    assert told[mine] == (JobState.RUNNING, "")
    assert told[over] == (JobState.FAILED, "no luck")
    assert {told[job] for job in (waiting, dead, quiet)} == {(JobState.FAILED, MESSAGE)}


def test_deleting_a_model_leaves_nothing_of_it_but_what_was_tuned(farm: Farm) -> None:
    store = farm.store
    made = store.models.register(version())
    kept = store.models.register(version(digest="e" * 64))
    run = farm.run()
    farm.trial(run, "d", 1.0)
    store.models.link_run(made.id, run.id)
    assert store.models.runs(made.id) == (run.id,)
    store.models.add_part(made.id, 0, FILE)
    store.models.add_time(time(made.id, farm.zen3, 1.0, kernels=(KernelShare(name="conv", calls=1, seconds=1.0),)))
    store.models.add_job(made.id)
    store.models.remove_version(made.id)
    assert store.models.versions(made.model_id) == (kept,)
    store.models.remove(made.model_id)
    assert store.models.page() == ()
    with store._engine.connect() as connection:
        for table in ("models", "model_readers", "model_versions", "model_tasks", "model_runs", "model_times",
                      "model_profiles", "model_parts", "profile_jobs"):  # fmt: skip
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0, table
    assert store.runs.get(run.id).trials == 1
    assert store.workloads.find(OTHER_KEY) is not None


def test_a_run_of_a_model_can_be_removed(farm: Farm) -> None:
    store = farm.store
    made = store.models.register(version())
    run = farm.run()
    store.models.link_run(made.id, run.id)
    store.runs.set_state(run.id, RunState.FINISHED)
    store.runs.remove(run.id)
    assert store.models.runs(made.id) == ()
    with pytest.raises(RecordNotFound):
        store.models.link_run(made.id, run.id)


def test_models_go_to_another_store_without_their_files(farm: Farm, tmp_path: Path) -> None:
    made = farm.store.models.register(version(owner="ada", readers=("bob",)))
    farm.store.models.register(version(owner="ada", kind="cuda"))
    farm.store.models.add_part(made.id, 0, FILE)
    kernels = (KernelShare(name="conv", calls=3, seconds=0.5, workload=KEY),)
    run = farm.run()
    farm.store.models.link_run(made.id, run.id)
    farm.store.runs.set_state(run.id, RunState.FINISHED, use=RunUse(held_s=9.0, busy_s=6.0))
    for seconds in (1.0, 2.0):
        farm.store.models.add_time(time(made.id, farm.zen3, seconds, kernels=kernels, release="r1"))
    lines = tmp_path / "models.jsonl"
    with lines.open("wb") as out:
        jsonl.dump(transfer.read(farm.store), out)
    with RecordStore.open(tmp_path / "other.db", create=True) as other:
        for new in (2, 0):  # again: nothing is there twice
            merged = transfer.write(other, jsonl.load(lines))
            assert (merged.models, merged.model_times) == (1, new)
        model = other.models.find("net", BOB)
        assert (model.owner, model.readers, model.versions) == ("ada", ("bob",), 1)
        copied = other.models.version_of(model.id)
        assert (copied.digest, copied.file_bytes, copied.kept_bytes) == (DIGEST, len(FILE), 0)
        assert other.models.graph(copied.id) == version().graph
        assert [(t.kind, t.workload_key, t.calls, t.names) for t in other.models.tasks(copied.id)] == [
            (t.kind, t.workload_key, t.calls, t.names) for t in farm.store.models.tasks(made.id)
        ]
        [tuned] = other.models.runs(copied.id)
        assert other.runs.get(tuned).use == RunUse()  # somebody else's file
        times = other.models.times(model.id)
        assert [t.samples for t in times] == [(2.0,), (1.0,)]
        assert other.models.profile(times[0].id) == kernels
    with RecordStore.open(tmp_path / "merged.db", create=True) as merged:
        transfer.copy(farm.store, merged)
        [tuned] = merged.models.runs(merged.models.version_of(merged.models.find("net").id).id)
        assert merged.runs.get(tuned).use == RunUse(held_s=9.0, busy_s=6.0)
    without = lines.read_bytes().replace(b'"entry":"workload"', b'"entry":"workloads"', 1)
    lines.write_bytes(without)
    with pytest.raises(InvalidRecord, match="line 2"):
        list(jsonl.load(lines))


def test_no_query_of_models_walks_a_growing_table(farm: Farm) -> None:
    store = farm.store
    made = store.models.register(version(owner="ada"))
    run = farm.run()
    plans = Plans(store)
    with plans.watched():
        store.models.register(version(owner="ada", digest="d" * 64))
        store.models.link_run(made.id, run.id)
        added = store.models.add_time(
            time(made.id, farm.zen3, 1.0, kernels=(KernelShare(name="c", calls=1, seconds=1.0),))
        )
        store.models.page(viewer=BOB)
        store.models.page(before=9)
        store.models.get(made.model_id, BOB)
        store.models.find("net", BOB)
        store.models.versions(made.model_id, before=99)
        store.models.version(made.id, BOB)
        store.models.version_of(made.model_id, DIGEST[:8])
        store.models.graph(made.id)
        store.models.tasks(made.id, "llvm")
        store.models.runs(made.id)
        for chosen in (None, ZEN3):
            store.models.times(made.model_id, chosen)
            store.models.times(made.model_id, chosen, made.id)
        store.models.last_times([made.model_id])
        store.models.environments(ZEN3)
        store.models.device_classes(made.model_id)
        store.models.profile(added)
        store.models.newest_profile(made.id, ZEN3)
        store.models.newest_profile_of(made.model_id, ZEN3)
        store.models.add_part(made.id, 0, FILE)
        list(store.models.file(made.id))
        store.models.set_readers(made.model_id, ["bob"], ADA)
        store.models.remove_version(made.id, ADA)
        store.models.remove(made.model_id, ADA)
    assert plans.scans == []


def test_many_versions_are_registered_at_once_or_none_of_them(store: RecordStore) -> None:
    """The result is that of one after the other; a version that contradicts itself keeps all of them out."""
    news = [
        version(name=f"net{number % 40}", digest=hashlib.sha256(b"%d" % number).hexdigest(), owner=owner, kind=kind)
        for number in range(60)
        for owner in ("ada", "bob")
        for kind in ("llvm", "cuda")
    ]
    with pytest.raises(InvalidRecord):
        store.models.register_all([*news, version(name="no name")])
    assert store.models.page(1) == ()
    made = store.models.register_all(news)
    assert [each.digest for each in made] == [new.digest for new in news]
    assert [each.model for each in made] == [new.name for new in news]
    assert len(store.models.page(1000)) == 80
    assert store.models.register_all(news) == made
    for each in (made[0], made[-1]):
        assert store.models.register(news[made.index(each)]) == each
        assert [task.names for task in store.models.tasks(each.id, "llvm")] == [("conv", "conv1"), ("dense",)]
        assert len(store.models.tasks(each.id)) == 4
        assert [call.name for call in store.models.graph(each.id)] == ["conv", "add"]
    assert {model.versions for model in store.models.page(1000)} == {1, 2}
    assert store.models.register_all([]) == ()


def test_peaks_are_the_highest_that_profiles_measured_on_a_device_class(farm: Farm) -> None:
    store = farm.store
    first, second = store.models.register_all([version(), version(name="other", digest="f" * 64)])
    zen, spr = farm.zen3, farm.spr
    for number, place, told in (
        (first.id, zen, {GFLOPS: 200.0, GBYTES: 20.0}),
        (second.id, zen, {GFLOPS: 100.0, GBYTES: 30.0}),
        (first.id, zen, {"load_1m": 1.0}),
        (first.id, spr, {}),
    ):
        store.models.add_time(time(number, place, 1.0, environment=told))
    assert class_peaks(store, ZEN3) == Peaks(200e9, 30e9)
    assert class_peaks(store, SPR) is None
    there = coverage_of(store, first, V3, SPR, "llvm")
    assert "nobody profiled a model on" in there.not_known
    assert coverage_of(store, first, V3, SPR, "llvm", Peaks(1.0, 1.0)).peaks == Peaks(1.0, 1.0)
    assert coverage_of(store, first, V3, ZEN3, "llvm", Peaks(1.0, 1.0)).peaks == Peaks(200e9, 30e9)
