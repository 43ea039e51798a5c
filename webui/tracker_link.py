"""The web app's line to a tracker that may come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from compiler.errors import TunefarmError
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.tracker_messages import FarmNumbers
from rpc_server.wire.tracker_records import DeviceInfo
from tracker.client import TrackerSession, connect_tracker

_CONNECT_S = 3.0

T = TypeVar("T")


class TrackerLink:
    """Connects when first asked, and again after a failure. Safe in any thread; one asks after the other."""

    def __init__(self, host: str, port: int, keys: KeyRing | None = None) -> None:
        self._keys = keys
        self.host = host
        self.port = port
        self._session: TrackerSession | None = None
        self._lock = threading.RLock()

    def devices(self) -> Sequence[DeviceInfo]:
        """All devices now. Raises ConnectError when the tracker does not answer."""
        return self._ask(TrackerSession.devices)

    def numbers(self) -> FarmNumbers:
        """Return what the tracker has counted. Raises ConnectError when it does not answer."""
        return self._ask(TrackerSession.numbers)

    def _ask(self, question: Callable[[TrackerSession], T]) -> T:
        with self._lock:
            if self._session is None:
                self._session = connect_tracker(self.host, self.port, user="web", timeout_s=_CONNECT_S, keys=self._keys)
            try:
                return question(self._session)
            except TunefarmError:
                self.close()
                raise

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.close()
