"""Connections: addresses, pragmas, transactions, and database errors as ours."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, DisconnectionError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tuner.records.db.passwords import without_password
from tuner.records.errors import InvalidRecord, RecordError, StoreMissing, StoreUnavailable

BUSY_TIMEOUT_MS = 30_000
"""How long a SQLite writer waits for another one."""

_WRITE = "tunefarm_write"
_IDLE_S = 5.0
T = TypeVar("T")


def parse_url(address: str | Path) -> URL:
    """A database URL. A plain path is a SQLite file; `postgresql://…` means the psycopg driver.

    Raises RecordError for another kind of database, or for none at all.
    """
    text = str(address)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError:
        raise RecordError(f"{without_password(text)!r} is not the address of a database", hint=_ADDRESS_HINT) from None
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:":
                raise RecordError("the record store needs a file, not a database in memory", hint=_ADDRESS_HINT)
            return URL.create("sqlite", database=str(Path(url.database).expanduser().absolute()))
        case "postgresql":
            return url.set(drivername="postgresql+psycopg")
        case "postgres":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise RecordError(f"a record store cannot be on {other}", hint=_ADDRESS_HINT)


_ADDRESS_HINT = "give a file (tuning.db, sqlite:///tuning.db) or postgresql://user@host/database"


def show_url(url: URL) -> str:
    """The address without its password, the way a user would type it."""
    path = sqlite_path(url)
    if path is not None:
        return str(path)
    return without_password(url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True))


def sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite address; None for a server."""
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def connect(url: URL, *, create: bool = False) -> Engine:
    """An engine for `url`. A SQLite file that is missing is made only with `create`.

    Raises StoreMissing, StoreUnavailable (also when the PostgreSQL driver is not installed).
    """
    path = sqlite_path(url)
    if path is not None:
        _check_file(path, create)
    try:
        engine = create_engine(url, pool_size=10, max_overflow=40)
    except (ImportError, NoSuchModuleError):
        raise StoreUnavailable(
            "the PostgreSQL driver is not installed", hint="pip install 'tunefarm[postgres]'"
        ) from None
    if path is not None:
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "begin", _on_sqlite_begin)
    else:
        _check_idle_connections(engine)
    return engine


def _check_idle_connections(engine: Engine) -> None:
    """Ask a server whether an idle connection is still good, instead of before every transaction."""

    def given_back(_connection: Any, record: Any) -> None:
        record.info["idle_since"] = time.monotonic()

    def taken(connection: Any, record: Any, _proxy: Any) -> None:
        if time.monotonic() - record.info.get("idle_since", math.inf) < _IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError(str(error)) from error  # the pool makes a new one

    event.listen(engine, "checkin", given_back)
    event.listen(engine, "checkout", taken)


def _check_file(path: Path, create: bool) -> None:
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder, not a database file")
    if path.exists():
        return
    if not create:
        raise StoreMissing(f"there is no database at {path}", hint=f"make it with `tunefarm db upgrade --db {path}`")
    if not path.parent.is_dir():
        raise StoreUnavailable(f"the folder {path.parent} does not exist", hint="create it first")


def _on_sqlite_connect(connection: Any, _record: Any) -> None:
    # The driver's own transaction handling begins too late and never for reads; "begin" below does it.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")  # in WAL mode NORMAL may lose what was committed in a power cut
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA cache_size = -16000")
    cursor.close()


def _on_sqlite_begin(connection: Connection) -> None:
    # A transaction that will write takes the lock at once: upgrading a read lock later can fail with no wait.
    write = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one state of the database throughout."""
    with _translated(engine), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        yield connection
        connection.commit()  # nothing was written; a rollback would have psycopg forget its prepared statements


@contextmanager
def asking(engine: Engine) -> Iterator[Connection]:
    """A connection for a single statement, which sees one state of the database by itself.
    The server gets nothing else."""
    with _translated(engine), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction, committed when the block ends, undone when it raises."""
    with _translated(engine), engine.connect() as connection:
        connection = connection.execution_options(**{_WRITE: True})
        with connection.begin():
            yield connection


def write(engine: Engine, action: Callable[[Connection], T]) -> T:
    """Run `action` in a write transaction, again when the server ended it for a conflict.

    The conflict is one with another writer. On return the transaction is committed and outlives this process. `action`
    may run more than once.
    """
    for _ in range(RETRIES):
        try:
            with writing(engine) as connection:
                return action(connection)
        except StoreUnavailable as error:
            if getattr(getattr(error.__cause__, "orig", None), "sqlstate", None) not in _CONFLICTS:
                raise
    with writing(engine) as connection:
        return action(connection)


def compact_sqlite(engine: Engine) -> None:
    """Rewrite the file without the room of deleted rows."""
    try:
        with contextlib.closing(engine.raw_connection()) as raw:
            raw.cursor().execute("VACUUM")  # not inside a transaction, which SQLAlchemy would begin
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the database {show_url(engine.url)} could not be compacted: {error}") from error


_CONFLICTS = ("40001", "40P01")  # PostgreSQL: serialization failure, deadlock
RETRIES = 4


@contextmanager
def _translated(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (OverflowError, UnicodeEncodeError, DataError) as error:  # numbers and texts that databases lack
        cause = str(getattr(error, "orig", None) or error).strip().split("\n")[0]
        raise InvalidRecord(f"the database {show_url(engine.url)} cannot hold what it was given: {cause}") from error
    except (DBAPIError, PoolTimeout) as error:
        raise unavailable(engine.url, error) from error


def unavailable(url: URL, error: SQLAlchemyError) -> StoreUnavailable:
    """Return what a driver's error means to a user."""
    cause = str(getattr(error, "orig", None) or error).strip().split("\n")[0]
    hint = None
    if "locked" in cause:
        hint = "another process has been writing for long; stop it, or use PostgreSQL for many writers"
    elif "not a database" in cause:
        hint = "the file is something else; give another path"
    elif "readonly" in cause or "unable to open" in cause:
        hint = "check that the file and its folder may be written"
    elif "full" in cause:
        hint = "free some space on its disk"
    return StoreUnavailable(f"the database {show_url(url)} failed: {cause}", hint=hint)
