"""Adding trials: rows, counts, curves and best configs in one transaction."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, select, text, update

from compiler.runtime.measure.statistics import summarise
from rpc_server.wire.trial_messages import FailureKind
from tuner.records.db.bulk import insert_all
from tuner.records.db.schema import CandidateRow, RunFailureRow, RunRow, RunTaskRow, TrialRow
from tuner.records.db.types import utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.facts import to_columns
from tuner.records.lookup import incumbent
from tuner.records.model import NewTrial, TrialFacts, TrialPurpose, TrialStatus
from tuner.records.runs import catalog, claims, results
from tuner.records.runs.sites import Pair, TaskSite, TaskSites

MAX_FAILURE_TEXT = 16_000
"""Characters kept of a failure's text: its start and its end."""


@dataclass
class _Task:
    """A task while trials are added.
    `best_cost` is its result, `search_cost` the lowest of its search."""

    id: int
    run_id: int
    workload_id: int
    target_id: int
    best_cost: float | None
    baseline_cost: float | None
    search_cost: float | None
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
    """Rows that trials to be added refer to."""

    tasks: dict[int, _Task]
    runs: dict[int, _Run]
    candidates: dict[tuple[int, int, str], int]
    sites: dict[Pair, TaskSite]


def add_trials(
    connection: Connection, sites: TaskSites, new: Sequence[NewTrial], owner: str | None = None
) -> list[int]:
    for trial in new:
        check_trial(trial)
    tasks, runs = _load(connection, {trial.task_id for trial in new}, owner)
    measured = {(t.task_id, t.device_id) for t in new if t.device_id is not None}
    try:
        found = sites.find(connection, measured)
    except RecordNotFound as error:
        raise InvalidRecord(error.message) from None
    batch = _Batch(tasks, runs, _candidates(connection, _traces(tasks, new)), found)
    rows = [_row(batch, trial) for trial in new]
    made = insert_all(connection, TrialRow, rows, ("id", "run_id", "sequence"))
    numbered = {(row.run_id, row.sequence): row.id for row in made}
    ids = [numbered[row["run_id"], row["sequence"]] for row in rows]
    _settle_results(connection, batch, rows)
    closed = _settle_baselines(connection, batch, rows)
    _count(connection, batch)
    _count_failures(connection, list(zip(new, ids)))
    incumbent.settle(connection, rows, closed)
    _settle_claims(connection, batch, new)
    return ids


def _settle_results(connection: Connection, batch: _Batch, rows: Sequence[Mapping[str, Any]]) -> None:
    """Settle the results of the tasks that had finals."""
    for task_id in {row["task_id"] for row in rows if row["eligible"] and row["purpose"] == TrialPurpose.FINAL}:
        task = batch.tasks[task_id]
        result = results.final_result(connection, task.run_id, task.id)
        task.best_cost = task.best_cost if result is None else result.cost


def _settle_baselines(connection: Connection, batch: _Batch, rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Set the baseline times of the tasks whose baselines were measured.
    Returns the tuning keys with a changed time, if best configs of the task may have been given away already."""
    keys = {}
    for row in rows:
        if row["purpose"] == TrialPurpose.BASELINE and row["cost"] is not None:
            keys[row["task_id"]] = row["key_id"]
    closed = set()
    for task_id, key_id in keys.items():
        task = batch.tasks[task_id]
        before, task.baseline_cost = task.baseline_cost, results.baseline_cost(connection, task_id)
        if before is not None and before != task.baseline_cost:
            closed.add(key_id)
    return closed


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
    """Raise InvalidRecord when `trial` contradicts itself."""
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


_LOAD = (
    select(
        RunTaskRow.id,
        RunTaskRow.run_id,
        RunTaskRow.workload_id,
        RunTaskRow.target_id,
        RunTaskRow.best_cost,
        RunTaskRow.baseline_cost,
        select(TrialRow.cost)  # the last that improved is the lowest; SQLite reads all of the task's trials for a min()
        .where(TrialRow.task_id == RunTaskRow.id, text("trials.improved"))
        .order_by(TrialRow.sequence.desc())
        .limit(1)
        .correlate(RunTaskRow)
        .scalar_subquery()
        .label("search_cost"),
        RunRow.sequence,
        RunRow.owner,
    )
    .join(RunRow, RunRow.id == RunTaskRow.run_id)
    .where(RunTaskRow.id.in_(bindparam("ids", expanding=True)))
    .order_by(RunRow.id, RunTaskRow.id)
    .with_for_update(of=[RunRow, RunTaskRow])
)


def _load(connection: Connection, task_ids: set[int], owner: str | None) -> tuple[dict[int, _Task], dict[int, _Run]]:
    """The tasks and their runs, locked, so that sequence numbers are given out once.
    Raises RunTakenOver when a run is not `owner`'s."""
    tasks: dict[int, _Task] = {}
    runs: dict[int, _Run] = {}
    for row in connection.execute(_LOAD, {"ids": list(task_ids)}):
        if owner is not None:
            claims.check_owner(row.run_id, row.owner, owner)
        runs.setdefault(row.run_id, _Run(row.run_id, row.sequence))
        tasks[row.id] = _Task(
            row.id, row.run_id, row.workload_id, row.target_id, row.best_cost, row.baseline_cost, row.search_cost
        )
    if missing := task_ids - tasks.keys():
        raise InvalidRecord(f"there is no run task {min(missing)}")
    return tasks, runs


_CandidateKey: TypeAlias = tuple[int, int, str]  # workload, target, digest


def _traces(tasks: Mapping[int, _Task], new: Sequence[NewTrial]) -> dict[_CandidateKey, str]:
    traces: dict[_CandidateKey, str] = {}
    for trial in new:
        if trial.digest is not None and trial.trace is not None:
            task = tasks[trial.task_id]
            traces[task.workload_id, task.target_id, trial.digest] = trial.trace
    return traces


def _candidates(connection: Connection, traces: Mapping[_CandidateKey, str]) -> dict[_CandidateKey, int]:
    """The candidates' ids. Most are new, so ids of existing ones are asked for afterwards."""
    if not traces:
        return {}
    names = ("workload_id", "target_id", "digest")
    rows = [{**dict(zip(names, key)), "trace": traces[key]} for key in sorted(traces)]
    made = insert_all(connection, CandidateRow, rows, ("id", *names), new=False)
    found = {(row.workload_id, row.target_id, row.digest): row.id for row in made}
    return found | _find_candidates(connection, sorted(traces.keys() - found.keys()))


_CHUNK = 1000  # values in one IN list: well under every driver's limit on parameters


_FIND = select(CandidateRow.id, CandidateRow.digest).where(
    CandidateRow.workload_id == bindparam("workload"),
    CandidateRow.target_id == bindparam("target"),
    CandidateRow.digest.in_(bindparam("digests", expanding=True)),
)


def _find_candidates(connection: Connection, wanted: Sequence[_CandidateKey]) -> dict[_CandidateKey, int]:
    """Ids by workload, target and digest.
    One query a task: SQLite reads the whole table for an IN of tuples."""
    digests: dict[tuple[int, int], list[str]] = defaultdict(list)
    for workload_id, target_id, digest in wanted:
        digests[workload_id, target_id].append(digest)
    found: dict[_CandidateKey, int] = {}
    for (workload_id, target_id), names in digests.items():
        for start in range(0, len(names), _CHUNK):
            of = {"workload": workload_id, "target": target_id, "digests": names[start : start + _CHUNK]}
            found |= {(workload_id, target_id, row.digest): row.id for row in connection.execute(_FIND, of)}
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
    improved = searching and cost is not None and (task.search_cost is None or cost < task.search_cost)
    if improved:
        if task.best_cost == task.search_cost:  # no finals yet
            task.best_cost = cost
        task.search_cost = cost
    if trial.purpose is TrialPurpose.SEARCH:
        task.trials, run.trials = task.trials + 1, run.trials + 1
        task.failed, run.failed = task.failed + (not ok), run.failed + (not ok)
    drawn = trial.environment.get("joules", 0.0)
    finished: datetime = trial.finished_at or utcnow()
    return {
        **to_columns(TrialFacts, trial),
        "run_id": task.run_id,
        "sequence": run.sequence,
        "task_id": task.id,
        "key_id": None if trial.device_id is None else batch.sites[trial.task_id, trial.device_id].key_id,
        "candidate_id": None
        if trial.digest is None
        else batch.candidates[task.workload_id, task.target_id, trial.digest],
        "device_id": trial.device_id,
        "purpose": str(trial.purpose),
        "status": str(TrialStatus.OK if ok else TrialStatus.FAILED),
        "failure_kind": None if trial.failure is None else str(trial.failure),
        "failure_text": shorten(trial.failure_text),
        "cost": cost,
        "mad": mad,
        "eligible": eligible,
        "improved": improved,
        "joules": drawn if ok and 0 < drawn < math.inf else None,
        "started_at": trial.started_at or finished,
        "finished_at": finished,
    }


def shorten(message: str) -> str:
    """`message`, its middle left out when it is too long to keep."""
    if len(message) <= MAX_FAILURE_TEXT:
        return message
    half = MAX_FAILURE_TEXT // 2
    return f"{message[:half]}\n… {len(message) - 2 * half} characters left out …\n{message[-half:]}"


_COUNT_RUN = (
    update(RunRow)
    .where(RunRow.id == bindparam("of_run"))
    .values(
        sequence=bindparam("last"),
        trials=RunRow.trials + bindparam("more"),
        failed=RunRow.failed + bindparam("more_failed"),
        updated_at=bindparam("now"),
    )
)
_COUNT_TASK = (
    update(RunTaskRow)
    .where(RunTaskRow.id == bindparam("of_task"))
    .values(
        trials=RunTaskRow.trials + bindparam("more"),
        failed=RunTaskRow.failed + bindparam("more_failed"),
        best_cost=bindparam("best"),
        baseline_cost=bindparam("untuned"),
    )
)


def _count(connection: Connection, batch: _Batch) -> None:
    now = utcnow()
    for run in batch.runs.values():
        more = {"more": run.trials, "more_failed": run.failed}
        connection.execute(_COUNT_RUN, {"of_run": run.id, "last": run.sequence, "now": now, **more})
    for task in batch.tasks.values():
        more = {"more": task.trials, "more_failed": task.failed}
        costs = {"best": task.best_cost, "untuned": task.baseline_cost}
        connection.execute(_COUNT_TASK, {"of_task": task.id, **more, **costs})


def _count_failures(connection: Connection, added: Sequence[tuple[NewTrial, int]]) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    first: dict[tuple[int, str], tuple[int, str]] = {}
    for trial, trial_id in added:
        if trial.failure is not None:
            key = (trial.task_id, str(trial.failure))
            counts[key] += 1
            first.setdefault(key, (trial_id, shorten(trial.failure_text)))
    if not counts:
        return
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
