"""A tracker and boxes as processes of their own, for tests that lend and use devices, and kill what they like."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from compiler.runtime.core import ndarray as nd
from rpc_server.box.server import Server
from rpc_server.client.session import RPCSession
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.places import ROOT
from tests.kit.ports import free_port
from tracker.client import TrackerSession, connect_tracker
from tracker.farm_parts import Timing
from tracker.log import LogKind
from tracker.server import Tracker

PATIENCE_S = 120.0
CALM = Timing(late_s=60.0, box_timeout_s=60.0, grace_s=60.0, accept_s=30.0, revoke_s=30.0)
"""Where nobody dies: on a busy machine, whoever is slow is not taken for dead."""
WATCHFUL = Timing(late_s=4.0, box_timeout_s=6.0, accept_s=10.0, grace_s=6.0, settle_s=12.0)
"""Where somebody does: it is noticed soon, but not before a busy machine got round to everyone else."""


@dataclass
class Farm:
    timing: Timing
    tracker: Tracker
    boxes: dict[str, Server] = field(default_factory=dict)
    sessions: list[TrackerSession] = field(default_factory=list)
    killed: list[Server] = field(default_factory=list)

    def start_box(self, name: str, key: str = "cpu", **options: object) -> Server:
        box = Server(port=0, tracker_addr=("127.0.0.1", self.tracker.port), key=key, name=name, silent=True, **options)
        self.boxes[name] = box
        return box

    def connect(self, user: str = "ann") -> TrackerSession:
        session = connect_tracker("127.0.0.1", self.tracker.port, user=user, timeout_s=PATIENCE_S)
        self.sessions.append(session)
        return session

    def restart_tracker(self) -> None:
        os.kill(self.tracker.pid, signal.SIGKILL)
        self.tracker.terminate()
        self.tracker = Tracker(port=self.tracker.port, timing=self.timing, silent=True)

    def kill_box(self, name: str) -> None:
        box = self.boxes.pop(name)
        os.kill(box.pid, signal.SIGKILL)
        self.killed.append(box)

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        for box in [*self.boxes.values(), *self.killed]:
            box.terminate()
        self.tracker.terminate()


@contextlib.contextmanager
def running(*names: str, timing: Timing) -> Iterator[Farm]:
    farm = Farm(timing, Tracker(port=free_port(), timing=timing, silent=True))
    try:
        for name in names:
            farm.start_box(name)
        watcher = farm.connect("watcher")
        until(lambda: {d.box for d in watcher.devices() if d.state == "ready"} == set(names))
        yield farm
    finally:
        farm.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def states(session: TrackerSession) -> dict[str, str]:
    return {device.id: device.state for device in session.devices()}


def use(remote: RPCSession) -> None:
    """Upload a kernel, run it and look at what it did."""
    remote.upload(kernel("add_one", 16).to_bytes(), "add_one.tunefarm")
    module = remote.load_module("add_one.tunefarm")
    given = np.arange(16, dtype="float32")
    a, b = nd.array(given, remote.cpu()), nd.empty((16,), "float32", remote.cpu())
    module["kernel"](a, b)
    np.testing.assert_array_equal(b.numpy(), given + 1)


def check_log(session: TrackerSession) -> None:
    """From granted or restored to ended, one device has one lease."""
    holders: dict[str, str] = {}
    for event in session.events(limit=100_000):
        if event.kind in (LogKind.GRANTED, LogKind.RESTORED):
            assert event.device not in holders
            holders[event.device] = event.lease
        elif event.kind == LogKind.ENDED:
            assert holders.pop(event.device) == event.lease


def client_process(farm: Farm, then: str) -> subprocess.Popen[str]:
    """Another process that requests a device, says so, and does `then`."""
    code = (
        "import sys, time\n"
        "from tracker.client import connect_tracker\n"
        f"session = connect_tracker('127.0.0.1', {farm.tracker.port}, user='other', timeout_s=60)\n"
        "remote = session.request('cpu')\n"
        "print(remote.box, flush=True)\n"
        f"{then}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() in farm.boxes
    return process
