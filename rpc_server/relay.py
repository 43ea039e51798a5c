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
from typing import Any

import msgspec
import zmq

from rpc_server.errors import ServerStartError
from rpc_server.keys import KeyRing, Principal, Role
from rpc_server.relay_loop import Doors, RelayLoop, listen
from rpc_server.relay_messages import DEFAULT_RELAY_PORT, prepare_control
from rpc_server.service import (
    ChildService,
    announce,
    bind,
    bind_address,
    guarded,
    report_start_failure,
    stop_on_signals,
    watch_lifeline,
)

logger = logging.getLogger("rpc_server.relay")

DOORS = 64
_QUEUE = 1000
_BACKLOG = 1024


class RelayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a relay runs.

    It listens on `port`; 0 takes a free one. Of the ports `first` to `last` (0: the 64 after `port`, or free ones when
    that is 0), boxes register on the first, and clients use one of the others for the moment it takes to connect.
    `keys` is a folder of keys (see rpc_server/keys.py): if it holds an identity, only authorized boxes register.
    `port_file` is written with the port once it listens. `lifeline_fd` is a descriptor whose end of file ends it.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_RELAY_PORT
    first: int = 0
    last: int = 0
    insecure: bool = False
    keys: str = ""
    port_file: str = ""
    lifeline_fd: int = -1
    silent: bool = False

    @property
    def ports(self) -> tuple[int, int]:
        """First and last of the further ports; (0, 0): any free ones."""
        if self.first or not self.port:
            return self.first, max(self.first, self.last)
        return self.port + 1, min(self.port + DOORS, 65535)


def serve(options: RelayOptions) -> None:
    """Run a relay until SIGINT, SIGTERM or the end of its lifeline; prints "listening on HOST:PORT".

    Raises ServerStartError when it cannot start: port in use, unknown host, or a host that others can reach while
    nothing authenticates the boxes.
    """
    _raise_file_limit()
    ring = KeyRing(options.keys) if options.keys else None
    keyed = ring is not None and ring.identity() is not None
    address = bind_address(
        options.host, options.port, keyed=keyed, insecure=options.insecure, danger="pose as a box", logger=logger
    )
    first, last = options.ports
    context = zmq.Context(io_threads=1)
    control = context.socket(zmq.ROUTER)
    prepare_control(control)
    control.setsockopt(zmq.SNDHWM, _QUEUE)
    control.setsockopt(zmq.RCVHWM, _QUEUE)
    try:
        with guarded(context, ring, lambda public: _box(ring, public)) as doorkeeper, contextlib.ExitStack() as stack:
            if doorkeeper is not None:
                doorkeeper.guard(control)
            listener = stack.enter_context(_listener(options, address))
            control_port = bind(control, options.host, address, first)
            doors = Doors(address, first + 1 if first else 0, last)
            relay = RelayLoop(
                control, control_port, listener, doors, None if doorkeeper is None else doorkeeper.who
            )
            with stop_on_signals(relay.stop):
                watch_lifeline(options.lifeline_fd, relay.stop)
                port = listener.getsockname()[1]
                announce(options.host, port, port_file=options.port_file, silent=options.silent)
                relay.run()
    finally:
        control.close(linger=200)
        context.term()


def _listener(options: RelayOptions, address: str) -> socket.socket:
    try:
        return listen(address, options.port, _BACKLOG)
    except OSError as error:
        what = f"{options.host}:{options.port}: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            what = f"{options.host}: port {options.port} is in use"
        hint = "choose another --port (0 takes a free one)"
        raise ServerStartError(f"cannot listen on {what}", hint=hint) from None


def _box(ring: KeyRing | None, public: str) -> Principal | None:
    """Only boxes register; clients prove themselves by a pass."""
    known = None if ring is None else ring.authorized().get(public)
    return known if known is not None and known.role is Role.BOX else None


def _raise_file_limit() -> None:
    """A connection through the relay takes two descriptors, a box one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Relay:
    """A relay in a child process. It ends with `terminate()`, or with this process.

    `port` is the bound port; 0 takes a free one. Further `options` are RelayOptions fields. Raises ServerStartError.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, silent: bool = False, **options: Any) -> None:
        settings = RelayOptions(host=host, port=port, **options)
        self.host = host
        self._child = ChildService(
            "rpc_server.relay",
            lambda fd: msgspec.json.encode(msgspec.structs.replace(settings, lifeline_fd=fd)),
            silent=silent,
        )
        self.port = self._child.port

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.is_alive

    def terminate(self) -> None:
        """Stop it and wait until it is gone; connections through it break. Harmless when it is gone already."""
        self._child.terminate()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def __del__(self) -> None:
        if hasattr(self, "_child"):
            self.terminate()


def _main(text: str) -> int:
    """The child of `Relay`: its options as JSON on the command line."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s %(levelname)s: %(message)s")
    try:
        serve(msgspec.json.decode(text, type=RelayOptions))
    except ServerStartError as error:
        report_start_failure(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
