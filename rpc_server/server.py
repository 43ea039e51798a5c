"""Start a device box's server: `serve(options)` in this process, or `Server(...)` in a child of its own."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import zmq

from rpc_server.errors import ConnectError, ServerStartError
from rpc_server.executor_pool import PoolConfig
from rpc_server.fingerprint import Fingerprint, local_fingerprint
from rpc_server.folders import ServerFolder
from rpc_server.leases import LeaseTable
from rpc_server.messages import BoxStatus
from rpc_server.processes import ExecutorSettings
from rpc_server.registrar import Registrar, cpu_device
from rpc_server.sockets import Liveness, endpoint, is_loopback, prepare, resolve
from rpc_server.supervisor import Supervisor
from rpc_server.supervisor_records import SupervisorConfig

logger = logging.getLogger("rpc_server")

DEFAULT_PORT = 9091
_AUTO = -1
_EVERY_INTERFACE = ("0.0.0.0", "::", "*", "")


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server runs. Times in seconds, sizes in bytes.

    `port` 0 takes a free one; with `port_end` the first free one of [port, port_end). `tracker` ("host:port")
    lends the box out: then only its lease tokens open sessions, and `address` is the host that clients are
    told (default: `host`). `name` is the box's name (default: hostname:port).
    `memory_limit` -1 takes three quarters of the machine's memory over the sessions; 0 sets none.
    `user` is whom executors run as when the server is root ("" to stay root). `cpus` pins executors.
    `port_file` is written with the port once the server listens. `lifeline_fd` is a descriptor whose end
    of file ends the server.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    port_end: int = 0
    key: str = ""
    name: str = ""
    tracker: str = ""
    address: str = ""
    tags: tuple[str, ...] = ()
    insecure: bool = False
    sessions: int = 1
    warm: int = 1
    call_timeout_s: float | None = None
    memory_limit: int = _AUTO
    user: str = "nobody"
    cpus: tuple[int, ...] = ()
    libraries: tuple[str, ...] = ()
    blob_capacity: int = 1 << 30
    folder: str = ""
    port_file: str = ""
    lifeline_fd: int = -1
    silent: bool = False


def serve(options: ServerOptions) -> None:
    """Run a server until SIGINT, SIGTERM or the end of its lifeline; prints "listening on HOST:PORT".

    Raises ServerStartError when it cannot start: port in use, unknown host, or a host that others can reach
    while nothing authenticates them.
    """
    address = _bind_address(options)
    context = zmq.Context(io_threads=1)
    front = context.socket(zmq.ROUTER)
    prepare(front, Liveness())
    try:
        port = _bind(front, options, address)
        _serve_on(front, port, options)
    finally:
        front.close()
        context.term()


def _serve_on(front: zmq.Socket[bytes], port: int, options: ServerOptions) -> None:
    parent = Path(options.folder) if options.folder else Path(tempfile.gettempdir())
    try:
        user = _executor_user(options.user, parent)
        folder = ServerFolder(parent, shared=bool(user))
    except OSError as error:
        raise ServerStartError(f"cannot make a folder in {parent}: {error.strerror}") from None
    try:
        folder.remove_leftovers()
        fingerprint = local_fingerprint()
        name = options.name or f"{fingerprint.hostname}:{port}"
        memory = _memory_limit(options, fingerprint.memory)
        leases = LeaseTable() if options.tracker else None
        supervisor = Supervisor(
            front,
            folder.path,
            SupervisorConfig(
                box=name,
                key=options.key,
                max_sessions=options.sessions,
                leases_required=bool(options.tracker),
                call_timeout_s=options.call_timeout_s,
                memory_limit=memory,
                pool=PoolConfig(warm=options.warm),
            ),
            ExecutorSettings(user=user, memory_limit=memory, cpus=options.cpus, libraries=options.libraries),
            leases=leases,
            info=BoxStatus(name, options.key, _version(), fingerprint.to_builtins(), (), 0, 0.0, 0),
            blob_capacity=options.blob_capacity,
        )
        with (
            _stop_on_signals(supervisor),
            _lifeline(supervisor, options.lifeline_fd),
            _registered(options, name, port, fingerprint, leases),
        ):
            _announce(options, port)
            supervisor.run()
    finally:
        folder.remove()


# --- starting ----------------------------------------------------------------------------------------------


def _bind_address(options: ServerOptions) -> str:
    """The numeric address to bind. Nothing authenticates clients yet, so only loopback unless told."""
    try:
        address = resolve(options.host, options.port)[0]
    except ConnectError as error:
        raise ServerStartError(f"cannot listen on {options.host!r}: {error.message}") from None
    if not is_loopback(address):
        if not options.insecure:
            raise ServerStartError(
                f"refusing to listen on {options.host}: whoever reaches it could run code on this machine",
                hint="listen on 127.0.0.1 (an SSH tunnel reaches it), or pass --insecure on a trusted network",
            )
        logger.warning("listening on %s without authentication: anyone who reaches it can run code", address)
    return address


def _bind(front: zmq.Socket[bytes], options: ServerOptions, address: str) -> int:
    last = max(options.port + 1, options.port_end)
    error: zmq.ZMQError | None = None
    for port in range(options.port, last):
        try:
            front.bind(endpoint(address, port))
        except zmq.ZMQError as problem:
            error = problem
            if problem.errno in (zmq.EADDRINUSE, 13):
                continue
            break
        bound = front.getsockopt_string(zmq.LAST_ENDPOINT)
        return int(bound.rsplit(":", 1)[1])
    assert error is not None
    if error.errno == zmq.EADDRINUSE:
        ports = f"port {options.port}" if last == options.port + 1 else f"every port from {options.port} to {last - 1}"
        raise ServerStartError(
            f"{ports} on {options.host} is in use",
            hint=f"choose another --port (0 takes a free one), or find who has it: ss -ltnp 'sport = :{options.port}'",
        )
    raise ServerStartError(f"cannot listen on {options.host}:{options.port}: {error.strerror}")


def _executor_user(wanted: str, parent: Path) -> str:
    """Whom executors become: only root can choose, and they must reach their folders below `parent`."""
    if os.geteuid() != 0 or not wanted or wanted == "root":
        return ""
    try:
        pwd.getpwnam(wanted)
    except KeyError:
        raise ServerStartError(
            f"there is no user {wanted!r} to run executors as", hint="name another, or none to stay root"
        ) from None
    closed = [folder for folder in (parent, *parent.resolve().parents) if not folder.stat().st_mode & 0o001]
    if closed:
        logger.warning("executors run as root: user %r cannot enter %s", wanted, closed[-1])
        return ""
    return wanted


def _memory_limit(options: ServerOptions, total: int) -> int | None:
    if options.memory_limit == _AUTO:
        return total * 3 // 4 // max(options.sessions, 1)
    return options.memory_limit or None


def _version() -> str:
    try:
        return importlib.metadata.version("tunefarm")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _announce(options: ServerOptions, port: int) -> None:
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
def _stop_on_signals(supervisor: Supervisor) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a clean stop, where this thread may set handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> None:
        supervisor.stop(f"the server got {signal.Signals(number).name}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _registered(
    options: ServerOptions, name: str, port: int, fingerprint: Fingerprint, leases: LeaseTable | None
) -> Iterator[None]:
    """Lend the box out through its tracker, if it has one."""
    if leases is None:
        yield
        return
    # An empty host: the tracker takes the one it sees the box come from.
    host = options.address or ("" if options.host in _EVERY_INTERFACE else options.host)
    try:
        registrar = Registrar(
            options.tracker,
            box=name,
            address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            devices=[cpu_device(fingerprint, key=options.key, tags=options.tags)],
            leases=leases,
        )
    except ConnectError as error:
        raise ServerStartError(f"tracker {options.tracker}: {error.message}", hint=error.hint) from None
    registrar.start()
    try:
        yield
    finally:
        registrar.stop()


@contextlib.contextmanager
def _lifeline(supervisor: Supervisor, fd: int) -> Iterator[None]:
    """Stop when the other end of a pipe closes, however its holder died."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(fd, 64):
                pass
        supervisor.stop("the process that started the server is gone")

    if fd >= 0:
        threading.Thread(target=watch, name="lifeline", daemon=True).start()
    yield


# --- a server in a child process ---------------------------------------------------------------------------


class Server:
    """A server in a child process, with TVM's constructor. It ends with `terminate()`, or with this process.

    `port` is the bound port: the first free one of [port, port_end), or any free one for port 0.
    `tracker_addr` is (host, port) of a tracker to lend the box through; `load_library` names shared libraries
    for the executors, separated by ":"; `custom_addr` is the host that clients of the tracker are told.
    `no_fork` makes no difference: executors are always spawned. Further `options` are ServerOptions fields.
    Raises ServerStartError.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        port_end: int = 9199,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        no_fork: bool = False,
        **options: Any,
    ) -> None:
        if is_proxy:
            raise ServerStartError("tunefarm has no RPC proxy", hint="boxes behind NAT work through the tracker")
        settings = ServerOptions(
            host=host,
            port=port,
            port_end=port_end if port else 0,
            key=key,
            tracker="" if tracker_addr is None else f"{tracker_addr[0]}:{tracker_addr[1]}",
            libraries=tuple(filter(None, (load_library or "").split(":"))),
            address=custom_addr or "",
            **options,
        )
        self.host = host
        self._silent = silent
        self._lifeline: int | None = None
        self._process = self._start(settings)
        self.port = self._read_port()

    def _start(self, settings: ServerOptions) -> subprocess.Popen[str]:
        read_end, self._lifeline = os.pipe()
        try:
            settings = msgspec.structs.replace(settings, lifeline_fd=read_end, silent=False)
            text = msgspec.json.encode(settings).decode()
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "rpc_server.server", text],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_package_path())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if self._silent else None,
                pass_fds=(read_end,),
                start_new_session=True,
                text=True,
            )
        finally:
            os.close(read_end)

    def _read_port(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line.startswith("listening on "):
            return int(line.rsplit(":", 1)[1])
        self.terminate()
        try:
            problem = msgspec.json.decode(line, type=dict[str, str])
        except msgspec.MsgspecError:
            raise ServerStartError("the server ended before it listened") from None
        raise ServerStartError(problem.get("message", ""), hint=problem.get("hint") or None)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def terminate(self) -> None:
        """Stop the server and wait until it and its executors are gone. Harmless when it is already."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.terminate()


def _package_path() -> Sequence[str]:
    root = str(Path(__file__).resolve().parent.parent)
    return [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _main(text: str) -> int:
    """The child of `Server`: its options as JSON on the command line, its failure as JSON on stdout."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s %(levelname)s: %(message)s")
    try:
        serve(msgspec.json.decode(text, type=ServerOptions))
    except ServerStartError as error:
        print(msgspec.json.encode({"message": error.message, "hint": error.hint or ""}).decode(), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
