"""A farm to be mistreated: tracker, boxes behind proxies and clients as processes, and what must hold afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rpc_server.box.server import Server
from rpc_server.errors import ConnectError, RPCError
from rpc_server.relay.server import Relay
from rpc_server.wire.tracker_records import LogEvent
from tests.kit.farm.fault_proxy import CuttableProxy
from tests.kit.farm.relay import start_relay
from tests.kit.places import python_path
from tests.kit.ports import free_port
from tests.kit.process_tree import wardens
from tracker.client import TrackerSession, connect_tracker
from tracker.farm_parts import Timing
from tracker.log import LogKind
from tracker.server import Tracker

TIMING = Timing(late_s=3.0, box_timeout_s=5.0, grace_s=5.0, settle_s=8.0, accept_s=10.0, check_s=3.0, recheck_s=5.0)
PATIENCE_S = 90.0
_MARK = "TUNEFARM_FAULTS"


def until(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {patience_s:g} s in vain until {what}"
        time.sleep(0.05)


class LogWatch:
    """Reads a tracker's event log as it grows and checks that no device is held twice at any moment.

    From granted (or restored, after a restart) to ended a device belongs to one lease.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._session: TrackerSession | None = None
        self._seen = 0
        self.holders: dict[str, str] = {}
        self.events = 0
        self.problems: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Take in what happened up to now, if the tracker answers."""
        with self._lock, contextlib.suppress(ConnectError):
            if self._session is None:
                self._session = connect_tracker("127.0.0.1", self._port, user="watch")
            for event in self._session.events(self._seen, limit=100_000):
                self._take(event)

    def another_run(self) -> None:
        """The tracker was restarted: its log begins anew, with the leases that boxes report."""
        with self._lock:
            if self._session is not None:
                self._session.close()
            self._session, self._seen = None, 0
            self.holders.clear()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self.another_run()

    def _take(self, event: LogEvent) -> None:
        if event.seq != self._seen + 1:
            self.problems.append(f"event {event.seq} follows {self._seen}")
        self._seen = event.seq
        self.events += 1
        held = self.holders.get(event.device)
        if event.kind in (LogKind.GRANTED, LogKind.RESTORED):
            if held is not None:
                self.problems.append(f"{event.device} was {event.kind} to {event.lease} while {held} held it")
            self.holders[event.device] = event.lease
        elif event.kind == LogKind.ENDED:
            if held != event.lease:
                self.problems.append(f"lease {event.lease} of {event.device} ended while {held} held it")
            self.holders.pop(event.device, None)

    def _run(self) -> None:
        while not self._ended.wait(0.3):
            self.look()


@dataclass
class Box:
    server: Server
    proxy: CuttableProxy


@dataclass
class FaultFarm:
    """`folder` takes journals, and the boxes' folders. Boxes reach the tracker through a proxy that can be cut."""

    folder: Path
    seed: int = 0
    boxes: dict[str, Box] = field(default_factory=dict)
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    box_options: dict[str, dict[str, object]] = field(default_factory=dict)
    relay: Relay | None = None

    def __post_init__(self) -> None:
        self.mark = secrets.token_hex(8)
        os.environ[_MARK] = self.mark  # inherited by all that is started, so that orphans can be found
        self.tracker = Tracker(port=free_port(), timing=TIMING, silent=True)
        self.port = self.tracker.port
        self.watch = LogWatch(self.port)
        self._starts = 0

    # --- its parts ----------------------------------------------------------------------------------------

    def start_box(self, name: str, **options: object) -> None:
        options = self.box_options.setdefault(name, options)
        proxy = self.boxes[name].proxy if name in self.boxes else CuttableProxy(self.port)
        server = Server(
            port=0, tracker_addr=("127.0.0.1", proxy.port), key="cpu", name=name, silent=True,
            **{"folder": str(self.folder), **options},
        )  # fmt: skip
        self.boxes[name] = Box(server, proxy)

    def kill_box(self, name: str) -> None:
        """SIGKILL; it can be started again."""
        os.kill(self.boxes[name].server.pid, signal.SIGKILL)
        self.boxes[name].server.terminate()

    def kill_executor(self, name: str) -> None:
        for pid in wardens(self.boxes[name].server.pid)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def restart_tracker(self) -> None:
        self.watch.look()
        os.kill(self.tracker.pid, signal.SIGKILL)
        self.tracker.terminate()
        self.watch.another_run()
        self.tracker = Tracker(port=self.port, timing=TIMING, silent=True)

    def start_relay(self) -> str:
        """Again, where it was, if there was one. For a box's options: its address."""
        self.relay = start_relay(self.relay.port if self.relay is not None else 0)
        return f"127.0.0.1:{self.relay.port}"

    def kill_relay(self) -> None:
        """SIGKILL; it can be started again."""
        assert self.relay is not None
        os.kill(self.relay.pid, signal.SIGKILL)
        self.relay.terminate()

    def journal(self, name: str) -> Path:
        return self.folder / f"{name}.journal"

    def start_worker(self, name: str) -> None:
        self._starts += 1
        arguments = [str(self.port), name, str(self.journal(name)), str(self.seed * 1000 + self._starts)]
        env = {**os.environ, "PYTHONPATH": python_path()}
        command = [sys.executable, "-m", "tests.kit.farm.fault_worker", *arguments]
        self.workers[name] = subprocess.Popen(command, env=env)

    def kill_worker(self, name: str) -> None:
        self.workers[name].kill()
        self.workers[name].wait()

    def connect(self, user: str = "ann") -> TrackerSession:
        return connect_tracker("127.0.0.1", self.port, user=user, timeout_s=60)

    def mend(self) -> None:
        """Start again what a test left dead."""
        if not self.tracker.is_alive:
            self.restart_tracker()
        for name, box in self.boxes.items():
            if not box.server.is_alive:
                box.server.terminate()
                self.start_box(name)
        for name, worker in self.workers.items():
            if worker.poll() is not None:
                self.start_worker(name)

    # --- what must hold -----------------------------------------------------------------------------------

    def acknowledged(self, name: str) -> int:
        """Results a worker says it got; its journal must be whole and free of violations."""
        text = self.journal(name).read_text() if self.journal(name).exists() else ""
        lines = [line.split(maxsplit=2) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        assert [int(line[0]) for line in lines] == list(range(len(lines))), f"{name} lost lines of its journal"
        broken = [line[2] for line in lines if line[1] == "VIOLATION"]
        assert not broken, f"{name}: {broken[0]}"
        return sum(line[1] == "ack" for line in lines)

    def everyone_goes_on(self) -> None:
        """Every worker gets something done from now on."""
        before = {name: self.acknowledged(name) for name in self.workers}
        for name in self.workers:
            until(lambda name=name: self.acknowledged(name) > before[name], f"{name} gets on")

    def settle(self) -> None:
        """Stop the workers, one by force; then every lease is returned or expired, and every device is ready."""
        for number, worker in enumerate(self.workers.values()):
            worker.send_signal(signal.SIGCONT)
            worker.send_signal(signal.SIGKILL if number == 0 else signal.SIGTERM)
        for name, worker in self.workers.items():
            try:
                worker.wait(60.0)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            self.acknowledged(name)
        with self.connect("settle") as session:
            until(lambda: _all_returned(session, set(self.boxes)), "every lease is returned and every device ready")
        self.watch.look()
        assert not self.watch.problems, self.watch.problems
        assert not self.watch.holders, f"not ended in the log: {self.watch.holders}"

    def close(self) -> None:
        """End everything, and see that nothing is left."""
        self.watch.close()
        for worker in self.workers.values():
            worker.kill()
            worker.wait()
        for box in self.boxes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(box.server.pid, signal.SIGCONT)
            box.server.terminate()
            box.proxy.close()
        if self.relay is not None:
            self.relay.terminate()
        self.tracker.terminate()
        del os.environ[_MARK]

    def no_orphans(self) -> None:
        """After `close`: no process that anything here started is left, and no server's folder."""
        until(lambda: not marked(self.mark), "every process is gone", 60.0)


@contextlib.contextmanager
def fault_farm(folder: Path, *names: str, seed: int = 0) -> Iterator[FaultFarm]:
    """A farm with boxes `names`. On leaving, leases, log, journals and processes are checked."""
    folder.chmod(0o755)  # executors may run as another user
    farm = FaultFarm(folder, seed)
    try:
        for name in names:
            farm.start_box(name)
        with farm.connect("start") as session:
            until(lambda: _all_returned(session, set(names)), "all boxes are there")
        yield farm
        farm.settle()
    finally:
        farm.close()
    farm.no_orphans()


def _all_returned(session: TrackerSession, boxes: set[str]) -> bool:
    try:
        devices = session.devices()
        queued = sum(queue.pending for queue in session.queue())
    except RPCError:
        return False
    return {d.box for d in devices if d.state == "ready" and d.lease is None} == boxes and not queued


def marked(mark: str) -> list[int]:
    """Processes that carry the mark in their environment, zombies left out; not this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"{_MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def run_soak(arguments: Sequence[str], longest_s: float, title: str, soak: Callable[[float, int], None]) -> int:
    """Run `soak(seconds, seed)`, both from the command line, and return the exit status."""
    seconds = min(float(arguments[0]) if arguments else 120.0, longest_s)
    seed = int(arguments[1]) if len(arguments) > 1 else random.randrange(10_000)
    print(f"{title} {seconds:g} s, seed {seed}", flush=True)
    try:
        soak(seconds, seed)
    except AssertionError as error:
        print(f"FAILED (seed {seed}): {error}", flush=True)
        return 1
    return 0
