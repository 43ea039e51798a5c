"""Trials of another tool, kept in the record store for searches to learn from.

They are of another compiler's code, on a machine that the log does not name. So they get a device class of their own
and never count as verified. No build gets such a config before it was measured here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, RunState
from tuner.records.store import RecordStore

DEVICE_CLASS = "apache-tvm/unknown"
_TOOLCHAIN: Mapping[str, str] = {"tvm": "unknown"}
TIMES = "times that count here"
"""What no record of another tool brings."""


@dataclass(frozen=True)
class LeftOut:
    """A record that did not carry over, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Kept:
    """A record that carried over, and what of it did not."""

    line: int
    without: tuple[str, ...]


@dataclass
class ImportOutcome:
    """An import's outcome.
    `trials` stored, `known` before; `kept` are the records that carried over, each with what of it did not; `left`
    those that did not, and why."""

    trials: int = 0
    known: int = 0
    workloads: set[str] = field(default_factory=set)
    kept: list[Kept] = field(default_factory=list)
    left: list[LeftOut] = field(default_factory=list)


@dataclass(frozen=True)
class ForeignTrial:
    """A candidate's record, and its times there in seconds a call."""

    trace: str
    samples: tuple[float, ...]
    finished_at: datetime | None = None


def store_trials(
    store: RecordStore, workload: NewWorkload, target: str, trials: Sequence[ForeignTrial], outcome: ImportOutcome
) -> None:
    """Put those that are new into a run of their own, and count them."""
    outcome.workloads.add(workload.key)
    known = store.trials.measured_digests(workload.key, target, DEVICE_CLASS)
    new = {candidate_digest(t.trace): t for t in trials}
    new = {digest: trial for digest, trial in new.items() if digest not in known}
    outcome.known += len(trials) - len(new)
    if not new:
        return
    task = NewRunTask(
        workload_id=store.workloads.upsert(workload).id, target_id=store.targets.upsert(target).id, budget=len(new)
    )
    run = store.runs.start(NewRun(tasks=(task,), toolchain=_TOOLCHAIN, name=f"Apache TVM: {workload.name}"))
    device = store.devices.upsert(NewDevice(name="apache-tvm/log", key="cpu", device_class=DEVICE_CLASS)).id
    store.trials.add_all(
        [
            NewTrial(
                task_id=run.tasks[0].id,
                device_id=device,
                digest=digest,
                trace=trial.trace,
                samples=trial.samples,
                verified=False,
                noise=("imported",),
                started_at=trial.finished_at,
                finished_at=trial.finished_at,
            )
            for digest, trial in new.items()
        ]
    )
    store.runs.set_state(run.id, RunState.FINISHED, "imported from a log of Apache TVM; its times are of TVM's code")
    outcome.trials += len(new)
