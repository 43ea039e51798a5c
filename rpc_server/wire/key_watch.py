"""Sessions whose key was revoked: a box reads its list of keys again while sessions are open."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rpc_server.errors import KeyFileError
from rpc_server.wire.keys import Principal

logger = logging.getLogger("rpc_server")

LOOK_S = 1.0


class KeyWatch:
    """The key of each connection with a session.

    `lookup` returns who holds a valid key, or None. While it cannot tell (KeyFileError, perhaps because a list is
    being edited), nobody loses a session. Times are monotonic seconds.
    """

    def __init__(self, lookup: Callable[[str], Principal | None]) -> None:
        self._lookup = lookup
        self._holders: dict[bytes, Principal] = {}
        self._next_look = 0.0

    def add(self, conn: bytes, holder: Principal) -> None:
        self._holders[conn] = holder

    def remove(self, conn: bytes) -> None:
        self._holders.pop(conn, None)

    def due(self) -> float | None:
        """Return when to call `revoked` next."""
        return self._next_look if self._holders else None

    def revoked(self, now: float) -> list[tuple[bytes, str]]:
        """Connections whose key is no longer valid, with the reason in words. Each is reported once."""
        self._next_look = now + LOOK_S
        lost: list[tuple[bytes, str]] = []
        try:
            for conn, holder in self._holders.items():
                known = self._lookup(holder.public)
                if known is None or not known.may_use_devices:
                    lost.append((conn, f"the key of {holder.name} is not authorized any more"))
        except KeyFileError as error:
            logger.error("%s", error)
            return []
        for conn, _ in lost:
            self.remove(conn)
        return lost
