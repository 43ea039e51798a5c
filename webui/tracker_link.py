"""The web app's line to a tracker that may come and go."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import TunefarmError
from rpc_server.keys import KeyRing
from rpc_server.tracker_messages import DeviceInfo
from tracker.client import TrackerSession, connect_tracker

_CONNECT_S = 3.0


class TrackerLink:
    """Connects when first asked, and again after a failure. For one thread at a time."""

    def __init__(self, host: str, port: int, keys: KeyRing | None = None) -> None:
        self._keys = keys
        self.host = host
        self.port = port
        self._session: TrackerSession | None = None

    def devices(self) -> Sequence[DeviceInfo]:
        """All devices now. Raises ConnectError when the tracker does not answer."""
        if self._session is None:
            self._session = connect_tracker(self.host, self.port, user="web", timeout_s=_CONNECT_S, keys=self._keys)
        try:
            return self._session.devices()
        except TunefarmError:
            self.close()
            raise

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
