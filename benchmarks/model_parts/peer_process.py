"""A process of a runtime that answers each line it is sent by a line of JSON: what a run took."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class PeerProcess:
    """A runtime in a process of its own. `ready` is its first answer: None if it failed to start.

    It writes its results to `output`. `samples` are its answers since.
    """

    def __init__(self, title: str, command: Sequence[object], output: Path) -> None:
        self.title = title
        self.samples: list[dict[str, float]] = []
        self._output = output
        self._process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.ready = self._answer()

    def sample(self) -> None:
        """Have it run once."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found = self._answer()
        if found is not None:
            self.samples.append(found)

    def close(self) -> None:
        self._process.communicate()

    def compared(self, wanted: NDArray[np.float64], tolerance: float) -> str:
        """The largest difference between its results and `wanted`, of the largest of these, as text."""
        error = float(abs(np.load(self._output).astype("float64") - wanted).max() / abs(wanted).max())
        return f"{error:.0e}" + ("" if error <= tolerance else ", wrong")

    def _answer(self) -> dict[str, float] | None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stdout:  # runtimes log there, too
            if line.startswith("{"):
                found: dict[str, float] = json.loads(line)
                return found
        print(f"{self.title}: {self._process.stderr.read().strip().splitlines()[-1:]}", file=sys.stderr)
        return None


def take_turns(runtimes: Sequence[PeerProcess], rounds: int) -> None:
    """Have each run once a round, in another order each time, so that none always follows the same one."""
    order = np.random.default_rng(0)
    for _ in range(rounds):
        for place in order.permutation(len(runtimes)):
            runtimes[place].sample()
