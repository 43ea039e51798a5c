"""Column types that behave the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer
from sqlalchemy.types import TypeDecorator

RowId = BigInteger().with_variant(Integer(), "sqlite")
"""64-bit key; SQLite numbers rows by itself only in a column declared INTEGER."""


AnyRow = Any
"""A result row, read by column name. (Row's type parameters differ between SQLAlchemy 2.0 and 2.1.)"""


class UTCDateTime(TypeDecorator[datetime]):
    """An aware datetime, kept in UTC. SQLite has no time zones, so it stores the UTC time without one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; the record store takes aware datetimes only")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utcnow() -> datetime:
    return datetime.now(UTC)
