"""The schema on every backend: what alembic makes, what is refused, and which queries have an index."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text

from tests.kit.threads import in_threads
from tuner.records.db import migrate
from tuner.records.db.database import connect, parse_url, reading, writing
from tuner.records.db.schema_models import METADATA
from tuner.records.errors import RecordError, SchemaMismatch, StoreMissing, StoreUnavailable
from tuner.records.model import NewWorkload
from tuner.records.store import RecordStore

KEY = "c" * 64
TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu"


def test_the_migrations_make_the_schema_the_code_describes(address: str) -> None:
    migrate.upgrade(address)
    engine = connect(parse_url(address))
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        assert _index_definitions(connection) == _declared_definitions(connection)
    engine.dispose()


def _index_definitions(connection: Connection) -> dict[str, str]:
    """Partial indexes of trials: autogenerate compares their columns, not their conditions."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(
            text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'")
        )
    else:
        rows = connection.execute(text("SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%WHERE%'"))
    return {name: _condition(sql) for name, sql in rows}


def _declared_definitions(connection: Connection) -> dict[str, str]:
    key = f"{connection.dialect.name}_where"
    found = {}
    for table in METADATA.tables.values():
        for index in table.indexes:
            where = index.dialect_kwargs.get(key)
            if where is not None:
                found[str(index.name)] = _condition(f"WHERE {where}")
    return found


def _condition(sql: str) -> str:
    return re.sub(r"::\w+|[()\s]|\btrials\.", "", sql.split("WHERE")[1])


def test_upgrading_twice_changes_nothing(address: str) -> None:
    first = migrate.upgrade(address)
    with RecordStore.open(address) as store:
        kept = store.workloads.upsert(NewWorkload(key=KEY, name="kept"))
    assert migrate.upgrade(address) == first
    assert migrate.check(address).ok
    with RecordStore.open(address) as store:
        assert store.workloads.find(KEY) == kept


def test_upgrading_at_once_from_many_places(address: str) -> None:
    in_threads(migrate.upgrade, [address] * 4)
    assert migrate.check(address).ok


def _stamp(address: str, revision: str) -> None:
    engine = connect(parse_url(address))
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :r"), {"r": revision})
    engine.dispose()


def test_a_newer_schema_is_refused_with_what_to_do(address: str) -> None:
    wanted = migrate.upgrade(address).wanted
    _stamp(address, "9999")
    for attempt in (lambda: RecordStore.open(address), lambda: migrate.upgrade(address)):
        with pytest.raises(SchemaMismatch) as caught:
            attempt()
        assert caught.value.detail["found"] == "9999"
        assert caught.value.detail["wanted"] == wanted
        assert "9999" in caught.value.message
        assert "upgrade tunefarm" in (caught.value.hint or "")
    assert not migrate.check(address).ok


def test_a_database_without_tables_is_refused_with_the_command(address: str) -> None:
    if "://" not in address:
        sqlite3.connect(address).execute("PRAGMA journal_mode = WAL").close()
    with pytest.raises(SchemaMismatch, match="no tables") as caught:
        RecordStore.open(address)
    assert "tunefarm db upgrade --db" in (caught.value.hint or "")
    with RecordStore.open(address, create=True) as store:
        assert store.runs.newest() == ()


def test_an_older_schema_is_refused_with_the_command(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.upgrade(address)
    ours = migrate.head()
    monkeypatch.setattr(migrate, "head", lambda: "9998")
    with pytest.raises(SchemaMismatch, match=f"has schema {ours}, this tunefarm works with 9998") as caught:
        RecordStore.open(address, create=True)
    assert "tunefarm db upgrade --db" in (caught.value.hint or "")


def test_another_programs_database_is_left_alone(address: str) -> None:
    if "://" not in address:
        Path(address).touch()
    engine = connect(parse_url(address))
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE theirs (x INTEGER)"))
    engine.dispose()
    for attempt in (lambda: RecordStore.open(address, create=True), lambda: migrate.upgrade(address)):
        with pytest.raises(SchemaMismatch, match="another program"):
            attempt()


class TestAddresses:
    def test_a_missing_file_is_not_made_by_reading(self, tmp_path: Path) -> None:
        for attempt in (RecordStore.open, migrate.check):
            with pytest.raises(StoreMissing) as caught:
                attempt(tmp_path / "none.db")
            assert "tunefarm db upgrade --db" in (caught.value.hint or "")
        assert list(tmp_path.iterdir()) == []

    def test_a_path_and_a_url_are_the_same_store(self, tmp_path: Path) -> None:
        with RecordStore.open(tmp_path / "a.db", create=True) as store:
            store.workloads.upsert(NewWorkload(key=KEY, name="w"))
            assert store.address == str(tmp_path / "a.db")
        with RecordStore.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
            assert store.workloads.find(KEY) is not None

    def test_what_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("not a database, " * 100)
        with pytest.raises(StoreUnavailable, match="not a database"):
            RecordStore.open(tmp_path / "text")
        with pytest.raises(StoreUnavailable, match="folder"):
            RecordStore.open(tmp_path)
        with pytest.raises(StoreUnavailable, match="does not exist"):
            RecordStore.open(tmp_path / "no" / "such.db", create=True)
        for address in ("mysql://h/d", "sqlite://", "nonsense://", "://"):
            with pytest.raises(RecordError):
                RecordStore.open(address)

    def test_a_server_that_is_not_there(self) -> None:
        pytest.importorskip("psycopg", reason="the postgres extra is not installed")
        with pytest.raises(StoreUnavailable) as caught:
            RecordStore.open("postgresql://me:secret@127.0.0.1:1/db?connect_timeout=2")
        assert "secret" not in str(caught.value)
