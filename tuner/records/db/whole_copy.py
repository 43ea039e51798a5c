"""Copy a whole store into another one, of either kind of database, while others write to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, URL, Connection, Engine, Table, TableClause, column, func, insert, select, table, text

from tuner.records.db.database import connect, parse_url, reading, show_url, sqlite_path, writing
from tuner.records.db.migrate import SchemaVersion, state_of, upgrade
from tuner.records.db.schema_models import METADATA
from tuner.records.errors import RecordError, StoreUnavailable

_BATCH = 2000
_SERVING = "serving"  # a number that triggers change with every row put in


@dataclass(frozen=True)
class Copied:
    """The rows of each table that were copied, and how many runs were under way.
    What they add later is not there."""

    rows: Mapping[str, int]
    under_way: int


def copy_store(source: str | Path, destination: str | Path) -> Copied:
    """Copy the store at `source`, as it is at one moment, into an empty one: all of it or nothing.

    The destination is a database without tables, a store without records, or a SQLite file that is not there yet.
    Raises RecordError for one that holds records, SchemaMismatch, StoreMissing, StoreUnavailable.
    """
    from_url, to_url = parse_url(source), parse_url(destination)
    if from_url == to_url:
        raise RecordError(f"{show_url(from_url)} is both the store to copy and where to", hint="give another address")
    with _engine(from_url) as theirs, reading(theirs) as reader:
        state_of(reader, show_url(from_url)).require()
        with _made_if_missing(to_url), _engine(to_url) as ours, writing(ours) as writer:
            _check_empty(writer, show_url(to_url))
            if ours.dialect.name == "sqlite":
                writer.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
            copied = {each.name: _copy(each, reader, writer) for each in _tables()}
            _go_on_counting(writer)
            _check_copied(writer, copied)
        running = METADATA.tables["runs"]
        under_way = reader.execute(select(func.count()).where(running.c.state == "running")).scalar_one()
    return Copied(copied, under_way)


def _tables() -> list[Table]:
    """All tables, each after those that it refers to.
    The number of changes is last, since each row changes it."""
    ordered = list(METADATA.sorted_tables)
    return sorted(ordered, key=lambda each: each.name == _SERVING)


@contextmanager
def _engine(url: URL) -> Iterator[Engine]:
    engine = connect(url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _made_if_missing(url: URL) -> Iterator[None]:
    """Make the destination's tables where it has none. A file made here is removed when the copy fails."""
    path = sqlite_path(url)
    new = path is not None and not path.exists()
    try:
        if new or _is_empty(url):
            upgrade(url.render_as_string(hide_password=False))
        yield
    except BaseException:
        if new and path is not None:
            for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                path.with_name(name).unlink(missing_ok=True)
        raise


def _is_empty(url: URL) -> bool:
    with _engine(url) as engine, reading(engine) as connection:
        return state_of(connection, show_url(url)).version is SchemaVersion.EMPTY


def _check_empty(connection: Connection, address: str) -> None:
    state_of(connection, address).require()
    for each in _tables():
        if each.name != _SERVING and connection.execute(select(func.count()).select_from(each)).scalar_one():
            raise RecordError(
                f"{address} holds records already ({each.name})",
                hint="give an empty database; `tunefarm records merge` puts runs into a store that has some",
            )


def _copy(each: Table, reader: Connection, writer: Connection) -> int:
    if each.name == _SERVING:
        writer.execute(each.delete())
    into, count = _plain(each), 0
    found = reader.execute(select(each), execution_options={"yield_per": _BATCH})
    for rows in found.mappings().partitions():
        values: list[dict[str, Any]] = [dict(row) for row in rows]
        writer.execute(insert(into), values)
        count += len(values)
    return count


def _plain(each: Table) -> TableClause:
    """The table's columns without defaults.
    A missing value of JSON stays missing instead of becoming a `null` of JSON."""
    kinds = {c.name: JSON(none_as_null=True) if isinstance(c.type, JSON) else c.type for c in each.columns}
    return table(each.name, *(column(name, kind) for name, kind in kinds.items()))


def _go_on_counting(connection: Connection) -> None:
    """Have PostgreSQL number new rows after those copied; SQLite does so by itself."""
    if connection.dialect.name != "postgresql":
        return
    for each in _tables():
        for name in (c.name for c in each.primary_key.columns):
            sequence = connection.execute(
                text("SELECT pg_get_serial_sequence(:table, :column)"), {"table": each.name, "column": name}
            ).scalar()
            if sequence is not None and (last := connection.execute(select(func.max(each.c[name]))).scalar()):
                connection.execute(
                    text("SELECT setval(CAST(:name AS regclass), :last)"), {"name": sequence, "last": last}
                )


def _check_copied(connection: Connection, copied: Mapping[str, int]) -> None:
    for each in _tables():
        there = connection.execute(select(func.count()).select_from(each)).scalar_one()
        if there != copied[each.name]:
            raise StoreUnavailable(f"{each.name}: {copied[each.name]} rows were copied, and {there} are there")
