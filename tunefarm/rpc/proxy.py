"""A relay under TVM's name: clients reach servers through it that can only dial out."""

from __future__ import annotations

from typing import NoReturn

from rpc_server.errors import ServerStartError
from rpc_server.relay.server import Relay

__all__ = ["Proxy", "websocket_proxy_server"]


class Proxy(Relay):
    """A relay in a child process, with TVM's constructor.

    It ends with `terminate()`, or with this process. `port` is the first free one of [port, port_end). Servers register
    with `rpc.Server(host, port, key=KEY, is_proxy=True)`, and `rpc.connect(host, port, key=KEY)` reaches them. A server
    of a tracker names that itself, so `tracker_addr` makes no difference here; nor do the time-outs. Raises
    ServerStartError.
    """

    def __init__(
        self, host: str, port: int = 9091, port_end: int = 9199, web_port: int = 0, timeout_client: float = 600,
        timeout_server: float = 600, tracker_addr: tuple[str, int] | None = None, index_page: str | None = None,
        resource_files: object = None,
    ) -> None:  # fmt: skip
        if web_port or index_page or resource_files:
            raise ServerStartError(
                "a proxy serves no web pages: no device runs in a browser here",
                hint="leave out web_port, index_page and resource_files",
            )
        super().__init__(host, port, port_end=port_end if port else 0)


def websocket_proxy_server(url: str, key: str = "") -> NoReturn:
    """Refuse: a box dials a relay over TCP."""
    raise ServerStartError(
        f"no server dials {url} as a web socket", hint="use rpc.Server(host, port, key=KEY, is_proxy=True)"
    )
