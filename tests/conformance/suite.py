"""Runs cases in processes of their own: a crash or a hang costs one case, and is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests.kit.places import ROOT, python_path

CASE_S = 300.0
"""A case that takes longer hangs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case. `stage` is "" if it passed, else "prepare", "run", "other values", "rounding" or
    "crash".

    `needs_values` says what an artifact without the inputs' values lacks; "" where one artifact serves every value.
    `wrong` is a result that differs; other misses end with an error.
    """

    name: str
    stage: str
    why: str
    needs_values: str = ""
    wrong: bool = False
    error: str = ""
    seconds: float = 0.0
    cpu: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the case passes, recompiled if need be."""
        return not self.stage

    @property
    def passed_once_compiled(self) -> bool:
        """Whether the artifact that `prepare` makes passes."""
        return not self.stage and not self.needs_values


class _Worker:
    """A process that runs cases, started again when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[str] | None = None
        self._lines: SimpleQueue[str] = SimpleQueue()

    def run(self, name: str) -> Outcome:
        """Run one case."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.write(name + "\n")
        process.stdin.flush()
        while True:
            try:
                line = self._lines.get(timeout=CASE_S)
            except Empty:
                self.close()
                return Outcome(name, "crash", f"it took more than {CASE_S:.0f} s")
            if not line:
                status = process.wait()
                self._process = None
                return Outcome(name, "crash", f"the process ended with {status}")
            found: dict[str, Any] = json.loads(line)
            if "begin" not in found:
                return Outcome(**found)

    def _start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.worker", str(self._path)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": python_path()},
        )  # fmt: skip
        lines: SimpleQueue[str] = SimpleQueue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        self._process, self._lines = process, lines

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def run(path: Path, names: Iterable[str], jobs: int, tell: Callable[[Outcome], None] = lambda _: None) -> list[Outcome]:
    """Run the cases `names` of a file, in `jobs` processes at once; outcomes by name."""
    waiting: SimpleQueue[str] = SimpleQueue()
    for name in names:
        waiting.put(name)
    found: list[Outcome] = []

    def work() -> None:
        worker = _Worker(path)
        try:
            while True:
                try:
                    name = waiting.get_nowait()
                except Empty:
                    return
                outcome = worker.run(name)
                tell(outcome)
                found.append(outcome)
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found, key=lambda outcome: outcome.name)
