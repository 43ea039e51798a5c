"""Questions to the tracker that wait for answers.

The holder that has taken the least time comes first.

ZeroMQ takes one message of each connection in turn. On a farm of thousands of devices, a page of them takes a
hundred times as long as a heartbeat, and one peer may ask on many connections. So questions of a holder that has
used up its time are set aside. They are answered when nothing else is to be read, and one a turn otherwise.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Generic, TypeVar

from rpc_server.errors import ProtocolError

MOST_WAITING = 64
"""Questions of one connection; a client asks one at a time."""

_AT_ONCE_S = 0.05
_FORGET_S = 1.0
_REMEMBERED = 4096

T = TypeVar("T")


class Questions(Generic[T]):
    """The questions set aside, by connection.
    A connection's `holder` is its key, or its address. Times are monotonic seconds; time taken is forgotten by half
    in a second."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, tuple[str, deque[T]]] = {}
        self._spent: dict[str | bytes, tuple[float, float]] = {}  # seconds of holders and of connections, and when

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def is_free(self, route: bytes, holder: str, now: float) -> bool:
        """Whether a question may be answered at once."""
        return route not in self._waiting and self.spent(holder, now) < _AT_ONCE_S

    def add(self, route: bytes, holder: str, question: T) -> None:
        """Set a question aside. Raises ProtocolError for more than a connection may have waiting."""
        _, waiting = self._waiting.setdefault(route, (holder, deque()))
        if len(waiting) >= MOST_WAITING:
            raise ProtocolError(f"{MOST_WAITING} questions of this connection wait for their answers", hint="wait")
        waiting.append(question)

    def next(self, now: float) -> tuple[bytes, str, T] | None:
        """Take the question to answer now.
        It is of the holder that has taken the least time, and of its connection that has; tell `took` of it."""
        if not self._waiting:
            return None
        route = min(self._waiting, key=lambda each: (self.spent(self._waiting[each][0], now), self.spent(each, now)))
        holder, waiting = self._waiting[route]
        question = waiting.popleft()
        if not waiting:
            del self._waiting[route]
        return route, holder, question

    def took(self, route: bytes, holder: str, seconds: float, now: float) -> None:
        """The answer to a question took so long."""
        for who in (route, holder):
            spent = self.spent(who, now) + seconds
            self._spent.pop(who, None)  # who asked longest ago stands first
            self._spent[who] = (spent, now)
        while len(self._spent) > _REMEMBERED:
            self._spent.pop(next(iter(self._spent)))

    def spent(self, who: str | bytes, now: float) -> float:
        """Return the time that a holder or a connection took lately."""
        found = self._spent.get(who)
        return 0.0 if found is None else found[0] * math.exp2((found[1] - now) / _FORGET_S)
