"""Which of several measured candidates is best. Pure: evidence in, a choice out.

Times of one kernel drift between runs and scatter within one, mostly upwards. Two rules keep the served
config from changing for no reason:

- a candidate of a later run replaces the incumbent only when it is clearly faster: the 95 % intervals of the
  two medians do not overlap (a tie keeps the incumbent);
- within the run that first measured them, candidates were measured side by side, and the lower median wins, since
  nothing is served yet that could churn. Those that were in the run's finals, in turns on one device, go before all
  others: the fastest of many that were measured once each is the luckiest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from statistics import median

from compiler.runtime.measure.statistics import Interval, median_interval

DRIFT = 0.01
"""Half-width, relative, below which an interval is never taken: what a machine drifts between measurements
that each look tight."""
SINGLE_SAMPLE = 0.10
"""Relative half-width of a single sample, of whose scatter nothing is known."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The verified samples of one candidate within one tuning key.
    They are those of finals where it was in any (`final`), else all. `run_id` is the first run that measured it,
    `trial_id` the first trial that `samples` come from."""

    candidate_id: int
    run_id: int
    trial_id: int
    samples: tuple[float, ...]
    final: bool = False

    @property
    def interval(self) -> Interval:
        return interval(self.samples)


class Verdict(StrEnum):
    FASTER = "faster"
    TIE = "tie"
    SLOWER = "slower"


def interval(samples: Sequence[float]) -> Interval:
    """The 95 % interval of the median of `samples` (at least one), widened to what a machine drifts.

    See `median_interval`. Never below zero.
    """
    found = median_interval(samples)
    least = SINGLE_SAMPLE if len(samples) == 1 else DRIFT
    low, high = found.median * (1 - least), found.median * (1 + least)
    return Interval(max(0.0, min(found.low, low)), found.median, max(found.high, high))


def compare(incumbent: Interval, challenger: Interval) -> Verdict:
    """How the challenger stands to the incumbent: intervals that overlap are a tie."""
    if incumbent.overlaps(challenger):
        return Verdict.TIE
    return Verdict.FASTER if challenger.median < incumbent.median else Verdict.SLOWER


def elect(candidates: Sequence[Evidence]) -> Evidence:
    """The best of `candidates` (at least one), by the two rules above.
    Runs are taken in order. Each run's fastest finalist, or candidate if it had no finals, is compared with the
    incumbent so far. The given order does not matter."""
    ordered = sorted(candidates, key=lambda e: (e.run_id, not e.final, median(e.samples), e.trial_id))
    if not ordered:
        raise ValueError("no candidates")
    incumbent = ordered[0]
    for _, entries in groupby(ordered, key=lambda e: e.run_id):
        champion = next(entries)
        if champion is not incumbent and compare(incumbent.interval, champion.interval) is Verdict.FASTER:
            incumbent = champion
    return incumbent
