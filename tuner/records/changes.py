"""Whether anything was committed to a store, asked for next to nothing: what was read before is true until then."""

from __future__ import annotations

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tuner.records.database import sqlite_path


class ChangeWatch(ABC):
    """Gives marks of a store's state. Between two equal marks of one watch nothing was committed by anybody, so what
    was read after the first is still so at the second. Usable in any thread."""

    quick: bool
    """Whether `mark` takes microseconds and waits for nobody, so that an event loop may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._life = 0  # of the connection: marks of different ones do not compare

    def mark(self) -> Hashable:
        """The store's state now. While the database does not say, a mark that equals no other."""
        with self._lock:
            try:
                return self._life, self._ask()
            except (sqlite3.Error, SQLAlchemyError, OSError):
                self._drop()
                return object()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        self._life += 1
        self._disconnect()

    @abstractmethod
    def _ask(self) -> Hashable: ...

    @abstractmethod
    def _disconnect(self) -> None: ...


def watch(engine: Engine) -> ChangeWatch:
    path = sqlite_path(engine.url)
    return _PostgresWatch(engine) if path is None else _SqliteWatch(path)


class _SqliteWatch(ChangeWatch):
    """SQLite counts the commits of other connections for each connection; this one makes none."""

    quick = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def _ask(self) -> Hashable:
        if self._connection is None:  # `timeout`: it must not wait; a look that would is one that failed
            address = f"{self._path.as_uri()}?mode=rw"
            self._connection = sqlite3.connect(
                address, uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
        [version] = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _PostgresWatch(ChangeWatch):
    """Which transactions a snapshot taken now sees. On a standby, whose snapshots don't list all that are under way,
    also how far it has followed."""

    quick = False
    _QUESTION = "SELECT pg_current_snapshot()::text, pg_last_wal_replay_lsn()::text"

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._connection: Any = None  # the driver's, kept out of the pool

    def _ask(self) -> Hashable:
        if self._connection is None:
            pooled = self._engine.raw_connection()
            self._connection = pooled.driver_connection
            pooled.detach()
            self._connection.autocommit = True
        try:
            row: tuple[str, str | None] = self._connection.execute(self._QUESTION).fetchone()
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise OSError(str(error)) from error
        return row

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
