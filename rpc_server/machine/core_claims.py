"""The cores that servers of one machine have claimed, to report servers that were given the same ones."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterable, Iterator

_NAME = "\0tunefarm-core-{}"


@contextlib.contextmanager
def claimed(cores: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """Claim cores while this process lives.

    Returns those that another server of this machine has claimed already. A claim is a Unix socket of an abstract
    name. The kernel keeps one of each name, and it goes with its process.
    """
    held: list[socket.socket] = []
    taken: list[int] = []
    try:
        for core in cores:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            held.append(sock)
            try:
                sock.bind(_NAME.format(core))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    taken.append(core)
        yield tuple(taken)
    finally:
        for sock in held:
            sock.close()
