"""The result of a run for one kernel: the one definition that every table, page and reply goes by.

The result is the lowest median of all samples that a candidate has from the run's finals, in which candidates take
turns on one device. Without finals, it is the lowest median of a single search trial: the end of the run's curve.
The best config that the store serves may come from another run; see `tuner.records.lookup.best`.

A result is compared with `untuned_result`. The run's task keeps it, and everybody reads it there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from compiler.runtime.measure.statistics import Interval
from tuner.records.lookup.best import interval
from tuner.records.model import Trial, TrialPurpose


@dataclass(frozen=True, slots=True)
class MeasuredFinal:
    """One verified trial of a run that measured `candidate`; no baseline.
    `samples` are seconds, at least one."""

    trial_id: int
    candidate: str | int
    final: bool
    samples: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The fastest candidate of a task.
    `trial_id` is the first trial that `samples` come from; `final` says whether they are of the finals, else they
    are of one search trial."""

    trial_id: int
    candidate: str | int
    final: bool
    samples: tuple[float, ...]

    @property
    def cost(self) -> float:
        """Seconds a call."""
        return median(self.samples)

    @property
    def interval(self) -> Interval:
        return interval(self.samples)


def result_of(measured: Iterable[MeasuredFinal]) -> TaskResult | None:
    """Return a task's result; None if nothing was measured. Of equals the first measured wins."""
    ordered = sorted(measured, key=lambda one: one.trial_id)
    finals: dict[str | int, list[MeasuredFinal]] = defaultdict(list)
    for one in ordered:
        if one.final:
            finals[one.candidate].append(one)
    groups = list(finals.values()) or [[one] for one in ordered]
    found = [
        TaskResult(group[0].trial_id, group[0].candidate, bool(finals), tuple(s for one in group for s in one.samples))
        for group in groups
    ]
    return min(found, key=lambda result: result.cost, default=None)


def untuned_result(measured: Sequence[tuple[int | None, float]]) -> float | None:
    """Return the seconds a call of a task's baseline; None where it was not measured.

    `measured` are the place and the median of each measurement, in their order. The shortest at the first one's
    place counts, because other work during a measurement must not add to a speed-up.
    """
    return min((cost for place, cost in measured if place == measured[0][0]), default=None)


def measurements(trials: Iterable[Trial]) -> list[MeasuredFinal]:
    """Return the trials of one task that count for its result."""
    return [
        MeasuredFinal(trial.id, trial.digest, trial.purpose is TrialPurpose.FINAL, trial.samples)
        for trial in trials
        if trial.verified
        and not trial.suspect
        and trial.samples
        and trial.digest is not None
        and trial.purpose is not TrialPurpose.BASELINE
    ]
