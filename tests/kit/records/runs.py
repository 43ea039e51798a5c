"""Runs with real traces, made without measuring: what tests of moving records put into a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import event

from compiler.target.target import Target
from rpc_server.wire.trial_messages import FailureKind
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, Run, RunState, TrialPurpose
from tuner.records.store import RecordStore
from tuner.space.generate import generate
from tuner.task import TuningTask

TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num-cores=1"
PATIENCE_S = 60.0
BEGAN = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)


@cache
def _subject() -> tuple[TuningTask, tuple[str, ...]]:
    """A task and traces of its first sketch. To make them takes longer than most tests."""
    task = TuningTask.from_spec("matmul:32,32,32:float32", Target(TARGET))
    sketch = generate(task.func, task.target)[0]
    size = [len(decision.values) for decision in sketch.decisions]
    return task, tuple(sketch.trace_json([at % count for count in size]) for at in range(max(size)))


@dataclass
class Lab:
    """A store and what its runs are about."""

    store: RecordStore
    task: TuningTask = field(init=False)

    def __post_init__(self) -> None:
        self.task, self.traces = _subject()

    def device(self, name: str = "zen/0") -> int:
        new = NewDevice(name=name, key="cpu", device_class="zen3/2t", fingerprint={"cpu": "EPYC"}, features=("avx2",))
        return self.store.devices.upsert(new).id

    def start(self, name: str = "first", began: datetime = BEGAN) -> Run:
        workload = self.store.workloads.upsert(
            NewWorkload(
                key=self.task.key,
                name=self.task.name,
                spec=self.task.spec.to_json() if self.task.spec else None,
                function=self.task.func.script(),
                flops=self.task.flops,
            )
        )
        target = self.store.targets.upsert(str(self.task.target)).id
        return self.store.runs.start(
            NewRun(
                tasks=(NewRunTask(workload_id=workload.id, target_id=target, budget=8),),
                toolchain={"tunefarm": "0.1.0", "llvm": "22.1.0"},
                name=name,
                options={"trials": 8},
                command="tunefarm tune matmul:32,32,32:float32 --trials 8",
                host="build-7",
                user="ada",
                started_at=began,
            )
        )

    def trials(self, run: Run, numbers: range, scale: float = 1.0) -> None:
        """Trials `numbers` of the run: number 0 the untuned function, every fifth one a crash."""
        device = self.device()
        self.store.trials.add_all([self._trial(run, number, device, scale) for number in numbers])

    def _trial(self, run: Run, number: int, device: int, scale: float) -> NewTrial:
        when = run.started_at + timedelta(seconds=number)
        task = run.tasks[0].id
        if number == 0:
            return NewTrial(
                task_id=task, device_id=device, purpose=TrialPurpose.BASELINE, samples=(0.9,), verified=True,
                started_at=when, finished_at=when,
            )  # fmt: skip
        trace = self.traces[number % len(self.traces)]
        digest = candidate_digest(trace)
        if number % 5 == 0:
            return NewTrial(
                task_id=task, device_id=device, digest=digest, trace=trace, failure=FailureKind.CRASH,
                failure_text="signal 11\nunder way: call main", started_at=when, finished_at=when,
            )  # fmt: skip
        cost = scale * (1.0 + 1.0 / number)
        return NewTrial(
            task_id=task, device_id=device, digest=digest, trace=trace, samples=(cost, cost * 1.25, cost * 0.875),
            verified=True, noise=("load",), build_s=0.25, measure_s=0.5, environment={"load_1m": 0.5},
            measured_by="lease-1", started_at=when, finished_at=when,
        )  # fmt: skip

    def whole_run(self, name: str = "first", began: datetime = BEGAN, scale: float = 1.0) -> Run:
        run = self.start(name, began)
        self.trials(run, range(9), scale)
        return self.store.runs.set_state(run.id, RunState.FINISHED, "", at=began + timedelta(seconds=30))


def eventually(condition: Callable[[], bool]) -> None:
    """Return once `condition` holds, as it must before long."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def statements(store: RecordStore) -> Iterator[list[str]]:
    """Record what the store is asked meanwhile."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    event.listen(store._engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(store._engine, "before_cursor_execute", note)
