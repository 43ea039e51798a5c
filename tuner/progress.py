"""What a watcher of a run sees: frozen snapshots, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rpc_server.measure import FailureKind


@dataclass(frozen=True)
class TaskProgress:
    """Costs are seconds per call; `flops` operations per call."""

    name: str
    done: int
    budget: int
    flops: float
    baseline_cost: float | None
    best_cost: float | None
    failures: Mapping[FailureKind, int]
    ended: bool
    error: str | None

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def speedup(self) -> float | None:
        if self.baseline_cost is None or self.best_cost is None:
            return None
        return self.baseline_cost / self.best_cost


@dataclass(frozen=True)
class Snapshot:
    """`rate` is search trials per second over the run so far; `eta_s` None until it can be guessed."""

    run_id: int
    elapsed_s: float
    devices: int
    tasks: tuple[TaskProgress, ...]
    rate: float
    eta_s: float | None

    @property
    def done(self) -> int:
        return sum(t.done for t in self.tasks)

    @property
    def budget(self) -> int:
        return sum(t.done if t.ended else t.budget for t in self.tasks)


class Watcher(Protocol):
    """Told of a run's progress, from the engine's thread; must not block."""

    def update(self, snapshot: Snapshot) -> None:
        """After every event that changed something."""

    def note(self, text: str) -> None:
        """Something worth a line: a device came or went, a task ended."""


class Silent:
    """A watcher that looks away."""

    def update(self, snapshot: Snapshot) -> None:
        pass

    def note(self, text: str) -> None:
        pass


def gflops(flops: float, cost: float | None) -> float | None:
    """Speed in 10⁹ operations per second, None without a cost."""
    return flops / cost / 1e9 if cost and flops else None
