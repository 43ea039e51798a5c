"""The lane: a session's client on the same machine talks to its executor directly, past the supervisor.

A call through the supervisor wakes four threads each way; on the lane it wakes one. The executor listens on a Unix
socket of a random name, which only the supervisor learns, and tells the session's client together with a token. A
client on another machine finds no socket of that name and goes through the supervisor, as do requests with a
deadline and trials: the supervisor enforces those. Encrypted sessions lose nothing: the bytes stay in the kernel.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import select
import socket
import time
from collections import deque
from collections.abc import Sequence

from rpc_server.errors import ProtocolError
from rpc_server.messages import AnyExecutorRequest, AnyMessage, describe_request, public_codec
from rpc_server.stream import FrameStream, StreamClosed
from rpc_server.wire import Address, Buffer, Kind, Message, read_header

SPIN_S = 100e-6
"""How long each end looks again, yielding its core, before it sleeps: waking up costs more than a small call takes."""
_TOKEN_BYTES = 32
_MAX_STRANGERS = 4
_SOCKET_BUFFER = 4 << 20
_FLUSH_AFTER = 32


class LaneServer:
    """The executor's end. `address` and `token` are what the client needs; at most one client gets in."""

    def __init__(self) -> None:
        self.address = f"tunefarm-{os.urandom(16).hex()}"
        self.token = os.urandom(_TOKEN_BYTES)
        self.stream: FrameStream | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.address)
        self._listener.listen(_MAX_STRANGERS)
        self._listener.setblocking(False)
        self._strangers: deque[tuple[socket.socket, bytearray]] = deque()

    def fileno(self) -> int:
        return self._listener.fileno()

    def descriptors(self) -> list[int]:
        """What to wait for until someone with the token is in: then nobody else is let in."""
        if self.stream is not None:
            return [self.stream.fileno()] if self.stream.fileno() >= 0 else []
        return [self.fileno(), *(stranger.fileno() for stranger, _ in self._strangers)]

    def look(self) -> bool:
        """Accept, and read tokens, without waiting. True when the client has come in just now."""
        with contextlib.suppress(OSError):
            while True:
                stranger, _ = self._listener.accept()
                stranger.setblocking(False)
                self._strangers.append((stranger, bytearray()))
                if len(self._strangers) > _MAX_STRANGERS:
                    self._strangers.popleft()[0].close()
        for entry in list(self._strangers):
            stranger, said = entry
            try:
                part = stranger.recv(_TOKEN_BYTES - len(said))
            except BlockingIOError:
                continue
            except OSError:
                part = b""
            said += part
            if part and len(said) < _TOKEN_BYTES:
                continue
            self._strangers.remove(entry)
            if len(said) == _TOKEN_BYTES and hmac.compare_digest(said, self.token):
                self._let_in(stranger)
                return True
            stranger.close()
        return False

    def _let_in(self, client: socket.socket) -> None:
        client.setblocking(True)
        _widen(client)
        self.stream = FrameStream(client)
        self._listener.close()
        for stranger, _ in self._strangers:
            stranger.close()
        self._strangers.clear()

    def close_stream(self) -> None:
        """The client is gone from the lane, or broke the protocol on it."""
        if self.stream is not None:
            self.stream.close()


class Lane:
    """The client's end, with a `Connection`'s way of asking: requests may be sent ahead, answers are matched by number.

    Raises StreamClosed, here and later, when the executor is not there or has gone; `lost` then names the request it
    has not answered.
    """

    def __init__(self, address: str, token: bytes) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect("\0" + address)
            _widen(sock)
            sock.sendall(token)
        except OSError as error:
            sock.close()
            raise StreamClosed(str(error)) from None
        sock.setblocking(False)
        self._stream = FrameStream(sock)
        self._poll = select.poll()
        self._next_id = 1
        self._asked: dict[int, AnyExecutorRequest] = {}  # sent and not answered, oldest first
        self._arrived: dict[int, list[memoryview]] = {}
        self._ignored: set[int] = set()
        self._unflushed = 0

    @property
    def lost(self) -> str:
        return next((describe_request(request) for request in self._asked.values()), "")

    def send(self, body: AnyExecutorRequest, buffers: Sequence[Buffer] = (), *, ignore: bool = False) -> int:
        """Queue a request and return its number for `wait`. Small ones may leave only when an answer is waited for.

        `buffers` must not change before the answer is there. With `ignore` its answer is dropped.
        """
        number = self._next_id
        frames = public_codec.encode(
            body, Kind.REQUEST, request_id=number, address=Address.EXECUTOR, buffers=buffers
        )
        self._next_id += 1
        self._asked[number] = body
        if ignore:
            self._ignored.add(number)
        self._stream.put(frames)
        self._unflushed += 1
        if buffers or self._unflushed >= _FLUSH_AFTER:
            self._write()
        return number

    def wait(self, number: int) -> Message[AnyMessage]:
        """The answer to a request; raises the error it carries."""
        try:
            while (frames := self._arrived.pop(number, None)) is None:
                self._pump()
        except BaseException:
            self.forget(number)
            raise
        return public_codec.decode(frames)

    def forget(self, number: int) -> None:
        """Drop a request's answer, now or when it comes."""
        if self._arrived.pop(number, None) is None:
            self._ignored.add(number)

    def settle(self) -> None:
        """Wait until everything asked is answered."""
        while self._asked:
            self._pump()

    def close(self) -> None:
        self._stream.close()

    def _pump(self) -> None:
        """Send what is queued, wait for answers and file them."""
        self._write()
        spin_until = time.monotonic() + SPIN_S
        while not (messages := self._stream.receive()):
            if time.monotonic() < spin_until:
                os.sched_yield()
                continue
            self._poll.register(self._stream.fileno(), select.POLLIN | (select.POLLOUT if self._stream.backlog else 0))
            self._poll.poll()
            self._write()
        for frames in messages:
            number = read_header(frames[0]).request_id
            if self._asked.pop(number, None) is None:
                raise ProtocolError(f"the executor answered request {number}, which was not sent")
            if number in self._ignored:
                self._ignored.discard(number)
            else:
                self._arrived[number] = frames

    def _write(self) -> None:
        self._unflushed = 0
        if self._stream.backlog:
            self._stream.flush()


def _widen(sock: socket.socket) -> None:
    """Room for a chunk on its way, where the system allows it."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER)
