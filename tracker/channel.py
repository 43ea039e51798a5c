"""A client's line to the tracker.

A thread of its own keeps it; other threads send and receive on it, too.

ZeroMQ connects again after a loss, and the channel's user repeats on every beat what the tracker must not forget.
Only questions (`ask`) have an answer of their own and fail without one.

A thread that posts a message sends it itself, and a thread that waits for news receives it itself, because waking
the channel's thread would cost more than the work. A lock says whose turn it is to use the socket. All wait for its
descriptor, exclusively: the kernel wakes the first waiter in line, which is a thread in `await_news` if there is
one.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue

import zmq

from compiler.errors import TunefarmError
from rpc_server.errors import ConnectError, ProtocolError
from rpc_server.farm_link.registrar import LIVENESS
from rpc_server.wire.codec import MessageKind, check_frames, decode_error
from rpc_server.wire.curve import PeerKeys, secure_client
from rpc_server.wire.plain_text import plainly
from rpc_server.wire.sockets import endpoint, prepare, receive_message, resolve, send_frames
from rpc_server.wire.tracker_messages import LIMITS, Admin, FromClient, Query, ToClient, to_client, to_tracker
from rpc_server.wire.waker import Waker

logger = logging.getLogger("tracker.client")

BEAT_S = 1.0
_SIGN_OF_LIFE_S = 4.0
_BURST = 256


class Channel:
    """Connected once made.

    `on_message` gets every note of the tracker, in whichever thread took it in; `on_beat` gives what to say every
    `BEAT_S`. Neither may block. `last_words` are said when it ends, at the latest with this process.
    Raises ConnectError when no tracker answers within `timeout_s`.
    """

    def __init__(
        self, host: str, port: int, on_message: Callable[[ToClient], None], on_beat: Callable[[], Iterable[FromClient]],
        last_words: FromClient, timeout_s: float, keys: PeerKeys | None = None,
    ) -> None:  # fmt: skip
        self.address = f"{host}:{port}"
        self.heard = time.monotonic()
        self._on_message = on_message
        self._on_beat = on_beat
        self._pid = os.getpid()
        self._outbox: SimpleQueue[tuple[FromClient, Future[ToClient] | None]] = SimpleQueue()
        self._asked: dict[int, Future[ToClient]] = {}
        self._next_id = 1
        self._last_words = last_words
        self._closing = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._socket = _connect(self._context, host, port, timeout_s, keys)
        except BaseException:
            self._context.term()
            raise
        self._turn_lock = threading.Lock()  # its holder uses the socket
        self._waiter_lock = threading.Lock()  # its holder is in `await_news`
        self._waiter, self._waker = Waker(), Waker()
        self._waiter_watch = _watch(self._socket, self._waiter)
        self._thread_watch = _watch(self._socket, self._waker)
        self._thread = threading.Thread(target=self._run, name="tracker-channel", daemon=True)
        self._thread.start()
        _open.add(self)

    @property
    def silent_s(self) -> float:
        """Seconds since the tracker was last heard."""
        return time.monotonic() - self.heard

    def post(self, message: FromClient) -> None:
        """Send a note if the line stands. A message that must arrive is repeated on a beat."""
        if os.getpid() == self._pid and not self._closing:
            self._submit(message, None)

    def await_news(self, news: threading.Event, timeout_s: float) -> bool:
        """Wait until `news` is set, which a message of the tracker's has done. False when that took too long."""
        if os.getpid() != self._pid or self._closing or not self._waiter_lock.acquire(blocking=False):
            return news.wait(timeout_s)
        try:
            deadline = time.monotonic() + timeout_s
            while not news.is_set() and not self._closing and (left := deadline - time.monotonic()) > 0:
                for fd, _ in self._waiter_watch.poll(left):
                    if fd == self._waiter.fd:
                        self._waiter.clear()
                self._take_turn(nudge=False)
        finally:
            self._waiter_lock.release()
        return news.is_set()

    def ask(self, question: Query | Admin, timeout_s: float) -> ToClient:
        """Send a question and wait for its answer; raises the error it answers with, or ConnectError."""
        if os.getpid() != self._pid:
            raise ConnectError(
                "this tracker session was opened in another process",
                hint="call connect_tracker in each process that needs it",
            )
        if self._closing:
            raise ConnectError(f"the session with the tracker at {self.address} is closed")
        answer: Future[ToClient] = Future()
        self._submit(question, answer)
        try:
            return answer.result(timeout_s)
        except FutureTimeout:
            raise ConnectError(
                f"the tracker at {self.address} has not answered within {timeout_s:g} s",
                hint="see whether it still runs: `tunefarm devices`",
            ) from None

    def end(self) -> None:
        """Have the thread say the last words and end. Does not wait, so a finalizer may call it."""
        self._closing = True
        self._waker.wake()

    def close(self) -> None:
        """`end`, and wait for it. Harmless when done already."""
        if os.getpid() != self._pid or threading.current_thread() is self._thread:
            return
        self.end()
        self._thread.join(timeout=5.0)

    # Turns, in whichever thread

    def _submit(self, message: FromClient, answer: Future[ToClient] | None) -> None:
        """Send a message now, or have the thread send it if another thread has the turn."""
        self._outbox.put((message, answer))
        if not self._take_turn(wait=False):
            self._waker.wake()

    def _take_turn(self, *, wait: bool = True, nudge: bool = True) -> bool:
        """Send what is queued, receive what has come, and `nudge` the waiters.
        False when it is another's turn, for which this may `wait`, or the line is closed."""
        if not self._turn_lock.acquire(wait):
            return False
        try:
            if self._socket.closed:
                return False
            self._flush()
            taken = 0
            # The descriptor tells only of what comes after everything was taken.
            while taken < _BURST and self._receive():
                taken += 1
            if taken == _BURST:
                self._waker.wake()
            if taken and nudge and self._waiter_lock.locked():
                self._waiter.wake()
        except Exception:  # a defect must not silently end the renewal of leases
            logger.exception("the line to the tracker failed; it goes on")
            self._waker.wake()
        finally:
            self._turn_lock.release()
        return True

    def _flush(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                message, answer = self._outbox.get_nowait()
                if answer is None:
                    self._send(message, MessageKind.NOTE)
                    continue
                number, self._next_id = self._next_id, self._next_id + 1
                self._asked[number] = answer
                if not self._send(message, MessageKind.REQUEST, number):
                    del self._asked[number]
                    answer.set_exception(ConnectError(f"the connection to the tracker at {self.address} is down"))

    def _send(self, message: FromClient, kind: MessageKind, request_id: int = 0) -> bool:
        try:
            send_frames(self._socket, to_tracker.encode(message, kind, request_id=request_id))
        except zmq.Again:
            return False
        return True

    def _receive(self) -> bool:
        """Take in a message; False when there is none."""
        if (frames := receive_message(self._socket)) is None:
            return False
        self.heard = time.monotonic()
        answer: Future[ToClient] | None = None
        try:
            header = check_frames(frames, LIMITS)
            if header.kind is not MessageKind.NOTE:
                answer = self._asked.pop(header.request_id, None)
            if header.kind is MessageKind.ERROR:
                raise decode_error(frames)
            message = plainly(to_client.decode_body(frames[1]))
        except TunefarmError as error:
            if answer is not None:
                answer.set_exception(error)
            else:
                logger.warning("the tracker at %s: %s", self.address, error.message)
            return True
        if answer is not None:
            answer.set_result(message)
        elif header.kind is MessageKind.NOTE:
            self._on_message(message)
        return True

    # The thread

    def _run(self) -> None:
        beat_at = time.monotonic() + BEAT_S
        try:
            while not self._closing:
                for fd, _ in self._thread_watch.poll(max(0.0, beat_at - time.monotonic())):
                    if fd == self._waker.fd:
                        self._waker.clear()
                self._take_turn()
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + BEAT_S
                    self._beat()
        finally:
            self._finish()

    def _beat(self) -> None:
        with self._turn_lock:
            try:
                for message in self._on_beat():
                    self._send(message, MessageKind.NOTE)
                if self.silent_s > _SIGN_OF_LIFE_S:  # the tracker cuts off connections that say nothing
                    self._send(Query("events", limit=1), MessageKind.REQUEST)
            except Exception:
                logger.exception("the line to the tracker failed; it goes on")

    def _finish(self) -> None:
        self._closing = True
        with self._turn_lock:
            self._flush()
            self._send(self._last_words, MessageKind.NOTE)
            self._socket.close(linger=500)
        for answer in self._asked.values():
            answer.set_exception(ConnectError(f"the session with the tracker at {self.address} is closed"))
        self._waiter.wake()
        with self._waiter_lock:  # whoever waited has gone
            self._waiter_watch.close()
        self._thread_watch.close()
        self._context.term()


def _watch(sock: zmq.Socket[bytes], own: Waker) -> select.epoll:
    """Wakes for messages and for `own`.
    A message wakes the watch that was made first among those waited on."""
    watch = select.epoll()
    watch.register(int(sock.getsockopt(zmq.FD)), select.EPOLLIN | select.EPOLLEXCLUSIVE)
    watch.register(own.fd, select.EPOLLIN)
    return watch


_open: weakref.WeakSet[Channel] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for channel in list(_open):
        channel.close()


def _connect(
    context: zmq.Context[zmq.Socket[bytes]], host: str, port: int, timeout_s: float, keys: PeerKeys | None
) -> zmq.Socket[bytes]:
    """A socket on which a tracker has answered."""
    deadline = time.monotonic() + timeout_s
    problem = "no answer in time"
    for address in resolve(host, port):
        try:
            # ZeroMQ tries for ever and does not say why; a plain connection does.
            socket.create_connection((address, port), max(0.1, deadline - time.monotonic())).close()
        except OSError as error:
            problem = error.strerror or str(error) or problem
            continue
        sock = context.socket(zmq.DEALER)
        try:
            problem = _introduce(sock, address, port, deadline, keys)
        except BaseException:
            sock.close()
            raise
        if not problem:
            return sock
        sock.close()
    raise ConnectError(
        f"cannot reach a tunefarm tracker at {host}:{port}: {problem}",
        hint=_HINTS.get(problem, f"start one there with `tunefarm tracker --port {port}`, or check host and port"),
        detail={"host": host, "port": port},
    )


_NO_ENTRY = "it does not let this machine in: it does not know its key, or has another one than expected"
_NO_PROTOCOL = "what listens there asks for keys, or does not speak tunefarm's protocol"
_HINTS = {
    _NO_ENTRY: "have this machine's key authorized there (`tunefarm keys show`); check its (`tunefarm keys trust`)",
    _NO_PROTOCOL: "tell its key with `tunefarm keys trust HOST:PORT KEY`, or check host and port",
}


def _introduce(sock: zmq.Socket[bytes], address: str, port: int, deadline: float, keys: PeerKeys | None) -> str:
    """Connect and ask something only a tracker answers; "" or what went wrong."""
    prepare(sock, LIVENESS, LIMITS)
    secure_client(sock, keys)
    sock.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a tracker that is not there
    sock.setsockopt(zmq.RECONNECT_IVL, 50)
    sock.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
    sock.connect(endpoint(address, port))
    if not sock.poll(max(1, int((deadline - time.monotonic()) * 1000)), zmq.POLLOUT):
        return _NO_PROTOCOL if keys is None else _NO_ENTRY
    sock.send_multipart(to_tracker.encode(Query("events", limit=1), MessageKind.REQUEST))
    if not sock.poll(max(1, int((deadline - time.monotonic()) * 1000)), zmq.POLLIN):
        return "it does not answer"
    try:
        to_client.decode(sock.recv_multipart())
    except ProtocolError as error:
        return f"what listens there is no tracker ({error.message})"
    return ""
