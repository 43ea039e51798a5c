"""The tracker's only I/O: one thread, one ROUTER socket, the state machine between them.

`serve(options)` runs it in this process, `Tracker(...)` in a child of its own.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import zmq

from compiler.errors import TunefarmError
from rpc_server.errors import ConnectError, NotPermitted, ProtocolError, RemoteError
from rpc_server.farm_link.registrar import LIVENESS, split_address
from rpc_server.relay.server import kept_relay
from rpc_server.service import ChildService, ServiceOptions, announce, bind, child_main, service_socket, stoppable
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.codec import Buffer, MessageKind, check_frames, encode_error
from rpc_server.wire.guard.budget import Budget
from rpc_server.wire.guard.connection_guard import ConnectionGuard
from rpc_server.wire.polling import poll_ms
from rpc_server.wire.sockets import has_message, prepare, receive_frames, send_frames
from rpc_server.wire.waker import Waker
from tracker.errors import RegistrationError
from tracker.farm_parts import Command, Record, Timing
from tracker.log import EventLog
from tracker.message_rights import MessageRights
from tracker.questions import Questions
from tracker.state import RevokedKey, Tick, TrackerState

logger = logging.getLogger("tracker")

DEFAULT_PORT = 9190

_BURST = 512
_LONGEST_BURST_S = 0.01
_ANSWERS_S = 0.005
_PAGES = ("devices", "queue", "events", "numbers")  # the larger the farm, the longer these take
_LONGEST_POLL_S = 0.25
_STALL_S = 1.0
_OVERLOAD_S = 5.0
_QUEUE = 10_000
_QUEUE_IN = 128  # messages of one peer, of half a MiB each at most; then its own end waits
# A message has half a MiB at most, a box's first one too.
_BUDGET = Budget(
    connections=16_384, per_key=1024, per_address=16_384, unfinished=3 << 18, credit=1 << 20, stranger_bytes=5 << 17
)
_PAUSE_S = 0.05
_MOST_NAMES = 64  # of peers on one connection: an agent or a client has one
_ROUTE_IDLE_S = 300.0
_LOOK_AT_KEYS_S = 1.0


class TrackerOptions(ServiceOptions, frozen=True, kw_only=True):
    """How a tracker runs.

    `keys` is a folder of keys (`rpc_server.wire.keys`): if it holds an identity, connections are encrypted and only
    authorized boxes, clients and admins come in. `port` 0 takes a free one; with `port_end` the first free one of
    [port, port_end). `port_file` is written with the port once it listens. `log_size` events are kept. `lifeline_fd`
    is a descriptor whose end of file ends the tracker. With `relay_port` a relay runs beside it, at that port (0: a
    free one, which is printed), for boxes that can only dial out.
    """

    port: int = DEFAULT_PORT
    port_end: int = 0
    relay_port: int = -1
    timing: Timing = Timing()
    log_size: int = 20_000


def serve(options: TrackerOptions) -> None:
    """Run a tracker until SIGINT, SIGTERM or the end of its lifeline; prints "listening on HOST:PORT".

    Raises ServerStartError when it cannot start: port in use, unknown host, or a host that others can reach
    while nothing authenticates them.
    """
    with (
        service_socket(options, "lend out and take back every device", logger, _prepare) as service,
        contextlib.closing(ConnectionGuard(service.socket, _BUDGET)) as guard,
    ):
        port = bind(service.socket, options.host, service.address, options.port, options.port_end)
        rights = (
            None
            if service.who is None or service.ring is None
            else MessageRights(service.who, service.ring.authorized, service.ring.groups)
        )
        loop = TrackerLoop(service.socket, guard, options.timing, options.log_size, rights)
        with stoppable(options, loop.stop), _relay_beside(options) as relay_port:
            announce(options, port)
            if relay_port and not options.silent:
                print(f"relay listening on {options.host}:{relay_port}", flush=True)
            loop.run()


def _prepare(front: zmq.Socket[bytes]) -> None:
    prepare(front, LIVENESS, tm.TO_TRACKER)
    # A peer that does not read loses messages rather than filling this process; both sides say things again.
    front.setsockopt(zmq.SNDHWM, _QUEUE)
    front.setsockopt(zmq.RCVHWM, _QUEUE_IN)


@contextlib.contextmanager
def _relay_beside(options: TrackerOptions) -> Iterator[int]:
    """Its port, or 0 when there is to be none."""
    if options.relay_port < 0:
        yield 0
        return
    with kept_relay(
        options.host, options.relay_port, insecure=options.insecure, keys=options.keys, silent=options.silent
    ) as port:
        yield port


class SteadyClock:
    """Monotonic seconds that stand still while this process does.
    If it was stopped or starved, nobody's deadline passes before their messages have been read. Read it at least
    every `_LONGEST_POLL_S`."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._lost = 0.0

    def read(self) -> float:
        now = time.monotonic()
        self._lost += max(0.0, now - self._last - _STALL_S)
        self._last = now
        return now - self._lost


class TrackerLoop:
    """Receives, lets the state machine decide, sends."""

    def __init__(
        self, front: zmq.Socket[bytes], guard: ConnectionGuard, timing: Timing, log_size: int,
        rights: MessageRights | None = None,
    ) -> None:  # fmt: skip
        self._front = front
        self._guard = guard
        self._gate = rights
        self._state = TrackerState(run=secrets.token_hex(4), timing=timing)
        self._log = EventLog(log_size)
        self._clock = SteadyClock()
        self._now = self._clock.read()
        self._questions: Questions[tuple[tm.Query, int]] = Questions()
        self._routes: dict[str, bytes] = {}
        self._names: dict[bytes, set[str]] = {}
        self._fresh: set[str] = set()
        self._sweep_at = self._now + _ROUTE_IDLE_S
        self._look_at = self._now
        self._stop_reason: str | None = None
        self._waker = Waker()

    def stop(self, reason: str) -> None:
        """End `run`. Safe in signal handlers and other threads while it runs."""
        self._stop_reason = reason
        self._waker.wake()

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._front, zmq.POLLIN)
        poller.register(self._waker.fd, zmq.POLLIN)
        poller.register(self._guard.socket, zmq.POLLIN)
        while self._stop_reason is None:
            try:
                poller.poll(self._poll_ms())
                self._turn()
            except zmq.ZMQError:
                raise
            except Exception:  # a defect of ours must not cost the farm its tracker
                logger.exception("a turn of the tracker failed; it goes on")
                time.sleep(_PAUSE_S)
        logger.info("the tracker ends: %s", self._stop_reason)

    def _turn(self) -> None:
        self._read_clock()
        self._guard.drain()
        drained = self._receive()
        self._answer_some(_ANSWERS_S if drained else 0.0)
        due = self._state.next_tick
        # A tick decides who is dead: not before what has arrived is read, unless that never ends.
        if due is not None and self._now >= due + (0.0 if drained else _OVERLOAD_S):
            self._obey(self._state.handle(Tick(), self._now))
        if self._now >= self._sweep_at:
            self._sweep_routes()
        if self._gate is not None and self._now >= self._look_at:
            self._look_at = self._now + _LOOK_AT_KEYS_S
            for peer, reason in self._gate.revoked():
                self._obey(self._state.handle(RevokedKey(peer, reason), self._now))
        now = time.monotonic()
        if (look := self._guard.due()) is not None and now >= look:
            self._guard.look(now)

    def _poll_ms(self) -> int:
        if self._questions:
            return 0
        due = self._state.next_tick
        wait_s = _LONGEST_POLL_S if due is None else min(_LONGEST_POLL_S, due - self._now)
        return poll_ms(wait_s)

    def _read_clock(self) -> None:
        self._now = self._clock.read()
        self._state.unix_offset = time.time() - self._now

    def _receive(self) -> bool:
        """Take in what has arrived, up to a limited burst. Returns whether that was all."""
        end = time.monotonic() + _LONGEST_BURST_S
        for _ in range(_BURST):
            try:
                first, parts, over = receive_frames(self._front, tm.TO_TRACKER.max_frames)
            except zmq.Again:
                return True
            route, frames = first.bytes, [part.bytes for part in parts]
            peer = self._guard.heard(route, first, parts)
            try:
                if over:
                    self._guard.refuse_long(route, over)
                self._on_message(route, frames, first, "" if peer is None else peer.holder)
                self._guard.vouch(peer)
            except TunefarmError as error:
                self._answer_error(route, frames, error)
                if isinstance(error, ProtocolError):
                    self._guard.doubt(peer)
            except Exception as error:  # a defect of ours must not cost the farm its tracker
                logger.exception("a message failed")
                self._answer_error(route, frames, RemoteError(f"{type(error).__name__}: {error}"))
                self._guard.doubt(peer)
            if not has_message(self._front):
                return True
            if peer is not None and peer.heard_at >= end:
                break
        return False

    def _on_message(self, route: bytes, frames: list[bytes], first: zmq.Frame, holder: str) -> None:
        header = check_frames(frames, tm.TO_TRACKER)
        message = tm.to_tracker.decode_body(frames[1])
        if self._gate is not None:
            try:
                message = self._gate.permit(message, first)
            except NotPermitted as error:
                self._refuse(route, message, error)
                return
        if isinstance(message, tm.Query | tm.Admin):
            if header.kind is not MessageKind.REQUEST:
                raise ProtocolError(f"{type(message).__name__} must be sent as a request")
            self._ask(route, holder, message, header.request_id)
            return
        if header.kind is not MessageKind.NOTE:
            raise ProtocolError(f"{type(message).__name__} must be sent as a note")
        if isinstance(message, tm.BoxHello):
            try:
                message = _with_address(message, first)
            except RegistrationError as error:
                self._send(route, tm.BoxRefused(error.kind, error.message, error.hint or ""))
                return
        if self._routes.get(message.peer) != route:
            self._name(route, message.peer)
        self._fresh.add(message.peer)
        self._obey(self._state.handle(message, self._now))

    def _name(self, route: bytes, peer: str) -> None:
        """Note who speaks on a connection from now on.
        Raises ProtocolError for more names than one peer needs."""
        names = self._names.setdefault(route, set())
        names.add(peer)
        if len(names) > _MOST_NAMES:
            names.discard(peer)
            raise ProtocolError(f"more than {_MOST_NAMES} peers speak on one connection")
        self._routes[peer] = route

    def _refuse(self, route: bytes, message: tm.FromBox | tm.FromClient, error: NotPermitted) -> None:
        """Tell in the words a box or a client waits for."""
        logger.warning("refused %s: %s", type(message).__name__, error.message)
        match message:
            case tm.BoxHello():
                self._send(route, tm.BoxRefused(error.kind, error.message, error.hint or ""))
            case tm.RequestDevice():
                self._send(route, tm.Refused(message.request, error.kind, error.message, error.hint or ""))
            case tm.Query() | tm.Admin():
                raise error
            case _:
                pass  # its sender was told when it introduced itself

    def _ask(self, route: bytes, holder: str, message: tm.Query | tm.Admin, request_id: int) -> None:
        """Answer a question, or set it aside if its holder has used up its time."""
        now = time.monotonic()
        if isinstance(message, tm.Query) and message.what in _PAGES and not self._questions.is_free(route, holder, now):
            self._questions.add(route, holder, (message, request_id))
            return
        self._reply(route, message, request_id)
        done = time.monotonic()
        self._questions.took(route, holder, done - now, done)

    def _answer_some(self, seconds: float) -> None:
        """Answer questions that were set aside: one, and more until the time is up."""
        began = now = time.monotonic()
        while (asked := self._questions.next(now)) is not None:
            route, holder, (question, request_id) = asked
            try:
                self._reply(route, question, request_id)
            except TunefarmError as error:
                self._pass_on(route, encode_error(error, request_id))
            before, now = now, time.monotonic()
            self._questions.took(route, holder, now - before, now)
            if now >= began + seconds:
                return

    def _reply(self, route: bytes, message: tm.Query | tm.Admin, request_id: int) -> None:
        """Answer a question, with a shorter page where a whole one does not fit in a message."""
        while True:
            try:
                self._send(route, self._answer(message), MessageKind.REPLY, request_id)
                return
            except ProtocolError:
                if not isinstance(message, tm.Query) or message.limit == 1:
                    raise
                message = msgspec.structs.replace(message, limit=message.limit // 2)

    def _answer(self, message: tm.Query | tm.Admin) -> tm.ToClient:
        match message:
            case tm.Admin():
                devices = self._state.find(message.target)
                self._obey(self._state.handle(message, self._now))
                return tm.AdminDone(devices)
            case tm.Query("devices", after, limit):
                return self._state.device_page(after, limit, self._now)
            case tm.Query("queue"):
                return self._state.queue_page()
            case tm.Query("numbers"):
                return self._state.numbers(self._now)
            case tm.Query("abilities"):
                return tm.Abilities(("sharing",))
            case tm.Query("events", after, limit):
                events, more = self._log.page(int(after) if after.isdecimal() else 0, limit)
                return tm.EventPage(events, self._log.first, more)
        raise ProtocolError(f"there is no question called {message.what!r}")

    def _obey(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Record):
                self._log.append(command.event)
            elif (route := self._routes.get(command.peer)) is not None:
                self._send(route, command.message)

    def _send(
        self, route: bytes, message: tm.ToBox | tm.ToClient, kind: MessageKind = MessageKind.NOTE, request_id: int = 0
    ) -> None:
        # ROUTER drops what a vanished or stuck peer cannot take; both sides say things again.
        self._pass_on(route, tm.from_tracker.encode(message, kind, request_id=request_id))

    def _pass_on(self, route: bytes, frames: list[Buffer]) -> None:
        with contextlib.suppress(zmq.Again):
            send_frames(self._front, [route, *frames])
            self._guard.sent(route, frames)

    def _answer_error(self, route: bytes, frames: list[bytes], error: TunefarmError) -> None:
        request_id = 0
        with contextlib.suppress(TunefarmError, IndexError):
            request_id = check_frames(frames, tm.TO_TRACKER).request_id
        if isinstance(error, ProtocolError):
            logger.warning("refused a message: %s", error.message)
        self._pass_on(route, encode_error(error, request_id))

    def _sweep_routes(self) -> None:
        """Forget the ways to peers that have said nothing since the last sweep."""
        self._routes = {peer: route for peer, route in self._routes.items() if peer in self._fresh}
        self._names = {}
        for peer, route in self._routes.items():
            self._names.setdefault(route, set()).add(peer)
        self._fresh.clear()
        self._sweep_at = self._now + _ROUTE_IDLE_S


def _with_address(hello: tm.BoxHello, frame: zmq.Frame) -> tm.BoxHello:
    """Fill an empty host in with the address the box is seen to come from, and check the rest."""
    address = hello.address
    if address.startswith(":"):
        seen = str(frame.get("Peer-Address")).removeprefix("::ffff:")
        address = f"[{seen}]{address}" if ":" in seen else f"{seen}{address}"
    try:
        split_address(address)
    except ConnectError as error:
        raise RegistrationError(f"box {hello.box!r} gives a bad address: {error.message}") from None
    return msgspec.structs.replace(hello, address=address)


class Tracker(ChildService):
    """A tracker in a child process, with TVM's constructor.

    It ends with `terminate()`, or with this process. `port` is the bound port: the first free one of [port, port_end),
    or any free one for port 0. Further `options` are TrackerOptions fields. Raises ServerStartError.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = DEFAULT_PORT, port_end: int = 9199, silent: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        settings = TrackerOptions(host=host, port=port, port_end=port_end if port else 0, **options)
        self.host = host
        super().__init__("tracker.server", settings, silent=silent)


if __name__ == "__main__":
    sys.exit(child_main(serve, TrackerOptions, sys.argv[1]))
