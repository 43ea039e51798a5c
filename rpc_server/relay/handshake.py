"""A client's way through a relay: show the pass, and be told a port to connect to."""

from __future__ import annotations

import contextlib
import socket
import time

from rpc_server.errors import ProtocolError
from rpc_server.relay import passes

NO_RELAY = "the relay does not answer"
_TURNED_AWAY = {
    passes.PassVerdict.NO_LEASE: "the relay knows no such lease: it is over, or the box has lost its line to the relay",
    passes.PassVerdict.NO_BOX: "the box does not answer its relay",
    passes.PassVerdict.BUSY: "the relay has too many connections of this lease already",
}


class PassRefused(Exception):
    """The relay refused a pass; the message says why, in a phrase."""


class NoSuchLease(PassRefused):
    """No box has told the relay of this pass."""


def is_relay(address: str, port: int, deadline: float) -> bool:
    """Whether a relay listens there: it speaks first. `deadline` in monotonic seconds."""
    try:
        with socket.create_connection((address, port), timeout=_left(deadline)) as sock:
            return _read(sock, len(passes.MAGIC), deadline) == passes.MAGIC
    except OSError:
        return False


def show_pass(address: str, port: int, text: str, deadline: float) -> tuple[socket.socket, int]:
    """A port to connect to, once, which is kept while the socket is open.
    `address` is the relay's as a number, `text` the pass, `deadline` in monotonic seconds. Raises PassRefused."""
    try:
        with contextlib.ExitStack() as stack:
            sock = stack.enter_context(socket.create_connection((address, port), timeout=_left(deadline)))
            greeting = passes.Greeting.from_bytes(_read(sock, passes.GREETING_SIZE, deadline))
            sock.sendall(passes.PassAnswer.to(greeting, passes.CLIENT, passes.pass_of_text(text)))
            verdict, port_to_use = passes.read_verdict(_read(sock, passes.VERDICT_SIZE, deadline))
            if verdict is not passes.PassVerdict.WELCOME:
                failed = NoSuchLease if verdict is passes.PassVerdict.NO_LEASE else PassRefused
                raise failed(_TURNED_AWAY[verdict])
            stack.pop_all()
            return sock, port_to_use
    except ProtocolError as error:
        raise PassRefused(error.message) from None
    except OSError:
        raise PassRefused(NO_RELAY) from None


def _read(sock: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        sock.settimeout(_left(deadline))
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())
