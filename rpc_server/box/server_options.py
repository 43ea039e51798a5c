"""Options of a device box's server.

Importing it costs little: it is for processes that only start one.
"""

from __future__ import annotations

from rpc_server.service import ServiceOptions

DEFAULT_PORT = 9091
AUTO = -1


class ServerOptions(ServiceOptions, frozen=True, kw_only=True):
    """How a server runs. Times in seconds, sizes in bytes.

    `port` 0 takes a free one; with `port_end` the first free one of [port, port_end). `tracker` ("host:port")
    lends the box out: then only its lease tokens open sessions, and `address` is the host that clients are
    told (default: `host`). `name` is the box's name (default: hostname:port). `relay` ("host:port") is the relay
    that clients reach it through; then `address` is that one's host as clients know it.
    `hours` are when the tracker may lend it (`rpc_server.machine.hours`), in `timezone` ("": the machine's); leases go
    on after closing time unless `end_at_close`.
    `warm` executors stand by for sessions; one that a session took is replaced `spare_delay_s` later, or when the next
    session wants one.
    `memory_limit` -1 takes three quarters of the machine's memory over the sessions; 0 sets none.
    `disk_limit` bounds what a session may write to its folder; -1 takes half of what is free over the sessions, 0 sets
    none. `processes` is what a session may add to the processes and threads of its user.
    `user` is whom executors run as when the server is root ("each": each as a number of its own, "root" or "" to stay
    root). `isolation` is how far sessions are kept apart (`rpc_server.isolation.levels`); "auto": as far as the kernel
    allows, and it must allow all where others can reach the box. `cpus` pins executors.
    `gpu` (a UUID, or a number in the order of `nvidia-smi -L`) is the GPU that the box lends, in place of its CPU.
    `keys` is a folder of keys (`rpc_server.wire.keys`): if it holds an identity, connections are encrypted and only
    authorized clients, and those a tracker lends the box to, come in. The tracker's key is looked for there too.
    `port_file` is written with the port once the server listens. `lifeline_fd` is a descriptor whose end
    of file ends the server.
    """

    port: int = DEFAULT_PORT
    port_end: int = 0
    key: str = ""
    name: str = ""
    tracker: str = ""
    address: str = ""
    relay: str = ""
    tags: tuple[str, ...] = ()
    hours: str = ""
    timezone: str = ""
    end_at_close: bool = False
    sessions: int = 1
    warm: int = 1
    spare_delay_s: float = 0.05
    call_timeout_s: float | None = None
    memory_limit: int = AUTO
    disk_limit: int = AUTO
    processes: int = 512
    user: str = "each"
    isolation: str = "auto"
    cpus: tuple[int, ...] = ()
    libraries: tuple[str, ...] = ()
    gpu: str = ""
    blob_capacity: int = 1 << 30
    folder: str = ""
