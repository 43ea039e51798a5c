"""Bounds on what the connections of one ROUTER may cost its process: number, silence and memory.

libzmq 4.3.5 limits a frame and whole messages. It does not limit the frames of a message that never ends, answers
that nobody reads, or connections that say nothing. A peer may also choose its routing id, even one that the socket
would give out later. When the counter of ids gets there, libzmq aborts the process. So the counter starts at a
random number (`seed_routing_ids`), and a peer with an id that the counter has not reached is cut off. Few
connections may be silent, and an address may open only so many a second.

The guard hears of connections from the socket's monitor, knows them by descriptor, and asks the kernel how many bytes
each has sent and taken (TCP_INFO). It cuts one off by shutting its descriptor down: libzmq then takes it for lost.

All this depends on when the guard runs. What libzmq reads of a connection does not: the kernel accepts so many bytes
beyond the messages that were read, and drops the rest (`socket_filter`).
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import zmq

from rpc_server.errors import ProtocolError
from rpc_server.wire.codec import Buffer
from rpc_server.wire.guard.budget import Budget
from rpc_server.wire.guard.kernel_facts import bytes_of, identify, last_given_id, resident_bytes, waiting_in_kernel
from rpc_server.wire.guard.socket_filter import first_number, let_in, open_again, prepare_listener, refuse_from
from rpc_server.wire.sockets import SocketMonitor, came_before

logger = logging.getLogger("rpc_server")

_UNREAD_STEP = 8 << 20
_GROWTH = 8 << 20
_LOOK_S = 0.25
_LOOK_OFTEN_S = 0.1
_LOOK_AT_STRANGERS_S = 0.02
_MOST_RATES = 4096
_LONGEST_DEBT_S = 10.0
_TELL_S = 10.0
_KEY = "key "
_MOST_MEMORY = 32  # libzmq's bytes for one on the wire: a frame without bytes takes 2 there, and 64 in memory,
_USUAL_MEMORY = 4  # and of frames as they are
_FRAMES_OVER = 64  # a mistake may have so many
_LOOK_AT_EACH = 64  # connections looked at in turn
_SHORT = 255  # ZMTP writes a frame's size in a byte up to here, in 8 above
_SHORT_HEAD, _LONG_HEAD = 2, 9
_ENCRYPTED = 33  # what CurveZMQ adds to a frame
_HANDSHAKE = 4096  # bytes of a connection that belong to no message: at its beginning,
_HEARTBEATS = 128  # and in a second


def seed_routing_ids() -> None:
    """Make the routing ids that the next ROUTER gives out start at a number nobody can guess.

    libzmq takes it from libc's `rand`, which nobody seeds, so that it is the same in every process.
    """
    ctypes.CDLL(None).srand(ctypes.c_uint(int.from_bytes(os.urandom(4), "little")))


class Peer:
    """A connection. `inode` is its socket's: the descriptor may be another's by now."""

    __slots__ = (
        "active", "conn", "errors", "fd", "first", "grant_at", "granted", "heard_at", "holder", "inode", "known",
        "opened_at", "settled", "taken", "unread", "unread_step", "wire",
    )  # fmt: skip

    def __init__(self, fd: int, inode: int, holder: str, now: float) -> None:
        self.fd, self.inode, self.holder = fd, inode, holder
        self.opened_at = self.heard_at = now
        self.conn: bytes | None = None
        self.known = False
        self.active = False  # a message came since the last look
        self.settled = 0  # bytes received when that was so
        self.errors = 0
        self.unread = self.taken = 0
        self.unread_step = _UNREAD_STEP
        self.first: int | None = None  # what TCP calls its first byte, where the kernel bounds what it takes in
        self.wire = 0  # bytes that the messages heard had on the wire
        self.granted = 0  # bytes that the kernel takes in
        self.grant_at = 0  # `wire` from which on to have it take in more


@dataclass(slots=True)
class _ConnectionRate:
    """How many connections an address may still open, and when it opened the last."""

    left: float
    at: float


class ConnectionGuard:
    """Watches `sock`, a ROUTER: make it before the socket is bound.

    Its `socket` is to be polled, and `drain` called when it is readable. `heard` must be told of every message that
    arrives, `sent` of every one that leaves; `look` must be called when `due`. `needed` says whether a connection must
    not make room for others (it has a session). `on_news` is called with what the monitor tells: an event of accepting
    or disconnecting, and a descriptor. One thread.
    """

    def __init__(
        self,
        sock: zmq.Socket[bytes],
        budget: Budget | None = None,
        needed: Callable[[bytes], bool] = lambda _conn: False,
    ) -> None:
        self.budget = budget or Budget()
        self.needed = needed
        self.on_news: Callable[[int, int], None] = lambda _event, _fd: None
        self._first_id = last_given_id(sock)
        self._added = _ENCRYPTED if sock.getsockopt(zmq.CURVE_SERVER) else 0
        self._accepted = 0
        self._rates: OrderedDict[str, _ConnectionRate] = OrderedDict()  # who opened one longest ago first
        self._fastest = ""  # the last address that had used up half of its burst
        self._listeners: set[int] = set()
        self._refused: dict[str, _ConnectionRate] = {}  # addresses of which none are accepted
        self._monitor = SocketMonitor(sock, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_LISTENING)
        self.socket = self._monitor.socket
        self._by_fd: dict[int, Peer] = {}
        self._by_conn: dict[bytes, Peer] = {}
        self._strangers: dict[Peer, None] = {}  # the oldest first
        self._unbounded: dict[Peer, None] = {}  # of which the kernel does not know yet; the oldest first
        self._held: dict[str, int] = {}  # connections by holder
        self._next_look = 0.0
        self._in_turn: list[Peer] = []  # those still to be looked at in this round
        self._resident = 0
        self._calm = resident_bytes()  # the process when no message was under way that is not whole
        self._told_at = float("-inf")
        self._untold = 0

    def __len__(self) -> int:
        return len(self._by_fd)

    # --- connections come and go --------------------------------------------------------------------------

    def drain(self) -> None:
        """Take in what the monitor tells."""
        for event, fd in self._monitor.drain():
            if event == zmq.EVENT_LISTENING:
                self._listeners.add(fd)
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as listener:
                    prepare_listener(listener)
                continue
            if event == zmq.EVENT_ACCEPTED:
                self._opened(fd, time.monotonic())
            else:
                self._forget(self._by_fd.get(fd))
            self.on_news(event, fd)

    def _opened(self, fd: int, now: float) -> None:
        self._accepted += 1
        self._forget(self._by_fd.get(fd))
        seen = identify(fd)
        if seen is None:  # it is gone already; who is fast at it anyway pays
            if self._fastest:
                self._slow_down(self._fastest, now)
            return
        peer = Peer(fd, *seen, now)
        peer.grant_at = self.budget.stranger_bytes // 8
        self._unbounded[peer] = None
        if not self.budget.first_words_s:
            self._grant(peer, now)
        if not self._by_fd and not self._refused:  # a look that nobody needed until now is not due at once
            self._next_look = now + _LOOK_AT_STRANGERS_S
        self._by_fd[fd] = peer
        self._strangers[peer] = None
        self._count(peer.holder, 1)
        self._slow_down(peer.holder, now)
        if len(self._strangers) > self.budget.strangers:
            self.cut(next(iter(self._strangers)), "more connections than may be silent at a time")
        self._make_room(peer)

    def _slow_down(self, address: str, now: float) -> None:
        """Count a connection of an address. Refuse its further ones for a while if they were too many."""
        rate = self._rates.pop(address, None) or _ConnectionRate(float(self.budget.burst), now)
        rate.left = max(self._left(rate, now) - 1.0, -_LONGEST_DEBT_S * self.budget.rate)
        rate.at = now
        self._rates[address] = rate
        if rate.left < self.budget.burst / 2:
            self._fastest = address
        elif address == self._fastest:
            self._fastest = ""
        if len(self._rates) > _MOST_RATES:
            self._rates.popitem(last=False)
        if rate.left < 0 and address not in self._refused:
            # Those that came before the kernel heard of it count too.
            self._refused[address] = rate
            self._refuse()
            self._tell(f"{address} opens connections too fast: no more of it are accepted for a moment")

    def _left(self, rate: _ConnectionRate, now: float) -> float:
        return min(float(self.budget.burst), rate.left + (now - rate.at) * self.budget.rate)

    def _refuse(self) -> None:
        for listener in self._listeners:
            refuse_from(listener, self._refused)

    def _accept_again(self, now: float) -> None:
        """Accept connections of addresses again that have waited long enough for their rate."""
        enough = min(self.budget.burst, self.budget.rate)
        over = [address for address, rate in self._refused.items() if self._left(rate, now) >= enough]
        for address in over:
            del self._refused[address]
        if over:
            self._refuse()

    def _make_room(self, newcomer: Peer) -> None:
        of_all = len(self._by_fd) > self.budget.connections
        most = self.budget.per_key if newcomer.holder.startswith(_KEY) else self.budget.per_address
        if not of_all and self._held[newcomer.holder] <= most:
            return
        others = (p for p in self._by_fd.values() if of_all or p.holder == newcomer.holder)
        free = [p for p in others if p.conn is None or not self.needed(p.conn)]
        victim = min(free, key=lambda p: (p is newcomer, p.heard_at), default=newcomer)
        self.cut(victim, "more connections than there may be" + ("" if of_all else f" of {victim.holder}"))

    def _count(self, holder: str, change: int) -> None:
        left = self._held.get(holder, 0) + change
        if left:
            self._held[holder] = left
        else:
            self._held.pop(holder, None)

    def _forget(self, peer: Peer | None) -> None:
        if peer is None or self._by_fd.get(peer.fd) is not peer:
            return
        del self._by_fd[peer.fd]
        self._strangers.pop(peer, None)
        self._unbounded.pop(peer, None)
        self._count(peer.holder, -1)
        if peer.conn is not None and self._by_conn.get(peer.conn) is peer:
            del self._by_conn[peer.conn]

    # --- messages -----------------------------------------------------------------------------------------

    def heard(self, conn: bytes, first: zmq.Frame, frames: Sequence[zmq.Frame]) -> Peer | None:
        """Note a message on `conn`: `first`, which ZeroMQ puts before it, and its frames.
        None: the connection is gone."""
        peer = self._by_conn.get(conn)
        if peer is None:
            peer = self._introduce(conn, first)
            if peer is None:
                return None
        peer.active, peer.heard_at = True, time.monotonic()
        added, wire = self._added, peer.wire
        for frame in frames:
            size = len(frame) + added
            wire += size + (_SHORT_HEAD if size <= _SHORT else _LONG_HEAD)
        peer.wire = wire
        if peer.wire >= peer.grant_at:
            self._grant(peer, peer.heard_at)
        return peer

    def _grant(self, peer: Peer, now: float) -> None:
        """Have the kernel accept as much again as a connection may send before it is read."""
        is_new = peer in self._unbounded
        if is_new:
            del self._unbounded[peer]
        elif peer.first is None:
            return
        credit = self.budget.credit if peer.known else self.budget.stranger_bytes
        beside = _HANDSHAKE + int((now - peer.opened_at) * _HEARTBEATS)
        granted = peer.wire + beside + credit
        worth = peer.granted + (credit // 8 if peer.granted else 0)
        if granted > worth and (sock := open_again(peer.fd, peer.inode)) is not None:
            if is_new:
                peer.first = first_number(sock)
            if peer.first is not None:
                let_in(sock, peer.first, granted)
            sock.close()
            peer.granted = granted
        peer.grant_at = peer.wire + credit // 8

    def _introduce(self, conn: bytes, first: zmq.Frame) -> Peer | None:
        self.drain()
        try:
            fd = first.get(zmq.SRCFD)
        except zmq.ZMQError:  # it came from this process
            return None
        peer = self._by_fd.get(fd) if isinstance(fd, int) else None
        if peer is None or (peer.conn is not None and not came_before(peer.conn, conn)):
            return None
        if self._is_chosen(conn):
            self.cut(peer, "it chose an id that this service gives out itself")
            return None
        if peer.conn is not None:  # the descriptor is another's now, though nothing was said of the end of the first
            self._by_conn.pop(peer.conn, None)
        peer.conn = conn
        self._by_conn[conn] = peer
        if self._added:  # only who is encrypted has shown a key
            with contextlib.suppress(zmq.ZMQError):
                if key := str(first.get("User-Id") or ""):
                    self._count(peer.holder, -1)
                    peer.holder = _KEY + key
                    self._count(peer.holder, 1)
                    self._make_room(peer)
        return peer

    def _is_chosen(self, conn: bytes) -> bool:
        """Whether an id looks like the socket's own, which count up, but was not given out yet."""
        if len(conn) != 5 or conn[0] or self._first_id is None:
            return False
        ahead = (int.from_bytes(conn[1:], "big") - self._first_id) % 2**32
        return not 0 < ahead <= self._accepted

    def vouch(self, peer: Peer | None) -> None:
        """Note that its message made sense."""
        if peer is not None and (peer.errors or not peer.known):
            was_known, peer.errors, peer.known = peer.known, 0, True
            if not was_known:
                self._strangers.pop(peer, None)
                self._grant(peer, peer.heard_at)

    def doubt(self, peer: Peer | None) -> None:
        """Note that its message made no sense."""
        if peer is not None:
            peer.errors += 1
            if peer.errors >= self.budget.errors:
                self.cut(peer, "too many messages that make no sense")

    def refuse_long(self, conn: bytes, over: int) -> None:
        """Raise ProtocolError for a message that had `over` frames more than any may have.
        If they were very many it ends the connection."""
        if over > _FRAMES_OVER:
            self.drop(conn, f"a message of {over} frames more than any has")
        raise ProtocolError(f"a message has {over} frames more than any of this protocol")

    def sent(self, conn: bytes, frames: Sequence[Buffer]) -> None:
        """A message was queued for `conn`."""
        peer = self._by_conn.get(conn)
        if peer is None:
            return
        peer.unread += sum(map(len, frames))
        if peer.unread >= peer.unread_step:
            self._look_at_unread(peer)

    def _look_at_unread(self, peer: Peer) -> None:
        self._refresh_unread(peer)
        if peer.unread > self.budget.unread:
            self.cut(peer, f"it has left {peer.unread >> 20} MiB of answers unread")
            return
        total = peer.unread
        if total > _UNREAD_STEP:
            # What the others have queued may have been taken since.
            for other in self._by_fd.values():
                if other is not peer and other.unread > _UNREAD_STEP // 8:
                    self._refresh_unread(other)
                    total += other.unread
            if total > self.budget.unread_total:
                self.cut(max(self._by_fd.values(), key=lambda p: p.unread), "too many answers are left unread")
        peer.unread_step = peer.unread + _UNREAD_STEP

    def _refresh_unread(self, peer: Peer) -> None:
        counts = bytes_of(peer.fd)
        if counts is None:
            return
        taken, _ = counts
        peer.unread = max(0, peer.unread - (taken - peer.taken))
        peer.taken = taken

    # --- from time to time --------------------------------------------------------------------------------

    def due(self) -> float | None:
        """Return when to call `look` next (monotonic seconds)."""
        if self._unbounded:
            return min(self._next_look, next(iter(self._unbounded)).opened_at + self.budget.first_words_s)
        return self._next_look if self._by_fd or self._refused else None

    def look(self, now: float) -> None:
        """Cut off who has been silent for too long, or sends a message that never ends."""
        for peer in list(self._unbounded):
            if now < peer.opened_at + self.budget.first_words_s:
                break
            self._grant(peer, now)
        if self.budget.first_words_s and now < self._next_look:
            return
        self._next_look = now + (_LOOK_AT_STRANGERS_S if self._strangers else _LOOK_S)
        if self._refused:
            self._accept_again(now)
        for peer in list(self._strangers):
            if now < peer.opened_at + self.budget.silent_s:
                break
            self.cut(peer, f"it has said nothing that makes sense for {self.budget.silent_s:g} s")
        self._look_at_some(now)
        resident = resident_bytes()
        if self._resident - _GROWTH < resident < self._resident + _GROWTH:
            return
        self._next_look = now + (_LOOK_AT_STRANGERS_S if self._strangers else _LOOK_OFTEN_S)
        # Only a process that grows has a reason to ask thousands of connections what they do.
        grows, self._resident = resident > self._resident, resident
        if grows:
            self._look_at_unfinished()

    def _look_at_some(self, now: float) -> None:
        """The connections in turn. One that only waits within its credit makes nothing grow."""
        if not self._in_turn:
            self._in_turn = list(self._by_fd.values())
        for peer in self._in_turn[-_LOOK_AT_EACH:]:
            if self._by_fd.get(peer.fd) is peer:
                self._unfinished(peer)
                self._grant(peer, now)
        del self._in_turn[-_LOOK_AT_EACH:]

    def _unfinished(self, peer: Peer) -> int:
        """Bytes that a connection has sent of an incomplete message.
        It is cut off if they are too many."""
        counts = bytes_of(peer.fd)
        if counts is None:
            return 0
        if peer.active:
            peer.active, peer.settled = False, counts[1]
            return 0
        unfinished = counts[1] - peer.settled - waiting_in_kernel(peer.fd)
        if unfinished <= (self.budget.unfinished if peer.known else self.budget.stranger_bytes):
            return unfinished
        self.cut(peer, f"it has sent {unfinished >> 10} KiB of a message that does not end")
        return 0

    def _look_at_unfinished(self) -> None:
        ends = [(size, peer) for peer in list(self._by_fd.values()) if (size := self._unfinished(peer)) > 0]
        if not ends:
            self._calm = self._resident
            return
        self._bound([pair for pair in ends if not pair[1].known], self.budget.strangers_total)
        self._bound([pair for pair in ends if pair[1].known and pair[0] > _GROWTH // 8], self.budget.unfinished_total)
        grown = self._resident - self._calm
        if grown > self.budget.growth + _USUAL_MEMORY * sum(map(_held, self._by_fd.values())):
            self._bound(ends, self.budget.growth // _MOST_MEMORY)

    def _bound(self, open_ends: list[tuple[int, Peer]], most: int) -> None:
        """Cut off the connections that have sent most, until the others have sent no more than so many bytes."""
        total = sum(size for size, _ in open_ends)
        for size, peer in sorted(open_ends, key=lambda pair: -pair[0]):
            if total <= most:
                break
            self.cut(peer, "too much of messages that are not whole yet has arrived")
            total -= size

    # --- the end of a connection --------------------------------------------------------------------------

    def drop(self, conn: bytes, why: str) -> None:
        """Cut a connection off."""
        if (peer := self._by_conn.get(conn)) is not None:
            self.cut(peer, why)

    def cut(self, peer: Peer, why: str) -> None:
        """Shut a connection's socket down, if it is still the one that was accepted.
        The monitor tells when libzmq has noticed; then it is forgotten."""
        self._strangers.pop(peer, None)
        if (sock := open_again(peer.fd, peer.inode)) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._tell(f"a connection of {peer.holder} was cut off: {why}")

    def _tell(self, text: str) -> None:
        """Log it; of many, one every few seconds."""
        now = time.monotonic()
        if now < self._told_at + _TELL_S:
            self._untold += 1
            return
        more, self._untold, self._told_at = self._untold, 0, now
        logger.warning("%s%s", text, f" (and {more} before it)" if more else "")

    def close(self) -> None:
        self._monitor.close()


def _held(peer: Peer) -> int:
    """Bytes of a connection in libzmq or the kernel: unread ones, and answers not taken."""
    counts = bytes_of(peer.fd)
    return peer.unread + (max(0, counts[1] - peer.wire) if counts is not None else 0)
