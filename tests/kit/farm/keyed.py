"""A box with keys for tests, and a peer that begins CurveZMQ with it and holds no key that is let in."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from rpc_server.box.server import Server
from rpc_server.wire.keys import KeyRing, KeyRole

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + b"\0" + bytes(31)


class Party:
    """Someone with a keys folder of their own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ring = KeyRing(folder / name)
        self.identity = self.ring.create_identity(name)
        self.folder = str(self.ring.folder)
        self.public = self.identity.public

    def lets_in(self, other: Party, role: KeyRole) -> None:
        self.ring.authorize(other.public, role, other.identity.name)

    def knows(self, other: Party, port: int) -> None:
        self.ring.trust(f"127.0.0.1:{port}", other.public)


@contextlib.contextmanager
def keyed_box(folder: Path, **options) -> Iterator[tuple[Server, KeyRing]]:
    """A box that lets one client in, and that client's keys."""
    box, ann = KeyRing(folder / "box"), KeyRing(folder / "ann")
    identity, allowed = box.create_identity("box"), ann.create_identity("ann")
    box.authorize(allowed.public, KeyRole.CLIENT, "ann")
    with Server(port=0, silent=True, keys=str(box.folder), **options) as running:
        ann.trust(f"127.0.0.1:{running.port}", identity.public)
        yield running, ann


def greeted(port: int) -> socket.socket:
    """A connection on which the greetings have been said, and the handshake has to begin."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=30)
    sock.sendall(_GREETING)
    said = b""
    while len(said) < len(_GREETING):
        part = sock.recv(len(_GREETING) - len(said))
        if not part:
            break
        said += part
    return sock
