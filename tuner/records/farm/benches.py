"""Benchmark suites, their runs over the fleet, and results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, insert, select, update

from tuner.records.db.schema import DeviceClassRow, DeviceRow, TargetRow
from tuner.records.db.schema_farm import BenchResultRow, BenchRunRow, BenchSuiteRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.facts import from_columns, of_row, to_columns
from tuner.records.farm.model_farm import BenchFacts, BenchResult, BenchRun, NewBenchResult, NewBenchRun
from tuner.records.lookup.best import interval
from tuner.records.lookup.keys import toolchain_key
from tuner.records.model import CommandFacts, RunState, TrialStatus
from tuner.records.runs import catalog

_RUNS = select(*BenchRunRow.__table__.columns, BenchSuiteRow.name.label("suite")).join(
    BenchSuiteRow, BenchSuiteRow.id == BenchRunRow.suite_id
)
_RESULTS = (
    select(
        *BenchResultRow.__table__.columns,
        TargetRow.text.label("target"),
        DeviceRow.name.label("device"),
        DeviceClassRow.name.label("device_class"),
    )
    .join(TargetRow, TargetRow.id == BenchResultRow.target_id)
    .join(DeviceRow, DeviceRow.id == BenchResultRow.device_id)
    .join(DeviceClassRow, DeviceClassRow.id == DeviceRow.device_class_id)
)


# ------------------------------------------------------------------------------------ writing


def start(connection: Connection, new: NewBenchRun) -> BenchRun:
    now = new.started_at or utcnow()
    values = {
        "suite_id": _suite(connection, new),
        "state": str(RunState.RUNNING),
        "message": "",
        "devices": new.devices,
        **to_columns(CommandFacts, new),
        "started_at": now,
        "finished_at": None,
        "updated_at": now,
        "results": 0,
        "failed": 0,
    }
    run_id: int = connection.execute(insert(BenchRunRow).returning(BenchRunRow.id), values).scalar_one()
    return get(connection, run_id)


def _suite(connection: Connection, new: NewBenchRun) -> int:
    text = json.dumps(new.spec, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    values = {"name": new.suite, "digest": digest, "spec": dict(new.spec), "created_at": utcnow()}
    catalog.insert_missing(connection, BenchSuiteRow, [values])
    same = (BenchSuiteRow.name == new.suite, BenchSuiteRow.digest == digest)
    return int(connection.execute(select(BenchSuiteRow.id).where(*same)).scalar_one())


def add_results(connection: Connection, run_id: int, new: Sequence[NewBenchResult]) -> tuple[int, ...]:
    locked = select(BenchRunRow.results, BenchRunRow.toolchain).where(BenchRunRow.id == run_id).with_for_update()
    run = connection.execute(locked).first()
    if run is None:
        raise _no_run(run_id)
    key = toolchain_key(run.toolchain)
    rows = [{"run_id": run_id, **_row(result, run.results + i, key)} for i, result in enumerate(new, 1)]
    query = insert(BenchResultRow).returning(BenchResultRow.id, sort_by_parameter_order=True)
    ids = tuple(connection.scalars(query, rows))
    counts = {"results": run.results + len(rows), "updated_at": utcnow()}
    failed = BenchRunRow.failed + sum(result.failure is not None for result in new)
    connection.execute(update(BenchRunRow).where(BenchRunRow.id == run_id).values(failed=failed, **counts))
    return ids


def _row(new: NewBenchResult, sequence: int, toolchain: str) -> dict[str, object]:
    if bool(new.samples) == (new.failure is not None):
        raise InvalidRecord(f"a result of {new.kernel} has either samples or a failure")
    bounds = interval(new.samples) if new.samples else None
    return {
        "sequence": sequence,
        **to_columns(BenchFacts, new),
        "workload_id": new.workload_id,
        "target_id": new.target_id,
        "device_id": new.device_id,
        "status": str(TrialStatus.OK if new.failure is None else TrialStatus.FAILED),
        "failure_kind": new.failure,
        "cost": None if bounds is None else bounds.median,
        "low": None if bounds is None else bounds.low,
        "high": None if bounds is None else bounds.high,
        "toolchain": toolchain,
        "measured_at": new.measured_at or utcnow(),
    }


def end(connection: Connection, run_id: int, state: RunState, message: str, at: datetime | None) -> BenchRun:
    now = at or utcnow()
    values = {"state": str(state), "message": message, "finished_at": now if state.ended else None, "updated_at": now}
    if connection.execute(update(BenchRunRow).where(BenchRunRow.id == run_id).values(**values)).rowcount == 0:
        raise _no_run(run_id)
    return get(connection, run_id)


# ------------------------------------------------------------------------------------ reading


def _no_run(run_id: int) -> RecordNotFound:
    return RecordNotFound(f"there is no benchmark run {run_id}", hint="list them with `tunefarm bench list`")


def get(connection: Connection, run_id: int) -> BenchRun:
    row = connection.execute(_RUNS.where(BenchRunRow.id == run_id)).first()
    if row is None:
        raise _no_run(run_id)
    return _to_run(row)


def newest(connection: Connection, before: int | None, limit: int) -> tuple[BenchRun, ...]:
    query = _RUNS.order_by(BenchRunRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(BenchRunRow.id < before)
    return tuple(_to_run(row) for row in connection.execute(query))


def results(connection: Connection, run_id: int, after: int, limit: int) -> tuple[BenchResult, ...]:
    """A run's results by rising sequence number, those above `after`."""
    query = _RESULTS.where(BenchResultRow.run_id == run_id, BenchResultRow.sequence > after)
    return _found(connection, query.order_by(BenchResultRow.sequence).limit(limit))


def series(connection: Connection, kernel: str, device: str, limit: int) -> tuple[BenchResult, ...]:
    """The last results of a kernel on a device, under all its fingerprints, oldest first."""
    ids = select(DeviceRow.id).where(DeviceRow.name == device)
    query = _RESULTS.where(BenchResultRow.kernel == kernel, BenchResultRow.device_id.in_(ids))
    return _found(connection, query.order_by(BenchResultRow.measured_at.desc()).limit(limit))[::-1]


def of_class(connection: Connection, kernel: str, device_class: str, but: str, limit: int) -> tuple[BenchResult, ...]:
    """The last results of a kernel on other devices of a class, oldest first."""
    query = _RESULTS.where(BenchResultRow.kernel == kernel, DeviceClassRow.name == device_class, DeviceRow.name != but)
    return _found(connection, query.order_by(BenchResultRow.measured_at.desc()).limit(limit))[::-1]


def by_ids(connection: Connection, ids: Sequence[int]) -> tuple[BenchResult, ...]:
    return _found(connection, _RESULTS.where(BenchResultRow.id.in_(ids))) if ids else ()


def _found(connection: Connection, query: Select[Any]) -> tuple[BenchResult, ...]:
    return tuple(_to_result(row) for row in connection.execute(query))


def _to_run(row: AnyRow) -> BenchRun:
    return of_row(BenchRun, row)


def _to_result(row: AnyRow) -> BenchResult:
    return of_row(BenchResult, row, failure=row.failure_kind, **from_columns(BenchFacts, row))
