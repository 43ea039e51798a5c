"""Two runs side by side: how each did on each workload, and which was faster."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.runtime.measure.statistics import Interval
from tuner.records.lookup.best import Verdict, compare
from tuner.records.model import Run, RunTask, Trial
from tuner.records.store import RecordStore


@dataclass(frozen=True)
class Side:
    """How one run did on a workload: its result with the 95 % interval, and its first trial.
    `final`: the result is of the run's finals, else of its search."""

    task: RunTask
    best: Interval
    trial: Trial
    final: bool


@dataclass(frozen=True)
class Pair:
    """One workload in both runs.

    `verdict`: whether B's best is faster or slower than A's, or a tie. None where one has none, or where they were
    measured on devices of other classes, whose times do not compare.
    """

    name: str
    flops: float | None
    target: str
    a: Side | None
    b: Side | None

    @property
    def comparable(self) -> bool:
        return self.a is not None and self.b is not None and self.a.trial.device_class == self.b.trial.device_class

    @property
    def verdict(self) -> Verdict | None:
        return compare(self.a.best, self.b.best) if self.a and self.b and self.comparable else None


def pairs_of(store: RecordStore, left: Run, right: Run) -> list[Pair]:
    """Workloads of both runs, those they share first."""
    ours = {(task.workload.key, task.target): task for task in left.tasks}
    theirs = {(task.workload.key, task.target): task for task in right.tasks}
    shared = [key for key in ours if key in theirs]
    alone = [key for key in [*ours, *theirs] if key not in shared]
    return [
        Pair(
            name=(ours.get(key) or theirs[key]).workload.name,
            flops=(ours.get(key) or theirs[key]).workload.flops,
            target=key[1],
            a=_side(store, left, ours.get(key)),
            b=_side(store, right, theirs.get(key)),
        )
        for key in [*shared, *alone]
    ]


def _side(store: RecordStore, run: Run, task: RunTask | None) -> Side | None:
    """None when the run does not have the workload, or no verified time of it."""
    if task is None:
        return None
    result = store.runs.task_result(run.id, task.id)
    if result is None:
        return None
    return Side(task, result.interval, store.trials.get(result.trial_id), result.final)
