"""What a tuning run comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.engine.progress import Snapshot
from tuner.engine.task_state import TaskState
from tuner.search.base import Proposal


@dataclass(frozen=True)
class Best:
    """The fastest candidate of a task after the finals; `cost` in seconds per call."""

    candidate: Proposal
    cost: float


@dataclass(frozen=True)
class Outcome:
    """What a run came to; `best` has one entry for each task, None where nothing was measured."""

    snapshot: Snapshot
    best: tuple[Best | None, ...]


def bests(tasks: Sequence[TaskState]) -> tuple[Best | None, ...]:
    """The fastest of each task so far."""
    return tuple(Best(t.best, t.best_cost) if t.best is not None and t.best_cost is not None else None for t in tasks)
