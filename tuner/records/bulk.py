"""Many rows put into a table at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, Dialect, Table, TextClause, insert, text

from tuner.records import catalog
from tuner.records.schema import Base
from tuner.records.types import AnyRow


def insert_all(
    connection: Connection,
    into: type[Base],
    rows: Sequence[Mapping[str, Any]],
    returning: Sequence[str],
    *,
    new: bool = True,
) -> Sequence[AnyRow]:
    """Put `rows`, all of the same columns, into a table; the columns `returning` of those put there, in any order.
    Without `new`, rows that are there already are left as they are.

    PostgreSQL gets them as one JSON document: a statement with a parameter a value is taken apart by the driver and
    again by the server, which is most of the time of inserting it.
    """
    table = into.__table__
    assert isinstance(table, Table)
    columns = [table.c[name] for name in returning]
    if connection.dialect.name == "postgresql":
        statement = _from_json(table, connection.dialect, tuple(rows[0]), tuple(returning), new)
        return connection.execute(statement, {"rows": json.dumps(rows, default=_plain)}).all()
    if new:
        return connection.execute(insert(table).returning(*columns), list(rows)).all()
    return connection.execute(
        catalog.upsert(connection, into).on_conflict_do_nothing().returning(*columns), list(rows)
    ).all()


@lru_cache(maxsize=16)
def _from_json(
    table: Table, dialect: Dialect, names: tuple[str, ...], returning: tuple[str, ...], new: bool
) -> TextClause:
    listed = ", ".join(names)
    typed = ", ".join(f"{name} {table.c[name].type.compile(dialect)}" for name in names)
    conflict = "" if new else "ON CONFLICT DO NOTHING "
    return text(
        f"INSERT INTO {table.name} ({listed}) "
        f"SELECT {listed} FROM json_to_recordset(CAST(:rows AS json)) AS r({typed}) "
        f"{conflict}RETURNING {', '.join(returning)}"
    )


def _plain(value: object) -> object:
    """What JSON does not know: times, and numpy's numbers."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a row")
