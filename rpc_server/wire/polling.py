"""A table of the ZeroMQ sockets and file descriptors of a loop, each with its handler."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import zmq

logger = logging.getLogger("rpc_server")

READABLE = int(zmq.POLLIN)
WRITABLE = int(zmq.POLLOUT)

Handler = Callable[[int], None]

LONGEST_POLL_S = 3600.0


def poll_ms(wait_s: float) -> int:
    """Milliseconds to poll for to be woken in `wait_s`: an hour at most, whatever a peer asked for."""
    if wait_s <= 0.0:
        return 0
    return int((wait_s if wait_s < LONGEST_POLL_S else LONGEST_POLL_S) * 1000) + 1


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
                try:
                    handler(events)
                except Exception:  # a defect in one source's handler must not cost the others
                    logger.exception("a handler failed")
