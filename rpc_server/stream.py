"""Whole messages (lists of frames) over a connected stream socket, blocking or not.

It joins the supervisor and one executor: a socket pair inherited at birth, so nobody else can speak on it,
the executor needs no ZeroMQ (no I/O threads beside a kernel being timed), and a message costs one wake-up.

Layout: u32 number of frames, u32 length of each, the frames. Little endian.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rpc_server.errors import ProtocolError
from rpc_server.wire import Buffer

_COUNT = struct.Struct("<I")
_READ_SIZE = 1 << 16
_MAX_VECTORS = 64
_SOCKET_BUFFER = 1 << 20
_SO_SNDBUFFORCE = 32  # Linux; root only


class StreamClosed(Exception):
    """The other end is gone."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    max_frames: int = 18
    max_message: int = (1 << 30) + (1 << 20)


def stream_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets with buffers wide enough for a chunk, where the system allows it."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SOCKET_BUFFER)
    return pair


class FrameStream:
    """One end. On a blocking socket `send` returns when all is written and `receive` when a message is there;
    on a non-blocking one `send` keeps what does not fit (see `backlog`) and `receive` returns what came.
    """

    def __init__(self, sock: socket.socket, limits: StreamLimits | None = None) -> None:
        self.sock = sock
        self._limits = limits or StreamLimits()
        self._out: deque[memoryview] = deque()
        self._chunk = bytearray(_READ_SIZE)
        self._pending = bytearray()  # read but not yet understood: at most a prefix and a small part
        self._body: bytearray | None = None  # the message being filled
        self._sizes: tuple[int, ...] = ()
        self._filled = 0

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def backlog(self) -> bool:
        """Something waits to be written: call `flush` when the socket is writable."""
        return bool(self._out)

    def send(self, frames: Sequence[Buffer]) -> None:
        """Queue a message and write what fits. The buffers must not change before they are written."""
        views = [memoryview(frame).cast("B") for frame in frames]
        prefix = struct.pack(f"<I{len(views)}I", len(views), *map(len, views))
        self._out.append(memoryview(prefix))
        self._out.extend(view for view in views if len(view))
        self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes. Raises StreamClosed when nobody reads any more."""
        while self._out:
            try:
                sent = self.sock.sendmsg([self._out[i] for i in range(min(len(self._out), _MAX_VECTORS))])
            except BlockingIOError:
                return
            except OSError as error:
                raise StreamClosed(str(error)) from None
            while sent:
                head = self._out[0]
                if sent < len(head):
                    self._out[0] = head[sent:]
                    break
                sent -= len(head)
                self._out.popleft()

    def receive(self) -> list[list[memoryview]]:
        """Read until a message is whole and return what came: on a non-blocking socket maybe nothing.

        Raises StreamClosed at the end of the stream and ProtocolError for lengths over the limits.
        """
        messages: list[list[memoryview]] = []
        while True:
            target = self._chunk if self._body is None else memoryview(self._body)[self._filled :]
            try:
                count = self.sock.recv_into(target)
            except BlockingIOError:
                return messages
            except OSError as error:
                raise StreamClosed(str(error)) from None
            if count == 0:
                raise StreamClosed("end of stream")
            if self._body is None:
                self._pending += memoryview(self._chunk)[:count]
            else:
                self._filled += count
            self._take(messages)
            if messages:
                return messages

    def _take(self, messages: list[list[memoryview]]) -> None:
        """Move finished messages out of the buffers."""
        while True:
            if self._body is None and not self._begin():
                return
            assert self._body is not None
            if self._filled < len(self._body):
                return
            messages.append(self._split(self._body))
            self._body = None

    def _begin(self) -> bool:
        """Read the next message's prefix, if it is whole, and start filling its body."""
        if len(self._pending) < _COUNT.size:
            return False
        (frames,) = _COUNT.unpack_from(self._pending)
        if not 1 <= frames <= self._limits.max_frames:
            raise ProtocolError(f"a message of {frames} frames; the limit is {self._limits.max_frames}")
        start = _COUNT.size * (1 + frames)
        if len(self._pending) < start:
            return False
        self._sizes = struct.unpack_from(f"<{frames}I", self._pending, _COUNT.size)
        total = sum(self._sizes)
        if total > self._limits.max_message:
            raise ProtocolError(f"a message of {total} bytes is over the limit of {self._limits.max_message}")
        self._body = bytearray(total)
        self._filled = min(total, len(self._pending) - start)
        self._body[: self._filled] = memoryview(self._pending)[start : start + self._filled]
        del self._pending[: start + self._filled]
        return True

    def _split(self, body: bytearray) -> list[memoryview]:
        view, offset, frames = memoryview(body), 0, []
        for size in self._sizes:
            frames.append(view[offset : offset + size])
            offset += size
        return frames

    def close(self) -> None:
        self.sock.close()
