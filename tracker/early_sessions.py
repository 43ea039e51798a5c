"""A session that is begun while the box and the tracker still agree on the lease."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from rpc_server.client.connect import opening
from rpc_server.client.dial import Ahead
from rpc_server.errors import ConnectError, KeyFileError
from rpc_server.farm_link.registrar import split_address
from rpc_server.wire.curve import keys_for
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.tracker_messages import Offered


class EarlySession:
    """A connection to where a device is offered, and the request for a session on it: they are there while its box and
    the tracker still agree. `options` are those the session is opened with; where `keys` hold the box's, nothing is
    said ahead of them.
    """

    def __init__(self, keys: KeyRing | None = None, options: Mapping[str, Any] | None = None) -> None:
        self.ahead: Ahead | None = None
        self._keys = keys
        self._options = options or {}
        self._offer: Offered | None = None

    def prepare(self) -> None:
        """Have ready what the first offer needs. The tracker has been asked meanwhile."""
        self.ahead = self.ahead or Ahead()

    def to(self, offer: Offered) -> None:
        if offer == self._offer:
            return
        if self._offer is not None:
            self.close()
        self._offer = offer
        with contextlib.suppress(ConnectError, KeyFileError):  # raised again when it is opened
            host, port = split_address(offer.address)
            if keys_for(self._keys, offer.address) is None:
                self.ahead = self.ahead or Ahead()
                self.ahead.go(host, port)
                if offer.token:
                    self.ahead.say(opening(token=offer.token, **self._options))

    def close(self) -> None:
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None
