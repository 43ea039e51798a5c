"""Stores and data for tests of cost models: candidates of real spaces with costs that are made up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.target.target import Target
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, RunState
from tuner.records.store import RecordStore
from tuner.search.base import Candidate
from tuner.space.generate import generate
from tuner.task import TuningTask

TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num-cores=2"
FAMILY = "llvm-x86_64-256"


def task(spec: str, target: str = TARGET) -> TuningTask:
    return TuningTask.from_spec(spec, Target(target))


def candidates(of: TuningTask, count: int, seed: int = 0) -> list[Candidate]:
    """Random different points of the task's first two sketches."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[str, tuple[int, ...]], Candidate] = {}
    for sketch in generate(of.func, of.target)[:2]:
        for _ in range(count // 2):
            point = sketch.random(rng)
            if point is not None:
                candidate = Candidate(sketch, point)
                found[candidate.key] = candidate
    return list(found.values())


def made_up_cost(candidate: Candidate) -> float:
    """Least where the decisions' values are near 4."""
    values = candidate.sketch.values(candidate.decisions).values()
    return 1e-5 * (1.0 + sum(abs(np.log2(max(v, 1) / 4)) for v in values))


def fill(store: RecordStore, specs: Sequence[str], count: int = 24, target: str = TARGET) -> None:
    """A finished run of each workload, with the made-up costs."""
    device = store.devices.upsert(
        NewDevice(name="zen/0", key="cpu", device_class="zen3/2t", fingerprint={"cpu": "EPYC"}, features=("avx2",))
    )
    for spec in specs:
        of = task(spec, target)
        workload = store.workloads.upsert(
            NewWorkload(
                key=of.key,
                name=of.name,
                spec=of.spec.to_json() if of.spec else None,
                function=of.func.script(),
                flops=of.flops,
            )
        )
        row = NewRunTask(workload_id=workload.id, target_id=store.targets.upsert(target).id, budget=count)
        run = store.runs.start(NewRun(tasks=(row,), toolchain={"tunefarm": "0.1.0"}, name=spec))
        store.trials.add_all([
            NewTrial(
                task_id=run.tasks[0].id, device_id=device.id, digest=candidate_digest(c.trace_json), trace=c.trace_json,
                samples=(made_up_cost(c),) * 3, verified=True,
            )
            for c in candidates(of, count)
        ])  # fmt: skip
        store.runs.set_state(run.id, RunState.FINISHED, "")
