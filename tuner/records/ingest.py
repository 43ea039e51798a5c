"""Adding trials: rows, counts, curves and best configs in one transaction."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from compiler.runtime.statistics import summarise
from rpc_server.measure import FailureKind
from tuner.records import catalog, claims, incumbent
from tuner.records.errors import InvalidRecord
from tuner.records.keys import toolchain_key
from tuner.records.model import NewTrial, TrialPurpose, TrialStatus
from tuner.records.schema import (
    CandidateRow,
    DeviceRow,
    RunFailureRow,
    RunRow,
    RunTaskRow,
    TrialRow,
)
from tuner.records.types import utcnow

MAX_FAILURE_TEXT = 16_000
"""Characters kept of a failure's text: its start and its end."""


@dataclass
class _Task:
    """A task while trials are added to it."""

    id: int
    run_id: int
    workload_id: int
    target_id: int
    toolchain: str
    best_cost: float | None
    baseline_cost: float | None
    trials: int = 0
    failed: int = 0


@dataclass
class _Run:
    id: int
    sequence: int
    trials: int = 0
    failed: int = 0


@dataclass
class _Batch:
    tasks: dict[int, _Task]
    runs: dict[int, _Run]
    device_class: dict[int, int] = field(default_factory=dict)
    candidates: dict[tuple[int, int, str], int] = field(default_factory=dict)
    keys: dict[catalog.KeyTuple, int] = field(default_factory=dict)


def add_trials(connection: Connection, new: Sequence[NewTrial], owner: str | None = None) -> list[int]:
    for trial in new:
        check_trial(trial)
    batch = _load(connection, {trial.task_id for trial in new}, owner)
    _resolve(connection, batch, new)
    rows = [_row(batch, trial) for trial in new]
    query = insert(TrialRow).returning(TrialRow.id, sort_by_parameter_order=True)
    ids = list(connection.scalars(query, rows))
    _count(connection, batch)
    _count_failures(connection, list(zip(new, ids)))
    incumbent.settle(connection, rows)
    _settle_claims(connection, batch, new)
    return ids


def _settle_claims(connection: Connection, batch: _Batch, new: Sequence[NewTrial]) -> None:
    tried: dict[int, list[str]] = defaultdict(list)
    for trial in new:
        if trial.digest is not None:
            tried[trial.task_id].append(trial.digest)
    for task_id, digests in tried.items():
        task = batch.tasks[task_id]
        for start in range(0, len(digests), _CHUNK):
            part = digests[start : start + _CHUNK]
            claims.settle_claims(connection, task.run_id, task.workload_id, task.target_id, part)


def check_trial(trial: NewTrial) -> None:
    """Raises InvalidRecord when `trial` contradicts itself."""
    if (trial.digest is None) != (trial.trace is None):
        raise InvalidRecord("a trial has both a digest and a trace, or neither")
    if trial.digest is not None and not 0 < len(trial.digest) <= 64:
        raise InvalidRecord(f"{trial.digest!r} is no digest")
    if trial.digest is None and trial.purpose is not TrialPurpose.BASELINE:
        raise InvalidRecord(f"a {trial.purpose} trial needs a trace")
    if trial.failure is None:
        if not trial.samples:
            raise InvalidRecord("a trial that did not fail needs samples")
        if trial.device_id is None:
            raise InvalidRecord("a measured trial needs the device that measured it")
        if not all(math.isfinite(s) and s > 0 for s in trial.samples):
            raise InvalidRecord(f"samples are positive seconds, got {trial.samples}")
    elif trial.samples or trial.verified:
        raise InvalidRecord("a failed trial has no samples and is not verified")
    elif trial.failure not in FailureKind.__members__.values():
        raise InvalidRecord(f"{trial.failure!r} is no kind of failure")


def _load(connection: Connection, task_ids: set[int], owner: str | None) -> _Batch:
    """The tasks and their runs, the runs locked, so that sequence numbers are given out once. Raises RunTakenOver when
    a run is not `owner`'s."""
    query = (
        select(
            *RunTaskRow.__table__.columns,
            RunRow.toolchain,
        )
        .join(RunRow, RunRow.id == RunTaskRow.run_id)
        .where(RunTaskRow.id.in_(task_ids))
    )
    run_ids = set(connection.scalars(select(RunTaskRow.run_id).where(RunTaskRow.id.in_(task_ids))))
    locked = select(RunRow.id, RunRow.sequence, RunRow.owner).where(RunRow.id.in_(run_ids))
    runs = {}
    for row in connection.execute(locked.order_by(RunRow.id).with_for_update()):
        if owner is not None:
            claims.check_owner(row.id, row.owner, owner)
        runs[row.id] = _Run(row.id, row.sequence)
    tasks = {
        row.id: _Task(
            row.id,
            row.run_id,
            row.workload_id,
            row.target_id,
            toolchain_key(row.toolchain),
            row.best_cost,
            row.baseline_cost,
        )
        for row in connection.execute(query)
    }
    if missing := task_ids - tasks.keys():
        raise InvalidRecord(f"there is no run task {min(missing)}")
    return _Batch(tasks, runs)


def _resolve(connection: Connection, batch: _Batch, new: Sequence[NewTrial]) -> None:
    """Fill in device classes, candidates and tuning keys, creating what is new."""
    device_ids = {trial.device_id for trial in new if trial.device_id is not None}
    query = select(DeviceRow.id, DeviceRow.device_class_id).where(DeviceRow.id.in_(device_ids))
    batch.device_class = {row.id: row.device_class_id for row in connection.execute(query)}
    if missing := device_ids - batch.device_class.keys():
        raise InvalidRecord(f"there is no device {min(missing)}")
    traces: dict[tuple[int, int, str], str] = {}
    keys: set[catalog.KeyTuple] = set()
    for trial in new:
        task = batch.tasks[trial.task_id]
        if trial.digest is not None and trial.trace is not None:
            traces[task.workload_id, task.target_id, trial.digest] = trial.trace
        if trial.device_id is not None:
            keys.add(_key(batch, task, trial.device_id))
    batch.candidates = _candidates(connection, traces)
    batch.keys = catalog.key_ids(connection, keys)


def _key(batch: _Batch, task: _Task, device_id: int) -> catalog.KeyTuple:
    return task.workload_id, task.target_id, batch.device_class[device_id], task.toolchain


def _candidates(connection: Connection, traces: dict[tuple[int, int, str], str]) -> dict[tuple[int, int, str], int]:
    wanted = sorted(traces)
    found = _find_candidates(connection, wanted)
    missing = [key for key in wanted if key not in found]
    if missing:
        names = ("workload_id", "target_id", "digest")
        rows = [{**dict(zip(names, key)), "trace": traces[key]} for key in missing]
        catalog.insert_missing(connection, CandidateRow, rows)
        found |= _find_candidates(connection, missing)
    return found


_CHUNK = 1000  # values in one IN list: well under every driver's limit on parameters


def _find_candidates(connection: Connection, wanted: Sequence[tuple[int, int, str]]) -> dict[tuple[int, int, str], int]:
    """Ids by workload, target and digest. One query a task: SQLite reads the whole table for an IN of tuples."""
    digests: dict[tuple[int, int], list[str]] = defaultdict(list)
    for workload_id, target_id, digest in wanted:
        digests[workload_id, target_id].append(digest)
    found: dict[tuple[int, int, str], int] = {}
    for (workload_id, target_id), names in digests.items():
        for start in range(0, len(names), _CHUNK):
            query = select(CandidateRow.id, CandidateRow.digest).where(
                CandidateRow.workload_id == workload_id,
                CandidateRow.target_id == target_id,
                CandidateRow.digest.in_(names[start : start + _CHUNK]),
            )
            found |= {(workload_id, target_id, row.digest): row.id for row in connection.execute(query)}
    return found


def _row(batch: _Batch, trial: NewTrial) -> dict[str, Any]:
    """The trial's row; counts it in its task and run."""
    task = batch.tasks[trial.task_id]
    run = batch.runs[task.run_id]
    run.sequence += 1
    ok = trial.failure is None
    cost, mad = summarise(trial.samples) if ok else (None, None)
    eligible = ok and trial.verified and trial.purpose is not TrialPurpose.BASELINE
    # finals measure the same few again: a lower number there is no progress of the search
    searching = eligible and trial.purpose is TrialPurpose.SEARCH
    improved = searching and cost is not None and (task.best_cost is None or cost < task.best_cost)
    if improved:
        task.best_cost = cost
    if trial.purpose is TrialPurpose.BASELINE and cost is not None:
        task.baseline_cost = cost
    if trial.purpose is TrialPurpose.SEARCH:
        task.trials, run.trials = task.trials + 1, run.trials + 1
        task.failed, run.failed = task.failed + (not ok), run.failed + (not ok)
    finished: datetime = trial.finished_at or utcnow()
    return {
        "run_id": task.run_id,
        "sequence": run.sequence,
        "task_id": task.id,
        "key_id": None if trial.device_id is None else batch.keys[_key(batch, task, trial.device_id)],
        "candidate_id": None
        if trial.digest is None
        else batch.candidates[task.workload_id, task.target_id, trial.digest],
        "device_id": trial.device_id,
        "purpose": str(trial.purpose),
        "status": str(TrialStatus.OK if ok else TrialStatus.FAILED),
        "failure_kind": None if trial.failure is None else str(trial.failure),
        "failure_text": shorten(trial.failure_text),
        "samples": list(trial.samples),
        "cost": cost,
        "mad": mad,
        "noise": list(trial.noise),
        "verified": trial.verified,
        "eligible": eligible,
        "improved": improved,
        "build_s": trial.build_s,
        "measure_s": trial.measure_s,
        "environment": dict(trial.environment),
        "measured_by": trial.measured_by,
        "started_at": trial.started_at or finished,
        "finished_at": finished,
    }


def shorten(message: str) -> str:
    """`message`, its middle left out when it is too long to keep."""
    if len(message) <= MAX_FAILURE_TEXT:
        return message
    half = MAX_FAILURE_TEXT // 2
    return f"{message[:half]}\n… {len(message) - 2 * half} characters left out …\n{message[-half:]}"


def _count(connection: Connection, batch: _Batch) -> None:
    now = utcnow()
    for run in batch.runs.values():
        connection.execute(
            update(RunRow)
            .where(RunRow.id == run.id)
            .values(
                sequence=run.sequence,
                trials=RunRow.trials + run.trials,
                failed=RunRow.failed + run.failed,
                updated_at=now,
            )
        )
    for task in batch.tasks.values():
        connection.execute(
            update(RunTaskRow)
            .where(RunTaskRow.id == task.id)
            .values(
                trials=RunTaskRow.trials + task.trials,
                failed=RunTaskRow.failed + task.failed,
                best_cost=task.best_cost,
                baseline_cost=task.baseline_cost,
            )
        )


def _count_failures(connection: Connection, added: Sequence[tuple[NewTrial, int]]) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    first: dict[tuple[int, str], tuple[int, str]] = {}
    for trial, trial_id in added:
        if trial.failure is not None:
            key = (trial.task_id, str(trial.failure))
            counts[key] += 1
            first.setdefault(key, (trial_id, shorten(trial.failure_text)))
    rows = [
        {"task_id": task, "kind": kind, "count": 0, "first_trial_id": first_id, "first_text": first_text}
        for (task, kind), (first_id, first_text) in first.items()
    ]
    catalog.insert_missing(connection, RunFailureRow, rows)
    for (task, kind), count in counts.items():
        connection.execute(
            update(RunFailureRow)
            .where(RunFailureRow.task_id == task, RunFailureRow.kind == kind)
            .values(count=RunFailureRow.count + count)
        )
