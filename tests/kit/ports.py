"""Ports for tests that listen at one again, or rely on nobody's listening there.

A port that the kernel gave (`port=0`) is, once it is free again, as good as anybody's: any connection on this machine
may get it as its local port. These lie outside of the range that the kernel gives ports from, and no other process
that asks here is given one while this process lives: not another worker of pytest-xdist, nor another run of the tests.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from pathlib import Path

_FIRST, _LAST = 10_000, 65_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

_kept: list[socket.socket] = []
"""One for each port that was given; they end with this process."""


def free_port() -> int:
    """A port of loopback where nobody listens, and nobody will but who is told of it."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many successive ones."""
    outside = _outside()
    start = random.Random(os.getpid()).randrange(len(outside))
    names: list[socket.socket] = []
    before = 0
    for port in outside[start:] + outside[:start]:
        name = _named(port)
        if name is None or (names and port != before + 1):
            _close(names)
        if name is not None:
            names.append(name)
        before = port
        if len(names) == count:
            _kept.extend(names)
            return port - count + 1
    _close(names)
    raise AssertionError("every port outside of the kernel's range is taken")


def _outside() -> list[int]:
    low, high = (int(word) for word in _RANGE.read_text().split())
    ports = [port for port in range(_FIRST, _LAST) if not low <= port <= high]
    return ports or list(range(_FIRST, _LAST))


def _named(port: int) -> socket.socket | None:
    """None if the port is in use or was given to somebody. That it was is said by a name in the kernel which, like a
    port, is gone with its process."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0tunefarm-tests-port-{port}")
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
    except OSError as error:
        name.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return name


def _close(names: list[socket.socket]) -> None:
    for name in names:
        name.close()
    names.clear()
