"""Requested profiles: kept, worked on, ended, and given up when nobody works on them any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select, update

from tuner.records.db.schema_models import ProfileJobRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord
from tuner.records.model_store.facts import JobState, ProfileJob
from tuner.records.model_store.writing import version_row
from tuner.records.runs.claims import current_time
from tuner.records.runs.stopping import QUIET_S

LEASE_S = 60.0
"""How long a job is its worker's, unless the worker says so again."""
_NEWEST = 500  # jobs that are looked at
_WORKER = ("worker", "worker_until")
_FACTS = [column for column in ProfileJobRow.__table__.columns if column.name not in _WORKER]


def add(connection: Connection, version_id: int, key: str, asked_by: str) -> ProfileJob:
    """Keep that a profile was asked for. Raises RecordNotFound."""
    version_row(connection, version_id)
    values: dict[str, Any] = {
        "version_id": version_id, "key": key, "asked_by": asked_by, "state": JobState.RUNNING, "message": "",
        "time_id": None, "asked_at": utcnow(), "ended_at": None,
    }  # fmt: skip
    made: int = connection.execute(insert(ProfileJobRow).returning(ProfileJobRow.id), values).scalar_one()
    return ProfileJob(id=made, **values)


def newest(connection: Connection, version_id: int, limit: int) -> tuple[ProfileJob, ...]:
    """The newest jobs of a version."""
    query = select(*_FACTS).where(ProfileJobRow.version_id == version_id).order_by(ProfileJobRow.id.desc())
    return tuple(
        ProfileJob(**{**row._mapping, "state": JobState(row.state)}) for row in connection.execute(query.limit(limit))
    )


def renew(connection: Connection, job_id: int, worker: str) -> None:
    """Record that a process works on a job.
    Raises InvalidRecord if the job has ended, or is another process's."""
    until = current_time(connection) + timedelta(seconds=LEASE_S)
    mine = (*_open(job_id), ProfileJobRow.worker.in_(["", worker]))
    if not connection.execute(update(ProfileJobRow).where(*mine).values(worker=worker, worker_until=until)).rowcount:
        raise InvalidRecord(f"the profile {job_id} has ended, or is made by another process")


def end(connection: Connection, job_id: int, time_id: int | None, message: str) -> None:
    """Record how a job ended, unless it has ended before: with a measurement, or with a message."""
    state = JobState.FAILED if time_id is None else JobState.DONE
    values = {"state": str(state), "message": message, "time_id": time_id, "ended_at": utcnow()}
    connection.execute(update(ProfileJobRow).where(*_open(job_id)).values(**values))


def left(connection: Connection, is_gone: Callable[[str], bool]) -> tuple[int, ...]:
    """Which of the newest jobs nobody works on, though they have not ended."""
    query = select(
        ProfileJobRow.id, ProfileJobRow.state, ProfileJobRow.asked_at, ProfileJobRow.worker, ProfileJobRow.worker_until
    )
    now = current_time(connection)
    newest = connection.execute(query.order_by(ProfileJobRow.id.desc()).limit(_NEWEST))  # no index has the state
    running = [row for row in newest if row.state == str(JobState.RUNNING)]
    return tuple(row.id for row in running if _is_left(row, now, is_gone))


def _open(job_id: int) -> tuple[Any, ...]:
    return ProfileJobRow.id == job_id, ProfileJobRow.state == str(JobState.RUNNING)


def _is_left(row: AnyRow, now: datetime, is_gone: Callable[[str], bool]) -> bool:
    """Whether a worker that cannot be seen from here is late. It may be as late as a run's owner."""
    if row.worker and is_gone(row.worker):
        return True
    return bool((row.worker_until or row.asked_at) + timedelta(seconds=QUIET_S) < now)
