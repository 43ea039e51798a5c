"""Lookups of workloads nobody tuned: the config of the nearest one, adapted, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler.interp import interpreter as interp
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from tests.kit.records.runs import statements
from tuner.engine.plan import sketch_search
from tuner.records.errors import InvalidRecord
from tuner.records.lookup.keys import workload_family
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload
from tuner.records.store import RecordStore
from tuner.space.generate import generate
from tuner.task import TuningTask
from tuner.transfer.adapt import Adapter
from tuner.transfer.distance import distance
from tuner.transfer.nearest import best_or_nearest

TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num-cores=1"
TUNED = ("matmul:64,64,64", "matmul:16,16,16", "softmax:32,32")


def task(spec: str) -> TuningTask:
    return TuningTask.from_spec(spec, TARGET)


def tune(store: RecordStore, spec: str) -> None:
    """One trial of one candidate, on a device of class zen."""
    tuned = task(spec)
    device = store.devices.upsert(NewDevice(name="box", key="cpu", device_class="zen")).id
    new = NewWorkload(key=tuned.key, name=tuned.name, function=tuned.func.script())
    row = NewRunTask(workload_id=store.workloads.upsert(new).id, target_id=store.targets.upsert(TARGET).id, budget=1)
    run = store.runs.start(NewRun(tasks=(row,), toolchain={}))
    [candidate] = sketch_search(tuned, "random").strategy.ask(1)
    trial = NewTrial(
        task_id=run.tasks[0].id, digest=candidate.digest, trace=candidate.trace_json, device_id=device,
        samples=(1.0,), verified=True,
    )  # fmt: skip
    store.trials.add(trial)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordStore]:
    with RecordStore.open(tmp_path_factory.mktemp("near") / "records.db", create=True) as opened:
        for spec in TUNED:
            tune(opened, spec)
        yield opened


def test_what_is_known_is_given_as_it_is(store: RecordStore) -> None:
    known = task(TUNED[0])
    found = best_or_nearest(store, known.key, TARGET, "zen")
    assert (found.match, found.adapted) == ("exact", None)
    assert found == store.best.look_up(known.key, TARGET, "zen")


def test_the_nearest_workload_is_adapted(store: RecordStore) -> None:
    wanted = task("matmul:24,24,24")
    found = best_or_nearest(store, wanted.key, TARGET, "zen", function=wanted.func.script())
    assert found.match == "nearest"
    assert found.config is not None
    assert found.config.workload_name.startswith("matmul:16")
    assert any("adapted from workload matmul:16" in line for line in found.explain)
    assert any("nobody has measured it" in line for line in found.explain)
    assert found.trace == found.adapted is not None
    scheduled = apply_trace(wanted.func, Trace.from_json(found.adapted or "")).func
    a, b = (np.random.default_rng(i).random((24, 24), dtype=np.float32) for i in range(2))
    out = np.zeros((24, 24), np.float32)
    interp.run(scheduled, a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_a_function_the_store_has_need_not_be_sent(store: RecordStore) -> None:
    wanted = task("matmul:32,32,32")
    store.workloads.upsert(NewWorkload(key=wanted.key, name=wanted.name, function=wanted.func.script()))
    assert best_or_nearest(store, wanted.key, TARGET, "zen").match == "nearest"


@pytest.mark.parametrize(
    ("spec", "device_class", "target", "said"),
    [
        ("conv2d:1,4,8,8,4,3,3", "zen", TARGET, "no workload near it"),
        ("matmul:8192,8192,8192", "zen", TARGET, "no workload near it"),
        ("matmul:24,24,24", "another", TARGET, "no workload near it"),
        ("matmul:24,24,24", "zen", "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "no workload near it"),
    ],
)
def test_misses_explain_themselves(store: RecordStore, spec: str, device_class: str, target: str, said: str) -> None:
    wanted = task(spec)
    found = best_or_nearest(store, wanted.key, target, device_class, function=wanted.func.script())
    assert (found.match, found.trace) == ("miss", None)
    assert said in found.explain[-1]


def test_an_unknown_function_is_not_guessed(store: RecordStore) -> None:
    found = best_or_nearest(store, "0" * 64, TARGET, "zen")
    assert found.match == "miss"
    assert "its function is not known" in found.explain[-1]


EMPTY = "@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    pass"


@pytest.mark.parametrize("script", ["import os", "x = 1", "def f(:", EMPTY])
def test_a_function_that_is_none_or_another_is_refused(store: RecordStore, script: str) -> None:
    with pytest.raises(InvalidRecord):
        best_or_nearest(store, "0" * 64, TARGET, function=script)


def test_a_config_that_is_no_trace_is_passed_over(tmp_path: Path) -> None:
    tuned, wanted = task("matmul:64,64,64"), task("matmul:32,32,32")
    with RecordStore.open(tmp_path / "r.db", create=True) as store:
        workload = store.workloads.upsert(NewWorkload(key=tuned.key, name="w", function=tuned.func.script())).id
        device = store.devices.upsert(NewDevice(name="box", key="cpu", device_class="zen")).id
        row = NewRunTask(workload_id=workload, target_id=store.targets.upsert(TARGET).id, budget=1)
        run = store.runs.start(NewRun(tasks=(row,), toolchain={}))
        trial = NewTrial(
            task_id=run.tasks[0].id, digest="d", trace="{}", device_id=device, samples=(1.0,), verified=True
        )
        store.trials.add(trial)
        found = best_or_nearest(store, wanted.key, TARGET, "zen", function=wanted.func.script())
    assert found.match == "miss"
    assert "does not fit" in found.explain[-1]


def slow_way(store: RecordStore, wanted: TuningTask) -> tuple[str, str] | None:
    """Every config read, every function parsed, every sketch made: the workload chosen and the adapted trace."""
    near = []
    for workload, config in store.best.near(workload_family(wanted.func.script()), TARGET, "zen"):
        source = from_source(workload.function)
        assert isinstance(source, PrimFunc)
        apart = distance(wanted.func, source)
        if apart is not None and workload.key != wanted.key:
            near.append((apart, workload.key, config, source))
    if not near:
        return None
    _, _, config, source = min(near, key=lambda n: n[:2])
    adapter = Adapter(source, wanted.func, wanted.target, generate(wanted.func, wanted.target))
    made = adapter.adapt(Trace.from_json(config.trace))
    assert made is not None
    return config.workload_name, made.to_json()


@pytest.mark.parametrize(
    "spec",
    ["matmul:24,24,24", "matmul:40,73,96", "matmul:17,16,15", "matmul:60,64,512", "softmax:32,64", "softmax:7,9"],
)
def test_the_answer_is_that_of_looking_at_everything(store: RecordStore, spec: str) -> None:
    wanted = task(spec)
    found = best_or_nearest(store, wanted.key, TARGET, "zen", function=wanted.func.script())
    assert found.config is not None
    assert (found.config.workload_name, found.adapted) == slow_way(store, wanted)


def test_what_was_remembered_of_a_store_follows_its_changes(tmp_path: Path) -> None:
    wanted = task("matmul:24,24,24")

    def nearest_name(store: RecordStore) -> str | None:
        config = best_or_nearest(store, wanted.key, TARGET, "zen", function=wanted.func.script()).config
        return None if config is None else config.workload_name

    with RecordStore.open(tmp_path / "records.db", create=True) as store, RecordStore.open(store.address) as other:
        assert nearest_name(store) is None
        tune(other, "matmul:64,64,64")
        assert (nearest_name(store) or "").startswith("matmul:64")
        tune(other, "matmul:32,32,32")
        assert (nearest_name(store) or "").startswith("matmul:32")


def test_a_lookup_made_again_reads_no_other_workload(store: RecordStore) -> None:
    wanted = task("matmul:48,40,24")
    asked = (wanted.key, TARGET, "zen")
    best_or_nearest(store, *asked, function=wanted.func.script())
    with statements(store) as said:
        best_or_nearest(store, *asked, function=wanted.func.script())
    assert any("FROM serving" in statement for statement in said)
    assert not any("workloads.family =" in statement for statement in said)
    assert len([statement for statement in said if statement != "BEGIN"]) == 5, said
