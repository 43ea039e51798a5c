"""Families in the store.

One function at many sizes, the configs chosen for it, and the rule that picks among them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, func, insert, or_, select, update

from tuner.records.db.base import StorePart, page_size
from tuner.records.db.schema_farm import FamilyRow
from tuner.records.db.types import AnyRow, utcnow
from tuner.records.errors import InvalidRecord, RecordNotFound

MOST_BYTES = 16 << 20
"""The largest record of a family that the store takes, as JSON."""
_HINT = "tune it: tunefarm tune dense:M,3072,768 --shapes M=1,16,128"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFamily:
    """A family to keep.
    `record` is what `tuner.families.record` reads; `key` names the function, equal for every list of its sizes."""

    key: str
    name: str
    target: str
    device_class: str
    run_id: int | None
    digest: str
    loss: float
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFamily(NewFamily):
    """`loss` is how much slower the portfolio is than each size's best, as a factor (geometric mean).
    `current`: no newer one is of its key, target and device class."""

    id: int
    current: bool
    created_at: datetime


class FamilyRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def add(self, new: NewFamily, created_at: datetime | None = None) -> StoredFamily:
        """Keep a family as the newest of its key, target and device class.
        One from elsewhere, that was made before the one in use, is kept beside it. Raises InvalidRecord for one too
        large."""
        size = len(json.dumps(new.record))
        if size > MOST_BYTES:
            raise InvalidRecord(f"a family's record has at most {MOST_BYTES} bytes, not {size}")
        values: dict[str, Any] = {
            "key": new.key,
            "name": new.name,
            "target": new.target,
            "device_class": new.device_class,
            "run_id": new.run_id,
            "digest": new.digest,
            "loss": new.loss,
            "record": dict(new.record),
            "current": True,
            "created_at": created_at or utcnow(),
        }

        def put(connection: Connection) -> int:
            before = (FamilyRow.key == new.key, FamilyRow.target == new.target)
            same = and_(*before, FamilyRow.device_class == new.device_class, FamilyRow.current)
            newest = connection.scalar(select(func.max(FamilyRow.created_at)).where(same))
            kept = dict(values)
            if created_at is not None and newest is not None and newest > created_at:
                kept["current"] = False
            else:
                connection.execute(update(FamilyRow).where(same).values(current=False))
            return connection.scalars(insert(FamilyRow).returning(FamilyRow.id), kept).one()

        return self.get(self._write(put))

    def get(self, family_id: int) -> StoredFamily:
        """One family. Raises RecordNotFound."""
        row = self._read(lambda c: c.execute(_FAMILIES.where(FamilyRow.id == family_id)).first())
        if row is None:
            raise RecordNotFound(f"there is no family {family_id}", hint=_HINT)
        return _stored(row)

    def in_use(self, key: str, target: str, device_class: str | None = None) -> StoredFamily | None:
        """The newest record of a family for a target, and a device class where one is given."""
        query = _FAMILIES.where(FamilyRow.key == key, FamilyRow.target == target, FamilyRow.current.is_(True))
        if device_class is not None:
            query = query.where(FamilyRow.device_class == device_class)
        row = self._read(lambda c: c.execute(query.order_by(FamilyRow.id.desc()).limit(1)).first())
        return None if row is None else _stored(row)

    def all_in_use(
        self, target: str | None = None, device_class: str | None = None, name: str | None = None
    ) -> tuple[StoredFamily, ...]:
        """The newest record of every family, target and device class, or of those given."""
        return self._read(lambda c: in_use(c, target, device_class, name))

    def newest(self, limit: int = 100, before: int | None = None, key: str | None = None) -> tuple[StoredFamily, ...]:
        """The newest families, newest first; with `before`, those older than that id; with `key`, those of it."""
        query = _FAMILIES.order_by(FamilyRow.id.desc()).limit(page_size(limit))
        if before is not None:
            query = query.where(FamilyRow.id < before)
        if key is not None:
            query = query.where(FamilyRow.key == key)
        return self._read(lambda c: tuple(_stored(row) for row in c.execute(query)))

    def of_run(self, run_id: int, keys: Collection[str]) -> Mapping[int, str]:
        """The names of the families with these keys that a run tuned, by their numbers, oldest first."""
        query = select(FamilyRow.id, FamilyRow.name).where(FamilyRow.key.in_(sorted(keys)), FamilyRow.run_id == run_id)
        return self._read(lambda c: {row.id: row.name for row in c.execute(query.order_by(FamilyRow.id))})


_FAMILIES = select(*FamilyRow.__table__.columns)


def in_use(
    connection: Connection, target: str | None, device_class: str | None, name: str | None
) -> tuple[StoredFamily, ...]:
    """Return what `FamilyRecords.all_in_use` does; `name` may be a key, too."""
    query = _FAMILIES.where(FamilyRow.current.is_(True)).order_by(FamilyRow.id)
    if target is not None:
        query = query.where(FamilyRow.target == target)
    if device_class is not None:
        query = query.where(FamilyRow.device_class == device_class)
    if name is not None:
        query = query.where(or_(FamilyRow.name == name, FamilyRow.key == name))
    return tuple(_stored(row) for row in connection.execute(query))


def _stored(row: AnyRow) -> StoredFamily:
    return StoredFamily(**row._mapping)
