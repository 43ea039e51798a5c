"""Reading trials back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, or_, select, text

from rpc_server.wire.trial_messages import FailureKind
from tuner.records.db.schema import (
    CandidateRow,
    DeviceClassRow,
    DeviceRow,
    RunTaskRow,
    TargetRow,
    TrialRow,
    TuningKeyRow,
    WorkloadRow,
)
from tuner.records.db.types import AnyRow
from tuner.records.errors import RecordNotFound
from tuner.records.facts import from_columns, of_row
from tuner.records.model import Trial, TrialFacts, TrialPurpose, TrialStatus
from tuner.records.runs import catalog
from tuner.records.runs.runs import find_task


def trial_select(with_trace: bool) -> Select[Any]:
    """Return what `to_trial` reads; without traces, which are most of a row, when they are not needed."""
    columns: list[Any] = [
        *TrialRow.__table__.columns,
        WorkloadRow.key.label("workload_key"),
        TargetRow.text.label("target"),
        DeviceRow.name.label("device"),
        DeviceClassRow.name.label("device_class"),
        CandidateRow.digest,
    ]
    if with_trace:
        columns.append(CandidateRow.trace)
    return (
        select(*columns)
        .join(RunTaskRow, RunTaskRow.id == TrialRow.task_id)
        .join(WorkloadRow, WorkloadRow.id == RunTaskRow.workload_id)
        .join(TargetRow, TargetRow.id == RunTaskRow.target_id)
        .outerjoin(DeviceRow, DeviceRow.id == TrialRow.device_id)
        .outerjoin(DeviceClassRow, DeviceClassRow.id == DeviceRow.device_class_id)
        .outerjoin(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
    )


_FULL = trial_select(True)
_SLIM = trial_select(False)


def to_trial(row: AnyRow, with_trace: bool) -> Trial:
    return of_row(
        Trial,
        row,
        purpose=TrialPurpose(row.purpose),
        status=TrialStatus(row.status),
        failure=None if row.failure_kind is None else FailureKind(row.failure_kind),
        trace=row.trace if with_trace else None,
        **from_columns(TrialFacts, row),
    )


def get_trial(connection: Connection, trial_id: int) -> Trial:
    row = connection.execute(_FULL.where(TrialRow.id == trial_id)).first()
    if row is None:
        raise RecordNotFound(f"there is no trial {trial_id}")
    return to_trial(row, True)


def page(
    connection: Connection, run_id: int, after: int | None, before: int | None, limit: int, status: TrialStatus | None,
    with_trace: bool,
) -> tuple[Trial, ...]:  # fmt: skip
    """By rising number; with `before` the last ones below it, by falling number."""
    query = (_FULL if with_trace else _SLIM).where(TrialRow.run_id == run_id).limit(limit)
    if after is not None:
        query = query.where(TrialRow.sequence > after)
    if before is not None:
        query = query.where(TrialRow.sequence < before).order_by(TrialRow.sequence.desc())
    else:
        query = query.order_by(TrialRow.sequence)
    if status is not None:
        # in the text, not a parameter: only then may the partial index on failures be used
        query = query.where(text(f"trials.status = '{status.value}'"))
    return tuple(to_trial(row, with_trace) for row in connection.execute(query))


def sample(
    connection: Connection, run_id: int, workload_key: str, max_points: int, target: str | None, with_trace: bool
) -> tuple[Trial, ...]:
    """At most `max_points` of a task's trials, spread evenly over the run."""
    task = find_task(connection, run_id, workload_key, target)
    step = max(1.0, task.sequence / max_points)
    numbers = {round(1 + i * step) for i in range(min(max_points, task.sequence))}
    query = (
        (_FULL if with_trace else _SLIM)
        .where(TrialRow.run_id == run_id, TrialRow.sequence.in_(numbers), TrialRow.task_id == task.id)
        .order_by(TrialRow.sequence)
    )
    return tuple(to_trial(row, with_trace) for row in connection.execute(query))


def run_digests(connection: Connection, run_id: int) -> frozenset[str]:
    query = (
        select(CandidateRow.digest)
        .join(TrialRow, TrialRow.candidate_id == CandidateRow.id)
        .where(TrialRow.run_id == run_id)
        .distinct()
    )
    return frozenset(connection.scalars(query))


def measured_digests(connection: Connection, workload_key: str, target: str, device_class: str) -> frozenset[str]:
    query = (
        select(CandidateRow.digest)
        .join(WorkloadRow, WorkloadRow.id == CandidateRow.workload_id)
        .join(TargetRow, TargetRow.id == CandidateRow.target_id)
        .join(TrialRow, TrialRow.candidate_id == CandidateRow.id)
        .outerjoin(DeviceRow, DeviceRow.id == TrialRow.device_id)
        .outerjoin(DeviceClassRow, DeviceClassRow.id == DeviceRow.device_class_id)
        .where(WorkloadRow.key == workload_key, TargetRow.text == str(catalog.parse_target(target)))
        .where(or_(DeviceClassRow.name == device_class, TrialRow.device_id.is_(None)))
        .distinct()
    )
    return frozenset(connection.scalars(query))


def top(
    connection: Connection, workload_key: str, count: int, target: str | None, device_class: str | None
) -> tuple[Trial, ...]:
    """The fastest eligible trial of each of the `count` best candidates, fastest first.
    One schedule is a candidate of each of several targets."""
    best: dict[tuple[str, str | None], Trial] = {}
    for key_id in _keys_of(connection, workload_key, target, device_class):
        # a candidate measured several times has several rows: read a few more than asked for
        query = _FULL.where(TrialRow.key_id == key_id, text("trials.eligible")).order_by(TrialRow.cost).limit(4 * count)
        for row in connection.execute(query):
            trial = to_trial(row, True)
            candidate = trial.target, trial.digest
            known = best.get(candidate)
            if known is None or (trial.cost or 0.0) < (known.cost or 0.0):
                best[candidate] = trial
    return tuple(sorted(best.values(), key=lambda t: (t.cost or 0.0, t.id))[:count])


def _keys_of(connection: Connection, workload_key: str, target: str | None, device_class: str | None) -> Iterable[int]:
    query = select(TuningKeyRow.id).join(WorkloadRow, WorkloadRow.id == TuningKeyRow.workload_id)
    query = query.where(WorkloadRow.key == workload_key)
    if target is not None:
        query = query.join(TargetRow, TargetRow.id == TuningKeyRow.target_id)
        query = query.where(TargetRow.text == str(catalog.parse_target(target)))
    if device_class is not None:
        query = query.join(DeviceClassRow, DeviceClassRow.id == TuningKeyRow.device_class_id)
        query = query.where(DeviceClassRow.name == device_class)
    return list(connection.scalars(query))
