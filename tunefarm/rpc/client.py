"""Sessions on servers and trackers, with this machine's keys."""

from __future__ import annotations

from collections.abc import Sequence

from rpc_server.client import connect as _client
from rpc_server.client.local import LocalSession
from rpc_server.client.session import RPCSession
from rpc_server.wire.keys import KeyRing
from tracker import client as _tracker
from tracker.client import TrackerSession
from tunefarm import settings

__all__ = ["LocalSession", "RPCSession", "TrackerSession", "connect", "connect_tracker"]


def connect(
    url: str, port: int, key: str = "", session_timeout: float = 0,
    session_constructor_args: Sequence[object] | None = None, enable_logging: bool = False, *,
    keys: KeyRing | None = None,
) -> RPCSession:  # fmt: skip
    """Open a session on the server at `url` (a host name or address): see `rpc_server.client.connect`.
    `keys` default to this machine's."""
    return _client.connect(
        url, port, key, session_timeout, session_constructor_args, enable_logging, keys=keys or _own_keys()
    )


def connect_tracker(
    url: str, port: int, *, user: str = "", timeout_s: float = _tracker.CONNECT_TIMEOUT_S, keys: KeyRing | None = None
) -> TrackerSession:
    """Connect to the tracker at host `url`: see `tracker.client.connect_tracker`.
    `keys` default to this machine's."""
    return _tracker.connect_tracker(url, port, user=user, timeout_s=timeout_s, keys=keys or _own_keys())


def _own_keys() -> KeyRing:
    return KeyRing(settings.load().keys_folder)
