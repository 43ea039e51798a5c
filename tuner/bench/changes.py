"""Find out whether a kernel on a device became slower or faster, by a fence around its series' end.

A series is a kernel's times on one device, run after run. Fitting steps finds its steady stretches. A new time is
suspect if it lies outside a fence around the median of the last one. The fence's width is the series' own noise (the
median absolute deviation, so single outliers do not widen it), and never below the least reported effect. A
suspicion is confirmed first. The kernel is measured again at once, up to five times, and four of these have to be
outside on the same side. Everything is done with logarithms, so that times of any size are alike.
`benchmarks/changes.py` has the rates of false alarms and of changes found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

LEAST_EFFECT = 0.03
"""Relative change below which nothing is said, however steady the series."""
LEAST_HISTORY = 5
"""Results before a series is judged: fewer do not tell its noise."""
WINDOW = 60
"""Results of a series that are looked at."""
RERUNS = 5
"""How often a suspect is measured again at most."""

_QUORUM = 4  # reruns outside the fence that make a change
_SUSPECT_SIGMAS = 2.5
_STEP_SIGMAS = 4.0
_NOISE_FLOOR = 0.004
_TAIL = 3  # results that make a stretch
_TO_SIGMA = 1.4826


class ChangeKind(StrEnum):
    """NEW: too little to compare with yet."""

    NEW = "new"
    STEADY = "steady"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True)
class Judgement:
    """A time compared with its series.

    `ratio` is the time over the `baseline` (seconds, the median of `count` results). `fence` is the relative change
    that is still allowed.
    """

    kind: ChangeKind
    ratio: float
    fence: float
    baseline: float
    count: int

    @property
    def changed(self) -> bool:
        return self.kind in (ChangeKind.SLOWER, ChangeKind.FASTER)


def judge(history: Sequence[float], cost: float) -> Judgement:
    """How `cost` stands to the times before it, oldest first, all in seconds."""
    if len(history) < LEAST_HISTORY:
        baseline = float(np.median(history)) if history else cost
        return Judgement(ChangeKind.NEW, cost / baseline, float("inf"), baseline, len(history))
    logs = np.log(np.asarray(history[-WINDOW:], dtype=float))
    steps = find_steps(logs)
    last = logs[steps[-1] if steps else 0 :]
    baseline = float(np.median(last))
    fence = _fence(logs, steps, len(last))
    change = float(np.log(cost)) - baseline
    kind = ChangeKind.STEADY if abs(change) <= fence else ChangeKind.SLOWER if change > 0 else ChangeKind.FASTER
    return Judgement(kind, float(np.exp(change)), float(np.expm1(fence)), float(np.exp(baseline)), len(last))


def confirmed(suspicion: Judgement, again: Sequence[float]) -> bool | None:
    """Whether the times measured `again` confirm a suspicion; None while more of them are needed."""
    side = 1.0 if suspicion.kind is ChangeKind.SLOWER else -1.0
    width = np.log1p(suspicion.fence)
    outside = sum(side * float(np.log(cost / suspicion.baseline)) > width for cost in again)
    if outside >= _QUORUM:
        return True
    return False if len(again) - outside > RERUNS - _QUORUM else None


def find_steps(logs: Sequence[float] | np.ndarray) -> tuple[int, ...]:
    """Return where a series of logarithms goes to another level.

    It gives the indices at which a new stretch begins, in ascending order. It is binary segmentation (Scott and
    Knott 1974) with medians; a step has to leave the fence of the stretch it ends.
    """
    values = np.asarray(logs, dtype=float)
    found: list[int] = []

    def divide(start: int, end: int) -> None:
        at = _best_step(values[start:end])
        if at is None:
            return
        divide(start, start + at)
        found.append(start + at)
        divide(start + at, end)

    divide(0, len(values))
    return tuple(found)


def _best_step(values: np.ndarray) -> int | None:
    """The step that explains most of the squared deviation, if it exceeds the remaining noise."""
    count = len(values)
    if count < 2 * _TAIL:
        return None
    sums = np.cumsum(values)
    at = np.arange(_TAIL, count - _TAIL + 1)
    left, right = sums[at - 1] / at, (sums[-1] - sums[at - 1]) / (count - at)
    gain = at * (count - at) / count * (left - right) ** 2
    best = int(at[np.argmax(gain)])
    before, after = values[:best], values[best:]
    noise = _noise(np.concatenate([before - np.median(before), after - np.median(after)]))
    step = abs(float(np.median(after) - np.median(before)))
    clear = step > max(np.log1p(LEAST_EFFECT), _STEP_SIGMAS * noise * np.sqrt(1 / len(before) + 1 / len(after)))
    return best if clear and step > 2 * noise else None


def _noise(residuals: np.ndarray) -> float:
    """Standard deviation, from the median absolute deviation."""
    return max(_NOISE_FLOOR, float(np.median(np.abs(residuals))) * _TO_SIGMA)


def _fence(logs: np.ndarray, steps: Sequence[int], last: int) -> float:
    """The fence's half-width around the last level.
    All stretches determine the noise; few results make it wider."""
    residuals = np.concatenate([part - np.median(part) for part in np.split(logs, list(steps))])
    noise = _noise(residuals) * (1 + 4 / len(residuals))
    return max(float(np.log1p(LEAST_EFFECT)), _SUSPECT_SIGMAS * noise * float(np.sqrt(1 + 1 / last)))
