"""Counts of a store. Read from the counts that tasks keep, so it takes no longer with more trials."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, func, select

from tuner.records.db.schema import (
    BestConfigRow,
    DeviceRow,
    RunFailureRow,
    RunRow,
    RunTaskRow,
    TargetRow,
    TuningKeyRow,
    WorkloadRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStats:
    """One workload on one target: search trials, failures, runs, and a call's seconds by the best config.
    If device classes have different ones, the fastest counts; without any, the fastest run."""

    workload: str
    workload_key: str
    target: str
    runs: int
    trials: int
    failed: int
    best_cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """`trials` are search trials; `size` is in bytes, None where the database doesn't say."""

    runs: int
    runs_by_state: dict[str, int]
    trials: int
    failed: int
    failures: dict[str, int]
    workloads: int
    devices: int
    best_configs: int
    first_run: datetime | None
    last_change: datetime | None
    size: int | None
    by_workload: tuple[WorkloadStats, ...]


def collect(connection: Connection, most_workloads: int) -> StoreStats:
    by_state = connection.execute(select(RunRow.state, func.count()).group_by(RunRow.state))
    states = {state: count for state, count in by_state}  # noqa: C416 (dict() takes no Row for a pair)
    totals = connection.execute(select(func.sum(RunRow.trials), func.sum(RunRow.failed))).one()
    span = connection.execute(select(func.min(RunRow.started_at), func.max(RunRow.updated_at))).one()
    failures = select(RunFailureRow.kind, func.sum(RunFailureRow.count)).group_by(RunFailureRow.kind)
    return StoreStats(
        runs=sum(states.values()), runs_by_state=dict(sorted(states.items())), trials=totals[0] or 0,
        failed=totals[1] or 0,
        failures={kind: int(count) for kind, count in connection.execute(failures.order_by(RunFailureRow.kind))},
        workloads=_count(connection, WorkloadRow.id), devices=_count(connection, DeviceRow.id),
        best_configs=_count(connection, BestConfigRow.id), first_run=span[0], last_change=span[1],
        size=_size(connection), by_workload=_by_workload(connection, most_workloads),
    )  # fmt: skip


def _count(connection: Connection, column: Any) -> int:
    return int(connection.scalar(select(func.count(column))) or 0)


def _size(connection: Connection) -> int | None:
    match connection.dialect.name:
        case "sqlite":
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        case "postgresql":
            return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
        case _:
            return None


def _by_workload(connection: Connection, most: int) -> tuple[WorkloadStats, ...]:
    trials = func.sum(RunTaskRow.trials)
    served = (
        select(TuningKeyRow.workload_id, TuningKeyRow.target_id, func.min(BestConfigRow.cost).label("cost"))
        .join(BestConfigRow, BestConfigRow.key_id == TuningKeyRow.id)
        .group_by(TuningKeyRow.workload_id, TuningKeyRow.target_id)
        .subquery()
    )
    query = (
        select(
            WorkloadRow.name,
            WorkloadRow.key,
            TargetRow.text,
            func.count(RunTaskRow.id).label("runs"),
            trials.label("trials"),
            func.sum(RunTaskRow.failed).label("failed"),
            func.coalesce(func.min(served.c.cost), func.min(RunTaskRow.best_cost)).label("best_cost"),
        )
        .join(WorkloadRow, WorkloadRow.id == RunTaskRow.workload_id)
        .join(TargetRow, TargetRow.id == RunTaskRow.target_id)
        .outerjoin(served, and_(served.c.workload_id == WorkloadRow.id, served.c.target_id == TargetRow.id))
        .group_by(WorkloadRow.id, TargetRow.id)
        .order_by(trials.desc(), WorkloadRow.id, TargetRow.id)
        .limit(most)
    )
    return tuple(
        WorkloadStats(
            workload=row.name,
            workload_key=row.key,
            target=row.text,
            runs=row.runs,
            trials=row.trials,
            failed=row.failed,
            best_cost=row.best_cost,
        )
        for row in connection.execute(query)
    )
