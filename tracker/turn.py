"""Waiting for one's turn in a tracker's queue."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable

from rpc_server.errors import ConnectError
from rpc_server.wire.tracker_messages import Offered, Queued
from tracker.channel import Channel
from tracker.holdings import Holdings, Lease, Pending

logger = logging.getLogger("tracker.client")

SILENCE_S = 30.0
"""A tracker that says nothing for so long while a device is awaited counts as gone."""

_LOOK_S = 0.25


class Turn:
    """A request that keeps its place until it has led to a lease or an error, or is withdrawn.
    The thread that talks to the tracker renews it. `wait` may be called again and again."""

    def __init__(self, pending: Pending, holdings: Holdings, line: Channel) -> None:
        self._pending = pending
        self._holdings = holdings
        self._line = line
        self._told: Queued | None = None
        self._collected = False

    @property
    def place(self) -> Queued | None:
        """Where it stands; None before the tracker has said so."""
        return self._pending.place

    def wait(
        self,
        timeout_s: float | None = None,
        on_queued: Callable[[Queued], None] | None = None,
        on_offered: Callable[[Offered], None] | None = None,
    ) -> Lease | None:
        """Return the request's lease, or None without one after `timeout_s`.

        A `timeout_s` of None waits without end. `on_queued` is told where the request stands, whenever that changes;
        `on_offered` of a device that may become its own. Raises what `TrackerSession.lease` raises; the request is
        then over.
        """
        pending = self._pending
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not pending.is_over:
            left = _LOOK_S if deadline is None else min(_LOOK_S, deadline - time.monotonic())
            if left <= 0:
                return None
            if self._line.await_news(pending.news, left):
                pending.news.clear()
                if on_offered is not None and pending.offered is not None:
                    on_offered(pending.offered)
                continue
            if not self._collected:
                self._collected = True
                gc.collect()  # sessions dropped without close() hold their devices until they are collected
            self._look(on_queued)
        if pending.error is not None:
            raise pending.error
        return pending.lease

    def give_up(self) -> None:
        """Leave the queue.
        A device that was granted meanwhile goes back. Harmless when the request is over."""
        self._holdings.give_up(self._pending)

    def _look(self, on_queued: Callable[[Queued], None] | None) -> None:
        if self._line.silent_s > SILENCE_S:
            raise ConnectError(
                f"the tracker at {self._line.address} has been silent for {SILENCE_S:g} s",
                hint="see whether it still runs: `tunefarm devices`",
            )
        place, told = self._pending.place, self._told
        if place is not None and (told is None or place.position != told.position):
            if told is None or not place.devices:
                _log_place(self._pending.asked.expr, place)
            self._told = place
            if on_queued is not None:
                on_queued(place)


def _log_place(expr: str, place: Queued) -> None:
    if not place.devices:
        logger.warning("no registered device matches %r; waiting for one", expr)
        return
    eta = f", about {place.eta_s:.0f} s" if place.eta_s is not None else ""
    logger.info("waiting for %r: number %d of %d in the queue%s", expr, place.position, place.rivals, eta)
