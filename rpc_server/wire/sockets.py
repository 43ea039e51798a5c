"""ZeroMQ sockets set up alike on every side: message limits, heartbeats, and news of lost connections."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import zmq

from rpc_server.errors import ConnectError
from rpc_server.wire.codec import DEFAULT_LIMITS, Buffer, Limits


@dataclass(frozen=True, slots=True)
class Liveness:
    """A connection silent for `timeout_s` is dropped; a sign of life is asked for every `interval_s`.

    ZeroMQ's own threads do both, so a long call or a busy interpreter does not look dead.
    """

    interval_s: float = 3.0
    timeout_s: float = 15.0
    handshake_s: float = 10.0


def prepare(sock: zmq.Socket[bytes], liveness: Liveness, limits: Limits = DEFAULT_LIMITS) -> None:
    """Options every socket of the protocol has. Call before bind or connect."""
    sock.setsockopt(zmq.LINGER, 0)
    sock.setsockopt(zmq.MAXMSGSIZE, max(limits.max_body, limits.max_buffer))
    sock.setsockopt(zmq.SNDHWM, 0)  # what may be unanswered is bounded by the protocol, not by blocking
    sock.setsockopt(zmq.RCVHWM, 0)  # a server bounds it, see `ConnectionGuard`
    sock.setsockopt(zmq.HEARTBEAT_IVL, int(liveness.interval_s * 1000))
    sock.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(liveness.timeout_s * 1000))
    sock.setsockopt(zmq.HEARTBEAT_TTL, int(liveness.timeout_s * 1000))
    sock.setsockopt(zmq.HANDSHAKE_IVL, int(liveness.handshake_s * 1000))
    sock.setsockopt(zmq.TCP_KEEPALIVE, 1)
    sock.setsockopt(zmq.IPV6, 1)


_READABLE = int(zmq.POLLIN)
_MORE = int(zmq.SNDMORE) | int(zmq.NOBLOCK)
_LAST = int(zmq.NOBLOCK)
_COPY_BELOW = 1 << 16


def send_frames(sock: zmq.Socket[bytes], frames: Sequence[Buffer]) -> None:
    """Send a message without blocking; big frames are not copied and must not change until they are out.

    Does what `send_multipart` does in a third of the time. Raises zmq.ZMQError.
    """
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        sock.send(frame, _LAST if index == last else _MORE, copy=len(frame) < _COPY_BELOW)


def has_message(sock: zmq.Socket[bytes]) -> bool:
    """Whether there is a message to receive. This takes a third of the time of a `recv` that finds none."""
    return bool(int(sock.getsockopt(zmq.EVENTS)) & _READABLE)


def receive_frames(sock: zmq.Socket[bytes], most: int) -> tuple[zmq.Frame, list[zmq.Frame], int]:
    """Receive a message without waiting: its first frame, up to `most` others, and the number beyond.

    The first frame is on a ROUTER the sender's id. Frames beyond are read and dropped: ZeroMQ itself does not limit the
    frames of a message. Raises zmq.Again when there is no message.
    """
    part = first = sock.recv(zmq.NOBLOCK, copy=False)
    frames: list[zmq.Frame] = []
    over = 0
    while part.more:
        part = sock.recv(copy=False)
        if len(frames) < most:
            frames.append(part)
        else:
            over += 1
    return first, frames, over


def receive_message(sock: zmq.Socket[bytes]) -> list[memoryview] | None:
    """Return a message of the one peer that a socket has; None when there is none.

    The peer is trusted with its length. Does what `recv_multipart` does in a third of the time.
    """
    if not has_message(sock):
        return None
    part = sock.recv(zmq.NOBLOCK, copy=False)
    frames = [part.buffer]
    while part.more:
        part = sock.recv(copy=False)
        frames.append(part.buffer)
    return frames


_monitor_numbers = itertools.count()
_EVENT = struct.Struct("=Hi")  # zmq_socket_monitor(3); pyzmq's reader of it imports asyncio, a tenth of a start


class SocketMonitor:
    """News of one socket's connections. Register `socket` with the poller."""

    def __init__(self, sock: zmq.Socket[bytes], events: int) -> None:
        self._of = sock
        # pyzmq's own helper names it after a descriptor, which may be in use by a socket closed just now.
        address = f"inproc://tunefarm-monitor-{next(_monitor_numbers)}"
        sock.monitor(address, events)
        self.socket = sock.context.socket(zmq.PAIR)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, 0)  # ZeroMQ's thread, which says them, would wait for news to be taken
        self.socket.connect(address)

    def drain(self) -> list[tuple[int, int]]:
        """Return (event, value) pairs since the last call.
        The value is a descriptor or an errno, by the event."""
        news: list[tuple[int, int]] = []
        while has_message(self.socket):
            event, _endpoint = self.socket.recv_multipart()
            news.append(_EVENT.unpack(event))
        return news

    def close(self) -> None:
        with contextlib.suppress(zmq.ZMQError):
            self._of.monitor(None, 0)
        self.socket.close()


def came_before(one: bytes, other: bytes) -> bool:
    """Return whether a ROUTER took in connection `one` before `other`.

    The ids it gives count up, modulo 2**32, behind a zero. False when a peer chose its id.
    """
    if not (len(one) == len(other) == 5 and one[0] == other[0] == 0):
        return False
    ahead = (int.from_bytes(other[1:], "big") - int.from_bytes(one[1:], "big")) % 2**32
    return 0 < ahead < 2**31


def resolve(host: str, port: int) -> list[str]:
    """Numeric addresses of a host, IPv4 first. Raises ConnectError when the name is unknown."""
    with contextlib.suppress(OSError):
        socket.inet_pton(socket.AF_INET, host)
        return [host]  # nothing to look up
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectError(
            f"unknown host {host!r}: {error.strerror or error}", hint="check the spelling, or use an IP address"
        ) from None
    ordered = sorted(found, key=lambda info: info[0] != socket.AF_INET)
    return list(dict.fromkeys(str(info[4][0]) for info in ordered))


def endpoint(address: str, port: int) -> str:
    """A ZeroMQ endpoint for a numeric address."""
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.split("%")[0]).is_loopback
    except ValueError:
        return False
