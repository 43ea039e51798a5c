"""Events of devices, and the doubt that a failed check casts on their measurements before it.

A suspect trial is not eligible. No election counts it, and no search starts from it. Best configs that rested on it
are elected again, all in the transaction that records the event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, false, insert, select, text, update

from tuner.records.db.schema import DeviceRow, TrialRow, TuningKeyRow
from tuner.records.db.schema_farm import DeviceEventRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import RecordNotFound
from tuner.records.facts import of_row
from tuner.records.farm.model_farm import DeviceEvent, DeviceEventKind
from tuner.records.lookup import incumbent
from tuner.records.model import TrialPurpose, TrialStatus
from tuner.records.runs import catalog

_EVENTS = select(*DeviceEventRow.__table__.columns, DeviceRow.name.label("device")).join(
    DeviceRow, DeviceRow.id == DeviceEventRow.device_id
)
_CHECKS = (str(DeviceEventKind.CHECK_PASSED), str(DeviceEventKind.CHECK_FAILED))

# what makes a trial one that may become best, but for the device it was measured on
_SOUND = and_(
    TrialRow.status == str(TrialStatus.OK),
    TrialRow.verified,
    TrialRow.purpose != str(TrialPurpose.BASELINE),
    TrialRow.candidate_id.is_not(None),
)


def record(
    connection: Connection, device_id: int, kind: DeviceEventKind, message: str, at: datetime | None,
    data: Mapping[str, Any],
) -> DeviceEvent:  # fmt: skip
    device = connection.execute(select(DeviceRow.first_seen).where(DeviceRow.id == device_id)).first()
    if device is None:
        raise RecordNotFound(f"there is no device {device_id}")
    now = at or utcnow()
    since: datetime | None = None
    match kind:
        case DeviceEventKind.CHECK_FAILED:
            passed = _last(connection, device_id, now, (str(DeviceEventKind.CHECK_PASSED),))
            since = device.first_seen if passed is None else passed.at
            _doubt(connection, device_id, since, now, True)
        case DeviceEventKind.CHECK_PASSED:
            before = _last(connection, device_id, now, _CHECKS)
            if before is not None and before.kind == str(DeviceEventKind.CHECK_FAILED):
                since = before.at  # between the two checks it was still failing
                _doubt(connection, device_id, since, now, True)
        case DeviceEventKind.CLEARED:
            _doubt(connection, device_id, device.first_seen, now, False)
        case DeviceEventKind.QUARANTINED | DeviceEventKind.RETURNED | DeviceEventKind.RENAMED | DeviceEventKind.REMOVED:
            pass
    values = {"device_id": device_id, "kind": str(kind), "at": now, "since": since, "message": message}
    query = insert(DeviceEventRow).returning(DeviceEventRow.id)
    event_id: int = connection.execute(query, {**values, "data": dict(data)}).scalar_one()
    return _to_event(connection.execute(_EVENTS.where(DeviceEventRow.id == event_id)).one())


def _last(connection: Connection, device_id: int, before: datetime, kinds: tuple[str, ...]) -> AnyRow | None:
    query = _EVENTS.where(DeviceEventRow.device_id == device_id, DeviceEventRow.at <= before)
    found = query.where(DeviceEventRow.kind.in_(kinds)).order_by(DeviceEventRow.at.desc(), DeviceEventRow.id.desc())
    return connection.execute(found.limit(1)).first()


def _doubt(connection: Connection, device_id: int, since: datetime, until: datetime, suspect: bool) -> None:
    measured = (TrialRow.device_id == device_id, TrialRow.finished_at >= since, TrialRow.finished_at <= until)
    changed = (*measured, TrialRow.suspect.is_not(suspect))
    found = connection.scalars(select(TrialRow.key_id).where(*changed, _SOUND).distinct())
    keys = sorted(key for key in found if key is not None)
    catalog.lock_keys(connection, keys)
    eligible = false() if suspect else _SOUND
    connection.execute(update(TrialRow).where(*changed).values(suspect=suspect, eligible=eligible))
    for key in keys:
        incumbent.elect_again(connection, key)


def _to_event(row: AnyRow) -> DeviceEvent:
    return of_row(DeviceEvent, row, kind=DeviceEventKind(row.kind))


def of_device(connection: Connection, name: str, limit: int) -> tuple[DeviceEvent, ...]:
    """A device's events under all its fingerprints, latest first."""
    ids = select(DeviceRow.id).where(DeviceRow.name == name)
    query = _EVENTS.where(DeviceEventRow.device_id.in_(ids)).order_by(DeviceEventRow.at.desc()).limit(limit)
    return tuple(_to_event(row) for row in connection.execute(query))


def newest(connection: Connection, before: int | None, limit: int) -> tuple[DeviceEvent, ...]:
    query = _EVENTS.order_by(DeviceEventRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(DeviceEventRow.id < before)
    return tuple(_to_event(row) for row in connection.execute(query))


# a subquery of one value, not EXISTS, which a planner may turn into a join that reads the whole index
_SET_ASIDE = select(TrialRow.id).where(TrialRow.key_id == TuningKeyRow.id, text("trials.suspect")).limit(1)
_DOUBTED = select(TuningKeyRow.workload_id, TuningKeyRow.id).where(
    TuningKeyRow.workload_id.in_(bindparam("workloads", expanding=True)), _SET_ASIDE.scalar_subquery().is_not(None)
)
_SUSPECTS = (
    select(DeviceRow.name)
    .join(TrialRow, TrialRow.device_id == DeviceRow.id)
    .where(TrialRow.key_id.in_(bindparam("keys", expanding=True)), text("trials.suspect"))
    .limit(200)
)


def suspicions(connection: Connection, workload_ids: Collection[int]) -> dict[int, str]:
    """Return what to tell of measurements set aside, where there are any.
    It is for whoever asks for the best of these workloads."""
    doubted: dict[int, list[int]] = defaultdict(list)
    for row in connection.execute(_DOUBTED, {"workloads": sorted(workload_ids)}):
        doubted[row.workload_id].append(row.id)
    return {workload: _suspicion(connection, keys) for workload, keys in doubted.items()}


def _suspicion(connection: Connection, key_ids: list[int]) -> str:
    names = sorted(set(connection.scalars(_SUSPECTS, {"keys": key_ids})))
    return f"measurements of {', '.join(names[:5])} are set aside: the device failed its health check afterwards"
