"""Whole messages (lists of frames) over a connected stream socket, blocking or not.

It joins the supervisor and one executor: a socket pair inherited at birth. Nobody else can speak on it. The executor
needs no ZeroMQ (no I/O threads beside a kernel being timed), and a message costs one wake-up.

Layout: u32 number of frames, u32 length of each, the frames. Little endian. Where both ends have a `SharedWindow`, a
big frame behind the second may lie there. Its length has the highest bit set, the slot in the next seven, and no bytes
follow.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rpc_server.errors import ProtocolError
from rpc_server.wire.codec import Buffer
from rpc_server.wire.shared_window import SLOT, SharedWindow

_COUNT = struct.Struct("<I")
_READ_SIZE = 1 << 16
_MAX_VECTORS = 256
_SMALL = 1 << 12  # frames up to this size are copied together rather than sent as pieces
_WORTH_KEEPING = 1 << 16
_LARGEST_KEPT = 4 << 20
_MOST_KEPT = 16
_SOCKET_BUFFER = 1 << 20
_MAX_WAITING = 4
_SO_SNDBUFFORCE = 32  # Linux; root only
_IN_WINDOW = 1 << 31
_SLOT_AT = 24
_SIZE_IN_WINDOW = (1 << _SLOT_AT) - 1
_DECODED = 2  # frames at the start of a message that are decoded: those must not change any more


class StreamClosed(Exception):
    """The other end is gone."""


@lru_cache(maxsize=64)
def _prefix(frames: int) -> struct.Struct:
    """The number of frames and the length of each."""
    return struct.Struct(f"<I{frames}I")


def _inline(sizes: Sequence[int]) -> int:
    """Bytes that follow a prefix."""
    total = sum(sizes)
    return total if total < _IN_WINDOW else sum(size for size in sizes if not size & _IN_WINDOW)


@dataclass(frozen=True, slots=True)
class StreamLimits:
    max_frames: int = 18
    max_message: int = (1 << 30) + (1 << 20)


def lane_listener() -> socket.socket:
    """Return where an executor waits for its client on the same machine.
    It is a Unix socket of a random, abstract name (see lane.py). It belongs to the network that this process is in
    when it makes it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0tunefarm-{os.urandom(16).hex()}")
    listener.listen(_MAX_WAITING)
    listener.setblocking(False)
    return listener


def stream_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets with buffers wide enough for a chunk, where the system allows it."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SOCKET_BUFFER)
    return pair


class _Buffers:
    """Memory for big messages.
    A buffer without views is used again: clearing a fresh MiB takes as long as reading one."""

    def __init__(self) -> None:
        self._kept: deque[bytearray] = deque(maxlen=_MOST_KEPT)

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes, with any contents."""
        if not _WORTH_KEEPING <= size <= _LARGEST_KEPT:
            return bytearray(size)
        for buffer in self._kept:
            if len(buffer) >= size and not _looked_at(buffer):
                return buffer
        buffer = bytearray(size)
        self._kept.append(buffer)
        return buffer


def _looked_at(buffer: bytearray) -> bool:
    """Whether there are views of the buffer.
    Then its size cannot be changed, which is how this is found out."""
    try:
        buffer.append(0)
    except BufferError:
        return True
    del buffer[-1]
    return False


class FrameStream:
    """One end.

    `put` queues a message, `flush` writes: on a blocking socket all of it, on a non-blocking one what fits (see
    `backlog`). `receive` returns what came, on a blocking socket at least one message. Either both ends have a `window`
    on the same memory or none.
    """

    def __init__(
        self, sock: socket.socket, limits: StreamLimits | None = None, window: SharedWindow | None = None
    ) -> None:
        self.sock = sock
        self.window = window
        self._limits = limits or StreamLimits()
        self._out: deque[Buffer] = deque()
        self._chunk = bytearray(_READ_SIZE)
        self._view = memoryview(self._chunk)
        self._pending = bytearray()  # read but not yet understood: at most a prefix and a small part
        self._body: bytearray | None = None  # the message being filled, perhaps longer than it
        self._buffers = _Buffers()
        self._sizes: tuple[int, ...] = ()
        self._filled = self._total = 0

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def backlog(self) -> bool:
        """Something waits to be written: call `flush` when the socket is writable."""
        return bool(self._out)

    def put(self, frames: Sequence[Buffer]) -> None:
        """Queue a message. Big buffers may not be copied and must not change before they are written."""
        if all(len(frame) <= _SMALL for frame in frames):
            prefix = _prefix(len(frames)).pack(len(frames), *map(len, frames))
            self._out.append(b"".join((prefix, *frames)))
            return
        sizes = [self._place(index, frame) for index, frame in enumerate(frames)]
        small = [_prefix(len(frames)).pack(len(frames), *sizes)]
        for size, frame in zip(sizes, frames):
            if size & _IN_WINDOW:
                continue
            if len(frame) <= _SMALL:
                small.append(bytes(frame))
            else:
                self._out.append(b"".join(small))
                self._out.append(memoryview(frame).cast("B"))
                small.clear()
        if small:
            self._out.append(b"".join(small))

    def _place(self, index: int, frame: Buffer) -> int:
        """Return the prefix's entry for a frame.
        The frame goes into the window if that pays and there is room."""
        size = len(frame)
        if self.window is None or index < _DECODED or not _WORTH_KEEPING <= size <= SLOT:
            return size
        slot = self.window.put(frame)
        return size if slot is None else _IN_WINDOW | slot << _SLOT_AT | size

    def send(self, frames: Sequence[Buffer]) -> None:
        self.put(frames)
        self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes. Raises StreamClosed when nobody reads any more."""
        while self._out:
            try:
                if len(self._out) == 1:
                    sent = self.sock.send(self._out[0])
                else:
                    sent = self.sock.sendmsg([self._out[i] for i in range(min(len(self._out), _MAX_VECTORS))])
            except BlockingIOError:
                return
            except OSError as error:
                raise StreamClosed(str(error)) from None
            while sent:
                head = self._out[0]
                if sent < len(head):
                    self._out[0] = memoryview(head)[sent:]
                    break
                sent -= len(head)
                self._out.popleft()

    def receive(self) -> list[list[memoryview]]:
        """Read until a message is whole and return what came: on a non-blocking socket maybe nothing.

        Raises StreamClosed at the end of the stream and ProtocolError for lengths over the limits.
        """
        messages: list[list[memoryview]] = []
        while True:
            body = self._body
            target = self._chunk if body is None else memoryview(body)[self._filled : self._total]
            try:
                count = self.sock.recv_into(target)
            except BlockingIOError:
                return messages
            except OSError as error:
                raise StreamClosed(str(error)) from None
            if count == 0:
                raise StreamClosed("end of stream")
            if body is None:
                taken = 0 if self._pending else self._take_whole(count, messages)
                if taken == count:
                    return messages
                self._pending += self._view[taken:count]
            else:
                self._filled += count
            self._take(messages)
            if messages:
                return messages

    def _take_whole(self, count: int, messages: list[list[memoryview]]) -> int:
        """Move whole messages out of the chunk's first `count` bytes.
        Returns how many bytes they took."""
        at = 0
        while count - at >= _COUNT.size:
            (frames,) = _COUNT.unpack_from(self._chunk, at)
            self._check_count(frames)
            start = at + _COUNT.size * (1 + frames)
            if start > count:
                break
            sizes = _prefix(frames).unpack_from(self._chunk, at)[1:]
            end = start + _inline(sizes)
            if end > count:
                break
            messages.append(self._split(memoryview(bytes(self._view[start:end])), sizes))
            at = end
        return at

    def _split(self, body: memoryview, sizes: Sequence[int]) -> list[memoryview]:
        """The frames of a message, those in the window too."""
        offset, frames = 0, []
        for index, size in enumerate(sizes):
            if size & _IN_WINDOW:
                if self.window is None or index < _DECODED:
                    raise ProtocolError("a frame in shared memory where there must be none")
                slot = (size ^ _IN_WINDOW) >> _SLOT_AT
                frames.append(self.window.take(slot, size & _SIZE_IN_WINDOW))
            else:
                frames.append(body[offset : offset + size])
                offset += size
        return frames

    def _check_count(self, frames: int) -> None:
        if not 1 <= frames <= self._limits.max_frames:
            raise ProtocolError(f"a message of {frames} frames; the limit is {self._limits.max_frames}")

    def _take(self, messages: list[list[memoryview]]) -> None:
        """Move finished messages out of the buffers."""
        while True:
            if self._body is None and not self._begin():
                return
            assert self._body is not None
            if self._filled < self._total:
                return
            messages.append(self._split(memoryview(self._body), self._sizes))
            self._body = None

    def _begin(self) -> bool:
        """Read the next message's prefix, if it is whole, and start filling its body."""
        if len(self._pending) < _COUNT.size:
            return False
        (frames,) = _COUNT.unpack_from(self._pending)
        self._check_count(frames)
        start = _COUNT.size * (1 + frames)
        if len(self._pending) < start:
            return False
        self._sizes = _prefix(frames).unpack_from(self._pending)[1:]
        total = _inline(self._sizes)
        if total > self._limits.max_message:
            raise ProtocolError(f"a message of {total} bytes is over the limit of {self._limits.max_message}")
        self._body = self._buffers.take(total)
        self._total = total
        self._filled = min(total, len(self._pending) - start)
        self._body[: self._filled] = memoryview(self._pending)[start : start + self._filled]
        del self._pending[: start + self._filled]
        return True

    def close(self) -> None:
        self.sock.close()
