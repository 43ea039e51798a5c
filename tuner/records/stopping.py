"""Asking a run to end, from wherever the store is reached: whoever tunes it learns of it when it renews the run."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from tuner.records.claims import current_time
from tuner.records.errors import InvalidRecord, RunStopped
from tuner.records.model import Run, RunState
from tuner.records.runs import get_run, no_run, set_state
from tuner.records.schema import RunRow


def request(connection: Connection, run_id: int, by: str) -> Run:
    """Ask the run's owner to end it; a run without one ends here and now."""
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
    """Raises RunStopped when the run was asked to end."""
    row = connection.execute(select(RunRow.stop_at, RunRow.stop_by).where(RunRow.id == run_id)).first()
    if row is not None and row.stop_at is not None:
        raise RunStopped(_message(row.stop_by), hint=f"go on with: tunefarm tune --resume {run_id}")


def _message(by: str) -> str:
    return f"stopped by {by}" if by else "stopped"
