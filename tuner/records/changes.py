"""Whether anything that lookups rest on has changed, asked for next to nothing: until then, answers stay true.

The database counts such changes in the transactions that make them, see the migration 0004.
"""

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

_QUESTION = "SELECT version FROM serving"


class ChangeWatch(ABC):
    """Gives marks of what a store serves. Between two equal marks nothing was committed that changes the answer to any
    lookup (`RecordStore.best`, `RecordStore.near`), by anybody. Usable in any thread."""

    quick: bool
    """Whether `mark` takes microseconds and waits for nobody, so that an event loop may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def mark(self) -> Hashable:
        """How things are now. While the database does not say, a mark that equals no other."""
        with self._lock:
            try:
                return self._ask()
            except (sqlite3.Error, SQLAlchemyError, OSError):
                self._disconnect()
                return object()

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    @abstractmethod
    def _ask(self) -> Hashable: ...

    @abstractmethod
    def _disconnect(self) -> None: ...


def watch(engine: Engine) -> ChangeWatch:
    path = sqlite_path(engine.url)
    return _PostgresWatch(engine) if path is None else _SqliteWatch(path)


class _SqliteWatch(ChangeWatch):
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
        [version] = self._connection.execute(_QUESTION).fetchone()
        return int(version)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _PostgresWatch(ChangeWatch):
    quick = False

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
            [version] = self._connection.execute(_QUESTION).fetchone()
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise OSError(str(error)) from error
        return int(version)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
