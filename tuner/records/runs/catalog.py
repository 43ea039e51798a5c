"""Queries on what trials refer to: workloads, targets, devices and tuning keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, any_, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute

from compiler.target.target import Target
from tuner.records.db.schema import (
    Base,
    DeviceClassRow,
    DeviceRow,
    RunRow,
    RunTaskRow,
    TargetRow,
    TuningKeyRow,
    WorkloadRow,
)
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.facts import from_columns, of_row, to_columns, types_of
from tuner.records.lookup.keys import fingerprint_columns, fingerprint_digest, workload_family
from tuner.records.model import (
    IMPORTED,
    DeviceFacts,
    DeviceRecord,
    NewDevice,
    NewWorkload,
    TargetRecord,
    Workload,
    WorkloadFacts,
)


@lru_cache(maxsize=1024)
def parse_target(text: str) -> Target:
    """The compiler's target. Raises TargetError."""
    return Target(text)


def upsert(connection: Connection, table: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that handles conflicts, in the database's dialect."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def one_of(connection: Connection, column: InstrumentedAttribute[str], names: Collection[str]) -> ColumnElement[bool]:
    """The condition that a column has one of several values.

    PostgreSQL gets them as an array. A statement with a parameter each would differ for each number of them. The
    driver would take it apart and the server plan it every time.
    """
    if connection.dialect.name == "postgresql":
        return column == any_(bindparam(None, list(names), type_=postgresql.ARRAY(column.type)))
    return column.in_(names)


def insert_missing(connection: Connection, table: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows`, except those that a unique constraint says exist.
    They may exist in another writer's uncommitted transaction."""
    if rows:
        connection.execute(upsert(connection, table).on_conflict_do_nothing(), list(rows))


# ---------------------------------------------------------------------------------- workloads


def workload_select() -> Select[Any]:
    return select(*WorkloadRow.__table__.columns)


def to_workload(row: AnyRow) -> Workload:
    return of_row(Workload, row, **from_columns(WorkloadFacts, row))


_UNTOLD = (None, "")
_CHUNK = 1000  # values in one IN list: well under every driver's limit on parameters
_RUNS_READ = 20  # of those that tuned a workload, for where it is defined


def upsert_workloads(connection: Connection, news: Sequence[NewWorkload]) -> dict[str, Workload]:
    """`upsert_workload` of many, by key: those that are new, and those known whole, a thousand at a time."""
    wanted = {new.key: new for new in sorted(news, key=lambda new: new.key)}
    found = _find_workloads(connection, list(wanted))
    if missing := [_workload_values(new) for key, new in wanted.items() if key not in found]:
        insert_missing(connection, WorkloadRow, missing)
        found |= _find_workloads(connection, [values["key"] for values in missing])
    for new in news:
        if _filled(found[new.key], new):
            found[new.key] = upsert_workload(connection, new)
    return found


def _find_workloads(connection: Connection, keys: Sequence[str]) -> dict[str, Workload]:
    found: dict[str, Workload] = {}
    for start in range(0, len(keys), _CHUNK):
        query = workload_select().where(one_of(connection, WorkloadRow.key, keys[start : start + _CHUNK]))
        found |= {row.key: to_workload(row) for row in connection.execute(query)}
    return found


def _workload_values(new: NewWorkload) -> dict[str, Any]:
    """The row of a new workload. Raises InvalidRecord."""
    if not new.key or len(new.key) > 64:
        raise InvalidRecord(f"{new.key!r} is no workload key")
    return {**to_columns(WorkloadFacts, new), "created_at": utcnow(), "family": workload_family(new.function)}


def _filled(known: Workload, new: NewWorkload) -> dict[str, Any]:
    """The facts of a workload that are told now and were not known."""
    told = to_columns(WorkloadFacts, new)
    return {name: value for name, value in told.items() if getattr(known, name) in _UNTOLD and value not in _UNTOLD}


def upsert_workload(connection: Connection, new: NewWorkload) -> Workload:
    found = find_workload(connection, new.key)
    if found is None:
        insert_missing(connection, WorkloadRow, [_workload_values(new)])
        found = find_workload(connection, new.key)
        assert found is not None
    filled = _filled(found, new)
    if "function" in filled:
        filled["family"] = workload_family(new.function)
    if filled:
        connection.execute(update(WorkloadRow).where(WorkloadRow.id == found.id).values(**filled))
        found = find_workload(connection, new.key)
        assert found is not None
    return found


_WORKLOAD = workload_select().where(WorkloadRow.key == bindparam("key"))


def find_workload(connection: Connection, key: str) -> Workload | None:
    row = connection.execute(_WORKLOAD, {"key": key}).first()
    return None if row is None else to_workload(row)


def workloads(connection: Connection, after: int, limit: int) -> tuple[Workload, ...]:
    query = workload_select().where(WorkloadRow.id > after).order_by(WorkloadRow.id).limit(limit)
    return tuple(to_workload(row) for row in connection.execute(query))


_KEY = re.compile(r"[0-9a-f]{8,64}")


def workloads_called(connection: Connection, word: str, limit: int) -> tuple[Workload, ...]:
    called: ColumnElement[bool] = WorkloadRow.name == word
    if _KEY.fullmatch(word):
        called |= WorkloadRow.key.startswith(word)
    query = workload_select().where(called).order_by(WorkloadRow.id).limit(limit)
    return tuple(to_workload(row) for row in connection.execute(query))


_SOURCES = (
    select(RunTaskRow.position, RunRow.__table__.c.options)
    .join(RunRow, RunTaskRow.run_id == RunRow.id)
    .join(WorkloadRow, RunTaskRow.workload_id == WorkloadRow.id)
    .where(WorkloadRow.key == bindparam("key"))
    .order_by(RunTaskRow.run_id.desc())
    .limit(_RUNS_READ)
)


def workload_source(connection: Connection, key: str) -> Mapping[str, Any] | None:
    for row in connection.execute(_SOURCES, {"key": key}):
        items = [item for item in row.options.get(IMPORTED, row.options).get("workloads", ()) if "family" not in item]
        if row.position < len(items) and "file" in items[row.position]:
            return dict(items[row.position])
    return None


# ------------------------------------------------------------------------------------ targets


def _to_target(row: AnyRow) -> TargetRecord:
    return of_row(TargetRecord, row, features=tuple(row.features))


def upsert_target(connection: Connection, text: str) -> TargetRecord:
    parsed = parse_target(text)
    query = select(*TargetRow.__table__.columns).where(TargetRow.text == str(parsed))
    row = connection.execute(query).first()
    if row is None:
        values = {
            "text": str(parsed),
            "kind": str(parsed.kind),
            "features": sorted(parsed.features),
            "created_at": utcnow(),
        }
        insert_missing(connection, TargetRow, [values])
        row = connection.execute(query).one()
    return _to_target(row)


def targets(connection: Connection, limit: int) -> tuple[TargetRecord, ...]:
    query = select(*TargetRow.__table__.columns).order_by(TargetRow.id).limit(limit)
    return tuple(_to_target(row) for row in connection.execute(query))


# ------------------------------------------------------------------------------------ devices


def device_select() -> Select[Any]:
    return select(
        DeviceRow.id,
        *(getattr(DeviceRow, name) for name in types_of(DeviceFacts)),
        DeviceClassRow.name.label("device_class"),
        DeviceClassRow.features,
        DeviceRow.first_seen,
        DeviceRow.last_seen,
    ).join(DeviceClassRow, DeviceClassRow.id == DeviceRow.device_class_id)


def _to_device(row: AnyRow) -> DeviceRecord:
    return of_row(DeviceRecord, row, **from_columns(DeviceFacts, row), features=tuple(row.features))


def upsert_device(connection: Connection, new: NewDevice) -> DeviceRecord:
    if not new.name or not new.device_class:
        raise InvalidRecord(f"a device needs a name and a device class, got {new.name!r}, {new.device_class!r}")
    class_id = _upsert_class(connection, new.device_class, new.features)
    digest = fingerprint_digest(new.fingerprint)
    query = device_select().where(DeviceRow.name == new.name, DeviceRow.fingerprint_digest == digest)
    row = connection.execute(query).first()
    now = utcnow()
    if row is None:
        values = {
            **to_columns(DeviceFacts, new),
            "device_class_id": class_id,
            "fingerprint_digest": digest,
            "first_seen": now,
            "last_seen": now,
            **fingerprint_columns(new.fingerprint),
        }
        insert_missing(connection, DeviceRow, [values])
    else:
        told = to_columns(DeviceFacts, new)
        del told["name"], told["fingerprint"]  # what it was found by
        values = {**told, "device_class_id": class_id, "last_seen": now}
        connection.execute(update(DeviceRow).where(DeviceRow.id == row.id).values(**values))
    return _to_device(connection.execute(query).one())


def _upsert_class(connection: Connection, name: str, features: Iterable[str]) -> int:
    """The class's id. Its features are those that all its devices have."""
    query = select(DeviceClassRow.id, DeviceClassRow.features).where(DeviceClassRow.name == name)
    row = connection.execute(query).first()
    given = set(features)
    if row is None:
        values = {"name": name, "features": sorted(given), "serves_from": [], "created_at": utcnow()}
        insert_missing(connection, DeviceClassRow, [values])
        row = connection.execute(query).one()
    if given and (common := sorted(given & set(row.features))) != row.features:
        connection.execute(update(DeviceClassRow).where(DeviceClassRow.id == row.id).values(features=common))
    return int(row.id)


def devices(connection: Connection, after: int, limit: int) -> tuple[DeviceRecord, ...]:
    query = device_select().where(DeviceRow.id > after).order_by(DeviceRow.id).limit(limit)
    return tuple(_to_device(row) for row in connection.execute(query))


def devices_named(connection: Connection, name: str) -> tuple[DeviceRecord, ...]:
    query = device_select().where(DeviceRow.name == name).order_by(DeviceRow.last_seen, DeviceRow.id)
    return tuple(_to_device(row) for row in connection.execute(query))


def find_device(connection: Connection, device_id: int) -> DeviceRecord:
    row = connection.execute(device_select().where(DeviceRow.id == device_id)).first()
    if row is None:
        raise RecordNotFound(f"there is no device {device_id}")
    return _to_device(row)


def device_classes(connection: Connection, limit: int) -> tuple[str, ...]:
    return tuple(connection.scalars(select(DeviceClassRow.name).order_by(DeviceClassRow.id).limit(limit)))


def declare_compatible(connection: Connection, device_class: str, serves_from: Sequence[str]) -> None:
    names = {device_class, *serves_from}
    known = set(connection.scalars(select(DeviceClassRow.name).where(DeviceClassRow.name.in_(names))))
    if missing := sorted(names - known):
        raise RecordNotFound(
            f"no device of class {', '.join(missing)} is known",
            hint="a class is known once the store has a device of it",
        )
    connection.execute(
        update(DeviceClassRow)
        .where(DeviceClassRow.name == device_class)
        .values(serves_from=[name for name in dict.fromkeys(serves_from) if name != device_class])
    )


# -------------------------------------------------------------------------------- tuning keys

KeyTuple = tuple[int, int, int, str]
"""Workload, target and device class by id, and the toolchain key."""


def key_ids(connection: Connection, wanted: Iterable[KeyTuple]) -> dict[KeyTuple, int]:
    """The ids of tuning keys, creating those that are new."""
    keys = sorted(set(wanted))
    found = find_keys(connection, keys)
    missing = [key for key in keys if key not in found]
    if missing:
        names = ("workload_id", "target_id", "device_class_id", "toolchain")
        insert_missing(connection, TuningKeyRow, [dict(zip(names, key)) for key in missing])
        found = find_keys(connection, keys)
    return found


def find_keys(connection: Connection, keys: Sequence[KeyTuple]) -> dict[KeyTuple, int]:
    """The ids of those tuning keys that exist."""
    found = {}
    for key in keys:
        workload_id, target_id, device_class_id, toolchain = key
        query = select(TuningKeyRow.id).where(
            TuningKeyRow.workload_id == workload_id,
            TuningKeyRow.target_id == target_id,
            TuningKeyRow.device_class_id == device_class_id,
            TuningKeyRow.toolchain == toolchain,
        )
        if (key_id := connection.scalar(query)) is not None:
            found[key] = key_id
    return found


_LOCK_KEYS = (
    select(TuningKeyRow.id)
    .where(TuningKeyRow.id.in_(bindparam("ids", expanding=True)))
    .order_by(TuningKeyRow.id)
    .with_for_update(key_share=True)
)


def lock_keys(connection: Connection, ids: Iterable[int]) -> None:
    """Let one writer at a time at these keys' claims and bests.
    The order is always the same, so no circle of waiting arises. Trials that were just added hold a weaker lock of
    their keys, which this one is compatible with. SQLite has one writer at a time anyway."""
    if connection.dialect.name != "sqlite":
        connection.execute(_LOCK_KEYS, {"ids": sorted(set(ids))}).all()
