"""Parts of the farm's long-running processes: where one listens, how it says so, and how it ends.

`ChildService` runs one in a child process, which ends with its parent however that dies.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import zmq

from rpc_server.errors import ConnectError, ServerStartError
from rpc_server.machine.children import PYTHON, environment
from rpc_server.wire.curve import KeyAuthenticator
from rpc_server.wire.guard.connection_guard import seed_routing_ids
from rpc_server.wire.guard.socket_filter import prepare_listener
from rpc_server.wire.keys import KeyRing, Principal
from rpc_server.wire.plain_text import log_plainly
from rpc_server.wire.sockets import endpoint, is_loopback, resolve

_TERMINATE_S = 15.0
_BACKLOG = 1024  # more at a time, and the kernel forgets their first packets

T = TypeVar("T")

Stop = Callable[[str], None]
"""Ends a service for a reason. Safe in signal handlers and other threads."""


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every service; see the options of each."""

    host: str = "127.0.0.1"
    port: int = 0
    insecure: bool = False
    keys: str = ""
    port_file: str = ""
    lifeline_fd: int = -1
    parent: int = 0
    silent: bool = False


def bind_address(host: str, port: int, *, keyed: bool, insecure: bool, danger: str, logger: logging.Logger) -> str:
    """The numeric address to listen on.

    One that others can reach is refused unless connections are `keyed`, or it is `insecure` on purpose; `danger` says
    what anyone could do then ("run code on this machine"). Raises ServerStartError: unknown host, or refused.
    """
    try:
        address = resolve(host, port)[0]
    except ConnectError as error:
        raise ServerStartError(f"cannot listen on {host!r}: {error.message}") from None
    if not is_loopback(address) and not keyed:
        if not insecure:
            raise ServerStartError(
                f"refusing to listen on {host}: whoever reaches it could {danger}",
                hint="make keys with `tunefarm keys new`, listen on 127.0.0.1 (an SSH tunnel reaches it), or pass "
                "--insecure on a trusted network",
            )
        logger.warning("listening on %s without authentication: anyone who reaches it can %s", address, danger)
    return address


@dataclass(frozen=True, slots=True)
class ServiceSocket:
    """A service's ROUTER, not bound yet, and the numeric `address` to bind it to.
    Where keys are used, `authenticator` checks clients against `ring`."""

    socket: zmq.Socket[bytes]
    address: str
    ring: KeyRing | None
    authenticator: KeyAuthenticator | None

    @property
    def who(self) -> Callable[[zmq.Frame], Principal | None] | None:
        """Who sent a message, by its first frame; None where no keys are used."""
        return None if self.authenticator is None else self.authenticator.who


def _authorized(ring: KeyRing, public: str) -> Principal | None:
    return ring.authorized().get(public)


@contextlib.contextmanager
def service_socket(
    options: ServiceOptions,
    danger: str,
    logger: logging.Logger,
    prepare: Callable[[zmq.Socket[bytes]], None],
    admit: Callable[[KeyRing, str], Principal | None] = _authorized,
) -> Iterator[ServiceSocket]:
    """Make a service's socket, and close it afterwards.
    `prepare` sets its options; `admit` says who holds a key that may connect. `danger`: see `bind_address`. Raises
    ServerStartError."""
    ring = KeyRing(options.keys) if options.keys else None
    identity = None if ring is None else ring.identity()
    address = bind_address(
        options.host, options.port, keyed=identity is not None, insecure=options.insecure, danger=danger, logger=logger
    )
    context = zmq.Context(io_threads=1)
    seed_routing_ids()
    sock = context.socket(zmq.ROUTER)
    try:
        prepare(sock)
        if ring is None or identity is None:
            yield ServiceSocket(sock, address, ring, None)
            return
        with KeyAuthenticator(context, identity, lambda public: admit(ring, public)) as authenticator:
            authenticator.guard(sock)
            yield ServiceSocket(sock, address, ring, authenticator)
    finally:
        sock.close(linger=200)
        context.term()


def _listener(address: str, port: int) -> socket.socket:
    """Raise OSError."""
    is_v6 = ":" in address
    sock = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_v6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
        prepare_listener(sock)  # before the first connection
        sock.bind((address, port))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def bind(sock: zmq.Socket[bytes], host: str, address: str, port: int, port_end: int = 0) -> int:
    """Bind to the first free port of [port, port_end), or to `port` alone; 0 takes a free one.

    Returns the port. Raises ServerStartError if none is free, or the address cannot be had.
    """
    last = max(port + 1, port_end)
    error: OSError | None = None
    for candidate in range(port, last):
        try:
            listener = _listener(address, candidate)
        except OSError as problem:
            error = problem
            if problem.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            break
        with listener:
            bound = int(listener.getsockname()[1])
            sock.setsockopt(zmq.USE_FD, listener.fileno())
            sock.bind(endpoint(address, bound))
            sock.setsockopt(zmq.USE_FD, -1)
            listener.detach()  # it is the ROUTER's now
        return bound
    assert error is not None
    if error.errno == errno.EADDRINUSE:
        ports = f"port {port}" if last == port + 1 else f"every port from {port} to {last - 1}"
        raise ServerStartError(
            f"{ports} on {host} is in use",
            hint=f"choose another --port (0 takes a free one), or find who has it: ss -ltnp 'sport = :{port}'",
        )
    raise ServerStartError(f"cannot listen on {host}:{port}: {error.strerror}")


def announce(options: ServiceOptions, port: int) -> None:
    """Say where the service listens, now that it does: in a file, whole or not at all, and on stdout.

    Raises ServerStartError: the file cannot be written.
    """
    if options.port_file:
        path = Path(options.port_file)
        partial = path.with_name(path.name + ".partial")
        try:
            partial.write_text(f"{port}\n")
            partial.replace(path)
        except OSError as error:
            raise ServerStartError(f"cannot write {path}: {error.strerror}") from None
    if not options.silent:
        print(f"listening on {options.host}:{port}", flush=True)


@contextlib.contextmanager
def stoppable(options: ServiceOptions, stop: Stop) -> Iterator[None]:
    """Call `stop` on a signal and at the end of the lifeline."""
    with _stop_on_signals(stop):
        _watch_lifeline(options.lifeline_fd, options.parent, stop)
        yield


@contextlib.contextmanager
def _stop_on_signals(stop: Stop) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a clean stop, where this thread may set handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {
        number: signal.signal(number, lambda got, _frame: stop(f"got {signal.Signals(got).name}")) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch_lifeline(fd: int, parent: int, stop: Stop) -> None:
    """Stop when the other end of a pipe closes, or the process `parent` ends, however that died.
    A process that it forked has the pipe, too, and may outlive it. Does nothing for a negative `fd`."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if parent:
                poll.register(os.pidfd_open(parent), select.POLLIN)
            if not parent or os.getppid() == parent:  # else it ended before it was watched
                while all(ready == fd and os.read(fd, 64) for ready, _ in poll.poll()):
                    pass
        stop("the process that started it is gone")

    if fd >= 0:
        threading.Thread(target=watch, name="lifeline", daemon=True).start()


def start_child(module: str, options: ServiceOptions, *, silent: bool = False) -> tuple[subprocess.Popen[str], int]:
    """Start `python -m MODULE OPTIONS-AS-JSON`, and return the descriptor whose closing ends it.
    The end of this process closes it, too."""
    read_end, lifeline = os.pipe()
    try:
        given = msgspec.structs.replace(options, lifeline_fd=read_end, parent=os.getpid())
        process = subprocess.Popen(
            [*PYTHON, "-m", module, msgspec.json.encode(given).decode()], env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if silent else None, pass_fds=(read_end,),
            start_new_session=True, text=True,
        )  # fmt: skip
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(read_end)
    return process, lifeline


def first_line(line: str, module: str) -> int | ServerStartError:
    """Return the port from the first line of a child's output, or why the child does not listen."""
    if line.startswith("listening on "):
        return int(line.rsplit(":", 1)[1])
    try:
        problem = msgspec.json.decode(line, type=dict[str, str])
    except msgspec.MsgspecError:
        return ServerStartError(f"{module} ended before it listened")
    return ServerStartError(problem.get("message", ""), hint=problem.get("hint") or None)


class ChildService:
    """A service in a child process: `python -m MODULE OPTIONS-AS-JSON`.

    Its first line on stdout is "listening on HOST:PORT" or its failure as JSON.

    Raises ServerStartError: the child did not come to listen. Without `wait`, the first look at `port` does.
    """

    def __init__(self, module: str, options: ServiceOptions, *, silent: bool = False, wait: bool = True) -> None:
        self._module = module
        self._port: int | None = None
        self._process, lifeline = start_child(module, options, silent=silent)
        self._lifeline: int | None = lifeline
        if wait:
            self._port = self._read_port()

    @property
    def port(self) -> int:
        """Where the child listens; waits until it does. Raises ServerStartError."""
        if self._port is None:
            self._port = self._read_port()
        return self._port

    def _read_port(self) -> int:
        assert self._process.stdout is not None
        told = first_line(self._process.stdout.readline(), self._module)
        if isinstance(told, int):
            return told
        self.terminate()
        raise told

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.terminate()

    def terminate(self) -> None:
        """Stop the child and wait until it is gone. Harmless when it is already."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=_TERMINATE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def child_main(serve: Callable[[T], None], options: type[T], text: str) -> int:
    """Return what the child of a `ChildService` does with its options; the exit status."""
    log_plainly("%(name)s %(levelname)s: %(message)s", logging.WARNING)
    try:
        serve(msgspec.json.decode(text, type=options))
    except ServerStartError as error:
        _report_start_failure(error)
        return 1
    return 0


def _report_start_failure(error: ServerStartError) -> None:
    """The child's first line when it cannot start; see `ChildService`."""
    print(msgspec.json.encode({"message": error.message, "hint": error.hint or ""}).decode(), flush=True)
