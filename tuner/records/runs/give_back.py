"""Candidates that were fastest alone and slower in their model: no election counts their trials any more."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, false, select, text, update

from tuner.records.db.schema import (
    CandidateRow,
    DeviceClassRow,
    RunTaskRow,
    TargetRow,
    TrialRow,
    TuningKeyRow,
    WorkloadRow,
)
from tuner.records.lookup import incumbent
from tuner.records.runs import catalog, results


def give_back(
    connection: Connection, workload_key: str, target: str, device_class: str, keep: Collection[str]
) -> int:  # fmt: skip
    """Take the trials of a workload there out of elections, but for the candidates `keep`; returns their number.

    The best configs and the results of runs follow.
    """
    keys = sorted(
        connection.scalars(
            select(TuningKeyRow.id)
            .join(WorkloadRow, WorkloadRow.id == TuningKeyRow.workload_id)
            .join(TargetRow, TargetRow.id == TuningKeyRow.target_id)
            .join(DeviceClassRow, DeviceClassRow.id == TuningKeyRow.device_class_id)
            .where(
                WorkloadRow.key == workload_key,
                TargetRow.text == str(catalog.parse_target(target)),
                DeviceClassRow.name == device_class,
            )
        )
    )
    catalog.lock_keys(connection, keys)
    kept = select(CandidateRow.id).where(CandidateRow.digest.in_(list(keep)))
    slower = (TrialRow.key_id.in_(keys), text("trials.eligible"), TrialRow.candidate_id.not_in(kept))
    tasks = connection.scalars(select(TrialRow.task_id).where(*slower).distinct()).all()
    count = connection.execute(update(TrialRow).where(*slower).values(eligible=false())).rowcount
    for key in keys:
        incumbent.elect_again(connection, key)
    for task in sorted(tasks):
        run: int = connection.execute(select(RunTaskRow.run_id).where(RunTaskRow.id == task)).scalar_one()
        result = results.final_result(connection, run, task)
        if result is not None:
            connection.execute(update(RunTaskRow).where(RunTaskRow.id == task).values(best_cost=result.cost))
    return int(count)
