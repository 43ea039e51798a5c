"""A tracker, a relay and a box behind it; and a stand-in for a box, which speaks to a relay itself."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import zmq

from rpc_server.box.server import Server
from rpc_server.relay.passes import BOX, GREETING_SIZE, Greeting, PassAnswer, RelayPass, pass_of_text
from rpc_server.relay.server import Relay
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.relay_messages import BoxPasses, CallBack, to_box, to_relay
from tests.kit.ports import free_ports
from tracker.client import TrackerSession, connect_tracker
from tracker.farm_parts import Timing
from tracker.server import Tracker

TIMING = Timing(late_s=3.0, box_timeout_s=5.0, grace_s=5.0, settle_s=8.0, accept_s=10.0, check_s=2.0)
PATIENCE_S = 60.0
_RELAY_PORTS = 16


def until(holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {patience_s:g} s in vain until {what}"
        time.sleep(0.05)


def start_relay(port: int = 0) -> Relay:
    """A relay that can be started again at its port: it has ports, and doors, that nobody else takes meanwhile."""
    port = port or free_ports(_RELAY_PORTS)
    return Relay(port=port, first=port + 1, last=port + _RELAY_PORTS - 1, silent=True)


@dataclass
class RelayFarm:
    """A farm behind a relay without keys, on loopback."""

    tracker: Tracker
    relay: Relay
    box: Server
    sessions: list[TrackerSession] = field(default_factory=list)

    def connect(self, user: str = "ann") -> TrackerSession:
        session = connect_tracker("127.0.0.1", self.tracker.port, user=user, timeout_s=PATIENCE_S)
        self.sessions.append(session)
        return session

    def start_box(self) -> None:
        self.box = _box(self.tracker.port, self.relay.port)

    def restart_relay(self) -> None:
        self.relay.terminate()
        self.relay = start_relay(self.relay.port)

    def mend(self) -> None:
        """Start again what a test left dead, and wait until the box is lent."""
        if not self.relay.is_alive:
            self.restart_relay()
        if not self.box.is_alive:
            self.box.terminate()
            self.start_box()
        self.ready()

    def ready(self) -> None:
        """Wait until the box is lent."""
        session = self.connect("ready")
        until(lambda: state(session) == "ready", "the box is ready")
        session.close()


def _box(tracker: int, relay: int) -> Server:
    return Server(
        port=0, tracker_addr=("127.0.0.1", tracker), relay=f"127.0.0.1:{relay}", key="cpu", name="nat", silent=True
    )


def state(session: TrackerSession) -> str:
    return next((device.state for device in session.devices()), "")


@contextlib.contextmanager
def relay_farm(timing: Timing = TIMING) -> Iterator[RelayFarm]:
    with contextlib.ExitStack() as stack:
        tracker = stack.enter_context(Tracker(port=0, silent=True, timing=timing))
        farm = RelayFarm(tracker, start_relay(), None)  # type: ignore[arg-type]
        stack.callback(lambda: farm.relay.terminate())
        farm.start_box()
        stack.callback(lambda: farm.box.terminate())
        stack.callback(lambda: [session.close() for session in farm.sessions])
        farm.ready()
        yield farm


# --- a box that is none --------------------------------------------------------------------------------------


def greeted(port: int) -> tuple[socket.socket, Greeting]:
    """A connection to a relay that has said its greeting."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    said = b""
    while len(said) < GREETING_SIZE:
        part = sock.recv(GREETING_SIZE - len(said))
        assert part
        said += part
    return sock, Greeting.from_bytes(said)


class PretendedBox:
    """Registers at a relay without keys, and calls back only when told."""

    def __init__(self, port: int, *passes: RelayPass) -> None:
        self._port = port
        sock, greeting = greeted(port)
        sock.close()
        self._context = zmq.Context()
        self._control = self._context.socket(zmq.DEALER)
        self._control.connect(f"tcp://127.0.0.1:{greeting.port}")
        self.say(*passes)

    def say(self, *passes: RelayPass) -> None:
        message = BoxPasses("pretended", tuple(given.text for given in passes))
        self._control.send_multipart(to_relay.encode(message, MessageKind.NOTE))

    def is_called(self, over: Callable[[], bool]) -> bool:
        """Whether the relay says something before it is `over`."""
        while not self._control.poll(50):
            if over():
                return False
        return True

    def called(self) -> RelayPass:
        """Return the number to call back with, when the relay asks."""
        while True:
            assert self._control.poll(60_000), "the relay did not call"
            said = to_box.decode(self._control.recv_multipart()).body
            if isinstance(said, CallBack):
                return pass_of_text(said.passed)

    def call_back(self, given: RelayPass) -> socket.socket:
        sock, greeting = greeted(self._port)
        sock.sendall(PassAnswer.to(greeting, BOX, given))
        return sock

    def close(self) -> None:
        self._context.destroy(linger=0)

    def __enter__(self) -> PretendedBox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_closed(sock: socket.socket) -> bool:
    """Whether the other end hangs up, in time, without having said anything."""
    sock.settimeout(PATIENCE_S)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
