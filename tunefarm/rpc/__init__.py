"""Remote devices: servers, trackers, sessions.

`connect` and `connect_tracker` use this machine's keys (the setting `keys`) where they know the other end's.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpc_server.box.server import Server
from rpc_server.client import connect as _client
from rpc_server.client.local import LocalSession, with_minrpc
from rpc_server.client.session import RPCSession
from rpc_server.relay.server import Relay
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest, MeasureResult
from tracker import client as _tracker
from tracker.client import TrackerSession
from tracker.server import Tracker
from tunefarm import settings

__all__ = [
    "EvaluatorOptions",
    "FailureKind",
    "KeyRing",
    "LocalSession",
    "MeasureRequest",
    "MeasureResult",
    "RPCSession",
    "Relay",
    "Server",
    "Tracker",
    "TrackerSession",
    "connect",
    "connect_tracker",
    "with_minrpc",
]  # fmt: skip


def connect(
    url: str,
    port: int,
    key: str = "",
    session_timeout: float = 0,
    session_constructor_args: Sequence[object] | None = None,
    enable_logging: bool = False,
    *,
    keys: KeyRing | None = None,
) -> RPCSession:
    """Open a session on the server at `url` (a host name or address): see `rpc_server.client.connect`. `keys` default
    to this machine's."""
    return _client.connect(
        url, port, key, session_timeout, session_constructor_args, enable_logging, keys=keys or _own_keys()
    )


def connect_tracker(
    url: str, port: int, *, user: str = "", timeout_s: float = _tracker.CONNECT_TIMEOUT_S, keys: KeyRing | None = None
) -> TrackerSession:
    """Connect to the tracker at host `url`: see `tracker.client.connect_tracker`. `keys` default to this machine's."""
    return _tracker.connect_tracker(url, port, user=user, timeout_s=timeout_s, keys=keys or _own_keys())


def _own_keys() -> KeyRing:
    return KeyRing(settings.load().keys_folder)
