"""Reading what a run's tasks came to. The definition is `tuner.records.lookup.result`."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, text

from tuner.records.db.schema import TrialRow
from tuner.records.lookup.result import MeasuredFinal, TaskResult, result_of, untuned_result
from tuner.records.model import TrialPurpose

_FINALS = select(TrialRow.id, TrialRow.candidate_id, TrialRow.samples).where(
    TrialRow.run_id == bindparam("run"),
    TrialRow.task_id == bindparam("task"),
    TrialRow.purpose == str(TrialPurpose.FINAL),
    text("trials.eligible"),
)
_BASELINES = (
    select(TrialRow.key_id, TrialRow.cost)
    .where(
        TrialRow.task_id == bindparam("task"),
        TrialRow.purpose == str(TrialPurpose.BASELINE),
        TrialRow.cost.is_not(None),
    )
    .order_by(TrialRow.sequence)
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


def baseline_cost(connection: Connection, task_id: int) -> float | None:
    """Return the seconds a call of a task's baseline; None if it was not measured."""
    return untuned_result([(row.key_id, row.cost) for row in connection.execute(_BASELINES, {"task": task_id})])


def task_result(connection: Connection, run_id: int, task_id: int) -> TaskResult | None:
    """Return a task's result so far, by its finals, else by the search. None if nothing was measured."""
    if found := final_result(connection, run_id, task_id):
        return found
    rows = connection.execute(_FASTEST, {"task": task_id})
    return result_of(MeasuredFinal(row.id, row.candidate_id, False, tuple(row.samples)) for row in rows)
