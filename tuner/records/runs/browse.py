"""All trials of the store, filtered, a page at a time, at a cost that does not grow with the store.

Trials come by run task, and in order within one, which is the order of an index. Filters without an index are
applied to a fixed number of trials a page. A page may therefore be short, or empty, and still not be the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, select

from tuner.records.db.schema import DeviceClassRow, DeviceRow, RunRow, RunTaskRow, TargetRow, TrialRow, WorkloadRow
from tuner.records.db.types import AnyRow
from tuner.records.errors import InvalidRecord
from tuner.records.model import Trial, TrialStatus
from tuner.records.runs import catalog
from tuner.records.runs.trials import to_trial, trial_select

MOST_LOOKED_AT = 20_000
"""How many trials a page may look at."""
_TASKS_AT_ONCE = 100
_TASK_COST = 50  # what looking at a task costs, in trials


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFilter:
    """The trials to show; None: all.
    `workload` is a key or a name, `since` and `until` bound `finished_at`."""

    workload: str | None = None
    target: str | None = None
    run: int | None = None
    device_class: str | None = None
    device: str | None = None
    status: TrialStatus | None = None
    suspect: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """After which trial to go on. Its text is what clients hand back."""

    task: int = 0
    sequence: int = 0

    def __str__(self) -> str:
        return f"{self.task}.{self.sequence}"

    @staticmethod
    def parse(text: str) -> Cursor:
        """Raise InvalidRecord."""
        task, dot, sequence = text.partition(".")
        if not (dot and task.isdecimal() and sequence.isdecimal()) or max(len(task), len(sequence)) > 18:
            raise InvalidRecord(f"{text!r} is no cursor", hint="give the `next` of the page before")
        return Cursor(int(task), int(sequence))


def page(
    connection: Connection, wanted: TrialFilter, after: Cursor, limit: int, with_trace: bool
) -> tuple[tuple[Trial, ...], Cursor | None]:
    """Trials after the cursor, at most `limit`, and the cursor of the next page; None when there is none."""
    conditions = _conditions(wanted)
    found: list[Trial] = []
    left = MOST_LOOKED_AT
    at = after
    while tasks := _tasks(connection, wanted, at):
        for task in tasks:
            at = at if at.task == task.id else Cursor(task.id, 0)
            while at.sequence < task.last:
                end = min(task.last, at.sequence + left) if conditions else task.last
                rows = _rows(connection, task.id, at.sequence, end, conditions, limit - len(found), with_trace)
                found += rows
                left -= end - at.sequence if conditions else len(rows)
                at = Cursor(task.id, rows[-1].sequence if len(found) == limit else end)
                if len(found) == limit or left <= 0:
                    return tuple(found), at
            at = Cursor(task.id + 1)
            left -= _TASK_COST
            if left <= 0:
                return tuple(found), at
    return tuple(found), None


def _tasks(connection: Connection, wanted: TrialFilter, at: Cursor) -> list[AnyRow]:
    query = (
        select(RunTaskRow.id, RunRow.sequence.label("last"))
        .join(RunRow, RunRow.id == RunTaskRow.run_id)
        .where(RunTaskRow.id >= at.task)
    )
    if wanted.workload is not None:
        of = or_(WorkloadRow.key == wanted.workload, WorkloadRow.name == wanted.workload)
        query = query.where(RunTaskRow.workload_id.in_(select(WorkloadRow.id).where(of)))
    if wanted.target is not None:
        text = str(catalog.parse_target(wanted.target))
        query = query.where(RunTaskRow.target_id.in_(select(TargetRow.id).where(TargetRow.text == text)))
    if wanted.run is not None:
        query = query.where(RunTaskRow.run_id == wanted.run)
    return list(connection.execute(query.order_by(RunTaskRow.id).limit(_TASKS_AT_ONCE)))


def _conditions(wanted: TrialFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.device_class is not None:
        found.append(DeviceClassRow.name == wanted.device_class)
    if wanted.device is not None:
        found.append(DeviceRow.name == wanted.device)
    if wanted.status is not None:
        found.append(TrialRow.status == str(wanted.status))
    if wanted.suspect is not None:
        found.append(TrialRow.suspect == wanted.suspect)
    if wanted.since is not None:
        found.append(TrialRow.finished_at >= wanted.since)
    if wanted.until is not None:
        found.append(TrialRow.finished_at < wanted.until)
    return found


def _rows(
    connection: Connection, task: int, after: int, end: int, conditions: Iterable[ColumnElement[Any]], limit: int,
    with_trace: bool,
) -> list[Trial]:  # fmt: skip
    query = trial_select(with_trace).where(
        TrialRow.task_id == task, TrialRow.sequence > after, TrialRow.sequence <= end, *conditions
    )
    rows = connection.execute(query.order_by(TrialRow.sequence).limit(limit))
    return [to_trial(row, with_trace) for row in rows]
