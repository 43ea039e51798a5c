"""Real `tunefarm` processes for tests: each with its log, each stopped by its own pid.

The report of a test that fails has the logs of the processes that it, or a fixture of it, had started (conftest.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.cli.warm import Command
from tracker.client import connect_tracker

PATIENCE_S = 300.0
_SHOWN_LINES = 100

FARMS: list[CliFarm] = []
"""Those whose processes a failed test may have had to do with: all that run, and those that ended with it."""


@dataclass
class Process:
    name: str
    handle: Command
    log: Path

    def text(self) -> str:
        return self.log.read_text()

    def end(self, number: int = signal.SIGINT, patience: float = PATIENCE_S) -> int:
        """Send a signal and wait for the exit status."""
        self.handle.send_signal(number)
        return self.handle.wait(patience)


@dataclass(frozen=True)
class Done:
    """The output of a command."""

    stdout: str
    stderr: str


class CliFarm:
    """Processes of the command line, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = str(folder / "farm.db")
        self.processes: list[Process] = []
        self.stopped = False
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith("TUNEFARM_")}
        self.environ |= {"XDG_CONFIG_HOME": str(folder), "COLUMNS": "200"}

    def start(self, name: str, *args: str) -> Process:
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            handle = Command(args, self.folder, self.environ, out.fileno(), out.fileno())
        process = Process(name, handle, log)
        self.processes.append(process)
        return process

    def serve(self, name: str, *args: str, port: int = 0) -> tuple[Process, int]:
        """Start a service and wait until it listens; the process and its port."""
        file = self.folder / f"{name}.port"
        process = self.start(name, *args, "--port", str(port), "--port-file", str(file))
        until(lambda: file.exists() or process.handle.poll() is not None, lambda: process.text())
        assert process.handle.poll() is None, process.text()
        return process, int(file.read_text())

    def run(self, *args: str, code: int | tuple[int, ...] = 0, cwd: Path | None = None) -> Done:
        """Run a command to its end, which comes with one of these codes; in the farm's folder, or in `cwd`."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            command = Command(args, cwd or self.folder, self.environ, out.fileno(), err.fileno())
            try:
                ended = command.wait(PATIENCE_S)
            finally:
                command.kill()
            out.seek(0)
            err.seek(0)
            done = Done(out.read(), err.read())
        assert ended in ((code,) if isinstance(code, int) else code), done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def json(self, *args: str) -> Any:
        return json.loads(self.run(*args, "--json").stdout)

    def logs(self) -> Iterator[tuple[str, str]]:
        """Yield how each process is or was, and the end of what it said."""
        for process in self.processes:
            ended = process.handle.poll()
            state = "runs" if ended is None else f"ended with {ended}"
            lines = process.log.read_text(errors="replace").splitlines()
            left_out = len(lines) - _SHOWN_LINES
            said = [f"... {left_out} lines before"] * (left_out > 0) + lines[-_SHOWN_LINES:]
            yield f"{process.name}: tunefarm {' '.join(process.handle.args)} ({state})", "\n".join(said)

    def stop(self) -> None:
        self.stopped = True
        for process in reversed(self.processes):
            if process.handle.poll() is None:
                process.handle.terminate()
        for process in self.processes:
            try:
                process.handle.wait(60)
            except subprocess.TimeoutExpired:
                process.handle.kill()
                process.handle.wait()


@contextmanager
def cli_farm(folder: Path) -> Iterator[CliFarm]:
    farm = CliFarm(folder)
    FARMS.append(farm)
    try:
        yield farm
    finally:
        farm.stop()


def forget_stopped_farms() -> None:
    """No test after this one had to do with them."""
    FARMS[:] = [farm for farm in FARMS if not farm.stopped]


def device_states(tracker: str) -> list[str]:
    """Return the states of a tracker's devices. Asked in this process, it costs a fortieth of `tunefarm devices`."""
    host, _, port = tracker.rpartition(":")
    with connect_tracker(host, int(port), timeout_s=60) as session:
        return sorted(device.state for device in session.devices())


def until(true: Callable[[], Any], explain: Callable[[], str] = lambda: "", patience: float = PATIENCE_S) -> None:
    """Wait until `true()` is; an error with `explain()` when it never is."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.2)  # most conditions start a process or open a database
