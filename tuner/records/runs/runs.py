"""Queries on runs: their state, tasks, failures and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, Select, insert, select, text, update

from rpc_server.wire.trial_messages import FailureKind
from tuner.records.db.schema import RunFailureRow, RunRow, RunTaskRow, TargetRow, TrialRow, WorkloadRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.facts import from_columns, of_row, to_columns
from tuner.records.model import (
    CurvePoint,
    FailureCount,
    Improvement,
    NewRun,
    Run,
    RunFacts,
    RunState,
    RunTask,
    RunTaskFacts,
    RunUse,
)
from tuner.records.runs import catalog


def start_run(connection: Connection, new: NewRun, state: RunState) -> Run:
    if not new.tasks:
        raise InvalidRecord("a run needs at least one task")
    if any(task.budget < 0 for task in new.tasks):
        raise InvalidRecord("a task's trial budget is not negative")
    _check_references(connection, new)
    now = new.started_at or utcnow()
    values = {
        **to_columns(RunFacts, new),
        "state": str(state),
        "message": "",
        "started_at": now,
        "finished_at": None,
        "updated_at": now,
        "sequence": 0,
        "trials": 0,
        "failed": 0,
    }
    run_id: int = connection.execute(insert(RunRow).returning(RunRow.id), values).scalar_one()
    tasks = [
        {
            "run_id": run_id,
            "position": position,
            "workload_id": task.workload_id,
            "target_id": task.target_id,
            **to_columns(RunTaskFacts, task),
            "trials": 0,
            "failed": 0,
            "baseline_cost": None,
            "best_cost": None,
        }
        for position, task in enumerate(new.tasks)
    ]
    connection.execute(insert(RunTaskRow), tasks)
    return get_run(connection, run_id)


def _check_references(connection: Connection, new: NewRun) -> None:
    for table, ids in (
        (WorkloadRow, {task.workload_id for task in new.tasks}),
        (TargetRow, {task.target_id for task in new.tasks}),
    ):
        known = set(connection.scalars(select(table.id).where(table.id.in_(ids))))
        if missing := ids - known:
            raise InvalidRecord(f"{table.__tablename__} has no row {min(missing)}")


def set_state(
    connection: Connection, run_id: int, state: RunState, message: str | None, at: datetime | None,
    use: RunUse | None = None,
) -> Run:  # fmt: skip
    now = at or utcnow()
    values: dict[str, Any] = {"state": str(state), "updated_at": now, "finished_at": now if state.ended else None}
    if message is not None:
        values["message"] = message
    if use is not None:
        values |= {"held_s": use.held_s, "busy_s": use.busy_s}
    changed = connection.execute(update(RunRow).where(RunRow.id == run_id).values(**values))
    if changed.rowcount == 0:
        raise no_run(run_id)
    return get_run(connection, run_id)


def no_run(run_id: int) -> RecordNotFound:
    return RecordNotFound(f"there is no run {run_id}", hint="list them with `tunefarm runs`")


def set_budgets(connection: Connection, run_id: int, budgets: Mapping[int, int]) -> Run:
    for position, budget in budgets.items():
        if budget < 0:
            raise InvalidRecord("a task's trial budget is not negative")
        where = (RunTaskRow.run_id == run_id, RunTaskRow.position == position)
        if connection.execute(update(RunTaskRow).where(*where).values(budget=budget)).rowcount == 0:
            raise RecordNotFound(f"run {run_id} has no task at position {position}")
    return get_run(connection, run_id)


# ------------------------------------------------------------------------------------ reading


def get_run(connection: Connection, run_id: int) -> Run:
    row = connection.execute(_run_select().where(RunRow.id == run_id)).first()
    if row is None:
        raise no_run(run_id)
    return _to_run(row, _tasks(connection, [run_id])[run_id])


def list_runs(connection: Connection, before: int | None, limit: int) -> tuple[Run, ...]:
    query = _run_select().order_by(RunRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(RunRow.id < before)
    rows = connection.execute(query).all()
    tasks = _tasks(connection, [row.id for row in rows])
    return tuple(_to_run(row, tasks[row.id]) for row in rows)


def _run_select() -> Select[Any]:
    return select(*RunRow.__table__.columns)


def _tasks(connection: Connection, run_ids: Sequence[int]) -> dict[int, tuple[RunTask, ...]]:
    workload = [column.label(f"w_{column.name}") for column in WorkloadRow.__table__.columns]
    query = (
        select(*RunTaskRow.__table__.columns, TargetRow.text.label("target"), *workload)
        .join(WorkloadRow, WorkloadRow.id == RunTaskRow.workload_id)
        .join(TargetRow, TargetRow.id == RunTaskRow.target_id)
        .where(RunTaskRow.run_id.in_(run_ids))
        .order_by(RunTaskRow.run_id, RunTaskRow.position)
    )
    found: dict[int, list[RunTask]] = {run_id: [] for run_id in run_ids}
    for row in connection.execute(query):
        found[row.run_id].append(_to_task(row))
    return {run_id: tuple(tasks) for run_id, tasks in found.items()}


def _to_task(row: AnyRow) -> RunTask:
    of_workload = {name[2:]: value for name, value in row._mapping.items() if name.startswith("w_")}
    workload = catalog.to_workload(SimpleNamespace(**of_workload))
    return of_row(RunTask, row, **from_columns(RunTaskFacts, row), workload=workload)


def _to_run(row: AnyRow, tasks: tuple[RunTask, ...]) -> Run:
    use = RunUse(held_s=row.held_s, busy_s=row.busy_s)
    return of_row(Run, row, **from_columns(RunFacts, row), state=RunState(row.state), use=use, tasks=tasks)


def failures(connection: Connection, run_id: int) -> tuple[FailureCount, ...]:
    query = (
        select(
            RunFailureRow.task_id,
            RunFailureRow.kind,
            RunFailureRow.count.label("occurrences"),
            RunFailureRow.first_trial_id,
            RunFailureRow.first_text,
        )
        .join(RunTaskRow, RunTaskRow.id == RunFailureRow.task_id)
        .where(RunTaskRow.run_id == run_id)
        .order_by(RunFailureRow.count.desc(), RunFailureRow.first_trial_id)
    )
    return tuple(
        FailureCount(
            task_id=row.task_id,
            kind=FailureKind(row.kind),
            count=row.occurrences,
            first_trial_id=row.first_trial_id,
            first_text=row.first_text,
        )
        for row in connection.execute(query)
    )


def find_task(connection: Connection, run_id: int, workload_key: str, target: str | None) -> AnyRow:
    """Return `id` of the run's task on the workload, and the run's start and last number.
    It is of the target, when one is given."""
    query = (
        select(RunTaskRow.id, RunRow.started_at, RunRow.sequence)
        .join(RunRow, RunRow.id == RunTaskRow.run_id)
        .join(WorkloadRow, WorkloadRow.id == RunTaskRow.workload_id)
        .join(TargetRow, TargetRow.id == RunTaskRow.target_id)
        .where(RunTaskRow.run_id == run_id, WorkloadRow.key == workload_key)
        .order_by(RunTaskRow.position)
    )
    if target is not None:
        query = query.where(TargetRow.text == str(catalog.parse_target(target)))
    row = connection.execute(query.limit(1)).first()
    if row is None:
        on = f" on {target}" if target else ""
        raise RecordNotFound(f"run {run_id} tunes no workload {workload_key[:12]}…{on}")
    return row


def best_curve(
    connection: Connection, run_id: int, workload_key: str, max_points: int, target: str | None
) -> tuple[CurvePoint, ...]:
    task = find_task(connection, run_id, workload_key, target)
    query = (
        select(TrialRow.id, TrialRow.sequence, TrialRow.cost, TrialRow.finished_at)
        .where(TrialRow.task_id == task.id, text("trials.improved"))
        .order_by(TrialRow.sequence)
    )
    rows = connection.execute(query).all()
    return tuple(
        CurvePoint(
            sequence=row.sequence,
            elapsed_s=(row.finished_at - task.started_at).total_seconds(),
            cost=row.cost,
            trial_id=row.id,
        )
        for row in thin_out(rows, max_points)
    )


def improvements(connection: Connection, run_id: int) -> tuple[Improvement, ...]:
    query = (
        select(TrialRow.sequence, RunTaskRow.position, TrialRow.cost)
        .join(RunTaskRow, RunTaskRow.id == TrialRow.task_id)
        .where(RunTaskRow.run_id == run_id, text("trials.improved"))
        .order_by(TrialRow.sequence)
    )
    return tuple(Improvement(row.sequence, row.position, row.cost) for row in connection.execute(query))


def thin_out(rows: Sequence[AnyRow], most: int) -> Sequence[AnyRow]:
    """At most `most` (2 or more) of `rows`, evenly spaced, first and last among them."""
    if len(rows) <= most:
        return rows
    step = (len(rows) - 1) / (most - 1)
    return [rows[round(i * step)] for i in range(most)]
