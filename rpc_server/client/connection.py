"""A client's connection to a box: requests out, answers matched by number, bounded waits.

Requests may be sent ahead and their answers collected later, in any order. One connection serves several
threads, one at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

import zmq

from rpc_server.client.dial import Ahead, Route, dial
from rpc_server.errors import DeadlineExceeded, ProtocolError, RPCError, SessionClosed
from rpc_server.relay.passes import shown_address
from rpc_server.wire.codec import Address, Buffer, Message, MessageKind, check_frames
from rpc_server.wire.curve import PeerKeys
from rpc_server.wire.messages import AnyMessage, SessionEnded, decode_answer, public_codec
from rpc_server.wire.polling import poll_ms
from rpc_server.wire.sockets import Liveness, receive_message, send_frames

CONNECT_TIMEOUT_S = 10.0

SPIN_S = 1e-3
"""How long who waits for a prompt answer looks again, yielding its core, before it sleeps: a core that sleeps meanwhile
makes four threads' waking slower than all that they do."""

# What a box may take beyond a call's deadline to kill the executor and say how it ended.
ANSWER_GRACE_S = 30.0

_CLOSING = zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED


def greeting(first: AnyMessage, timeout_s: float | None = None) -> list[Buffer]:
    """The frames of a connection's request number 1, to be sent before there is a `Connection`."""
    return public_codec.encode(first, request_id=1, timeout_s=timeout_s)


class Connection:
    """Connected once made.

    `first` is sent as request number 1 as soon as the other end speaks the protocol, before this side hears that it
    does. `first_timeout_s` is its deadline. `ahead` is the same way, begun already. A relay that listens there is
    asked for the box that serves `key`. Raises ConnectError if nothing that speaks the protocol answers in time. It
    also raises it if the other end is not who `keys` says, or does not let this machine in.
    """

    def __init__(
        self, host: str, port: int, timeout_s: float = CONNECT_TIMEOUT_S, liveness: Liveness | None = None,
        keys: PeerKeys | None = None, first: AnyMessage | None = None, first_timeout_s: float | None = None,
        ahead: Ahead | None = None, key: str = "",
    ) -> None:  # fmt: skip
        self.address = shown_address(host, port)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._next_id = 1 if first is None else 2
        self._arrived: dict[int, list[memoryview]] = {}
        self._unanswered: set[int] = set() if first is None else {1}
        self._ignored: set[int] = set()  # unanswered, and nobody waits for them
        self._gone: RPCError | None = None  # nothing can be sent any more
        self._ended: RPCError | None = None  # the box can be asked, but has no session for this side
        route = Route(liveness or Liveness(), keys, None if first is None else greeting(first, first_timeout_s), key)
        line = dial(host, port, time.monotonic() + timeout_s, route, ahead)
        self._socket, self._monitor, self.relayed = line.socket, line.monitor, line.relayed
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor.socket, zmq.POLLIN)

    @property
    def over(self) -> RPCError | None:
        """Why nothing can be asked any more, if so."""
        return self._gone or self._ended

    def send(
        self, body: AnyMessage, buffers: Sequence[Buffer] = (), *, address: Address = Address.PEER,
        timeout_s: float | None = None, ignore: bool = False, post_mortem: bool = False,
    ) -> int:  # fmt: skip
        """Send a request and return its number for `wait`. With `ignore` its answer is dropped.

        `buffers` must not change before the answer is there. Raises SessionClosed once it is over; a `post_mortem`
        request may follow the session's end.
        """
        with self._lock:
            self.check(post_mortem)
            number = self._next_id
            self._next_id += 1
            frames = public_codec.encode(
                body, MessageKind.REQUEST, request_id=number, address=address, timeout_s=timeout_s, buffers=buffers
            )
            self._unanswered.add(number)
            if ignore:
                self._ignored.add(number)
            send_frames(self._socket, frames)
            return number

    def wait(
        self, number: int, timeout_s: float | None = None, grace_s: float = ANSWER_GRACE_S, post_mortem: bool = False,
        spin_s: float = 0.0,
    ) -> Message[AnyMessage]:  # fmt: skip
        """The answer to a request; raises the error it carries. `spin_s`: SPIN_S where it may come at once.

        Raises SessionClosed if the session or the connection ends first, and DeadlineExceeded when the box
        stays silent for `grace_s` past `timeout_s`, the deadline the request was sent with.
        """
        now = time.monotonic()
        deadline = None if timeout_s is None else now + timeout_s + grace_s
        with self._lock:
            try:
                if spin_s and number not in self._arrived:
                    self._spin(now + spin_s)
                while (frames := self._arrived.pop(number, None)) is None:
                    self.check(post_mortem)
                    self._pump(deadline)
            except BaseException:
                self.forget(number)
                raise
        return decode_answer(frames)

    def forget(self, number: int) -> None:
        """Drop a request's answer, now or when it comes."""
        with self._lock:
            if self._arrived.pop(number, None) is None and number in self._unanswered:
                self._ignored.add(number)

    def request(
        self, body: AnyMessage, buffers: Sequence[Buffer] = (), *, address: Address = Address.PEER,
        timeout_s: float | None = None, post_mortem: bool = False,
    ) -> Message[AnyMessage]:  # fmt: skip
        with self._lock:
            number = self.send(body, buffers, address=address, timeout_s=timeout_s, post_mortem=post_mortem)
            return self.wait(number, timeout_s, post_mortem=post_mortem)

    def close(self, why: str = "it was closed") -> None:
        """Drop the connection. What waits for an answer gets SessionClosed."""
        with self._lock:
            if self._gone is None:
                self._gone = self._ended or SessionClosed(f"the session with {self.address} is over: {why}")
            if not self._socket.closed and os.getpid() == self._pid:
                self._monitor.close()
                self._socket.close(linger=0)

    def check(self, post_mortem: bool = False) -> None:
        """Raise SessionClosed if nothing can be asked any more."""
        if os.getpid() != self._pid:
            raise SessionClosed(
                "this session was opened in another process", hint="open one in each process that needs it"
            )
        over = self._gone if post_mortem else self.over
        if over is not None:
            raise type(over)(over.message, hint=over.hint, detail=over.detail)

    def _spin(self, until: float) -> None:
        """Look for something to arrive."""
        while not self._poller.poll(0) and time.monotonic() < until:
            os.sched_yield()

    def _pump(self, deadline: float | None) -> None:
        """Wait for something to arrive and file it."""
        wait_ms = None if deadline is None else poll_ms(deadline - time.monotonic())
        ready = dict(self._poller.poll(wait_ms))
        if not ready:
            raise DeadlineExceeded(f"{self.address} has not answered in time", hint="look at the box")
        while (frames := receive_message(self._socket)) is not None:
            self._file(frames)
        if self._monitor.socket in ready and any(event & _CLOSING for event, _ in self._monitor.drain()):
            while (frames := receive_message(self._socket)) is not None:
                self._file(frames)
            if self._gone is None:
                lost = "the box or its relay" if self.relayed else "the server"
                self._gone = self._ended or SessionClosed(
                    f"the connection to {self.address} is gone", hint=f"{lost} ended or the network failed"
                )

    def _file(self, frames: list[memoryview]) -> None:
        header = check_frames(frames)
        if header.kind is MessageKind.NOTE:
            note = decode_answer(frames).body
            if isinstance(note, SessionEnded) and self.over is None:
                self._ended = SessionClosed(f"the session is over: {note.reason}")
        elif header.request_id in self._unanswered:
            self._unanswered.discard(header.request_id)
            if header.request_id in self._ignored:
                self._ignored.discard(header.request_id)
            else:
                self._arrived[header.request_id] = frames
        elif header.request_id == 0 and header.kind is MessageKind.ERROR:
            public_codec.decode(frames)  # the box could not read what was sent
        else:
            raise ProtocolError(f"{self.address} answered request {header.request_id}, which does not wait for one")
