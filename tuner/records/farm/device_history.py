"""Measurements of one device, under all its fingerprints: latest trials and benchmark results. Each device row is asked
for by itself, because only then an index gives its newest rows in order."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from tuner.records.db.schema import DeviceRow, TrialRow
from tuner.records.db.schema_farm import BenchResultRow
from tuner.records.db.types import AnyRow
from tuner.records.farm import benches
from tuner.records.farm.model_farm import BenchResult
from tuner.records.model import Trial
from tuner.records.runs.trials import to_trial, trial_select

_FINGERPRINTS = 8
"""How many of a device's fingerprints are looked at, the newest first: a kernel update makes another."""


def trials(connection: Connection, name: str, limit: int) -> tuple[Trial, ...]:
    found: list[AnyRow] = []
    for device_id in _ids(connection, name):
        query = trial_select(False).where(TrialRow.device_id == device_id)
        found += connection.execute(query.order_by(TrialRow.finished_at.desc()).limit(limit)).all()
    newest = sorted(found, key=lambda row: (row.finished_at, row.id), reverse=True)
    return tuple(to_trial(row, False) for row in newest[:limit])


def benchmarks(connection: Connection, name: str) -> tuple[BenchResult, ...]:
    """The last result of each kernel, by kernel."""
    last: dict[str, int] = {}
    for device_id in reversed(_ids(connection, name)):
        newest = func.max(BenchResultRow.id).label("newest")
        query = select(BenchResultRow.kernel, newest).where(BenchResultRow.device_id == device_id)
        last |= {row.kernel: row.newest for row in connection.execute(query.group_by(BenchResultRow.kernel))}
    found = benches.by_ids(connection, list(last.values()))
    return tuple(sorted(found, key=lambda result: result.kernel))


def _ids(connection: Connection, name: str) -> list[int]:
    rows = connection.execute(select(DeviceRow.id, DeviceRow.last_seen).where(DeviceRow.name == name)).all()
    newest = sorted(rows, key=lambda row: (row.last_seen, row.id), reverse=True)
    return [row.id for row in newest[:_FINGERPRINTS]]
