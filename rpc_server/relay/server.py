"""A relay, through which clients reach boxes that can only dial out.

`serve(options)` runs it in this process, `Relay(...)` in a child of its own.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import zmq

from rpc_server.errors import ServerStartError
from rpc_server.relay.loop import ClientPorts, RelayLoop, listen
from rpc_server.relay.pass_table import MAX_BOXES
from rpc_server.service import ChildService, ServiceOptions, announce, bind, child_main, service_socket, stoppable
from rpc_server.wire.guard.budget import Budget
from rpc_server.wire.guard.connection_guard import ConnectionGuard
from rpc_server.wire.keys import KeyRing, KeyRole, Principal
from rpc_server.wire.relay_messages import DEFAULT_RELAY_PORT, prepare_control

logger = logging.getLogger("rpc_server.relay")

DOORS = 64
_QUEUE = 1000
_QUEUE_IN = 64
_BUDGET = Budget(
    connections=MAX_BOXES,
    per_key=256,
    per_address=MAX_BOXES,
    stranger_bytes=1 << 17,
    unfinished=1 << 17,
    credit=1 << 18,
)
_BACKLOG = 1024
_LOOK_S = 1.0


class RelayOptions(ServiceOptions, frozen=True, kw_only=True):
    """How a relay runs.

    It listens on `port`; 0 takes a free one, and with `port_end` the first free one of [port, port_end). It has the
    ports `first` to `last` (0: the 64 after `port`, or free ones where that may be any). Boxes register on the
    first; clients use one of the others while they connect. `keys` is a folder of keys (see
    rpc_server/wire/keys.py): if it holds an identity, only authorized boxes register. `port_file` is written with
    the port once it listens. `lifeline_fd` is a descriptor whose end of file ends it.
    """

    port: int = DEFAULT_RELAY_PORT
    port_end: int = 0
    first: int = 0
    last: int = 0

    @property
    def ports(self) -> tuple[int, int]:
        """First and last of the further ports; (0, 0): any free ones."""
        if self.first or not self.port or self.port_end:
            return self.first, max(self.first, self.last)
        return self.port + 1, min(self.port + DOORS, 65535)


def serve(options: RelayOptions) -> None:
    """Run a relay until SIGINT, SIGTERM or the end of its lifeline; prints "listening on HOST:PORT".

    Raises ServerStartError when it cannot start: port in use, unknown host, or a host that others can reach while
    nothing authenticates the boxes.
    """
    _raise_file_limit()
    first, last = options.ports
    with (
        service_socket(options, "pose as a box", logger, _prepare, _box) as service,
        contextlib.closing(ConnectionGuard(service.socket, _BUDGET)) as guard,
        _listener(options, service.address) as listener,
    ):
        control_port = bind(service.socket, options.host, service.address, first)
        client_ports = ClientPorts(service.address, first + 1 if first else 0, last)
        relay = RelayLoop(service.socket, guard, control_port, listener, client_ports, service.who)
        with stoppable(options, relay.stop):
            announce(options, listener.getsockname()[1])
            relay.run()


def _prepare(control: zmq.Socket[bytes]) -> None:
    prepare_control(control)
    control.setsockopt(zmq.SNDHWM, _QUEUE)
    control.setsockopt(zmq.RCVHWM, _QUEUE_IN)


def _listener(options: RelayOptions, address: str) -> socket.socket:
    last = max(options.port, options.port_end - 1)
    for port in range(options.port, last + 1):
        try:
            return listen(address, port, _BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port < last:
                continue
            what = f"{options.host}:{port}: {error.strerror}"
            if error.errno == errno.EADDRINUSE:
                ports = f"port {port} is" if port == options.port else f"ports {options.port} to {port} are"
                what = f"{options.host}: {ports} in use"
            hint = "choose another --port (0 takes a free one)"
            raise ServerStartError(f"cannot listen on {what}", hint=hint) from None
    raise AssertionError("a range of ports is never empty")


def _box(ring: KeyRing, public: str) -> Principal | None:
    """Only boxes register; clients prove themselves by a pass."""
    known = ring.authorized().get(public)
    return known if known is not None and known.role is KeyRole.BOX else None


def _raise_file_limit() -> None:
    """A connection through the relay takes two descriptors, a box one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Relay(ChildService):
    """A relay in a child process. It ends with `terminate()`, or with this process.

    `port` is the bound port: the first free one of [port, port_end), or any free one for port 0. Further `options` are
    RelayOptions fields. Raises ServerStartError.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, silent: bool = False, **options: Any) -> None:
        settings = RelayOptions(host=host, port=port, **options)
        self.host = host
        super().__init__("rpc_server.relay.server", settings, silent=silent)


if __name__ == "__main__":
    sys.exit(child_main(serve, RelayOptions, sys.argv[1]))


@contextlib.contextmanager
def kept_relay(host: str, port: int, **options: Any) -> Iterator[int]:
    """Keep a relay running in a process of its own, and give its port.

    `options` are those of `RelayOptions`. For small farms: it is started again when it dies, and ends with the block.
    Raises ServerStartError.
    """
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
