"""Many rows put into a table at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import JSON, Boolean, Column, Connection, Dialect, Double, Integer, Table, insert
from sqlalchemy.types import TypeEngine

from tuner.records.db.schema import Base
from tuner.records.db.types import AnyRow, UTCDateTime
from tuner.records.runs import catalog


def insert_all(
    connection: Connection, into: type[Base], rows: Sequence[Mapping[str, Any]], returning: Sequence[str], *,
    new: bool = True,
) -> Sequence[AnyRow]:  # fmt: skip
    """Put `rows`, all of the same columns, into a table; return the columns `returning` of the new ones.

    They come in any order. Without `new`, existing rows stay as they are. PostgreSQL gets each column as an array,
    because the driver and the server would take a statement with a parameter a value apart again. That is most of
    the time of inserting it.
    """
    table = into.__table__
    assert isinstance(table, Table)
    if connection.dialect.name == "postgresql":
        statement = _from_arrays(table, connection.dialect, tuple(rows[0]), tuple(returning), new)
        arrays = {name: _array(table.c[name], [row[name] for row in rows]) for name in rows[0]}
        return connection.exec_driver_sql(statement, arrays).all()
    columns = [table.c[name] for name in returning]
    if new:
        return connection.execute(insert(table).returning(*columns), list(rows)).all()
    return connection.execute(
        catalog.upsert(connection, into).on_conflict_do_nothing().returning(*columns), list(rows)
    ).all()


@lru_cache(maxsize=16)
def _from_arrays(table: Table, dialect: Dialect, names: tuple[str, ...], returning: tuple[str, ...], new: bool) -> str:
    """For the driver: `%(…)b` is a parameter sent as binary."""
    listed = ", ".join(names)
    types: dict[str, TypeEngine[Any]] = {name: table.c[name].type for name in names}
    # an array of JSON would be taken apart in the driver; its texts are JSON once they are here
    arrays = ", ".join(
        f"%({name})b::{'text' if isinstance(kind, JSON) else kind.compile(dialect)}[]" for name, kind in types.items()
    )
    values = ", ".join(f"{name}::json" if isinstance(kind, JSON) else name for name, kind in types.items())
    conflict = "" if new else "ON CONFLICT DO NOTHING "
    return (
        f"INSERT INTO {table.name} ({listed}) SELECT {values} FROM unnest({arrays}) AS r({listed}) "
        f"{conflict}RETURNING {', '.join(returning)}"
    )


def _array(column: Column[Any], values: list[Any]) -> list[Any]:
    """A column's values as one type, which is what the driver makes arrays of."""
    match column.type:
        case JSON():
            return [None if value is None else _json(value) for value in values]
        case UTCDateTime():
            return [_aware(value) for value in values]
        case Double():
            return [None if value is None else float(value) for value in values]
        case Boolean():
            return [None if value is None else bool(value) for value in values]
        case Integer():
            return [None if value is None else int(value) for value in values]
        case _:
            return values


def _aware(value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone; the record store takes aware datetimes only")
    return value


def _plain(value: object) -> object:
    """Return what JSON does not know: numpy's numbers."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a row")


_json = json.JSONEncoder(default=_plain).encode
