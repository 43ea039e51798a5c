"""Reading what a run's tasks came to. The definition is `tuner.records.lookup.result`."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, text

from tuner.records.db.schema import TrialRow
from tuner.records.lookup.result import MeasuredFinal, TaskResult, result_of
from tuner.records.model import TrialPurpose

_FINALS = select(TrialRow.id, TrialRow.candidate_id, TrialRow.samples).where(
    TrialRow.run_id == bindparam("run"),
    TrialRow.task_id == bindparam("task"),
    TrialRow.purpose == str(TrialPurpose.FINAL),
    text("trials.eligible"),
)
_FASTEST = (
    select(TrialRow.id, TrialRow.candidate_id, TrialRow.samples)
    .where(TrialRow.task_id == bindparam("task"), text("trials.improved"))
    .order_by(TrialRow.sequence.desc())
    .limit(1)
)


def final_result(connection: Connection, run_id: int, task_id: int) -> TaskResult | None:
    """Return what the finals of a task say; None where it had none."""
    rows = connection.execute(_FINALS, {"run": run_id, "task": task_id})
    return result_of(MeasuredFinal(row.id, row.candidate_id, True, tuple(row.samples)) for row in rows)


def task_result(connection: Connection, run_id: int, task_id: int) -> TaskResult | None:
    """Return what a task came to so far, by its finals, else by the search; None where nothing was measured."""
    if found := final_result(connection, run_id, task_id):
        return found
    rows = connection.execute(_FASTEST, {"task": task_id})
    return result_of(MeasuredFinal(row.id, row.candidate_id, False, tuple(row.samples)) for row in rows)
