"""Join two TCP connections: bytes go from one to the other unread, in bounded memory.

They pass through a pipe by splice(2) and never enter this process. If one side does not take bytes, the other is not
read. So a slow reader slows its sender down by TCP's own flow control, and costs a pipe at most.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable

from rpc_server.wire.event_loop import BROKEN, READ, WRITE, EventLoop, Timer

CHUNK = 1 << 20
"""Most bytes kept of one direction of one splice."""
_TURNS = 4  # chunks of one direction before others get a turn
_MUCH = CHUNK // 4  # after less than this there is probably no more yet
_SPARE = 16
_FLAGS = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE
_FLUSH_S = 10.0
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


def tune(sock: socket.socket) -> socket.socket:
    """Nothing blocks, small messages leave at once, and a dead end is noticed."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


class _Pipe:
    """Bytes on their way from one socket to the other, without a copy into this process."""

    __slots__ = ("held", "reads", "writes")

    def __init__(self) -> None:
        self.held = 0
        self.reads, self.writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # too many pages for this user: it works with fewer
            fcntl.fcntl(self.writes, fcntl.F_SETPIPE_SZ, CHUNK)

    def fill(self, source: socket.socket) -> int:
        """Raise BlockingIOError when there is nothing to read."""
        self.held = os.splice(source.fileno(), self.writes, CHUNK, flags=_FLAGS)
        return self.held

    def drain(self, sink: socket.socket) -> None:
        """Send until it is empty or nothing more is taken."""
        with contextlib.suppress(BlockingIOError):
            while self.held:
                self.held -= os.splice(self.reads, sink.fileno(), self.held, flags=_FLAGS)

    def close(self) -> None:
        os.close(self.reads)
        os.close(self.writes)


class _Pipes:
    """Empty pipes. A direction has its own pipe only while its sink takes nothing more."""

    def __init__(self) -> None:
        self._spare: list[_Pipe] = []

    def take(self) -> _Pipe:
        return self._spare.pop() if self._spare else _Pipe()

    def give_back(self, pipe: _Pipe) -> None:
        if pipe.held or len(self._spare) >= _SPARE:
            pipe.close()
        else:
            self._spare.append(pipe)

    def close(self) -> None:
        for pipe in self._spare:
            pipe.close()
        self._spare.clear()


class _Way:
    """One direction. `backlog`: read from `source` and not taken by `sink`."""

    __slots__ = ("backlog", "sink", "source")

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.backlog: _Pipe | None = None

    def move(self, pipes: _Pipes) -> bool:
        """Pass on what there is. False when an end is closed or broken."""
        pipe = pipes.take()
        try:
            for _ in range(_TURNS):
                count = pipe.fill(self.source)
                if not count:
                    return False
                pipe.drain(self.sink)
                if pipe.held:
                    self.backlog = pipe
                    return True
                if count < _MUCH:
                    return True
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            if self.backlog is None:
                pipes.give_back(pipe)
        return True

    def flush(self, pipes: _Pipes) -> bool:
        """Give the sink more of the backlog. False when it is broken."""
        assert self.backlog is not None
        try:
            self.backlog.drain(self.sink)
        except OSError:
            return False
        if not self.backlog.held:
            self.drop(pipes)
        return True

    def drop(self, pipes: _Pipes) -> None:
        if self.backlog is not None:
            pipes.give_back(self.backlog)
            self.backlog = None


class Splice:
    """Owns both sockets, which are made by `tune` and may still be connecting. `on_end` is called once."""

    def __init__(
        self, loop: EventLoop, pipes: _Pipes, one: socket.socket, other: socket.socket, on_end: Callable[[], None]
    ) -> None:
        self._loop, self._pipes, self._on_end = loop, pipes, on_end
        self._ways = (_Way(one, other), _Way(other, one))
        self._wanted = {one: READ, other: READ}  # those that are open, and what for
        self._last: Timer | None = None
        loop.watch(one.fileno(), lambda events: self._on_events(events, *self._ways))
        loop.watch(other.fileno(), lambda events: self._on_events(events, *self._ways[::-1]))

    @property
    def held(self) -> int:
        """Bytes read and not passed on."""
        return sum(way.backlog.held for way in self._ways if way.backlog is not None)

    def close(self) -> None:
        """Harmless when it has ended."""
        if self._wanted:
            for sock in list(self._wanted):
                self._drop(sock)
            for way in self._ways:
                way.drop(self._pipes)
            if self._last is not None:
                self._last.cancel()
            self._on_end()

    def _on_events(self, events: int, out: _Way, back: _Way) -> None:
        """Something about the socket that `out` reads and `back` writes."""
        alive = not events & WRITE or back.backlog is None or back.flush(self._pipes)
        if alive and events & (READ | BROKEN) and out.backlog is None:
            alive = out.move(self._pipes)
        if not alive or events & BROKEN:
            self._end(out)
        elif self._last is not None and back.backlog is None:
            self.close()
        else:
            self._rest()

    def _end(self, way: _Way) -> None:
        """Close both sockets after the one that `way` reads has ended.
        Bytes that were read go out first, if there is time."""
        if way.backlog is None or way.sink not in self._wanted or self._last is not None:
            self.close()
            return
        self._drop(way.source)
        self._want(way.sink, WRITE)
        self._last = self._loop.after(_FLUSH_S, self.close)

    def _rest(self) -> None:
        """Watch each socket only for what can go on.
        That is reading while bytes can be passed on, and writing while some wait."""
        if self._last is None:
            one, other = self._ways
            for way, opposite in ((one, other), (other, one)):
                reading = READ if way.backlog is None else 0
                self._want(way.source, reading | (WRITE if opposite.backlog is not None else 0))

    def _want(self, sock: socket.socket, events: int) -> None:
        if self._wanted[sock] != events:
            self._wanted[sock] = events
            self._loop.want(sock.fileno(), events)

    def _drop(self, sock: socket.socket) -> None:
        del self._wanted[sock]
        self._loop.unwatch(sock.fileno())
        sock.close()


class Splicer:
    """The splices of a loop; they share pipes, as only one moves at a time."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._pipes = _Pipes()
        self._splices: set[Splice] = set()

    def __len__(self) -> int:
        return len(self._splices)

    def join(
        self, one: socket.socket, other: socket.socket, on_end: Callable[[], None] = lambda: None
    ) -> Splice:
        def ended() -> None:
            self._splices.discard(splice)
            on_end()

        splice = Splice(self._loop, self._pipes, one, other, ended)
        self._splices.add(splice)
        return splice

    def close(self) -> None:
        for splice in list(self._splices):
            splice.close()
        self._pipes.close()

