"""Robust statistics of timings, which scatter mostly upwards: medians, their intervals, outliers.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, sqrt
from statistics import median, stdev

_STUDENT_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}  # two-sided, by degrees of freedom
_OUTLIER_SCORE = 3.5
_NORMAL_MAD = 0.6745  # the median absolute deviation of a normal distribution of deviation 1


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and the bounds it lies between with 95 % confidence (seconds)."""

    low: float
    median: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


def summarise(samples: Sequence[float]) -> tuple[float, float]:
    """Median and median absolute deviation. `samples` is not empty."""
    middle = median(samples)
    return middle, median(abs(s - middle) for s in samples)


def median_interval(samples: Sequence[float]) -> Interval:
    """The 95 % interval of the median of `samples` (at least one; a single one has no width).

    From six samples on it lies between order statistics, which assumes nothing of the distribution (Conover, Practical
    Nonparametric Statistics, 3.2). With fewer it is Student's t around the median, limited to the range of the samples.
    It is never below zero.
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    count, middle = len(ordered), median(ordered)
    match count:
        case 1:
            return Interval(middle, middle, middle)
        case 2 | 3 | 4 | 5:
            half = _STUDENT_95[count - 1] * stdev(ordered) / sqrt(count)
            return Interval(max(0.0, min(ordered[0], middle - half)), middle, max(ordered[-1], middle + half))
        case _:
            rank = _median_rank(count)
            return Interval(max(0.0, ordered[rank]), middle, ordered[count - 1 - rank])


@lru_cache(maxsize=64)
def _median_rank(count: int) -> int:
    """The largest r for which order statistics r and count-1-r (from 0) bracket the median with 95 %."""
    tail = 0
    for rank in range(count // 2):
        tail += comb(count, rank)  # whole numbers: 2.0**count overflows past a thousand samples
        if 40 * tail > 1 << count:
            return max(rank - 1, 0)
    return max(count // 2 - 1, 0)


def outliers(samples: Sequence[float]) -> tuple[int, ...]:
    """Positions of samples far from the median: a modified z-score above 3.5 (Iglewicz and Hoaglin, 1993).

    If more than half of the samples are equal, the mean absolute deviation replaces the median one.
    """
    if len(samples) < 3:
        return ()
    middle, deviation = summarise(samples)
    scale = deviation / _NORMAL_MAD
    if scale == 0:
        scale = 1.253314 * sum(abs(s - middle) for s in samples) / len(samples)
    if scale == 0:
        return ()
    return tuple(i for i, s in enumerate(samples) if abs(s - middle) > _OUTLIER_SCORE * scale)
