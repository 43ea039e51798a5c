"""A loop over thousands of descriptors, a few ZeroMQ sockets and timers.

It is for processes that only pass bytes on.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import select
import time
from collections.abc import Callable

import zmq

from rpc_server.wire.waker import Waker

logger = logging.getLogger("rpc_server")

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
BROKEN = select.EPOLLERR | select.EPOLLHUP

Handler = Callable[[int], None]
_BURST = 64  # messages taken from one socket before the others get a turn,
_LONGEST_BURST_S = 0.005  # or fewer that take long


class Timer:
    """Calls back once, unless cancelled before."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class EventLoop:
    """Runs in one thread: `run` returns after `stop`, which any thread or signal handler may call.

    Handlers get epoll's events; they read and write without blocking.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._sockets: dict[zmq.Socket[bytes], Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._waker = Waker()
        self._calls: list[Callable[[], None]] = []
        self.stop_reason: str | None = None
        self.watch(self._waker.fd, self._on_wake)

    # --- from any thread ----------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        self.stop_reason = reason
        self._waker.wake()

    def call(self, callback: Callable[[], None]) -> None:
        """Have the loop's thread call back."""
        self._calls.append(callback)
        self._waker.wake()

    # --- what it looks after ------------------------------------------------------------------------------

    def watch(self, fd: int, handler: Handler, events: int = READ) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def want(self, fd: int, events: int) -> None:
        """Change the events that a watched descriptor is watched for. Errors are reported in any case."""
        self._epoll.modify(fd, events)

    def unwatch(self, fd: int) -> None:
        """Call before the descriptor is closed. Harmless for what is not watched."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def attend(self, sock: zmq.Socket[bytes], handler: Callable[[], None]) -> None:
        """Call `handler` as long as there is a message to receive; each call must receive at least one."""
        self._sockets[sock] = handler
        # A ZeroMQ descriptor tells of changes only, so that after every round the socket itself is asked.
        self.watch(_fd(sock), lambda _: None)

    def leave(self, sock: zmq.Socket[bytes]) -> None:
        """Call before the socket is closed."""
        if self._sockets.pop(sock, None) is not None:
            self.unwatch(_fd(sock))

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), timer))
        return timer

    # --- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        more = True
        while self.stop_reason is None:
            ready = self._epoll.poll(0.0 if more else self._wait_s())
            for fd, events, handler in [(fd, events, self._handlers.get(fd)) for fd, events in ready]:
                # One before it may have closed this one, and opened another of the same number.
                if handler is not None and self._handlers.get(fd) is handler:
                    _safely(handler, events)
            self._run_timers()
            more = self._receive()

    def close(self) -> None:
        """After `run`."""
        self._epoll.close()

    def _wait_s(self) -> float:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) + 0.001 if self._timers else -1.0

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                _safely(callback)

    def _receive(self) -> bool:
        """Let ZeroMQ sockets have their turn; says whether one has more."""
        more = False
        for sock, handler in list(self._sockets.items()):
            left, end = _BURST, time.monotonic() + _LONGEST_BURST_S
            while sock in self._sockets and _readable(sock):
                if not left or time.monotonic() >= end:
                    more = True
                    break
                _safely(handler)
                left -= 1
        return more

    def _on_wake(self, _events: int) -> None:
        self._waker.clear()
        calls, self._calls = self._calls, []
        for callback in calls:
            _safely(callback)


def _safely(handler: Callable[..., None], *arguments: int) -> None:
    """A defect in one connection's handler must not cost the others."""
    try:
        handler(*arguments)
    except Exception:
        logger.exception("a handler failed")


def _fd(sock: zmq.Socket[bytes]) -> int:
    return int(sock.getsockopt(zmq.FD))


def _readable(sock: zmq.Socket[bytes]) -> bool:
    return bool(int(sock.getsockopt(zmq.EVENTS)) & zmq.POLLIN)
