"""Taking runs out of a store, with all that only they refer to."""

from __future__ import annotations

from sqlalchemy import Connection, delete, exists, select

from tuner.records.db.schema import BestConfigRow, CandidateRow, ClaimRow, RunFailureRow, RunRow, RunTaskRow, TrialRow
from tuner.records.db.schema_models import ModelRunRow
from tuner.records.errors import InvalidRecord
from tuner.records.model import RunState
from tuner.records.runs.runs import no_run

BATCH = 2_000
"""Trials deleted in one transaction, so that others may write between."""


def check_removable(connection: Connection, run_id: int) -> None:
    """Check that a run may be deleted.
    Raises RecordNotFound; InvalidRecord while the run is under way or a best config comes from it."""
    state = connection.scalar(select(RunRow.state).where(RunRow.id == run_id))
    if state is None:
        raise no_run(run_id)
    if not RunState(state).ended:
        raise InvalidRecord(f"run {run_id} is {state}; stop it first")
    if holds_best(connection, run_id):
        raise InvalidRecord(f"run {run_id} holds a best config, which builds use; it is kept")


def holds_best(connection: Connection, run_id: int) -> bool:
    """Whether a best config was measured in the run."""
    query = select(BestConfigRow.id).join(TrialRow, TrialRow.id == BestConfigRow.trial_id)
    return connection.scalar(query.where(TrialRow.run_id == run_id).limit(1)) is not None


def remove_trials(connection: Connection, run_id: int) -> int:
    """Delete up to BATCH of the run's last trials, and the candidates that only they are of.
    Returns how many trials. The rest of the run is still in order if no further call follows."""
    check_removable(connection, run_id)
    last = select(TrialRow.id, TrialRow.candidate_id).where(TrialRow.run_id == run_id)
    rows = connection.execute(last.order_by(TrialRow.sequence.desc()).limit(BATCH)).all()
    connection.execute(delete(TrialRow).where(TrialRow.id.in_([row.id for row in rows])))
    candidates = {row.candidate_id for row in rows if row.candidate_id is not None}
    connection.execute(
        delete(CandidateRow).where(
            CandidateRow.id.in_(candidates),
            ~exists().where(TrialRow.candidate_id == CandidateRow.id),
            ~exists().where(BestConfigRow.candidate_id == CandidateRow.id),
        )
    )
    return len(rows)


def remove_run(connection: Connection, run_id: int) -> None:
    """Delete a run that has no trials left."""
    check_removable(connection, run_id)
    tasks = select(RunTaskRow.id).where(RunTaskRow.run_id == run_id)
    connection.execute(delete(ClaimRow).where(ClaimRow.run_id == run_id))
    connection.execute(delete(RunFailureRow).where(RunFailureRow.task_id.in_(tasks)))
    connection.execute(delete(RunTaskRow).where(RunTaskRow.run_id == run_id))
    connection.execute(delete(ModelRunRow).where(ModelRunRow.run_id == run_id))
    connection.execute(delete(RunRow).where(RunRow.id == run_id))
