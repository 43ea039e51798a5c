"""Records of devices: boxes that are renamed or leave the farm, and a device's newest measurements."""

from __future__ import annotations

from sqlalchemy import Connection, func, or_, select, update

from tuner.records.db.schema import DeviceRow, TrialRow
from tuner.records.db.schema_farm import BenchResultRow
from tuner.records.db.types import AnyRow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.farm import benches, device_events
from tuner.records.farm.model_farm import BenchResult, DeviceEventKind
from tuner.records.model import Trial
from tuner.records.runs.trials import to_trial, trial_select

MOST_NAME = 200


def rename(connection: Connection, old: str, new: str, by: str) -> tuple[str, ...]:
    """Give a box's devices the name `new`; what they are called now.

    What they measured, and their benchmarks, go on under it. Raises RecordNotFound for a box without devices,
    InvalidRecord for a name that another box has.
    """
    _check_name(new)
    devices = _known(connection, old)
    if _devices(connection, new):
        raise InvalidRecord(f"there are records of a box {new} already", hint="choose a name that no box has had")
    for device_id, name in devices:
        now = new + name.removeprefix(old)
        connection.execute(update(DeviceRow).where(DeviceRow.id == device_id).values(name=now))
        data = {"from": name, "to": now, "by": by}
        device_events.record(connection, device_id, DeviceEventKind.RENAMED, f"{name} is {now} from now on", None, data)
    return tuple(dict.fromkeys(new + name.removeprefix(old) for _, name in devices))


def remove(connection: Connection, box: str, by: str, reason: str) -> tuple[str, ...]:
    """Record that a box has left the farm; return the names of its devices. Raises RecordNotFound."""
    devices = _known(connection, box)
    for device_id, _ in devices:
        device_events.record(connection, device_id, DeviceEventKind.REMOVED, reason, None, {"by": by})
    return tuple(dict.fromkeys(name for _, name in devices))


def _devices(connection: Connection, box: str) -> list[tuple[int, str]]:
    """The devices of a box, by id and name."""
    below = DeviceRow.name.startswith(f"{box}/", autoescape=True) | DeviceRow.name.startswith(
        f"{box}:", autoescape=True
    )
    rows = connection.execute(select(DeviceRow.id, DeviceRow.name).where(or_(DeviceRow.name == box, below)))
    return [(row.id, row.name) for row in rows]


def _known(connection: Connection, box: str) -> list[tuple[int, str]]:
    if not (devices := _devices(connection, box)):
        raise RecordNotFound(f"there is no record of a box {box}", hint="`tunefarm devices` lists boxes")
    return devices


def _check_name(name: str) -> None:
    if not 0 < len(name) <= MOST_NAME or not all(ch.isalnum() or ch in "_.:@+-" for ch in name):
        raise InvalidRecord(f"{name[:60]!r} is no name of a box", hint="letters, digits and _.:@+- only")


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
