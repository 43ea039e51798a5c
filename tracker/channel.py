"""A client's line to the tracker: one thread that owns the socket, sends what is posted, hands out what comes.

The line mends itself: ZeroMQ connects again, and whoever uses the channel says on every beat again what the
tracker must not forget. Only questions (`ask`) have an answer of their own and fail when none comes.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
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
from rpc_server.curve import PeerKeys, secure_client
from rpc_server.errors import ConnectError, ProtocolError
from rpc_server.registrar import LIVENESS
from rpc_server.sockets import endpoint, prepare, resolve
from rpc_server.tracker_messages import LIMITS, Admin, FromClient, Query, ToClient, to_client, to_tracker
from rpc_server.wire import Kind, check_frames

logger = logging.getLogger("tracker.client")

BEAT_S = 1.0
_BURST = 256


class Channel:
    """Connected once made.

    `on_message` gets every note of the tracker; `on_beat` gives what to say every `BEAT_S`. Both run in the
    channel's thread and must not block. `last_words` are said when it ends, at the latest with this process.
    Raises ConnectError when no tracker answers within `timeout_s`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        on_message: Callable[[ToClient], None],
        on_beat: Callable[[], Iterable[FromClient]],
        last_words: FromClient,
        timeout_s: float,
        keys: PeerKeys | None = None,
    ) -> None:
        self.address = f"{host}:{port}"
        self.heard = time.monotonic()
        self._on_message = on_message
        self._on_beat = on_beat
        self._pid = os.getpid()
        self._outbox: SimpleQueue[tuple[FromClient, Future[ToClient] | None]] = SimpleQueue()
        self._asked: dict[int, Future[ToClient]] = {}
        self._next_id = 1
        self._wake_lock = threading.RLock()  # a finalizer may interrupt its holder
        self._last_words = last_words
        self._closing = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._socket = _connect(self._context, host, port, timeout_s, keys)
        except BaseException:
            self._context.term()
            raise
        self._wake_fd: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="tracker-channel", daemon=True)
        self._thread.start()
        _open.add(self)

    @property
    def silent_s(self) -> float:
        """Seconds since the tracker was last heard."""
        return time.monotonic() - self.heard

    def post(self, message: FromClient) -> None:
        """Send a note, if the line stands. What must arrive is said again on a beat."""
        if os.getpid() == self._pid and not self._closing:
            self._outbox.put((message, None))
            self._wake()

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
        self._outbox.put((question, answer))
        self._wake()
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
        self._wake()

    def close(self) -> None:
        """`end`, and wait for it. Harmless when done already."""
        if os.getpid() != self._pid or threading.current_thread() is self._thread:
            return
        self.end()
        self._thread.join(timeout=5.0)

    def _wake(self) -> None:
        with self._wake_lock:
            if self._wake_fd is not None:
                os.eventfd_write(self._wake_fd, 1)

    # The thread

    def _run(self) -> None:
        wake_fd = self._wake_fd
        assert wake_fd is not None
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(wake_fd, zmq.POLLIN)
        beat_at = time.monotonic() + BEAT_S
        try:
            while not self._closing:
                poller.poll(max(0, int((beat_at - time.monotonic()) * 1000) + 1))
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(wake_fd)
                try:
                    self._flush()
                    self._receive()
                    if time.monotonic() >= beat_at:
                        beat_at = time.monotonic() + BEAT_S
                        for message in self._on_beat():
                            self._send(message, Kind.NOTE)
                except Exception:  # a defect must not silently end the renewal of leases
                    logger.exception("the line to the tracker failed; it goes on")
            self._flush()
            self._send(self._last_words, Kind.NOTE)
        finally:
            with self._wake_lock:
                self._wake_fd = None
                os.close(wake_fd)
            self._socket.close(linger=500)
            self._context.term()
            for answer in self._asked.values():
                answer.set_exception(ConnectError(f"the session with the tracker at {self.address} is closed"))

    def _flush(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                message, answer = self._outbox.get_nowait()
                if answer is None:
                    self._send(message, Kind.NOTE)
                    continue
                number, self._next_id = self._next_id, self._next_id + 1
                self._asked[number] = answer
                if not self._send(message, Kind.REQUEST, number):
                    del self._asked[number]
                    answer.set_exception(ConnectError(f"the connection to the tracker at {self.address} is down"))

    def _send(self, message: FromClient, kind: Kind, request_id: int = 0) -> bool:
        try:
            self._socket.send_multipart(to_tracker.encode(message, kind, request_id=request_id), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _receive(self) -> None:
        for _ in range(_BURST):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.heard = time.monotonic()
            try:
                header = check_frames(frames, LIMITS)
                answer = self._asked.pop(header.request_id, None) if header.kind is not Kind.NOTE else None
                try:
                    message = to_client.decode(frames).body
                except TunefarmError as error:
                    if answer is None:
                        raise
                    answer.set_exception(error)
                    continue
            except TunefarmError as error:
                logger.warning("the tracker at %s: %s", self.address, error.message)
                continue
            if answer is not None:
                answer.set_result(message)
            elif header.kind is Kind.NOTE:
                self._on_message(message)


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


def _introduce(
    sock: zmq.Socket[bytes], address: str, port: int, deadline: float, keys: PeerKeys | None
) -> str:
    """Connect and ask something only a tracker answers; "" or what went wrong."""
    prepare(sock, LIVENESS, LIMITS)
    secure_client(sock, keys)
    sock.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a tracker that is not there
    sock.setsockopt(zmq.RECONNECT_IVL, 50)
    sock.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
    sock.connect(endpoint(address, port))
    if not sock.poll(max(1, int((deadline - time.monotonic()) * 1000)), zmq.POLLOUT):
        return _NO_PROTOCOL if keys is None else _NO_ENTRY
    sock.send_multipart(to_tracker.encode(Query("events", limit=1), Kind.REQUEST))
    if not sock.poll(max(1, int((deadline - time.monotonic()) * 1000)), zmq.POLLIN):
        return "it does not answer"
    try:
        to_client.decode(sock.recv_multipart())
    except ProtocolError as error:
        return f"what listens there is no tracker ({error.message})"
    return ""
