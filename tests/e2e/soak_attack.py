"""Attackers beside honest clients on a farm of this machine: `python -m tests.e2e.soak_attack SECONDS [SEED]`.

The farm works undisturbed for a while, then with attackers: hostile peers of the tracker and of the boxes, floods of
connections, and clients whose kernels misbehave. No service may end, nothing that was acknowledged may be lost, and
what honest clients wait for a call and for the tracker is compared with before. Exit status 1 where that did not hold.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from tests.kit.farm.attacker import ATTACKS
from tests.kit.farm.fault_farm import FaultFarm, fault_farm, run_soak
from tests.kit.places import python_path
from tests.kit.process_tree import resident

LONGEST_S = 3600.0
QUIET = 0.25
"""The part of the time without attackers."""
MOST_SLOWER = 2.0
WORKERS = ("ann", "bob")


@dataclass
class Probe:
    """Asks a box and the tracker over and over, and keeps what each answer took, in seconds."""

    farm: FaultFarm
    port: int
    call: list[float] = field(default_factory=list)
    ask: list[float] = field(default_factory=list)
    problem: str = ""

    def run(self, ended: threading.Event) -> None:
        try:
            with open_session("127.0.0.1", self.port, wait_s=60, call_timeout=60.0) as session, (
                self.farm.connect("probe")
            ) as tracker:
                while not ended.wait(0.05):
                    began = time.perf_counter()
                    session.cpu().sync()  # has a deadline: by way of the supervisor
                    asked = time.perf_counter()
                    tracker.devices()
                    self.call.append(asked - began)
                    self.ask.append(time.perf_counter() - asked)
        except Exception as error:
            self.problem = f"an honest client's session ended: {error!r}"


@contextlib.contextmanager
def attackers(farm: FaultFarm, direct: int, seed: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of every kind, at the lowest priority: what is tried is services, not the machine's scheduler."""
    boxes = [box.server.port for box in farm.boxes.values()]
    aims = [(kind, farm.port) for kind in ("peers", "floods", "kernels")]
    aims += [("floods", direct), *[("clients", port) for port in (direct, *boxes)]]
    env = {**os.environ, "PYTHONPATH": python_path()}
    assert {kind for kind, _ in aims} == set(ATTACKS)
    running = []
    for number, (kind, port) in enumerate(aims):
        arguments = [kind, str(port), str(seed * 100 + number)]
        command = ["nice", "-n", "19", sys.executable, "-m", "tests.kit.farm.attacker", *arguments]
        running.append(subprocess.Popen(command, env=env))
    try:
        yield running
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


def measured(probe: Probe, seconds: float) -> dict[str, tuple[float, float]]:
    """Median and 95th percentile of what answers take in the next so many seconds."""
    probe.call.clear()
    probe.ask.clear()
    time.sleep(seconds)
    assert not probe.problem, probe.problem
    found = {}
    for name, times in (("call", list(probe.call)), ("tracker", list(probe.ask))):
        assert len(times) > 1, f"an honest client got {len(times)} answers in {seconds:g} s"
        found[name] = (statistics.median(times), statistics.quantiles(times, n=20)[-1])
    return found


def soak(seconds: float, seed: int) -> None:
    """Raises AssertionError when something did not hold; in a longer soak of an idle machine, the latency too."""
    # What others run on this machine meanwhile says more of the times than attackers do.
    strict = seconds >= 30 and os.getloadavg()[0] < (os.cpu_count() or 1) / 2
    ended = threading.Event()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tunefarm-soak-")))
        farm = stack.enter_context(fault_farm(folder, "one", "two", seed=seed))
        direct = stack.enter_context(Server(port=0, silent=True, sessions=4, folder=str(folder)))
        for name in WORKERS:
            farm.start_worker(name)
        farm.everyone_goes_on()
        probe = Probe(farm, direct.port)
        watcher = threading.Thread(target=probe.run, args=(ended,), daemon=True)
        watcher.start()
        services = {"tracker": farm.tracker, "box": direct, **{n: b.server for n, b in farm.boxes.items()}}
        before = {name: (service.pid, resident(service.pid)) for name, service in services.items()}
        try:
            quiet = measured(probe, max(1.0, seconds * QUIET))
            done = sum(farm.acknowledged(name) for name in WORKERS)
            with attackers(farm, direct.port, seed) as hostile:
                under = measured(probe, max(1.0, seconds * (1 - QUIET)))
                assert all(process.poll() is None for process in hostile), "an attacker gave up: see what it printed"
            for name, service in services.items():
                pid, size = before[name]
                assert service.is_alive, f"{name} ended"
                assert service.pid == pid, f"{name} ended, and was started again"
                grown = (resident(pid) - size) >> 20
                print(f"held: {name} runs on, and has grown by {grown} MiB")
                assert grown < 1024, f"{name} has grown by {grown} MiB"
        finally:
            ended.set()
            watcher.join(60)
        farm.everyone_goes_on()
        acknowledged = sum(farm.acknowledged(name) for name in WORKERS)
        lost = sum(farm.journal(name).read_text().count(" lost ") for name in WORKERS)
        print(f"held: {acknowledged} acknowledged results ({acknowledged - done} under attack), none lost; "
              f"{lost} times a client lost device or tracker")  # fmt: skip
    for name, (middle, late) in under.items():
        plain, plain_late = quiet[name]
        print(f"{name}: median {1e3 * plain:.2f} ms quiet, {1e3 * middle:.2f} ms under attack "
              f"({middle / plain:.1f} x); 95 % within {1e3 * plain_late:.1f} and {1e3 * late:.1f} ms")  # fmt: skip
        assert not strict or middle <= MOST_SLOWER * plain, f"{name}: {middle / plain:.1f} times as slow"


def main(arguments: list[str]) -> int:
    return run_soak(arguments, LONGEST_S, "attackers beside honest clients for", soak)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
