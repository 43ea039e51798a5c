"""Hear from a PostgreSQL server what changed, so that a repeated lookup needs no exchange with it.

A store holds one connection that listens. The triggers that count changes (migrations 0004 and 0005) notify it in
the transaction that makes them. There is no thread. A lookup checks whether anything has come in on that
connection's socket, which takes a microsecond and misses nothing that has arrived.

A silent connection may be dead, so now and then it is asked a question, whose answer nobody waits for. Its state is
believed for `ALIVE_S` seconds after the last question that it answered. Otherwise, and once the connection is seen
to end, the mark is unknown. Lookups then ask the server as if nothing had been remembered.

A pooler (pgbouncer in transaction mode) uses another server process for each statement, which listening does not
survive. The process that answers is then not the one that was connected to, and the mark stays unknown.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, event

from tuner.records.lookup.changes import COUNTED, ChangeWatch

CHANNEL = "tunefarm_serving"
"""Where the function `count_serving` of the database notifies: the payload is its table's oid and the count."""
ALIVE_S = 1.0
"""How long a server is believed that has not said since whether it is there: the age of a remembered answer when
the network is cut without either side hearing of it."""
_ASK_EVERY_S = 0.3
_PATIENCE_S = 10.0
_RETRY_S = 1.0
_QUESTION = b"SELECT tableoid, version, pg_backend_pid() FROM serving"
_CHANGES = re.compile(rf"(?s)(?:WITH\b.*)?(?:INSERT INTO|UPDATE|DELETE FROM) (?:{'|'.join(COUNTED)})\b")
_CHANGED = "tunefarm_changed"


class PostgresWatch(ChangeWatch):
    """Marks of the database's changes.
    A change that this store commits is in every mark taken after the committing method returns. One of another
    process is in `mark` at once, and in `glance` once its notification has come in, milliseconds after the commit."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._listener: _Listener | None = None
        self._connected = -_RETRY_S
        self._own: object = object()  # another one after each change of ours
        event.listen(engine, "after_cursor_execute", self._executed)
        event.listen(engine, "checkin", self._given_back)

    def glance(self) -> Hashable | None:
        if not self._lock.acquire(blocking=False):  # somebody is asking the server
            return None
        try:
            if self._listener is None or not self._listener.current():
                return None
            return self._stamp(self._listener)
        except OSError:
            self._disconnect()
            return None
        finally:
            self._lock.release()

    def revive(self) -> None:
        if self._listener is None and time.monotonic() - self._connected > _RETRY_S:
            self.mark()

    def _ask(self) -> Hashable:
        if self._listener is None:
            self._connected = time.monotonic()
            self._listener = _Listener(self._engine)
        self._listener.ask()
        return self._stamp(self._listener)

    def _stamp(self, listener: _Listener) -> Hashable:
        return listener.epoch, listener.version, self._own

    def _disconnect(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    # A notification of our own change comes in a moment after its commit, as it does everywhere else.

    def _executed(
        self, connection: Connection, _cursor: Any, statement: str, _parameters: Any, _context: Any, _many: bool
    ) -> None:
        if _may_change(statement):
            connection.connection.record_info[_CHANGED] = True  # type: ignore[index]

    def _given_back(self, _connection: Any, record: Any) -> None:
        """Note that the transaction has ended, in whatever way, before its caller is told."""
        if record.record_info.pop(_CHANGED, False):
            self._own = object()


@lru_cache(maxsize=256)
def _may_change(statement: str) -> bool:
    return _CHANGES.match(statement) is not None


class _Listener:
    """A connection that listens. Its methods raise OSError once it is of no use any more."""

    def __init__(self, engine: Engine) -> None:
        self._error = engine.dialect.loaded_dbapi.Error
        pooled: Any = engine.raw_connection()
        self._connection = pooled.driver_connection
        pooled.detach()
        self._server = self._connection.pgconn  # libpq's
        self._server.notice_handler = self._announced_end
        self.epoch: object = object()
        """Another one when counting may have begun anew."""
        self.version = -1
        self._table = -1
        self._answering = -1  # the process number of whoever answered last
        self._asked: float | None = None  # when the question was asked that is not answered yet
        self._heard = float("-inf")  # when the last one was asked that was
        self._listens = False
        self._ended = False
        try:
            self._listen()
        except BaseException:
            self.close()
            raise

    def _listen(self) -> None:
        self.ask()
        if not self._direct():
            return
        try:
            self._connection.autocommit = True
            self._connection.execute(f"LISTEN {CHANNEL}")
            self._listens = True
        except self._error as error:
            if self._connection.closed:
                raise OSError(str(error)) from error
            # else a standby, which can be asked though not listened to

    def current(self) -> bool:
        """Take what has come in; whether that is all there is to know."""
        self._take()
        now = time.monotonic()
        if self._asked is None and now - self._heard > _ASK_EVERY_S:
            self._send(now)
        return self._listens and self._direct() and now - self._heard <= ALIVE_S

    def ask(self) -> None:
        """Wait for the answer to a question that is asked now."""
        self._wait()
        self._send(time.monotonic())
        self._wait()

    def _direct(self) -> bool:
        """Whether no pooler is in between."""
        return bool(self._answering == self._server.backend_pid)

    def _send(self, now: float) -> None:
        try:
            self._server.send_query(_QUESTION)
            self._server.flush()
        except self._error as error:
            raise OSError(str(error)) from error
        self._asked = now

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        poll = select.poll()
        poll.register(self._server.socket, select.POLLIN)
        while self._asked is not None:
            if not poll.poll(max(0.0, 1e3 * (deadline - time.monotonic()))):
                raise OSError("the server does not answer")
            self._take()

    def _take(self) -> None:
        """Take what has come in: notifications, and answers."""
        try:
            self._server.consume_input()
            while self._asked is not None and not self._server.is_busy():
                result = self._server.get_result()
                if result is None:
                    self._heard, self._asked = self._asked, None
                else:
                    self._read(result)
            while (notification := self._server.notifies()) is not None:
                self._notified(notification.extra)
        except self._error as error:
            raise OSError(str(error)) from error
        if self._ended:
            raise OSError("the server ends this connection")

    def _read(self, result: Any) -> None:
        if result.ntuples != 1:
            raise OSError(f"the server failed: {result.error_message.decode(errors='replace')}")
        table, version, self._answering = (int(result.get_value(0, column)) for column in range(3))
        if table != self._table or version < self.version:  # another database's, or an earlier state of this one
            self.epoch, self._table, self.version = object(), table, version
        self.version = max(self.version, version)

    def _notified(self, payload: bytes) -> None:
        table, version = (int(word) for word in payload.split())
        if table == self._table:  # not of another schema's
            self.version = max(self.version, version)

    def _announced_end(self, _notice: Any) -> None:
        """Note that the server ends the connection. It sends notices of its own at no other time."""
        self._ended = True

    def close(self) -> None:
        self._connection.close()
