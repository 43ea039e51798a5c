"""Which of several measured candidates is best. Pure: evidence in, a choice out.

Times of one kernel drift between runs and scatter within one, mostly upwards. Two rules keep the served
config from changing for no reason:

- a candidate of a later run replaces the incumbent only when it is clearly faster: the 95 % intervals of the
  two medians do not overlap (a tie keeps the incumbent);
- within the run that first measured them, candidates were measured side by side, and the lower median of all
  samples wins, since nothing is served yet that could churn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from math import comb, sqrt
from statistics import median, stdev

DRIFT = 0.01
"""Half-width, relative, below which an interval is never taken: what a machine drifts between measurements
that each look tight."""
SINGLE_SAMPLE = 0.10
"""Relative half-width of a single sample, of whose scatter nothing is known."""

_STUDENT_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}  # two-sided, by degrees of freedom


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and the bounds it lies between with 95 % confidence (seconds)."""

    low: float
    median: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True)
class Evidence:
    """All verified samples of one candidate within one tuning key. `run_id` is the first run that measured it,
    `trial_id` its first trial."""

    candidate_id: int
    run_id: int
    trial_id: int
    samples: tuple[float, ...]

    @property
    def interval(self) -> Interval:
        return interval(self.samples)


class Verdict(StrEnum):
    FASTER = "faster"
    TIE = "tie"
    SLOWER = "slower"


def summarise(samples: Sequence[float]) -> tuple[float, float]:
    """Median and median absolute deviation. `samples` is not empty."""
    middle = median(samples)
    return middle, median(abs(s - middle) for s in samples)


def interval(samples: Sequence[float]) -> Interval:
    """The 95 % interval of the median of `samples` (at least one).

    From six samples on, between order statistics, which assumes nothing of the distribution
    (Conover, Practical Nonparametric Statistics, 3.2). With fewer, Student's t around the median and never
    inside the range of the samples. Never narrower than `DRIFT` allows, and never below zero.
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    count, middle = len(ordered), median(ordered)
    match count:
        case 1:
            low = high = middle
            least = SINGLE_SAMPLE
        case 2 | 3 | 4 | 5:
            half = _STUDENT_95[count - 1] * stdev(ordered) / sqrt(count)
            low, high = min(ordered[0], middle - half), max(ordered[-1], middle + half)
            least = DRIFT
        case _:
            rank = _median_rank(count)
            low, high = ordered[rank], ordered[count - 1 - rank]
            least = DRIFT
    return Interval(max(0.0, min(low, middle * (1 - least))), middle, max(high, middle * (1 + least)))


def _median_rank(count: int) -> int:
    """The largest r for which order statistics r and count-1-r (from 0) bracket the median with 95 %."""
    tail = 0.0
    for rank in range(count // 2):
        tail += comb(count, rank) / 2**count
        if tail > 0.025:
            return max(rank - 1, 0)
    return max(count // 2 - 1, 0)


def compare(incumbent: Interval, challenger: Interval) -> Verdict:
    """How the challenger stands to the incumbent: intervals that overlap are a tie."""
    if incumbent.overlaps(challenger):
        return Verdict.TIE
    return Verdict.FASTER if challenger.median < incumbent.median else Verdict.SLOWER


def elect(candidates: Sequence[Evidence]) -> Evidence:
    """The best of `candidates` (at least one), by the two rules above: runs in order, each run's fastest
    candidate against the incumbent that the runs before left. The order given does not matter."""
    ordered = sorted(candidates, key=lambda e: (e.run_id, median(e.samples), e.trial_id))
    if not ordered:
        raise ValueError("no candidates")
    incumbent = ordered[0]
    for _, entries in groupby(ordered, key=lambda e: e.run_id):
        champion = next(entries)
        if champion is not incumbent and compare(incumbent.interval, champion.interval) is Verdict.FASTER:
            incumbent = champion
    return incumbent
