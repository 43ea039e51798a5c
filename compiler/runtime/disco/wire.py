"""Messages with descriptors over a local socket: a length, then msgpack."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from compiler.runtime.disco.messages import MAX_MESSAGE, DiscoError

_HEAD = struct.Struct("<QI")
MOST_DESCRIPTORS = 253
_encode = msgspec.msgpack.encode


def send(channel: socket.socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    """Send a message, and descriptors along with it."""
    body = _encode(message)
    socket.send_fds(channel, [_HEAD.pack(len(body), len(descriptors))], list(descriptors))
    channel.sendall(body)


def receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """The next message's bytes, and the descriptors that came along.
    Raises EOFError where the other end is gone."""
    head, descriptors, _, _ = socket.recv_fds(channel, _HEAD.size, MOST_DESCRIPTORS)
    while 0 < len(head) < _HEAD.size:
        more = channel.recv(_HEAD.size - len(head))
        if not more:
            raise EOFError
        head += more
    if not head:
        raise EOFError
    size, _ = _HEAD.unpack(head)
    if size > MAX_MESSAGE:
        raise DiscoError(f"a message of {size} bytes")
    body = bytearray(size)
    view, at = memoryview(body), 0
    while at < size:
        got = channel.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return bytes(body), list(descriptors)
