"""The event log: what happened, in order, the newest kept."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from itertools import islice

from rpc_server.wire.codec import that_fit
from rpc_server.wire.tracker_records import LogEvent


class LogKind(StrEnum):
    """The kind of a `LogEvent`.

    From `granted` (or `restored`, after a restart) to `ended` a device belongs to that lease and to no other.
    """

    REGISTERED = "registered"  # a box said hello
    BOX_GONE = "box_gone"
    STANDING = "standing"  # a device's standing changed; `text`: the new one and why
    CHECKED = "checked"  # a health check of a device ended; `text`: what it found
    QUEUED = "queued"  # a request waits
    REFUSED = "refused"  # a request ended without a device
    CANCELLED = "cancelled"
    GRANTED = "granted"  # the box was told of a new lease
    RESTORED = "restored"  # the box reported a lease of an earlier tracker
    ACTIVE = "active"  # the box accepted, the client was told
    STALE_TOKEN = "stale_token"  # a client came with a token that is not its lease's (any more)
    ENDING = "ending"  # the box was told to end it; `text`: why
    ENDED = "ended"  # the device is idle, or gone with its box


class EventLog:
    """The last `size` events."""

    def __init__(self, size: int = 20_000) -> None:
        self._events: deque[LogEvent] = deque(maxlen=size)

    def append(self, event: LogEvent) -> None:
        self._events.append(event)

    @property
    def first(self) -> int:
        """The oldest seq kept, or the next one to come when there is none."""
        return self._events[0].seq if self._events else 1

    def page(self, after: int, limit: int) -> tuple[tuple[LogEvent, ...], bool]:
        """Return up to `limit` events with a seq greater than `after`, and whether there are more.
        There are as many as fit in a message."""
        skip = max(0, after + 1 - self.first)
        found = that_fit(islice(self._events, skip, skip + limit))
        return found, skip + len(found) < len(self._events)
