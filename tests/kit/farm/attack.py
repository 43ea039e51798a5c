"""A hostile peer on loopback: raw ZMTP 3.1 connections, and a ROUTER with its guard to try them on."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import zmq

from rpc_server.service import bind
from rpc_server.wire.guard import connection_guard
from rpc_server.wire.guard.budget import Budget
from rpc_server.wire.guard.connection_guard import ConnectionGuard
from rpc_server.wire.sockets import Liveness, prepare

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
MORE, LONG, COMMAND = 1, 2, 4
PATIENCE_S = 60.0


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


def zmtp_frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body


class RawPeer:
    """A plain socket that speaks ZMTP as a DEALER would, with any routing id."""

    def __init__(self, port: int, routing_id: bytes = b"", host: str = "127.0.0.1") -> None:
        self.sock = socket.create_connection((host, port), timeout=PATIENCE_S)
        ready = b"\x05READY" + _property(b"Socket-Type", b"DEALER") + _property(b"Identity", routing_id)
        self.sock.sendall(_GREETING + zmtp_frame(ready, COMMAND))
        said = b""
        while len(said) < len(_GREETING) + 2 or len(said) < len(_GREETING) + 2 + said[len(_GREETING) + 1]:
            part = self.sock.recv(1024)
            if not part:
                break
            said += part

    def send(self, *frames: bytes, unfinished: bool = False) -> None:
        last = len(frames) - 1
        for number, frame in enumerate(frames):
            more = MORE if unfinished or number < last else 0
            self.sock.sendall(zmtp_frame(bytes(frame), more))

    def is_cut_off(self, timeout_s: float = PATIENCE_S) -> bool:
        """Whether the other end closes the connection in time; what it says meanwhile is read and dropped."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            self.sock.settimeout(left)
            try:
                if not self.sock.recv(65536):
                    return True
            except TimeoutError:
                return False
            except OSError:
                return True
        return False

    def flood(self, data: bytes, times: int, meanwhile=lambda: None) -> bool:
        """Send bytes again and again; whether that was put an end to."""
        try:
            for number in range(times):
                self.sock.sendall(data)
                if number % 64 == 0:
                    meanwhile()
        except OSError:
            return True
        return False

    def close(self) -> None:
        self.sock.close()


class Starved:
    """From `begin` on, until its `end`, the thread of a `guarded_router` does nothing, as if others had the processor.
    `begin` returns when that is so."""

    def __init__(self) -> None:
        self._asked, self._held = threading.Event(), threading.Event()

    def begin(self) -> None:
        self._held.clear()
        self._asked.set()
        assert self._held.wait(PATIENCE_S)

    def end(self) -> None:
        self._asked.clear()

    def takes_hold(self) -> bool:
        if not self._asked.is_set():
            return False
        self._held.set()
        return True


@contextlib.contextmanager
def guarded_router(
    budget: Budget, on_message=lambda sock, route, frames: None, host: str = "127.0.0.1", starved: Starved | None = None
):
    """The port of a ROUTER with a guard, which run in a thread. `on_message` may raise ValueError: it made no sense."""
    context = zmq.Context()
    sock = context.socket(zmq.ROUTER)
    prepare(sock, Liveness(timeout_s=60))  # a raw peer answers no heartbeats
    guard = ConnectionGuard(sock, budget)
    port = bind(sock, host, host, 0)
    done = threading.Event()

    def serve() -> None:
        poller = zmq.Poller()
        poller.register(sock, zmq.POLLIN)
        poller.register(guard.socket, zmq.POLLIN)
        while not done.is_set():
            poller.poll(20)
            while starved is not None and starved.takes_hold() and not done.is_set():
                done.wait(0.02)
            guard.drain()
            with contextlib.suppress(zmq.Again):
                while True:
                    parts = sock.recv_multipart(zmq.NOBLOCK, copy=False)
                    peer = guard.heard(parts[0].bytes, parts[0], parts[1:])
                    try:
                        for frames in on_message(sock, parts[0].bytes, [part.bytes for part in parts[1:]]) or ():
                            sock.send_multipart([parts[0].bytes, *frames], zmq.NOBLOCK)
                            guard.sent(parts[0].bytes, frames)
                        guard.vouch(peer)
                    except ValueError:
                        guard.doubt(peer)
            now = connection_guard.time.monotonic()
            if (due := guard.due()) is not None and now >= due:
                guard.look(now)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield port, guard
    finally:
        done.set()
        thread.join(PATIENCE_S)
        guard.close()
        sock.close(linger=0)
        context.term()
