"""How a client reaches a box: addresses, relays, the handshake, and errors when one of them fails."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace

import zmq

from rpc_server.errors import ConnectError
from rpc_server.relay.handshake import NoSuchLease, PassRefused, is_relay, show_pass
from rpc_server.relay.passes import pass_of_key, shown_address, split_via
from rpc_server.wire.codec import Buffer
from rpc_server.wire.curve import PeerKeys, secure_client
from rpc_server.wire.polling import poll_ms
from rpc_server.wire.sockets import Liveness, SocketMonitor, endpoint, prepare, resolve, send_frames

_LOOK_AGAIN_S = 0.1

_NEWS = (
    zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


@dataclass(frozen=True, slots=True)
class Route:
    """How to connect, to any place.
    `greeting` is what to say first, as soon as the other end listens. A relay that listens there is asked for the
    box that serves `key`."""

    liveness: Liveness
    keys: PeerKeys | None = None
    greeting: list[Buffer] | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A socket that is connecting or connected, and the monitor of its news.
    `relayed`: it goes through a relay."""

    socket: zmq.Socket[bytes]
    monitor: SocketMonitor
    relayed: bool = False

    def close(self) -> None:
        self.monitor.close()
        self.socket.close()


class Ahead:
    """A plain connection to a box, begun before it is known whether the box lets this side in.
    What takes time goes on meanwhile. It may be made before a place is known, to save what can be done without one.
    Hand it to `dial`, or close it."""

    def __init__(self) -> None:
        self.place: tuple[str, int] | None = None
        self.said: list[Buffer] | None = None
        self._line: Line | None = _new_line(Route(Liveness()))

    def go(self, host: str, port: int) -> None:
        """Begin to connect, once. Raises ConnectError for an unknown host."""
        address = resolve(host, port)[0]
        self.place = (host, port)
        if (line := self.take()) is not None:
            with contextlib.suppress(_Unusable):
                self._line = _connect(line, address, port)

    def say(self, greeting: list[Buffer]) -> None:
        """Send a greeting, which leaves as soon as the other end listens."""
        if self._line is not None:
            self.said = greeting
            send_frames(self._line.socket, greeting)

    def take(self) -> Line | None:
        """The connection, once."""
        line, self._line = self._line, None
        return line

    def close(self) -> None:
        if (line := self.take()) is not None:
            line.close()


def dial(host: str, port: int, deadline: float, route: Route, ahead: Ahead | None = None) -> Line:
    """Connect, with both ends speaking the protocol by `deadline` (monotonic seconds).

    `ahead` is used if it leads to the same place the same way and nothing else was said on it; otherwise it is
    closed. Raises ConnectError.
    """
    if ahead is not None and (line := _fitting(ahead, host, port, route)) is not None:
        with contextlib.suppress(_Unusable):  # what is wrong shows when it is tried anew
            return _finish(line, deadline, route, None if ahead.said else route.greeting)
    given, dialled = split_via(host)
    problem = ""
    for address in resolve(dialled, port):
        try:
            if not given:
                return _finish(_connect(_new_line(route), address, port), deadline, route, route.greeting)
            return _through_relay(address, port, given, deadline, route)
        except (_Unusable, PassRefused) as error:
            problem = str(error)
        if not given and route.key and is_relay(address, port, deadline):
            try:
                return _to_key(address, port, deadline, route)
            except (_Unusable, PassRefused) as error:
                problem = str(error)
    otherwise = f"start one there with `tunefarm server --port {port}`, or check host and port"
    raise ConnectError(
        f"cannot reach a tunefarm server at {shown_address(host, port)}: {problem}",
        hint=_HINTS.get(problem, _ASK_AGAIN if given else otherwise),
        detail={"host": dialled, "port": port},
    )


def _through_relay(address: str, port: int, given: str, deadline: float, route: Route) -> Line:
    """Raise PassRefused and _Unusable."""
    waiting, at = show_pass(address, port, given, deadline)
    with contextlib.closing(waiting):
        line = _finish(_connect(_new_line(route), address, at), deadline, route, route.greeting)
        return replace(line, relayed=True)


def _to_key(address: str, port: int, deadline: float, route: Route) -> Line:
    """Go through a relay to the box that serves the key, once one is there.
    Raises PassRefused and _Unusable."""
    given = pass_of_key(route.key).text
    while True:
        try:
            return _through_relay(address, port, given, deadline, route)
        except NoSuchLease:
            if time.monotonic() + _LOOK_AGAIN_S >= deadline:
                raise PassRefused(f"no box behind this relay serves the key {route.key!r}") from None
            time.sleep(_LOOK_AGAIN_S)


def _fitting(ahead: Ahead, host: str, port: int, route: Route) -> Line | None:
    if ahead.place == (host, port) and route.keys is None and ahead.said in (None, route.greeting):
        return ahead.take()
    ahead.close()
    return None


class _Unusable(Exception):
    """Why an address will not do, in a phrase."""


def _new_line(route: Route) -> Line:
    """A socket that can connect."""
    sock: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    prepare(sock, route.liveness)
    secure_client(sock, route.keys)
    sock.setsockopt(zmq.RECONNECT_IVL, -1)  # a new connection would be a new session
    return Line(sock, SocketMonitor(sock, _NEWS))


def _connect(line: Line, address: str, port: int) -> Line:
    """Begin to connect; `_finish` tells how that went. Raises _Unusable."""
    try:
        line.socket.connect(endpoint(address, port))
    except zmq.ZMQError as error:
        line.close()
        raise _Unusable(str(error.strerror)) from None
    return line


def _finish(line: Line, deadline: float, route: Route, greeting: list[Buffer] | None) -> Line:
    """Send the greeting, if that is not done, and wait until both sides speak the protocol.
    Raises _Unusable."""
    try:
        if greeting is not None:
            send_frames(line.socket, greeting)
        problem = _await_handshake(line.monitor, deadline, route.keys is not None)
    except BaseException:
        line.close()
        raise
    if problem:
        line.close()
        raise _Unusable(problem)
    return line


_TURNED_AWAY = "it does not know this machine's key"
_OTHER_KEY = "it does not prove to hold the key that is known for it"
_ASKS_FOR_KEYS = "what listens there asks for keys, or does not speak tunefarm's protocol"
_ASK_AGAIN = "request a device again; `tunefarm devices` shows how the box is"
_HINTS = {
    _TURNED_AWAY: "have this machine's key (`tunefarm keys show`) authorized there",
    _OTHER_KEY: "if its key was changed on purpose, say so with `tunefarm keys trust`; else somebody else is there",
    _ASKS_FOR_KEYS: "tell its key with `tunefarm keys trust HOST:PORT KEY`, or check host and port",
}


def _await_handshake(monitor: SocketMonitor, deadline: float, keyed: bool) -> str:
    """Wait until both sides speak the protocol; "" or what went wrong."""
    while (left := deadline - time.monotonic()) > 0:
        if not monitor.socket.poll(poll_ms(left)):
            break
        for event, _ in monitor.drain():
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                return ""
            if event == zmq.EVENT_CLOSED:
                return "nothing listens there"
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                return _TURNED_AWAY
            if keyed:
                return _OTHER_KEY
            if event != zmq.EVENT_DISCONNECTED:
                return _ASKS_FOR_KEYS
            return "it closed the connection; it may not be a tunefarm server"
    return "no answer in time"
