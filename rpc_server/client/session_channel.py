"""How a session's requests travel.

On the lane to an executor of this machine, or through the box's supervisor.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, Protocol

from rpc_server.client.connection import CONNECT_TIMEOUT_S, SPIN_S, Connection
from rpc_server.errors import SessionClosed
from rpc_server.wire import messages
from rpc_server.wire.codec import Address, Buffer, Message
from rpc_server.wire.lane import Lane
from rpc_server.wire.stream import StreamClosed

logger = logging.getLogger("rpc_server.client")


class SessionChannel:
    """The requests of one session, in the order they were made, by lane or supervisor.

    Usable from several threads. `call_timeout` is the deadline of calls in seconds; None: none. `log` logs every
    request.
    """

    def __init__(
        self, connection: Connection, opened: messages.SessionOpened, call_timeout: float | None, log: bool
    ) -> None:
        self.connection = connection
        self.lane = None if connection.relayed else _enter_lane(opened)
        self.lock = threading.RLock()
        self.call_timeout = call_timeout
        self._opened = opened
        self._logging = log
        self._freed: deque[messages.FreeHandles] = deque()

    def request(
        self, body: messages.AnyExecutorRequest, buffers: Sequence[Buffer] = (), timeout_s: float | None = None
    ) -> Message[messages.AnyMessage]:
        """Ask the executor and wait for its answer; raises the error it answers with."""
        timeout = self.call_timeout if timeout_s is None else timeout_s
        with self.lock:
            if (lane := self.lane) is None or timeout is not None:
                return self._ask(body, buffers, timeout).wait()
            try:  # what `_ask` does, without an object for the answer to come
                return lane.wait(self._send_on(lane, body, buffers))
            except StreamClosed:
                self._lane_lost(lane)

    def submit(self, body: messages.AnyExecutorRequest, buffers: Sequence[Buffer] = ()) -> PendingCall:
        """Ask the executor and go on: `wait` of the result collects the answer."""
        with self.lock:
            return self._ask(body, buffers, self.call_timeout)

    def free_later(self, handles: messages.FreeHandles) -> None:
        """Have handles freed with the next request. Called by the garbage collector: it must not block."""
        self._freed.append(handles)

    def _ask(
        self, body: messages.AnyExecutorRequest, buffers: Sequence[Buffer], timeout_s: float | None
    ) -> PendingCall:
        """Send a request on the lane when there is one; a deadline is the supervisor's to enforce."""
        if self.lane is None or timeout_s is not None:
            return _Relayed(self, self.relay(body, buffers, Address.EXECUTOR, timeout_s), timeout_s)
        lane = self.lane
        try:
            return _OnLane(self, lane, self._send_on(lane, body, buffers))
        except StreamClosed:
            self._lane_lost(lane)

    def _send_on(self, lane: Lane, body: messages.AnyExecutorRequest, buffers: Sequence[Buffer]) -> int:
        self.connection.check()
        if self._logging:
            logger.info("%s: %s", self.connection.address, body)
        while self._freed:
            lane.send(self._freed.popleft(), ignore=True)
        return lane.send(body, buffers)

    def relay(
        self, body: messages.AnyExecutorRequest, buffers: Sequence[Buffer], address: Address, timeout_s: float | None
    ) -> int:
        """Send a request through the supervisor, after everything asked on the lane."""
        with self.lock:
            if (lane := self.lane) is not None:
                try:
                    lane.settle()
                except StreamClosed:
                    self._lane_lost(lane)
            while self._freed:
                self.connection.send(self._freed.popleft(), address=Address.EXECUTOR, ignore=True)
            if self._logging:
                logger.info("%s: %s", self.connection.address, body)
            return self.connection.send(body, buffers, address=address, timeout_s=timeout_s)

    def _lane_lost(self, lane: Lane) -> NoReturn:
        """Ask the supervisor how the executor ended that left the lane, and raise that error."""
        self.leave_lane()
        question = messages.LaneLost(self._opened.executor_pid, lane.lost)
        self.connection.request(question, timeout_s=CONNECT_TIMEOUT_S, post_mortem=True)
        raise SessionClosed(f"the session with {self.connection.address} lost its executor")

    def leave_lane(self) -> None:
        if self.lane is not None:
            self.lane.close()
            self.lane = None

    def put_blob(self, digest: str, content: Buffer) -> None:
        """Give the box a blob, in chunks. Raises BlobError when it does not take it."""
        for number in self.offer_blob(digest, content):
            self.connection.wait(number)

    def offer_blob(self, digest: str, content: Buffer) -> Iterable[int]:
        """Send a blob, waiting only to keep to the window. Returns the requests still unanswered."""
        view, size = memoryview(content), len(content)
        window: deque[int] = deque()
        for at in range(0, max(size, 1), messages.CHUNK):
            if len(window) == messages.WINDOW:
                self.connection.wait(window.popleft())
            window.append(self.connection.send(messages.PutBlob(digest, size, at), (view[at : at + messages.CHUNK],)))
        return window

    def pipeline(self, requests: Iterable[tuple[messages.AnyExecutorRequest, Sequence[Buffer]]]) -> None:
        for _ in self.stream(requests):
            pass

    def stream(
        self, requests: Iterable[tuple[messages.AnyExecutorRequest, Sequence[Buffer]]]
    ) -> Iterator[Message[messages.AnyMessage]]:
        """Answers in order, with up to WINDOW requests under way."""
        with self.lock:
            window: deque[PendingCall] = deque()
            try:
                for body, buffers in requests:
                    if len(window) == messages.WINDOW:
                        yield window.popleft().wait()
                    window.append(self._ask(body, buffers, self.call_timeout))
                while window:
                    yield window.popleft().wait()
            finally:
                for pending in window:
                    pending.forget()


class PendingCall(Protocol):
    """An answer to come."""

    def wait(self) -> Message[messages.AnyMessage]:
        """The answer; raises the error it carries."""

    def forget(self) -> None:
        """Drop the answer, now or when it comes."""


class _Relayed:
    def __init__(self, channel: SessionChannel, number: int, timeout_s: float | None) -> None:
        self._channel = channel
        self._number = number
        self._timeout_s = timeout_s

    def wait(self) -> Message[messages.AnyMessage]:
        return self._channel.connection.wait(self._number, self._timeout_s, spin_s=SPIN_S)

    def forget(self) -> None:
        self._channel.connection.forget(self._number)


class _OnLane:
    def __init__(self, channel: SessionChannel, lane: Lane, number: int) -> None:
        self._channel = channel
        self._lane = lane
        self._number = number

    def wait(self) -> Message[messages.AnyMessage]:
        with self._channel.lock:
            try:
                return self._lane.wait(self._number)
            except StreamClosed:
                self._channel._lane_lost(self._lane)

    def forget(self) -> None:
        with self._channel.lock:
            self._lane.forget(self._number)


def _enter_lane(opened: messages.SessionOpened) -> Lane | None:
    """The lane to an executor on this machine; None for an executor elsewhere."""
    if not opened.lane:
        return None
    try:
        return Lane(opened.lane, opened.lane_token)
    except StreamClosed:
        return None
