"""Ends of runs that come from elsewhere than the tuning process.

An end may be requested, from wherever the store is reached; the process learns of it when it renews the run. Or a
run's process has died.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, select, update

from tuner.records.db.schema import RunRow
from tuner.records.db.types import AnyRow
from tuner.records.errors import InvalidRecord, RunStopped
from tuner.records.model import Run, RunState
from tuner.records.runs.claims import current_time, free_run
from tuner.records.runs.runs import get_run, no_run, set_state

QUIET_S = 120.0
"""How long nothing may be heard of a run whose process cannot be seen until it counts as left."""
_NEWEST = 500  # runs that are looked at


def request(connection: Connection, run_id: int, by: str) -> Run:
    """Ask the run's owner to end it. A run without an owner ends at once."""
    query = select(RunRow.state, RunRow.owner, RunRow.owned_until).where(RunRow.id == run_id).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        raise no_run(run_id)
    if RunState(row.state).ended:
        raise InvalidRecord(f"run {run_id} has ended already: it is {row.state}")
    now = current_time(connection)
    if not row.owner or row.owned_until is None or row.owned_until <= now:
        return set_state(connection, run_id, RunState.INTERRUPTED, _message(by), now)
    connection.execute(update(RunRow).where(RunRow.id == run_id).values(stop_at=now, stop_by=by))
    return get_run(connection, run_id)


def clear(connection: Connection, run_id: int) -> None:
    """Forget what was asked of an earlier owner."""
    connection.execute(update(RunRow).where(RunRow.id == run_id).values(stop_at=None, stop_by=""))


def check(connection: Connection, run_id: int) -> None:
    """Raise RunStopped when the run was asked to end."""
    row = connection.execute(select(RunRow.stop_at, RunRow.stop_by).where(RunRow.id == run_id)).first()
    if row is not None and row.stop_at is not None:
        raise RunStopped(_message(row.stop_by), hint=f"go on with: tunefarm tune --resume {run_id}")


def _message(by: str) -> str:
    return f"stopped by {by}" if by else "stopped"


def left(connection: Connection, is_gone: Callable[[str], bool]) -> tuple[int, ...]:
    """Which of the newest runs nobody works on, though they have not ended."""
    query = select(RunRow.id, RunRow.state, RunRow.owner, RunRow.owned_until, RunRow.updated_at)
    newest = connection.execute(query.order_by(RunRow.id.desc()).limit(_NEWEST))
    now = current_time(connection)
    return tuple(row.id for row in newest if _is_left(row, now, is_gone))


def end_left(connection: Connection, run_id: int, is_gone: Callable[[str], bool], message: str) -> bool:
    """End the run if it is one of `left` now; whether it was."""
    query = select(RunRow.state, RunRow.owner, RunRow.owned_until, RunRow.updated_at).where(RunRow.id == run_id)
    row = connection.execute(query.with_for_update()).first()
    if row is None or not _is_left(row, current_time(connection), is_gone):
        return False
    free_run(connection, run_id, RunState.INTERRUPTED, message)
    return True


def _is_left(row: AnyRow, now: datetime, is_gone: Callable[[str], bool]) -> bool:
    """Whether a run is abandoned.
    A running one without an owner is not, because a program adds to it without heartbeats."""
    if RunState(row.state).ended:
        return False
    quiet = timedelta(seconds=QUIET_S)
    if row.owner:
        return is_gone(row.owner) or bool(row.owned_until is None or row.owned_until + quiet < now)
    return bool(row.state == RunState.QUEUED and row.updated_at + quiet < now)
