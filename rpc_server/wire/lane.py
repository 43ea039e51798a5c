"""The lane: a session's client on the same machine talks to its executor directly.

A call through the supervisor wakes four threads each way; on the lane it wakes one. The executor listens on a Unix
socket of a random name. Only the supervisor learns it, and tells the session's client together with a token. A
client on another machine finds no socket of that name and goes through the supervisor. So do requests with a
deadline and trials, because the supervisor enforces those. Encrypted sessions lose nothing: the bytes stay on the
machine.

With the token the client hands over memory that both then share for parts of arrays (see window.py).
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
from rpc_server.wire.codec import Address, Buffer, Message, MessageKind, read_header
from rpc_server.wire.messages import AnyExecutorRequest, AnyMessage, decode_answer, public_codec
from rpc_server.wire.request_summary import describe_request
from rpc_server.wire.shared_window import SharedWindow, make_window_memory, reserve_addresses
from rpc_server.wire.stream import FrameStream, StreamClosed, lane_listener

SPIN_S = 100e-6
"""How long each end looks again, yielding its core, before it sleeps: waking up costs more than a small call takes."""
WELCOME_S = 1e-3
"""The same for a client's first call: its executor has slept until it came."""
_TOKEN_BYTES = 32
_MAX_STRANGERS = 4
_SOCKET_BUFFER = 4 << 20
_FLUSH_AFTER = 32


class LaneServer:
    """The executor's end.

    `address` and `token` are what the client needs; at most one client gets in. `lane_listener` made `listener`
    before the process left the machine's network, and before its limits: memory shared with the client does not
    count as the session's.
    """

    def __init__(self, listener: socket.socket | None = None) -> None:
        self._listener = listener or lane_listener()
        self.address = self._listener.getsockname()[1:].decode()
        self.token = os.urandom(_TOKEN_BYTES)
        self.stream: FrameStream | None = None
        self._reserved = reserve_addresses()
        self._strangers: deque[_Stranger] = deque()

    def fileno(self) -> int:
        return self._listener.fileno()

    def descriptors(self) -> list[int]:
        """The descriptors to wait for: the client's once it is in; before that the listener and all strangers."""
        if self.stream is not None:
            return [self.stream.fileno()] if self.stream.fileno() >= 0 else []
        return [self.fileno(), *(stranger.sock.fileno() for stranger in self._strangers)]

    def look(self) -> bool:
        """Accept, and read tokens, without waiting. True when the client has come in just now."""
        with contextlib.suppress(OSError):
            while True:
                self._strangers.append(_Stranger(self._listener.accept()[0]))
                if len(self._strangers) > _MAX_STRANGERS:
                    self._strangers.popleft().close()
        for stranger in list(self._strangers):
            try:
                waits = stranger.listen()
            except BlockingIOError:
                continue
            if waits:
                continue
            self._strangers.remove(stranger)
            if hmac.compare_digest(stranger.said, self.token) and self._let_in(stranger):
                return True
            stranger.close()
        return False

    def _let_in(self, client: _Stranger) -> bool:
        self._reserved.close()
        try:
            window = SharedWindow(client.brought[0], made=False) if client.brought else None
        except (OSError, ProtocolError):
            return False
        client.drop_brought()
        client.sock.setblocking(True)
        _widen(client.sock)
        self.stream = FrameStream(client.sock, window=window)
        self._listener.close()
        for stranger in self._strangers:
            stranger.close()
        self._strangers.clear()
        return True

    def close_stream(self) -> None:
        """The client is gone from the lane, or broke the protocol on it."""
        if self.stream is not None:
            self.stream.close()

    def close(self) -> None:
        """Let nobody in any more, and whoever is in go."""
        self._listener.close()
        self._reserved.close()
        for stranger in self._strangers:
            stranger.close()
        self.close_stream()


class _Stranger:
    """A client that has not shown the token yet."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.said = b""
        self.brought: list[int] = []  # descriptors

    def listen(self) -> bool:
        """Take in what has come; whether more of the token is to come.
        Raises BlockingIOError when nothing has come."""
        try:
            part, brought, _, _ = socket.recv_fds(self.sock, _TOKEN_BYTES - len(self.said), 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            raise
        except OSError:
            return False
        self.said += part
        self.brought += brought
        return bool(part) and len(self.said) < _TOKEN_BYTES

    def drop_brought(self) -> None:
        while self.brought:
            os.close(self.brought.pop())

    def close(self) -> None:
        self.drop_brought()
        self.sock.close()


class Lane:
    """The client's end of a lane, with a `Connection`'s way of asking.

    Requests may be sent ahead; answers are matched by number. Raises StreamClosed, here and later, when the executor is
    not there or has gone; `lost` then names the request it has not answered.
    """

    def __init__(self, address: str, token: bytes) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect("\0" + address)
            _widen(sock)
            window = _enter(sock, token)
        except OSError as error:
            sock.close()
            raise StreamClosed(str(error)) from None
        sock.setblocking(False)
        self._stream = FrameStream(sock, window=window)
        self._poll = select.poll()
        self._next_id = 1
        self._asked: dict[int, AnyExecutorRequest] = {}  # sent and not answered, oldest first
        self._arrived: dict[int, list[memoryview]] = {}
        self._ignored: set[int] = set()
        self._unflushed = 0
        self._spin_s = WELCOME_S

    @property
    def lost(self) -> str:
        return next((describe_request(request) for request in self._asked.values()), "")

    def send(self, body: AnyExecutorRequest, buffers: Sequence[Buffer] = (), *, ignore: bool = False) -> int:
        """Queue a request and return its number for `wait`.

        Small ones may leave only when an answer is waited for. `buffers` must not change before the answer is there.
        With `ignore` its answer is dropped.
        """
        number = self._next_id
        frames = public_codec.encode(
            body, MessageKind.REQUEST, request_id=number, address=Address.EXECUTOR, buffers=buffers
        )
        self._next_id += 1
        self._asked[number] = body
        if ignore:
            self._ignored.add(number)
        self._stream.put(frames)
        self._unflushed += 1
        if buffers or self._unflushed >= _FLUSH_AFTER:
            self.flush()
        return number

    def wait(self, number: int) -> Message[AnyMessage]:
        """The answer to a request; raises the error it carries."""
        try:
            while (frames := self._arrived.pop(number, None)) is None:
                self._pump()
        except BaseException:
            self.forget(number)
            raise
        return decode_answer(frames)

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
        self.flush()
        spin_until = time.monotonic() + self._spin_s
        self._spin_s = SPIN_S
        while not (messages := self._stream.receive()):
            if time.monotonic() < spin_until:
                os.sched_yield()
                continue
            self._poll.register(self._stream.fileno(), select.POLLIN | (select.POLLOUT if self._stream.backlog else 0))
            self._poll.poll()
            self.flush()
        for frames in messages:
            number = read_header(frames[0]).request_id
            if self._asked.pop(number, None) is None:
                raise ProtocolError(f"the executor answered request {number}, which was not sent")
            if number in self._ignored:
                self._ignored.discard(number)
            else:
                self._arrived[number] = frames

    def flush(self) -> None:
        """Send what is queued."""
        self._unflushed = 0
        if self._stream.backlog:
            self._stream.flush()


def _enter(sock: socket.socket, token: bytes) -> SharedWindow | None:
    """Show the token, and hand over memory to share where the system gives some. Raises OSError."""
    try:
        fd = make_window_memory()
    except OSError:
        sock.sendall(token)
        return None
    try:
        window = SharedWindow(fd, made=True)
        socket.send_fds(sock, [token], [fd])  # fresh, so there is room for all of it
        return window
    finally:
        os.close(fd)


def _widen(sock: socket.socket) -> None:
    """Room for a chunk on its way, where the system allows it."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER)
