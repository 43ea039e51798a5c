"""Serving the web app: address, port, start and end."""

from __future__ import annotations

import errno
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import uvicorn
from fastapi import FastAPI

from compiler.errors import TunefarmError
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.tracker_messages import FarmNumbers
from rpc_server.wire.tracker_records import DeviceInfo
from tracker.client import TrackerSession, connect_tracker
from tuner.records.db.types import utcnow
from tuner.records.farm.model_farm import Role
from tuner.records.store import RecordStore
from webui.access import Limit
from webui.app import create_app
from webui.errors import WebStartError
from webui.fleet import DeviceSource
from webui.launcher import ProcessLauncher
from webui.pages.templates import compile_all
from webui.serving.limits import Counts, Streams, bounded_protocol

_log = logging.getLogger(__name__)

GRACE_S = 2
"""How long requests under way may take once the server was told to end."""


@dataclass(frozen=True)
class WebOptions:
    """Options of the web app.

    `db` is a record store's address, `tracker` a tracker's host and port (None: devices from the records). `port` 0
    takes a free one. `port_file` gets the port once the app answers. Requests need a token (of the store's, or of
    `tokens`, which may only read) when there are `tokens`, with `require_token`, and on any address but loopback. They
    need none where there is no token at all and `insecure` lets everyone read. `keys`: the folder of keys to talk to
    the tracker with. `command` is how the `tunefarm` command is run here, to start runs that clients ask for; empty:
    none are. `workers`: how many processes answer (`webui.serving.workers`). `proxies`: the addresses of proxies that
    are believed whom they speak for.
    """

    db: str
    tracker: tuple[str, int] | None = None
    host: str = "127.0.0.1"
    port: int = 9180
    port_file: Path | None = None
    tokens: tuple[str, ...] = ()
    insecure: bool = False
    keys: Path | None = None
    require_token: bool = False
    command: tuple[str, ...] = ()
    workers: int = 1
    proxies: tuple[str, ...] = ()


def serve(options: WebOptions, announce: Callable[[str], None] = print) -> None:
    """Serve in this process until SIGINT or SIGTERM.

    `announce` receives one line, "listening on http://host:port", when the app answers. Raises WebStartError,
    and what `RecordStore.open` raises.
    """
    with _opened(options) as (store, tracker):
        serve_app(store, tracker, options, announce)


@contextmanager
def _opened(options: WebOptions) -> Iterator[tuple[RecordStore, TrackerLink | None]]:
    with ExitStack() as stack:
        store = stack.enter_context(RecordStore.open(options.db, create=True))  # a fresh farm has none
        tracker = None
        if options.tracker is not None:
            tracker = TrackerLink(*options.tracker, keys=None if options.keys is None else KeyRing(options.keys))
            stack.callback(tracker.close)
        yield store, tracker


def serve_app(
    store: RecordStore, tracker: DeviceSource | None, options: WebOptions, announce: Callable[[str], None]
) -> None:
    """`serve` with a store and a tracker that are open already; they stay so."""
    check_access(store, options)
    with bind(options.host, options.port) as listener, ExitStack() as stack:
        server = _server(store, tracker, options, lambda: stack.enter_context(started(listener, options, announce)))
        _run(server, listener)


@dataclass(frozen=True)
class WorkerCounts:
    """Counts that several processes on one socket share."""

    failures: Limit
    connections: Counts
    streams: Counts


def serve_worker(
    options: WebOptions, listener: socket.socket, counts: WorkerCounts, *, writes_checks: bool,
    ready: Callable[[], None], until: Callable[[], object],
) -> None:  # fmt: skip
    """Be one of several processes that answer on `listener`, until `until` returns."""
    with _opened(options) as (store, tracker):
        server = _server(store, tracker, options, ready, counts, writes_checks)

        def wait() -> None:
            until()
            server.should_exit = True

        threading.Thread(target=wait, daemon=True).start()
        _run(server, listener)


def check_access(store: RecordStore, options: WebOptions) -> Role | None:
    """Return what a request without a token may do. Raises WebStartError if that may not be left open."""
    return role_without_token(options, any(token.valid(utcnow()) for token in store.tokens.all()))


def _server(
    store: RecordStore, tracker: DeviceSource | None, options: WebOptions, on_start: Callable[[], object],
    counts: WorkerCounts | None = None, writes_checks: bool = True,
) -> _Server:  # fmt: skip
    app = create_app(
        store, tracker, hosts=allowed_hosts(options), tokens=options.tokens, open_role=check_access(store, options),
        launcher=_launcher(store, options), stopping=lambda: server.should_exit,
        limit=None if counts is None else counts.failures,
        streams=None if counts is None else Streams(counts=counts.streams), writes_checks=writes_checks,
    )  # fmt: skip
    _prepare(app)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False,
        http=bounded_protocol(options.proxies, None if counts is None else counts.connections), ws="none",
        proxy_headers=bool(options.proxies), forwarded_allow_ips=list(options.proxies),
        timeout_graceful_shutdown=GRACE_S, lifespan="on",
    )  # fmt: skip
    server = _Server(config, on_start)
    return server


def _prepare(app: FastAPI) -> None:
    """Make in advance what the first request would wait for: the routes' parameters, the pages."""
    nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(nowhere)
    compile_all()


def _run(server: _Server, listener: socket.socket) -> None:
    server.run(sockets=[listener])
    if not server.started:
        raise WebStartError("the web app did not start", hint="its log says why")


class _Server(uvicorn.Server):
    """Says when it answers, and returns after a signal, where uvicorn's own would raise the signal again."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_start = on_start

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()


@contextmanager
def started(listener: socket.socket, options: WebOptions, announce: Callable[[str], None]) -> Iterator[None]:
    """Says that the app answers, and keeps the port file for as long as it does."""
    port = listener.getsockname()[1]
    announce(f"listening on {url(options.host, port)}")
    sys.stdout.flush()
    if not is_loopback(options.host) and options.insecure and not options.tokens:
        _log.warning("anyone who reaches this address can read everything, unless there are tokens in the store")
    if options.port_file is not None:
        part = options.port_file.with_name(options.port_file.name + ".part")
        part.write_text(f"{port}\n")
        part.replace(options.port_file)
    try:
        yield
    finally:
        if options.port_file is not None:
            options.port_file.unlink(missing_ok=True)


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def role_without_token(options: WebOptions, has_tokens: bool) -> Role | None:
    """Return what a request without a token may do; None: nothing.
    `has_tokens`: the store holds some. Raises WebStartError for an address that others reach when nothing guards it."""
    if options.require_token or options.tokens:
        return None
    if is_loopback(options.host):
        return Role.ADMIN
    if has_tokens:
        return None
    if options.insecure:
        return Role.READ
    raise WebStartError(
        f"{options.host} can be reached from other machines, and no tokens guard the app",
        hint="make one (tunefarm token new NAME), bind to 127.0.0.1, or say --insecure to let everyone read",
    )


def _launcher(store: RecordStore, options: WebOptions) -> ProcessLauncher | None:
    if not options.command:
        return None
    tracker = "" if options.tracker is None else f"{options.tracker[0]}:{options.tracker[1]}"
    return ProcessLauncher(store, options.command, options.db, tracker)


def allowed_hosts(options: WebOptions) -> Sequence[str] | None:
    """Return the names of loopback. A foreign page whose name was made to point here is refused."""
    if not is_loopback(options.host):
        return None
    shown = f"[{options.host}]" if ":" in options.host else options.host
    return sorted({shown, "127.0.0.1", "localhost", "[::1]"})


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises WebStartError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise _refused(host, port, error) from None
    except OverflowError:
        raise WebStartError(f"{port} is no port", hint="ports go from 0 (any free one) to 65535") from None


def _refused(host: str, port: int, error: OSError) -> WebStartError:
    match error.errno:
        case errno.EADDRINUSE:
            return WebStartError(f"port {port} on {host} is in use", hint="give another --port, or 0 for any free one")
        case errno.EACCES:
            return WebStartError(f"port {port} may not be bound", hint="ports below 1024 need privileges")
        case errno.EADDRNOTAVAIL:
            return WebStartError(f"{host} is no address of this machine")
    if error.errno is not None and error.errno < 0:  # from the resolver
        return WebStartError(f"{host} is no known address")
    return WebStartError(f"cannot listen on {url(host, port)}: {error.strerror or error}")


_CONNECT_S = 3.0

T = TypeVar("T")


class TrackerLink:
    """Connects when first asked, and again after a failure. Safe in any thread; one asks after the other."""

    def __init__(self, host: str, port: int, keys: KeyRing | None = None) -> None:
        self._keys = keys
        self.host = host
        self.port = port
        self._session: TrackerSession | None = None
        self._lock = threading.RLock()

    def devices(self) -> Sequence[DeviceInfo]:
        """All devices now. Raises ConnectError when the tracker does not answer."""
        return self._ask(TrackerSession.devices)

    def numbers(self) -> FarmNumbers:
        """Return what the tracker has counted. Raises ConnectError when it does not answer."""
        return self._ask(TrackerSession.numbers)

    def _ask(self, question: Callable[[TrackerSession], T]) -> T:
        with self._lock:
            if self._session is None:
                self._session = connect_tracker(self.host, self.port, user="web", timeout_s=_CONNECT_S, keys=self._keys)
            try:
                return question(self._session)
            except TunefarmError:
                self.close()
                raise

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.close()
