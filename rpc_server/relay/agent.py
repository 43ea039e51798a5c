"""The box's end of a relay.

A process that dials out, to register and whenever the relay calls for a client.

It copies bytes between the relay and the server's own port, which nobody else need reach. It is a process of its
own, so that copying does not take turns with the server's loop. The server writes the valid passes to its stdin, a
line of JSON each time they change. It reads the state of the line to the relay from the agent's stdout. The agent
ends with its stdin.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import socket
import sys
import time
from collections.abc import Callable

import msgspec
import zmq

from compiler.errors import TunefarmError
from rpc_server.relay.passes import BOX, GREETING_SIZE, Greeting, PassAnswer, RelayPass, pass_of_text
from rpc_server.relay.splice import Splicer, tune
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.curve import PeerKeys, keys_for, secure_client
from rpc_server.wire.event_loop import BROKEN, EventLoop
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.plain_text import log_plainly
from rpc_server.wire.relay_messages import (
    HEARTBEAT_S,
    MAX_PASSES,
    SILENCE_S,
    BoxPasses,
    BoxTurnedAway,
    CallBack,
    PassesHeard,
    prepare_control,
    to_box,
    to_relay,
)
from rpc_server.wire.sockets import SocketMonitor, endpoint

logger = logging.getLogger("rpc_server.relay")

DIAL_S = 10.0
MAX_LINES = 256
_PAUSE_S = (0.1, 5.0)  # between attempts, at first and at most
_NEWS = (
    zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an agent: the relay, the box and their keys.
    `relay` (host as a number, port) is dialled, `listed` is how `keys` know it; `server` is its key where that is
    known otherwise. `local` is where the box's server listens, `box` its name."""

    relay: tuple[str, int]
    listed: str
    local: tuple[str, int]
    box: str
    keys: str = ""
    server: str = ""


class LineState(msgspec.Struct, frozen=True):
    """The agent's report to the server: "" when the relay has heard of the box, else why not."""

    trouble: str = ""


class _Dial:
    """A connection to the relay's port, until its greeting is there.
    `then` gets the socket, which it owns, and the greeting, or None and what is wrong."""

    def __init__(
        self,
        loop: EventLoop,
        relay: tuple[str, int],
        then: Callable[[socket.socket | None, Greeting | None, str], None],
    ) -> None:
        self._loop, self._then, self._said = loop, then, b""
        self._sock = socket.socket(socket.AF_INET6 if ":" in relay[0] else socket.AF_INET, socket.SOCK_STREAM)
        failure = tune(self._sock).connect_ex(relay)
        self._timer = loop.after(DIAL_S, lambda: self._end("it does not answer"))
        loop.watch(self._sock.fileno(), self._on_events)
        if failure not in (0, errno.EINPROGRESS):
            self._timer.cancel()
            self._timer = loop.after(0, lambda: self._end(os.strerror(failure).lower()))

    def _on_events(self, events: int) -> None:
        try:
            part = self._sock.recv(GREETING_SIZE - len(self._said))
        except BlockingIOError:
            if events & BROKEN:
                self._end("the connection broke")
            return
        except OSError as error:
            self._end(str(error.strerror or error).lower())
            return
        self._said += part
        if not part:
            self._end("it closed the connection")
            return
        if len(self._said) < GREETING_SIZE:
            return
        try:
            greeting = Greeting.from_bytes(self._said)
        except TunefarmError as error:
            self._end(error.message)
            return
        self._leave()
        self._then(self._sock, greeting, "")

    def _end(self, problem: str) -> None:
        self._leave()
        self._sock.close()
        self._then(None, None, problem)

    def _leave(self) -> None:
        self._timer.cancel()
        self._loop.unwatch(self._sock.fileno())


class Agent:
    """Registers with the relay, again for ever when it is lost. Lines that are open live on their own."""

    def __init__(self, options: AgentOptions, keys: PeerKeys | None, report: Callable[[LineState], None]) -> None:
        self._options, self._keys, self._report = options, keys, report
        self.loop = EventLoop()
        self._splicer = Splicer(self.loop)
        self._context = zmq.Context(io_threads=1)
        self._control: zmq.Socket[bytes] | None = None
        self._monitor: SocketMonitor | None = None
        self._passes: tuple[str, ...] | None = None
        self._pause_s = _PAUSE_S[0]
        self._heard = time.monotonic()
        self._state: LineState | None = None

    def run(self) -> None:
        """Run until its loop is stopped. Does nothing before it has been told the passes."""
        self.loop.after(HEARTBEAT_S, self._beat)
        try:
            self.loop.run()
        finally:
            self._hang_up()
            self._splicer.close()
            self.loop.close()
            self._context.term()

    def set_passes(self, passes: tuple[str, ...]) -> None:
        first = self._passes is None
        self._passes = passes[:MAX_PASSES]
        if first:
            self._look_for_relay()
        else:
            self._say_hello()

    # --- registering --------------------------------------------------------------------------------------

    def _look_for_relay(self) -> None:
        _Dial(self.loop, self._options.relay, self._on_greeting)

    def _on_greeting(self, sock: socket.socket | None, greeting: Greeting | None, problem: str) -> None:
        if sock is None or greeting is None:
            self._try_later(problem)
            return
        sock.close()
        control = self._control = self._context.socket(zmq.DEALER)
        prepare_control(control)
        secure_client(control, self._keys)
        control.setsockopt(zmq.RECONNECT_IVL, -1)  # its port may be another one next time
        self._monitor = SocketMonitor(control, _NEWS)
        self.loop.attend(control, self._on_control)
        self.loop.attend(self._monitor.socket, self._on_monitor)
        self._heard = time.monotonic()
        control.connect(endpoint(self._options.relay[0], greeting.port))
        self._say_hello()

    def _say_hello(self) -> None:
        if self._control is not None and self._passes is not None:
            frames = to_relay.encode(BoxPasses(self._options.box, self._passes), MessageKind.NOTE)
            self._control.send_multipart(frames, zmq.NOBLOCK)

    def _beat(self) -> None:
        if self._control is not None and time.monotonic() - self._heard > SILENCE_S:
            self._lose("it is silent")
        self._say_hello()
        self.loop.after(HEARTBEAT_S, self._beat)

    def _on_monitor(self) -> None:
        assert self._monitor is not None
        for event, _ in self._monitor.drain():
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._lose("it does not know this machine's key as a box's")
            elif event in (zmq.EVENT_CLOSED, zmq.EVENT_DISCONNECTED):
                self._lose("it closed the connection")
            else:
                self._lose("it asks for keys, or does not hold the key that is known for it")
            return

    def _on_control(self) -> None:
        assert self._control is not None
        frames = self._control.recv_multipart(zmq.NOBLOCK)
        try:
            said = to_box.decode(frames).body
            given = pass_of_text(said.passed) if isinstance(said, CallBack) else None
        except TunefarmError as error:
            logger.warning("the relay sent something unexpected: %s", error.message)
            return
        self._heard = time.monotonic()
        match said:
            case PassesHeard():
                self._pause_s = _PAUSE_S[0]
                self._tell("")
            case BoxTurnedAway():
                self._lose(said.reason)
            case CallBack():
                assert given is not None
                self._call_back(given)

    def _lose(self, why: str) -> None:
        self._hang_up()
        self._try_later(why)

    def _hang_up(self) -> None:
        if self._control is not None and self._monitor is not None:
            self.loop.leave(self._control)
            self.loop.leave(self._monitor.socket)
            self._monitor.close()
            self._control.close(linger=0)
            self._control = self._monitor = None

    def _try_later(self, why: str) -> None:
        self._tell(why)
        # Not all boxes at once when a relay comes back.
        self.loop.after(self._pause_s * random.uniform(0.5, 1.0), self._look_for_relay)
        self._pause_s = min(2 * self._pause_s, _PAUSE_S[1])

    def _tell(self, trouble: str) -> None:
        state = LineState(trouble)
        if state != self._state:
            self._state = state
            self._report(state)

    # --- clients ------------------------------------------------------------------------------------------

    def _call_back(self, given: RelayPass) -> None:
        """Make a line for a client: one end to the relay, which knows the pass, the other to the server."""

        def then(sock: socket.socket | None, greeting: Greeting | None, problem: str) -> None:
            if sock is None or greeting is None:
                logger.warning("a client waits at the relay, but %s", problem)
                return
            host, port = self._options.local
            try:
                sock.send(PassAnswer.to(greeting, BOX, given))
            except OSError:
                sock.close()
                return
            server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
            tune(server).connect_ex((host, port))
            self._splicer.join(sock, server)

        if len(self._splicer) < MAX_LINES:
            _Dial(self.loop, self._options.relay, then)


def _main(text: str) -> int:
    log_plainly("%(name)s %(levelname)s: %(message)s", logging.WARNING)
    options = msgspec.json.decode(text, type=AgentOptions)
    try:
        keys = keys_for(KeyRing(options.keys) if options.keys else None, options.listed, options.server)
    except TunefarmError as error:
        _report(LineState(error.message))
        return 1
    agent = Agent(options, keys, _report)
    lines = bytearray()

    def on_stdin(_events: int) -> None:
        part = os.read(0, 1 << 16)
        if not part:
            agent.loop.stop("the server is gone")
        lines.extend(part)
        *whole, rest = bytes(lines).split(b"\n")
        lines[:] = rest
        if whole:
            agent.set_passes(msgspec.json.decode(whole[-1], type=tuple[str, ...]))

    agent.loop.watch(0, on_stdin)
    agent.run()
    return 0


def _report(state: LineState) -> None:
    print(msgspec.json.encode(state).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
