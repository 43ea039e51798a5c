"""A relay's work: boxes register on a ZeroMQ socket.

Clients and boxes meet on plain TCP and are spliced.

A client connects to the relay's port and shows its pass. The relay has the box call back, and opens a port for a
single connection of this client. Bytes that come to that port go to the box unread. Client and box encrypt them for
each other if they have keys.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import zmq

from compiler.errors import TunefarmError
from rpc_server.relay.pass_table import MAX_LINES, RelayPassTable
from rpc_server.relay.passes import (
    ANSWER_SIZE,
    BOX,
    CLIENT,
    Greeting,
    PassAnswer,
    PassVerdict,
    RelayPass,
    new_pass,
    pass_of_text,
    verdict_bytes,
)
from rpc_server.relay.splice import Splice, Splicer, tune
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.event_loop import READ, EventLoop, Timer
from rpc_server.wire.guard.connection_guard import ConnectionGuard
from rpc_server.wire.keys import Principal
from rpc_server.wire.relay_messages import HEARTBEAT_S, LIMITS, BoxTurnedAway, CallBack, PassesHeard, to_box, to_relay
from rpc_server.wire.sockets import receive_frames

logger = logging.getLogger("rpc_server.relay")

HOLD_S = 3.0
"""A client may be faster than the word of its lease, which takes another way: its pass is waited for this long."""
MEET_S = 8.0
"""For everything until client and box are joined: less than a client waits, so that it hears why they are not."""
WITHDRAWN_S = 10.0
"""Lines of a lease that is over are closed after this: until then the box may say how its session ended."""
_MAX_STRANGERS = 1024
_MAX_WAITING = 4096
_MAX_EARLY = 512
_BACKLOG = 1024
_PAUSE_S = 0.2
_LOOK_S = 0.25


@dataclass(eq=False, slots=True)
class _Stranger:
    """Someone who has connected and not said yet who it is."""

    sock: socket.socket
    host: str
    greeting: Greeting
    timer: Timer
    said: bytes = b""


@dataclass(eq=False, slots=True)
class _WaitingClient:
    """A client that showed its pass, until it is spliced to its box or told why not."""

    client: socket.socket
    host: str
    greeting: Greeting
    answer: PassAnswer
    timer: Timer
    called: RelayPass | None = None  # what the box shows when it calls back
    box: socket.socket | None = None
    port_socket: socket.socket | None = None


class ClientPorts:
    """Ports for clients: of [first, last], or any for 0."""

    def __init__(self, address: str, first: int, last: int) -> None:
        self._address = address
        self._free = deque(range(first, last + 1)) if first else None

    def open(self) -> socket.socket | None:
        """A listening socket, or None when all are in use."""
        for _ in range(1 if self._free is None else len(self._free)):
            port = 0 if self._free is None else self._free.popleft()
            try:
                return listen(self._address, port, 1)
            except OSError:  # somebody else has it now
                if self._free is not None:
                    self._free.append(port)
        return None

    def close(self, port_socket: socket.socket) -> None:
        if self._free is not None:
            self._free.append(port_socket.getsockname()[1])
        port_socket.close()


def listen(address: str, port: int, backlog: int) -> socket.socket:
    """Raise OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.create_server((address, port), family=family, backlog=backlog, dualstack_ipv6=address == "::")
    sock.setblocking(False)
    return sock


class RelayLoop:
    """The loop of a relay, between boxes and clients.
    `control` is a bound ROUTER made by `prepare`, at port `control_port`, with its `guard`; `listener` a listening
    socket. `who` names the holder of the key a message came with, where keys are used."""

    def __init__(
        self, control: zmq.Socket[bytes], guard: ConnectionGuard, control_port: int, listener: socket.socket,
        client_ports: ClientPorts, who: Callable[[zmq.Frame], Principal | None] | None = None,
    ) -> None:  # fmt: skip
        self._control, self._control_port, self._who = control, control_port, who
        self._guard = guard
        self._listener, self._client_ports = listener, client_ports
        self._loop = EventLoop()
        self._splicer = Splicer(self._loop)
        self._passes = RelayPassTable()
        self._strangers: dict[_Stranger, None] = {}  # the first is the oldest
        self._waiting: set[_WaitingClient] = set()
        self._early: dict[bytes, list[_WaitingClient]] = defaultdict(list)  # by pass, which no box has told of yet
        self._expected: dict[bytes, _WaitingClient] = {}  # by what the box was given to call back with
        self._without_port: deque[_WaitingClient] = deque()
        self._lines: dict[bytes, set[Splice]] = defaultdict(set)  # by pass
        self.stop = self._loop.stop

    def run(self) -> None:
        self._control.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._loop.attend(self._control, self._on_control)
        self._loop.watch(self._listener.fileno(), lambda _: self._on_listener())
        self._loop.attend(self._guard.socket, self._guard.drain)
        self._loop.after(HEARTBEAT_S, self._expire)
        self._loop.after(_LOOK_S, self._look)
        try:
            self._loop.run()
            logger.info("the relay ends: %s", self._loop.stop_reason)
        finally:
            for stranger in list(self._strangers):
                self._send_off(stranger)
            for waiting in list(self._waiting):
                self._end(waiting)
            self._splicer.close()
            self._loop.leave(self._control)
            self._loop.leave(self._guard.socket)
            self._loop.close()

    # --- boxes --------------------------------------------------------------------------------------------

    def _on_control(self) -> None:
        route, parts, over = receive_frames(self._control, LIMITS.max_frames)  # `route` knows whose key it came with
        frames = [part.bytes for part in parts]
        peer = self._guard.heard(route.bytes, route, parts)
        try:
            if over:
                self._guard.refuse_long(route.bytes, over)
            said = to_relay.decode(frames).body
            passes = [pass_of_text(text) for text in said.passes]
        except TunefarmError as error:
            logger.warning("refused a message: %s", error.message)
            self._guard.doubt(peer)
            return
        self._guard.vouch(peer)
        public = ""
        if self._who is not None:
            principal = self._who(route)
            if principal is None:
                self._say(route.bytes, BoxTurnedAway("this key is not authorized as a box any more"))
                for name in self._passes.forget(route.bytes):
                    self._close_lines(name)
                return
            public = principal.public
        if self._passes.is_full_for(route.bytes):
            self._say(route.bytes, BoxTurnedAway("it has all the boxes it can serve"))
            return
        changes = self._passes.heard(route.bytes, public, said.box, passes, time.monotonic())
        self._say(route.bytes, PassesHeard())
        for name in changes.new:
            for waiting in self._early.pop(name, ()):
                self._receive_client(waiting)
        for name in changes.gone:
            if name in self._lines:
                self._loop.after(WITHDRAWN_S, partial(self._close_lines, name))

    def _say(self, route: bytes, message: PassesHeard | BoxTurnedAway | CallBack) -> bool:
        """Send a message to a box; whether the box is connected."""
        frames = to_box.encode(message, MessageKind.NOTE)
        try:
            self._control.send_multipart([route, *frames], zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        self._guard.sent(route, frames)
        return True

    def _look(self) -> None:
        now = time.monotonic()
        if (due := self._guard.due()) is not None and now >= due:
            self._guard.look(now)
        self._loop.after(_LOOK_S, self._look)

    def _expire(self) -> None:
        if silent := [box.name for box in self._passes.expire(time.monotonic())]:
            logger.warning("silent for too long: %d box(es), %s", len(silent), ", ".join(silent[:10]))
        self._loop.after(HEARTBEAT_S, self._expire)

    def _close_lines(self, name: bytes) -> None:
        """Close the lines of a pass whose lease is over, unless the box has named the pass again since."""
        if self._passes.find(name) is None:
            for splice in list(self._lines.get(name, ())):
                splice.close()

    # --- whoever connects ---------------------------------------------------------------------------------

    def _on_listener(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            for _ in range(_BACKLOG):
                try:
                    sock, peer = self._listener.accept()
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                        raise
                    logger.error("cannot accept a connection: %s", error.strerror)
                    self._loop.want(self._listener.fileno(), 0)
                    self._loop.after(_PAUSE_S, lambda: self._loop.want(self._listener.fileno(), READ))
                    return
                self._welcome(sock, peer[0])

    def _welcome(self, sock: socket.socket, host: str) -> None:
        if len(self._strangers) >= _MAX_STRANGERS:
            self._send_off(next(iter(self._strangers)))
        greeting = Greeting.new(self._control_port)
        stranger = _Stranger(sock, host, greeting, self._loop.after(MEET_S, lambda: self._send_off(stranger)))
        self._strangers[stranger] = None
        self._loop.watch(sock.fileno(), lambda _: self._on_stranger(stranger))
        try:
            tune(sock).send(greeting.to_bytes())
        except OSError:
            self._send_off(stranger)

    def _send_off(self, stranger: _Stranger) -> None:
        self._part_with(stranger)
        stranger.sock.close()

    def _part_with(self, stranger: _Stranger) -> None:
        """Stop treating a connection as a stranger's; its socket stays open."""
        del self._strangers[stranger]
        stranger.timer.cancel()
        self._loop.unwatch(stranger.sock.fileno())

    def _on_stranger(self, stranger: _Stranger) -> None:
        try:
            part = stranger.sock.recv(ANSWER_SIZE - len(stranger.said))
        except BlockingIOError:
            return
        except OSError:
            part = b""
        stranger.said += part
        if part and len(stranger.said) < ANSWER_SIZE:
            return
        try:
            if not part:
                raise ConnectionResetError
            answer = PassAnswer.from_bytes(stranger.said)
        except (TunefarmError, OSError):
            self._send_off(stranger)
            return
        self._part_with(stranger)
        if answer.role == BOX:
            self._receive_box(stranger, answer)
        else:
            self._wait_for_box(stranger, answer)

    # --- clients and boxes meet ---------------------------------------------------------------------------

    def _wait_for_box(self, stranger: _Stranger, answer: PassAnswer) -> None:
        waiting = _WaitingClient(
            stranger.sock,
            stranger.host,
            stranger.greeting,
            answer,
            self._loop.after(MEET_S, lambda: self._turn_away(waiting, PassVerdict.NO_BOX)),
        )
        self._waiting.add(waiting)
        # It has nothing more to say: that it is readable means that it is gone.
        self._loop.watch(waiting.client.fileno(), lambda _: self._end(waiting))
        if len(self._waiting) > _MAX_WAITING:
            self._turn_away(waiting, PassVerdict.BUSY)
        elif self._passes.find(answer.id) is None:
            if len(self._early) >= _MAX_EARLY or len(self._early.get(answer.id, ())) >= MAX_LINES:
                self._turn_away(waiting, PassVerdict.NO_LEASE)
                return
            self._early[answer.id].append(waiting)
            self._loop.after(HOLD_S, lambda: self._wait_no_longer(waiting))
        else:
            self._receive_client(waiting)

    def _wait_no_longer(self, waiting: _WaitingClient) -> None:
        if waiting in self._early.get(waiting.answer.id, ()):
            self._turn_away(waiting, PassVerdict.NO_LEASE)

    def _receive_client(self, waiting: _WaitingClient) -> None:
        """A client showed its pass: have the box of that pass call back."""
        found = self._passes.find(waiting.answer.id)
        if found is None or not found[1].proves(CLIENT, waiting.greeting.nonce, waiting.answer.proof):
            self._turn_away(waiting, PassVerdict.NO_LEASE)
            return
        box, given = found
        if len(self._lines.get(given.id, ())) >= MAX_LINES:
            self._turn_away(waiting, PassVerdict.BUSY)
            return
        waiting.called = new_pass()
        self._expected[waiting.called.id] = waiting
        if not self._say(box.route, CallBack(waiting.called.text)):
            self._passes.forget(box.route)
            self._turn_away(waiting, PassVerdict.NO_BOX)

    def _receive_box(self, stranger: _Stranger, answer: PassAnswer) -> None:
        """A box calls back for a client, with a pass that is good once."""
        waiting = self._expected.get(answer.id)
        called = None if waiting is None else waiting.called
        if waiting is None or called is None or not called.proves(BOX, stranger.greeting.nonce, answer.proof):
            logger.warning("turned away %s, which called back with an invalid pass", stranger.host)
            stranger.sock.close()
            return
        del self._expected[answer.id]
        waiting.called, waiting.box = None, stranger.sock
        self._open_port(waiting)

    def _open_port(self, waiting: _WaitingClient) -> None:
        port_socket = self._client_ports.open()
        if port_socket is None:
            self._without_port.append(waiting)
            return
        waiting.port_socket = port_socket
        self._loop.watch(port_socket.fileno(), lambda _: self._on_port(waiting))
        try:
            waiting.client.send(verdict_bytes(PassVerdict.WELCOME, port_socket.getsockname()[1]))
        except OSError:
            self._end(waiting)

    def _on_port(self, waiting: _WaitingClient) -> None:
        assert waiting.port_socket is not None
        assert waiting.box is not None
        try:
            client, peer = waiting.port_socket.accept()
        except OSError:
            return
        if peer[0] != waiting.host:
            logger.warning("turned away %s at a port meant for %s", peer[0], waiting.host)
            client.close()
            return
        box, waiting.box = waiting.box, None
        name = waiting.answer.id
        splice = self._splicer.join(tune(client), box, lambda: self._forget_line(name, splice))
        self._lines[name].add(splice)
        self._end(waiting)

    def _forget_line(self, name: bytes, splice: Splice) -> None:
        lines = self._lines[name]
        lines.discard(splice)
        if not lines:
            del self._lines[name]

    def _turn_away(self, waiting: _WaitingClient, verdict: PassVerdict) -> None:
        with contextlib.suppress(OSError):
            waiting.client.send(verdict_bytes(verdict))
        self._end(waiting)

    def _end(self, waiting: _WaitingClient) -> None:
        """Forget a client that is spliced or turned away, and close what was opened for it only."""
        if waiting not in self._waiting:
            return
        self._waiting.discard(waiting)
        waiting.timer.cancel()
        if waiting.port_socket is not None:
            self._loop.unwatch(waiting.port_socket.fileno())
            self._client_ports.close(waiting.port_socket)
        self._loop.unwatch(waiting.client.fileno())
        waiting.client.close()
        if waiting in (early := self._early.get(waiting.answer.id, [])):
            early.remove(waiting)
        if not self._early.get(waiting.answer.id, True):
            del self._early[waiting.answer.id]
        if waiting.called is not None:
            self._expected.pop(waiting.called.id, None)
        if waiting.box is not None:
            waiting.box.close()
        with contextlib.suppress(ValueError):
            self._without_port.remove(waiting)
        if waiting.port_socket is not None and self._without_port:
            self._open_port(self._without_port.popleft())
