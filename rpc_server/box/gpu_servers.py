"""A device server for each GPU of a box under one process.

Crashed servers restart with back-off. A GPU that cannot be lent does not stop the others.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rpc_server.box.server_options import ServerOptions
from rpc_server.errors import ServerStartError
from rpc_server.machine.fingerprint import local_fingerprint
from rpc_server.machine.gpus import gpus_here
from rpc_server.service import first_line, start_child, stoppable
from rpc_server.wire.waker import Waker

logger = logging.getLogger("rpc_server")

FIRST_DELAY_S, MOST_DELAY_S = 1.0, 60.0
STEADY_S = 60.0  # a server that ran for so long was in order
_LOOK_S = 1.0
_END_S = 15.0


def serve_all(options: ServerOptions) -> None:
    """Run a server for each GPU and MIG instance of this machine.

    It ends at SIGINT, SIGTERM or the end of the lifeline. Prints "GPU UUID: listening on HOST:PORT" for each. `options`
    are those of one server, but `port` is the first one's, the others' follow; `name` gets "/0", "/1" and so on. The
    machine's memory and disk are shared out evenly; the port file has a line for each server. Raises ServerStartError
    when there is no GPU, or none can be lent.
    """
    uuids = gpus_here()
    if not uuids:
        raise ServerStartError(
            "there are no GPUs here that nvidia-smi lists", hint="`nvidia-smi -L` must run; one GPU: --gpu UUID"
        )
    servers = GpuServers(shares(options, uuids), options.port_file, silent=options.silent)
    with stoppable(options, servers.stop):
        servers.run()


def shares(options: ServerOptions, uuids: Sequence[str]) -> list[ServerOptions]:
    """The options of each GPU's server."""
    count = len(uuids)
    memory, disk = options.memory_limit, options.disk_limit
    if memory < 0:
        memory = local_fingerprint().memory * 3 // 4 // count // max(options.sessions, 1)
    if disk < 0:
        folder = options.folder or tempfile.gettempdir()
        disk = shutil.disk_usage(folder).free // 2 // count // max(options.sessions, 1)
    return [
        msgspec.structs.replace(
            options,
            gpu=uuid,
            port=options.port + number if options.port else 0,
            port_end=0,
            port_file="",
            silent=False,  # its first line is read here
            name=f"{options.name or socket.gethostname()}/{number}",
            memory_limit=memory,
            disk_limit=disk,
        )
        for number, uuid in enumerate(uuids)
    ]


@dataclass(slots=True)
class Backoff:
    """How long to wait before the next start."""

    delay_s: float = 0.0

    def after(self, ran_s: float) -> float:
        """The server ended after it ran for so long."""
        soon = ran_s < STEADY_S
        self.delay_s = min(MOST_DELAY_S, 2 * self.delay_s or FIRST_DELAY_S) if soon else FIRST_DELAY_S
        return self.delay_s


@dataclass(slots=True)
class _Child:
    """A server and its process, when it has one.
    `port` is 0 before it has listened; later processes ask for the same port. `trouble` is why the last process did
    not come to listen."""

    options: ServerOptions
    port: int = 0
    trouble: ServerStartError | None = None
    process: subprocess.Popen[str] | None = None
    reader: threading.Thread | None = None
    lifeline: int = -1
    began: float = 0.0
    due: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)

    def start(self, now: float) -> None:
        self.began = now
        again = 0 if self.trouble is not None else self.port  # somebody else may have it now
        options = msgspec.structs.replace(self.options, port=self.options.port or again)
        self.process, self.lifeline = start_child("rpc_server.box.server", options)

    def let_go(self) -> None:
        """Have the process end, by the pipe it watches and by a signal."""
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


class GpuServers:
    """Starts the servers, starts them again, ends them. `clock` counts seconds."""

    def __init__(
        self, options: Sequence[ServerOptions], port_file: str = "", *, silent: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._children = [_Child(each) for each in options]
        self._port_file = port_file
        self._silent = silent
        self._clock = clock
        self._stopping = ""
        self._waker = Waker()
        self._lock = threading.Lock()

    def stop(self, reason: str) -> None:
        """End all servers. Safe in signal handlers and other threads."""
        self._stopping = reason
        self._waker.wake()

    def run(self) -> None:
        """Run until `stop`. Raises ServerStartError when no server came to listen at its first try."""
        try:
            while not self._stopping:
                now = self._clock()
                for child in self._children:
                    self._look_after(child, now)
                self._give_up_without_any()
                if select.select([self._waker.fd], [], [], _LOOK_S)[0]:
                    self._waker.clear()
        finally:
            self._end()

    def _look_after(self, child: _Child, now: float) -> None:
        if child.process is None:
            if now >= child.due:
                child.start(now)
                child.reader = threading.Thread(target=self._listen, args=(child, child.process), daemon=True)
                child.reader.start()
            return
        status = child.process.poll()
        if status is None:
            return
        child.let_go()
        if child.reader is not None:
            child.reader.join(_LOOK_S)  # for what it said
        child.process = None
        wait_s = child.backoff.after(now - child.began)
        child.due = now + wait_s
        why = f"ended with {status}" if child.trouble is None else f"did not start: {child.trouble.message}"
        logger.warning("the server of GPU %s %s; the next try is in %g s", child.options.gpu, why, wait_s)

    def _give_up_without_any(self) -> None:
        """Raise at once for a mistake that all servers share, such as a tracker's name."""
        troubles = [child.trouble for child in self._children if child.trouble is not None and not child.port]
        if len(troubles) == len(self._children):
            raise troubles[0]

    def _listen(self, child: _Child, process: subprocess.Popen[str]) -> None:
        """Read what a server says, to its end."""
        assert process.stdout is not None
        with process.stdout:
            told = first_line(process.stdout.readline(), "rpc_server.box.server")
            if isinstance(told, int):
                child.port, child.trouble = told, None
                self._announce(child)
            else:
                child.trouble = told
            for _ in process.stdout:
                pass
        process.wait()
        self._waker.wake()

    def _announce(self, child: _Child) -> None:
        with self._lock:
            if not self._silent:
                print(f"GPU {child.options.gpu}: listening on {child.options.host}:{child.port}", flush=True)
            ports = [each.port for each in self._children]
            if self._port_file and all(ports):
                path = Path(self._port_file)
                partial = path.with_name(path.name + ".partial")
                try:
                    partial.write_text("".join(f"{port}\n" for port in ports))
                    partial.replace(path)
                except OSError as error:
                    logger.warning("cannot write %s: %s", path, error.strerror)

    def _end(self) -> None:
        for child in self._children:
            child.let_go()
        end = time.monotonic() + _END_S
        for child in self._children:
            if child.process is not None:
                try:
                    child.process.wait(max(0.0, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    child.process.kill()
                    child.process.wait()
            if child.reader is not None:
                child.reader.join(_LOOK_S)
