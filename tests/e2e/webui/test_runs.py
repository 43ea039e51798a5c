"""Runs begun over the REST API, for real: `tunefarm web`, a tracker, two device servers and the tuning processes that
the web app starts, killed in their turn."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from compiler.errors import TunefarmError
from rpc_server.box.server import Server
from tests.kit.cli.farm import CliFarm, Process, until
from tests.kit.ports import free_port
from tracker.farm_parts import Timing
from tracker.server import Tracker
from tunefarm.client import Client

KERNEL = "matmul:32,32,32:float32"
LONG = 20_000  # trials that no test waits for
KEYS = ("left", "right")
TIMING = Timing(late_s=60.0, box_timeout_s=60.0, grace_s=5.0)  # tuners die here, and devices never


@pytest.fixture
def tracker() -> Iterator[Tracker]:
    """Yield a tracker with a device of each key."""
    with Tracker("127.0.0.1", port=0, silent=True, timing=TIMING) as running:
        address = ("127.0.0.1", running.port)
        servers = [Server("127.0.0.1", port=0, silent=True, tracker_addr=address, key=key) for key in KEYS]
        try:
            yield running
        finally:
            for server in servers:
                server.terminate()


@pytest.fixture
def farm(farm: CliFarm) -> Iterator[CliFarm]:
    try:
        yield farm
    finally:
        for process in tuners(farm):  # they outlive a web app that is killed
            process.kill()


def tuners(farm: CliFarm, run_id: int | None = None) -> list[psutil.Process]:
    """The tuning processes on the farm's store, of one run or of all."""
    return [p for p in psutil.process_iter() if is_tuner(p, farm, run_id)]


def is_tuner(process: psutil.Process, farm: CliFarm, run_id: int | None) -> bool:
    try:
        words = process.cmdline()
        if "--if-queued" not in words or process.environ().get("TUNEFARM_DB") != farm.db:
            return False
        return run_id is None or words[words.index("--resume") + 1] == str(run_id)
    except psutil.Error:  # it is gone
        return False


class Web:
    """The web app, which may be killed and started again at the same port."""

    def __init__(self, farm: CliFarm, tracker: Tracker) -> None:
        self._farm, self._tracker = farm, tracker
        self._life = 0
        self.port = free_port()
        self.process = self._start()
        self.client = Client(f"http://127.0.0.1:{self.port}", timeout_s=60)

    def _start(self) -> Process:
        self._life += 1
        args = ("web", "--db", self._farm.db, "--tracker", f"127.0.0.1:{self._tracker.port}")
        process, self.port = self._farm.serve(f"web-{self._life}", *args, port=self.port)
        return process

    def kill(self) -> None:
        self.process.end(signal.SIGKILL)

    def start_again(self) -> None:
        self.process = self._start()

    def run(self, run_id: int) -> Any:
        return self.client.get(f"/api/v1/runs/{run_id}")

    def wait(self, run_id: int, state: str, trials: int = 0) -> Any:
        """The run once it is in that state and has so many trials."""

        def there() -> bool:
            run = self.run(run_id)
            return run["state"] == state and run["trials"] >= trials

        until(there, lambda: f"{self.run(run_id)}\n{self.process.text()}")
        return self.run(run_id)

    def leases(self) -> list[Any]:
        found: list[Any] = self.client.get("/api/v1/leases")["leases"]
        return found


def events(web: Web, run_id: int, after: int) -> Iterator[tuple[str, Any]]:
    """A run's events from trial `after` on, as a client that was there before asks for them."""
    url = f"http://127.0.0.1:{web.port}/api/v1/runs/{run_id}/events"
    with httpx.stream("GET", url, headers={"Last-Event-ID": str(after)}, timeout=60) as response:
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])


def watch(web: Web, run_id: int, after: int, until_trial: int) -> list[str]:
    """Follow the run until that trial; trials come in order, none is left out. The names of the events."""
    seen: list[str] = []
    for name, data in events(web, run_id, after):
        seen.append(name)
        if name == "trials":
            assert [trial["sequence"] for trial in data] == list(range(after + 1, after + 1 + len(data)))
            after = data[-1]["sequence"]
        if after >= until_trial and "progress" in seen:
            break
    return seen


def test_runs_outlive_what_is_killed_around_them(farm: CliFarm, tracker: Tracker) -> None:
    web = Web(farm, tracker)
    until(lambda: sum(d["state"] == "ready" for d in web.client.get("/api/v1/devices")["devices"]) == 2)
    one, two = (web.client.start_run([KERNEL], key=key, trials=LONG, seed=i).id for i, key in enumerate(KEYS))
    for run in (one, two):  # at once, each on its device
        assert {"trials", "progress"} <= set(watch(web, run, 0, 4))
    until(lambda: len(web.leases()) == 2)
    with pytest.raises(TunefarmError, match="is running already"):
        web.client.resume_run(one)

    # the tuner is killed: the web app saw it end
    (tuner,) = tuners(farm, two)
    tuner.kill()
    killed = web.wait(two, "interrupted")
    assert killed["message"] == "the tuning process was killed by SIGKILL"
    assert web.client.resume_run(two).state == "queued"
    seen = web.wait(two, "running", killed["trials"] + 2)["trials"]

    # the web app is killed: the runs go on, and one whose tuner dies meanwhile is found when it is back
    web.kill()
    (first,), (second,) = tuners(farm, one), tuners(farm, two)
    first.kill()
    web.start_again()
    assert "is gone" in web.wait(one, "interrupted")["message"]
    assert second.is_running()
    watch(web, two, seen, seen + 3)

    # cancelled: the tuner ends by itself and gives its device back
    web.client.cancel_run(two)
    assert web.wait(two, "interrupted")["message"] == "stopped by the web app"
    until(lambda: not web.leases(), lambda: str(web.leases()))
    until(lambda: not tuners(farm))
    with pytest.raises(TunefarmError, match="has ended already"):
        web.client.cancel_run(two)

    # and on to its end, on a smaller budget
    done = web.run(one)["trials"]
    web.client.resume_run(one, trials=done + 3)
    assert [name for name, _ in events(web, one, 0)][-2:] == ["progress", "end"]
    finished = web.wait(one, "finished")
    assert (finished["trials"], finished["budget"]) == (done + 3, done + 3)
    until(lambda: not web.leases())
    with pytest.raises(TunefarmError, match="is finished"):
        web.client.resume_run(one)
    assert web.process.end(signal.SIGTERM) == 0
    assert "Traceback" not in web.process.text()


def test_a_run_that_cannot_begin_says_why(farm: CliFarm, tracker: Tracker) -> None:
    web = Web(farm, tracker)
    with pytest.raises(TunefarmError, match="no device of the tracker that matches"):
        web.client.start_run([KERNEL], key="nobody", trials=2)
    run = web.client.start_run([KERNEL], key="nobody", target="llvm -mcpu=x86-64-v3", trials=2).id
    assert "has no device that matches 'nobody'" in web.wait(run, "failed")["message"]
    assert os.fspath(farm.folder) not in web.run(run)["command"]
