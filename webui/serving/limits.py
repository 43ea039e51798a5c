"""How much one client may use the web app at a time: connections, unfinished requests, live streams.

If several processes answer, they count together (`webui.serving.shared_limit`).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webui.errors import TooManyStreams

CONNECTIONS, CONNECTIONS_OF_ONE = 800, 200
REQUEST_S = 10.0
"""How long a client may take over the head of a request."""
_LOOK_S = 2.0
STREAMS, STREAMS_OF_ONE = 64, 16


class Counts(Protocol):
    """How many of something each client has, in all processes that count together."""

    def add(self, client: str) -> tuple[int, int]:
        """One more: how many the client and all together have now."""

    def remove(self, client: str) -> None: ...


class OwnCounts:
    """Counts of this process alone."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def add(self, client: str) -> tuple[int, int]:
        self._open[client] += 1
        return self._open[client], self._open.total()

    def remove(self, client: str) -> None:
        self._open[client] -= 1
        if self._open[client] <= 0:
            del self._open[client]


def bounded_protocol(
    proxies: Collection[str] = (), counts: Counts | None = None, *, most: int = CONNECTIONS,
    most_of_one: int = CONNECTIONS_OF_ONE, request_s: float = REQUEST_S,
) -> type[asyncio.Protocol]:  # fmt: skip
    """HTTP with a limit of connections an address.
    `proxies`, which speak for many, only count in total. A connection on which a request's head does not come in
    time is closed."""
    open_ = counts or OwnCounts()
    known = frozenset(proxies)
    look_s = min(_LOOK_S, request_s / 2)

    class Bounded(HttpToolsProtocol):
        _address = ""
        _last: Any = None
        _since = 0.0
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            peer = transport.get_extra_info("peername")
            self._address = str(peer[0]) if isinstance(peer, tuple) else ""
            of_one, of_all = open_.add(self._address)
            super().connection_made(transport)
            if of_all > most or (of_one > most_of_one and self._address not in known):
                transport.abort()
                return
            self._since = self.loop.time()
            self._timer = self.loop.call_later(look_s, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            open_.remove(self._address)
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _look(self) -> None:
            """Close it when nothing is being answered, and no new request has come for too long."""
            answering = self.cycle is not None and not self.cycle.response_complete
            if answering or self.cycle is not self._last:
                self._last, self._since = self.cycle, self.loop.time()
            elif self.loop.time() - self._since > request_s:
                self.transport.close()
                return
            self._timer = self.loop.call_later(look_s, self._look)

    return Bounded


class Streams:
    """Live streams of events: each looks at the records again and again. Usable in any thread."""

    def __init__(
        self, most: int = STREAMS, most_of_one: int = STREAMS_OF_ONE, counts: Counts | None = None
    ) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._counts = counts or OwnCounts()
        self._lock = threading.Lock()

    def open(self, client: str) -> Callable[[], None]:
        """Count a stream of `client`; call the result when it ends. Raises TooManyStreams."""
        with self._lock:
            of_one, of_all = self._counts.add(client)
            if of_one > self._most_of_one or of_all > self._most:
                self._counts.remove(client)
                whose = "you have" if of_one > self._most_of_one else "there are"
                raise TooManyStreams(f"{whose} too many live streams open", hint="close one, or ask again later")
        return lambda: self._close(client)

    def _close(self, client: str) -> None:
        with self._lock:
            self._counts.remove(client)
