"""Start a device box's server.

`serve(options)` in this process, or `Server(...)` in a child of its own.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import zmq

from compiler.target import entry_points
from rpc_server.box.executor_pool import PoolConfig
from rpc_server.box.folders import ServerFolder
from rpc_server.box.server_options import AUTO, DEFAULT_PORT, ServerOptions
from rpc_server.box.supervisor import Supervisor, watch_connections
from rpc_server.box.supervisor_records import SupervisorConfig
from rpc_server.errors import ConnectError, ServerStartError
from rpc_server.farm_link.leases import LeaseTable
from rpc_server.farm_link.registrar import Registrar, cpu_device, gpu_device, split_address
from rpc_server.isolation.levels import ROOT, Isolation, Level, choose
from rpc_server.isolation.limits import EACH, ids_of
from rpc_server.isolation.probe import find_means
from rpc_server.machine.crash import GPU_LOST, ExitReport
from rpc_server.machine.fingerprint import Fingerprint, local_fingerprint
from rpc_server.machine.gpus import Gpu, ProbeSettings, chosen, probe
from rpc_server.machine.health import HealthCheck
from rpc_server.machine.hours import Hours, HoursError
from rpc_server.machine.memory import keep_freed_memory
from rpc_server.machine.processes import ExecutorSettings
from rpc_server.relay.agent import AgentOptions
from rpc_server.relay.link import RelayLink
from rpc_server.relay.passes import via
from rpc_server.service import ChildService, ServiceSocket, announce, bind, child_main, service_socket, stoppable
from rpc_server.wire.curve import keys_for
from rpc_server.wire.guard.connection_guard import ConnectionGuard
from rpc_server.wire.key_watch import KeyWatch
from rpc_server.wire.keys import KeyRing, KeyRole, Principal
from rpc_server.wire.messages import BoxStatus
from rpc_server.wire.relay_messages import DEFAULT_RELAY_PORT
from rpc_server.wire.sockets import Liveness, is_loopback, prepare, resolve
from rpc_server.wire.tracker_records import DeviceSpec

logger = logging.getLogger("rpc_server")

_QUEUE_IN = 128  # messages of one client that wait to be read; then its own end waits
_MOST_SCRATCH = 256 << 20
_EVERY_INTERFACE = ("0.0.0.0", "::", "*", "")


def serve(options: ServerOptions) -> None:
    """Run a server until SIGINT, SIGTERM or the end of its lifeline; prints "listening on HOST:PORT".

    Raises ServerStartError when it cannot start: port in use, unknown host, or a host that others can reach
    while nothing authenticates them.
    """
    keep_freed_memory()
    leases = LeaseTable() if options.tracker else None
    with (
        service_socket(
            options, "run code on this machine", logger, _prepare, lambda ring, public: _admit(ring, public, leases)
        ) as service,
        contextlib.closing(watch_connections(service.socket)) as guard,
    ):
        port = bind(service.socket, options.host, service.address, options.port, options.port_end)
        _serve_on(service, guard, port, options, leases)


def _prepare(front: zmq.Socket[bytes]) -> None:
    prepare(front, Liveness())
    front.setsockopt(zmq.RCVHWM, _QUEUE_IN)


def _admit(ring: KeyRing, public: str, leases: LeaseTable | None) -> Principal | None:
    """Who may connect to a box: those authorized on it, and whoever the tracker lends it to."""
    known = ring.authorized().get(public)
    if known is None and leases is not None and leases.holds(public):
        return Principal("the tracker's client", KeyRole.CLIENT, public)
    return known


def _serve_on(
    service: ServiceSocket, guard: ConnectionGuard, port: int, options: ServerOptions, leases: LeaseTable | None
) -> None:
    parent = Path(options.folder) if options.folder else Path(tempfile.gettempdir())
    try:
        isolation = _isolation(options, parent)
        user = isolation.user
        folder = ServerFolder(parent, shared=bool(user) and isolation.level is not Level.FULL)
    except OSError as error:
        raise ServerStartError(f"cannot make a folder in {parent}: {error.strerror}") from None
    try:
        folder.remove_leftovers()
        fingerprint, gpu = local_fingerprint(), _gpu(options.gpu, _own_code_runs_as(user))
        if gpu is not None:
            fingerprint = fingerprint.with_gpu(gpu)
        name = options.name or f"{fingerprint.hostname}:{port}"
        memory = _memory_limit(options, fingerprint.memory)
        disk = _disk_limit(options, folder.path)
        supervisor = Supervisor(
            service.socket,
            guard,
            folder.path,
            SupervisorConfig(
                box=name,
                key=options.key,
                max_sessions=options.sessions,
                leases_required=bool(options.tracker),
                call_timeout_s=options.call_timeout_s,
                memory_limit=memory,
                disk_limit=disk,
                pool=PoolConfig(warm=options.warm, refill_delay_s=options.spare_delay_s),
            ),
            ExecutorSettings(
                user=user,
                isolation=isolation.level,
                scratch=_scratch(memory),
                memory_limit=memory,
                max_processes=options.processes,
                disk_limit=disk,
                cpus=options.cpus,
                libraries=options.libraries,
                gpu="" if gpu is None else gpu.uuid,
                plugins=_device_plugins(),
            ),
            leases=leases,
            info=BoxStatus(
                name,
                options.key,
                _version(),
                fingerprint.to_builtins(),
                (),
                0,
                0.0,
                0,
                isolation=isolation.level.value,
                is_open=isolation.is_open,
            ),
            blob_capacity=options.blob_capacity,
            who=service.who,
            keys=None if service.authenticator is None else KeyWatch(service.authenticator.lookup),
        )
        device = _device(options, fingerprint, gpu)
        check = HealthCheck(_own_code_runs_as(user), options.cpus, gpu="" if gpu is None else gpu.uuid)
        with (
            stoppable(options, supervisor.stop),
            _registered(options, name, port, fingerprint, device, leases, service.ring, check) as registrar,
        ):
            if gpu is not None and registrar is not None:
                supervisor.on_executor_end = partial(_doubt_gpu, registrar)
            announce(options, port)
            supervisor.run()
    finally:
        folder.remove()


def _gpu(wanted: str, user: str) -> Gpu | None:
    """The GPU to lend, looked at by a process of its own. Raises ServerStartError."""
    if not wanted:
        return None
    found = probe(ProbeSettings(os.getpid(), chosen(wanted), user))
    if found.gpu is None or found.wrong:
        hint = "docs/gpu.md says what a box with a GPU needs; nvidia-smi shows the GPU's state"
        raise ServerStartError(f"GPU {wanted} cannot be lent: {found.wrong}", hint=hint)
    return found.gpu


def _device(options: ServerOptions, fingerprint: Fingerprint, gpu: Gpu | None) -> DeviceSpec:
    if gpu is not None:
        return gpu_device(fingerprint, gpu, options.key, options.tags)
    return cpu_device(fingerprint, key=options.key, tags=options.tags)


def _doubt_gpu(registrar: Registrar, report: ExitReport) -> None:
    """Have the GPU checked before its next lease when a kernel spoiled an executor's context."""
    if report.exit_code == GPU_LOST:
        last = report.stderr.strip().splitlines()[-1:]
        registrar.suspect(0, f"an executor lost the GPU: {' '.join(last)}"[:2000])


# --- starting ----------------------------------------------------------------------------------------------


def _isolation(options: ServerOptions, parent: Path) -> Isolation:
    """How far sessions are kept apart, said in the log. Raises ServerStartError."""
    if options.user not in ("", ROOT, EACH):
        try:
            ids_of(options.user)
        except KeyError:
            hint = "name another, or leave the option out: each session is a user of its own then"
            raise ServerStartError(f"there is no user {options.user!r} to run executors as", hint=hint) from None
    host = "127.0.0.1" if options.host in _EVERY_INTERFACE else resolve(options.host, options.port)[0]
    isolation = choose(
        options.isolation,
        options.user or ROOT,
        find_means(options.user, parent),
        root=os.geteuid() == 0,
        reachable=bool(options.relay) or options.host in _EVERY_INTERFACE or not is_loopback(host),
    )
    logger.log(logging.INFO if isolation.level is Level.FULL else logging.WARNING, "%s", isolation)
    return isolation


def _own_code_runs_as(user: str) -> str:
    """The user that health checks run as.
    They run no client's code, so it is a named one where each executor has a number."""
    return "nobody" if user == EACH else user


def _scratch(memory: int | None) -> int:
    """Bytes of an executor's own /tmp, and of its /dev/shm."""
    return _MOST_SCRATCH if memory is None else min(_MOST_SCRATCH, memory // 4)


def _memory_limit(options: ServerOptions, total: int) -> int | None:
    if options.memory_limit == AUTO:
        return total * 3 // 4 // max(options.sessions, 1)
    return options.memory_limit or None


def _disk_limit(options: ServerOptions, folder: Path) -> int | None:
    if options.disk_limit == AUTO:
        return shutil.disk_usage(folder).free // 2 // max(options.sessions, 1)
    return options.disk_limit or None


def _device_plugins() -> entry_points.Rows:
    """Return the device-side rows of installed distributions, so that no executor has to look for them."""
    return {group: entry_points.rows().get(group, {}) for group in (entry_points.KIND_GROUP, entry_points.DEVICE_GROUP)}


def _version() -> str:
    try:
        return importlib.metadata.version("tunefarm")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@contextlib.contextmanager
def _registered(
    options: ServerOptions, name: str, port: int, fingerprint: Fingerprint, device: DeviceSpec,
    leases: LeaseTable | None, ring: KeyRing | None, check: HealthCheck,
) -> Iterator[Registrar | None]:  # fmt: skip
    """Lend the box out through its tracker. A box without one is reached by its key through its relay."""
    if leases is None:
        if options.relay and not options.key:
            raise ServerStartError(
                "a box behind a relay needs a tracker, or a key that it serves", hint="name a tracker, or a key"
            )
        alone = _relay_link(options, name, port, None, ring, lambda: None)
        with contextlib.nullcontext() if alone is None else alone:
            yield None
        return
    link = _relay_link(options, name, port, leases, ring, lambda: registrar.wake())
    try:
        registrar = Registrar(
            options.tracker, box=name, address=_told_address(options, fingerprint, port), devices=[device],
            leases=leases, check=check, hours=Hours.parse(options.hours, options.timezone) if options.hours else None,
            end_at_close=options.end_at_close, keys=keys_for(ring, options.tracker),
            unreachable=link.trouble if link is not None else lambda: "",
        )  # fmt: skip
    except HoursError as error:
        raise ServerStartError(error.message, hint=error.hint) from None
    except ConnectError as error:
        raise ServerStartError(f"tracker {options.tracker}: {error.message}", hint=error.hint) from None
    with contextlib.nullcontext() if link is None else link:
        registrar.start()
        try:
            yield registrar
        finally:
            registrar.stop()


def _told_address(options: ServerOptions, fingerprint: Fingerprint, port: int) -> str:
    """Where clients reach the box."""
    if options.relay:
        host, relay_port = split_address(options.relay, DEFAULT_RELAY_PORT)
        return via(f"{fingerprint.hostname}-{port}", (options.address or host, relay_port))
    # An empty host: the tracker takes the one it sees the box come from.
    host = options.address or ("" if options.host in _EVERY_INTERFACE else options.host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _relay_link(
    options: ServerOptions, name: str, port: int, leases: LeaseTable | None, ring: KeyRing | None,
    on_change: Callable[[], None],
) -> RelayLink | None:  # fmt: skip
    if not options.relay:
        return None
    try:
        host, relay_port = split_address(options.relay, DEFAULT_RELAY_PORT)
        address = resolve(host, relay_port)[0]
    except ConnectError as error:
        raise ServerStartError(f"relay {options.relay}: {error.message}", hint=error.hint) from None
    known = {} if ring is None else ring.known()
    listed = f"{host}:{relay_port}"
    beside_tracker = bool(options.tracker) and host == split_address(options.tracker)[0]
    return RelayLink(
        AgentOptions(
            relay=(address, relay_port),
            listed=listed,
            local=("127.0.0.1" if options.host in _EVERY_INTERFACE else resolve(options.host, port)[0], port),
            box=name,
            keys=options.keys,
            server=known.get(listed, "") or (known.get(options.tracker, "") if beside_tracker else ""),
        ),
        leases,
        listed,
        on_change,
        options.key,
    )


# --- a server in a child process ---------------------------------------------------------------------------


class Server(ChildService):
    """A server in a child process, with TVM's constructor.

    It ends with `terminate()`, or with this process. `port` is the bound port: the first free one of [port, port_end),
    or any free one for port 0. With `is_proxy`, host and port are those of a relay that clients come through;
    `rpc.connect` finds the box there by its `key`. `tracker_addr` is (host, port) of a tracker to lend the box through.
    `load_library` names shared libraries for the executors, separated by ":"; `custom_addr` is the host that clients of
    the tracker are told. `no_fork` makes no difference: executors are always spawned. Further `options` are
    ServerOptions fields. Raises ServerStartError.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = DEFAULT_PORT, port_end: int = 9199, is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None, key: str = "", load_library: str | None = None,
        custom_addr: str | None = None, silent: bool = False, no_fork: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        if is_proxy:
            options["relay"] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            host, port = "127.0.0.1", 0
        settings = ServerOptions(
            host=host, port=port, port_end=port_end if port else 0, key=key,
            tracker="" if tracker_addr is None else f"{tracker_addr[0]}:{tracker_addr[1]}",
            libraries=tuple(filter(None, (load_library or "").split(":"))), address=custom_addr or "", **options,
        )  # fmt: skip
        self.host = host
        super().__init__("rpc_server.box.server", settings, silent=silent)


if __name__ == "__main__":
    sys.exit(child_main(serve, ServerOptions, sys.argv[1]))
