"""What a loop waits for: ZeroMQ sockets and file descriptors, each with its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zmq

READABLE = int(zmq.POLLIN)
WRITABLE = int(zmq.POLLOUT)

Handler = Callable[[int], None]


class PollTable:
    """Handlers get the events (READABLE, WRITABLE, or an error's) and may watch and unwatch anything."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._handlers: dict[Any, Handler] = {}

    def watch(self, source: Any, handler: Handler) -> None:
        self._poller.register(source, READABLE)
        self._handlers[source] = handler

    def unwatch(self, source: Any) -> None:
        """Harmless for what is not watched."""
        if self._handlers.pop(source, None) is not None:
            self._poller.unregister(source)

    def want_write(self, source: Any, wanted: bool) -> None:
        """Whether to wake up, too, when a watched source can be written."""
        if source in self._handlers:
            self._poller.modify(source, READABLE | (WRITABLE if wanted else 0))

    def wait(self, timeout_ms: int | None) -> None:
        """Wait for something to happen and call the handlers."""
        for source, events in self._poller.poll(timeout_ms):
            if (handler := self._handlers.get(source)) is not None:
                handler(events)
