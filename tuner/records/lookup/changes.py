"""Whether anything that lookups rest on has changed, for next to no cost.

Until then, answers stay true.

The database counts such changes in the transactions that make them, see the migration 0004. A SQLite file tells its
count in microseconds; a PostgreSQL server tells whoever listens of each change, see `tuner.records.db.listening`.
"""

from __future__ import annotations

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

COUNTED = ("best_configs", "workloads", "device_classes", "device_events")
"""Tables a lookup reads that may change what it answers; the others keep what it reads of them for as long as there is
a best config of it."""


class ChangeWatch(ABC):
    """Marks of what a store serves.
    Between two equal marks nothing was committed, by anybody, that changes the answer to any lookup
    (`BestRecords.look_up`, `BestRecords.near`). Usable in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @abstractmethod
    def glance(self) -> Hashable | None:
        """The mark, if it is known without asking anybody.
        It takes microseconds and waits for nobody, so an event loop may call it. It includes every change of this
        store's own, and those of other processes that the database has reported (see the class)."""

    def mark(self) -> Hashable:
        """The present mark, which may take an exchange with a server.
        While the database does not answer, it is a mark that equals no other."""
        with self._lock:
            try:
                return self._ask()
            except (sqlite3.Error, SQLAlchemyError, OSError):
                self._disconnect()
                return object()

    def revive(self) -> None:
        """Connect again, if `glance` knows no mark for lack of a connection.
        While that fails, it does not try at every call."""
        return

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    @abstractmethod
    def _ask(self) -> Hashable: ...

    @abstractmethod
    def _disconnect(self) -> None: ...


class SqliteWatch(ChangeWatch):
    """Reads the count from the file. Every commit, by anybody, is in every mark taken later."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def glance(self) -> Hashable | None:
        return self.mark()

    def _ask(self) -> Hashable:
        if self._connection is None:  # `timeout`: it must not wait; a look that would is one that failed
            address = f"{self._path.as_uri()}?mode=rw"
            self._connection = sqlite3.connect(
                address, uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
        [version] = self._connection.execute("SELECT version FROM serving").fetchone()
        return int(version)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
