"""A client on its way to a device that is not its own yet."""

from __future__ import annotations

import contextlib

from rpc_server.dial import Ahead
from rpc_server.errors import ConnectError
from rpc_server.registrar import split_address


class Approach:
    """A connection to where a device is offered: it comes to stand while its box and the tracker still agree."""

    def __init__(self) -> None:
        self.ahead: Ahead | None = None

    def to(self, address: str) -> None:
        place = split_address(address)
        if self.ahead is None or self.ahead.place != place:
            self.close()
            with contextlib.suppress(ConnectError):
                self.ahead = Ahead(*place)

    def close(self) -> None:
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None
