"""A relay beside the tracker, for small farms: its own process, started again when it dies, ended with the tracker."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

from rpc_server.errors import ServerStartError
from rpc_server.relay.server import Relay

logger = logging.getLogger("tracker")

_LOOK_S = 1.0


@contextlib.contextmanager
def kept_relay(host: str, port: int, **options: Any) -> Iterator[int]:
    """Gives the relay's port. `options` are those of `RelayOptions`. Raises ServerStartError."""
    relay = Relay(host, port, **options)
    ended = threading.Event()

    def keep() -> None:
        nonlocal relay
        while not ended.wait(_LOOK_S):
            if relay.is_alive:
                continue
            logger.error("the relay died; it is started again")
            relay.terminate()
            with contextlib.suppress(ServerStartError):  # its port may not be free yet: tried again
                relay = Relay(host, relay.port, **options)

    thread = threading.Thread(target=keep, name="relay-keeper", daemon=True)
    thread.start()
    try:
        yield relay.port
    finally:
        ended.set()
        thread.join()
        relay.terminate()
