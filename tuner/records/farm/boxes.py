"""Boxes that get another name or leave the farm: their devices' records keep their meaning."""

from __future__ import annotations

from sqlalchemy import Connection, or_, select, update

from tuner.records.db.schema import DeviceRow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.farm import device_events
from tuner.records.farm.model_farm import DeviceEventKind

MOST_NAME = 200


def rename(connection: Connection, old: str, new: str, by: str) -> tuple[str, ...]:
    """Give a box's devices the name `new`; what they are called now. What they measured, and their benchmarks, go on
    under it.

    Raises RecordNotFound for a box without devices, InvalidRecord for a name that another box has.
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
    """Write down that a box has left the farm; the names of its devices. Raises RecordNotFound."""
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
