"""A tracker and a server of this machine, for as long as a `with` block."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tunefarm.rpc import Server, Tracker

__all__ = ["LocalRPC"]


class LocalRPC:
    """A tracker and a server that it lends by `tracker_key`. `no_fork` makes no difference."""

    def __init__(self, tracker_key: str = "key", silent: bool = False, no_fork: bool = False) -> None:
        self.tracker_host, self.tracker_key = "127.0.0.1", tracker_key
        self.tracker = Tracker(port=0, silent=silent)
        self.tracker_port = self.tracker.port
        place = (self.tracker_host, self.tracker_port)
        self.server = Server(port=0, key=tracker_key, tracker_addr=place, silent=silent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.terminate()
        self.tracker.terminate()
