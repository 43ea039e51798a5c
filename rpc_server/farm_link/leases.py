"""The leases a box honours.

A thread that talks to the tracker writes them; the supervisor's loop obeys them.

Times are this process's `time.monotonic()` seconds, so a clock jump on the box or the tracker ends no lease:
whoever calls `grant` turns the tracker's time-to-live into a local expiry.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Literal


@dataclass(frozen=True, slots=True)
class BoxLease:
    """`expires`: monotonic seconds.
    `holder` is the public key of the only client that may use it; "": whoever has the token."""

    lease_id: str
    token: str
    expires: float
    holder: str = ""


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """The supervisor must end the session held under this lease."""

    lease_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """A report to the tracker's thread about a lease's session."""

    lease_id: str
    event: Literal["opened", "closed"]
    reason: str = ""


class LeaseTable:
    """Thread-safe. The tracker's thread calls `grant`, `revoke` and `next_report`; the
    supervisor's loop calls the rest. `grant` on a known lease id renews it; a new token for it ends the old
    token's session.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._leases: dict[str, BoxLease] = {}
        self._ended: list[LeaseEnded] = []
        self._reports: SimpleQueue[LeaseReport] = SimpleQueue()
        self._listeners: list[tuple[Callable[[], None], bool]] = []

    # --- for the tracker's thread -------------------------------------------------------------------------

    def grant(self, lease_id: str, token: str, expires: float, holder: str = "") -> None:
        """Accept sessions with `token` until `expires` (monotonic seconds).
        If `holder` is given, only from that key."""
        with self._lock:
            known = self._leases.get(lease_id)
            if known is not None and known.token != token:
                self._ended.append(LeaseEnded(lease_id, "the lease was given a new token"))
            self._leases[lease_id] = BoxLease(lease_id, token, expires, holder)
        self._wake(is_new=known is None)

    def revoke(self, lease_id: str, reason: str = "the tracker took the lease back") -> None:
        """Forget a lease; its session, if any, ends. Unknown ids are fine."""
        with self._lock:
            if self._leases.pop(lease_id, None) is not None:
                self._ended.append(LeaseEnded(lease_id, reason))
        self._wake()

    def active(self) -> tuple[str, ...]:
        """Ids of the leases held now, expired or not yet."""
        with self._lock:
            return tuple(self._leases)

    def tokens(self) -> tuple[str, ...]:
        """Those of the leases held now."""
        with self._lock:
            return tuple(lease.token for lease in self._leases.values())

    def next_report(self, timeout: float | None = None) -> LeaseReport | None:
        """The next report, waiting up to `timeout` seconds (None: for ever, 0: not at all)."""
        try:
            return self._reports.get(timeout != 0, timeout or None)
        except Empty:
            return None

    # --- for the supervisor's loop ------------------------------------------------------------------------

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` after every change, from the thread that made it; it must only wake a loop."""
        self._listeners.append((wake, True))

    def on_change_of_known(self, wake: Callable[[], None]) -> None:
        """Like `on_change`, but not for new leases: nothing depends on those before a session is opened."""
        self._listeners.append((wake, False))

    def _wake(self, is_new: bool = False) -> None:
        for listener, hears_of_new in self._listeners:
            if hears_of_new or not is_new:
                listener()

    def holds(self, public: str) -> bool:
        """Whether a lease is for this key."""
        with self._lock:
            return any(lease.holder == public for lease in self._leases.values())

    def check(self, token: str, holder: str = "") -> BoxLease | None:
        """The lease this token opens for the key `holder`, or None when it is unknown, expired, or another's."""
        now = self._clock()
        given = token.encode()
        with self._lock:
            for lease in self._leases.values():
                if hmac.compare_digest(lease.token.encode(), given):
                    theirs = lease.holder in ("", holder)
                    return lease if theirs and lease.expires > now else None
        return None

    def take_ended(self) -> list[LeaseEnded]:
        """Leases that ended since the last call: revoked, replaced, or expired by now."""
        now = self._clock()
        with self._lock:
            for lease in [lease for lease in self._leases.values() if lease.expires <= now]:
                del self._leases[lease.lease_id]
                self._ended.append(LeaseEnded(lease.lease_id, "the lease expired"))
            ended, self._ended = self._ended, []
        return ended

    def next_expiry(self) -> float | None:
        """Return when the next lease runs out (monotonic seconds), if any."""
        with self._lock:
            return min((lease.expires for lease in self._leases.values()), default=None)

    def report(self, report: LeaseReport) -> None:
        self._reports.put(report)
