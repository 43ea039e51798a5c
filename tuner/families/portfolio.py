"""Which few configs serve all sizes of a family best. Pure: measured times in, a choice out.

The loss of a set of configs is a geometric mean, weighted by traffic. It is of how much slower the set's best is at
each size than the fastest config measured there. Small sets are chosen exactly, by branch and bound. If that would
take too long, the choice is greedy and then improved by swaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuner.families.sizes import FamilyError

MOST_NODES = 200_000
_MISSING = 1e6
"""How many times slower than the best a size counts that no config of the set serves: worse than any real one."""

Costs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TimeTable:
    """Times of configs: `seconds[config][size]`.
    It is inf where the config was wrong or failed, nan where it was not measured."""

    seconds: Costs

    @staticmethod
    def of(cells: Mapping[tuple[int, int], float | None], configs: int, sizes: int) -> TimeTable:
        """The times by (config, size); None is a failure."""
        seconds = np.full((configs, sizes), np.nan)
        for (config, size), cost in cells.items():
            seconds[config, size] = math.inf if cost is None else cost
        return TimeTable(seconds)

    def __post_init__(self) -> None:
        if self.seconds.ndim != 2 or np.any(self.seconds <= 0):
            raise FamilyError("times are a table of configs and sizes, each above 0")

    @property
    def sound(self) -> npt.NDArray[np.bool_]:
        """Configs that failed nowhere."""
        failed = np.asarray(np.isinf(self.seconds).any(axis=1), dtype=np.bool_)
        return np.logical_not(failed)

    @property
    def best(self) -> Costs:
        """The lowest time at each size, of sound configs; nan where there is none."""
        return _lowest(self.seconds[self.sound])


@dataclass(frozen=True)
class Portfolio:
    """The configs that serve a family.
    `members` are places of configs, `picks` the fastest member at each size (None: no member serves it). `loss` is
    the weighted geometric mean of their times over each size's best. `exact`: no set of so many has a smaller loss."""

    members: tuple[int, ...]
    picks: tuple[int | None, ...]
    loss: float
    exact: bool


def choose_portfolio(
    timings: TimeTable, weights: Sequence[float], most: int, most_nodes: int = MOST_NODES
) -> Portfolio:
    """Choose up to `most` configs.

    A config that failed at one size is out. Of equal sets the smaller is chosen. Raises FamilyError for `most` below 1,
    weights that do not fit, and when every config is out.
    """
    if most < 1:
        raise FamilyError(f"a portfolio has at least 1 config, not {most}", hint="--portfolio 3")
    if len(weights) != timings.seconds.shape[1]:
        raise FamilyError(f"{timings.seconds.shape[1]} sizes have {len(weights)} weights")
    able = np.flatnonzero(timings.sound & ~np.isnan(timings.seconds).all(axis=1))
    if not len(able):
        raise FamilyError("no config works at every size it was tried at", hint="look at the failures of the run")
    share = np.asarray(weights, float) / sum(weights)
    served = ~np.isnan(timings.best)
    ratios = timings.seconds[able][:, served] / timings.best[served]
    losses = np.log(np.where(np.isnan(ratios), _MISSING, ratios)) * share[served]
    kept = _undominated(losses)
    begun = _swapped(losses[kept], _greedy(losses[kept], most))
    found, exact = _branch_and_bound(losses[kept], most, begun, most_nodes)
    members = tuple(sorted(int(able[kept[i]]) for i in found))
    picks = tuple(_fastest(timings.seconds, members, size) for size in range(timings.seconds.shape[1]))
    return Portfolio(members, picks, _loss(timings, share, picks), exact)


def _loss(timings: TimeTable, share: Costs, picks: Sequence[int | None]) -> float:
    best = timings.best
    of_size = [
        math.log(_MISSING if pick is None else timings.seconds[pick, size] / best[size])
        for size, pick in enumerate(picks)
        if not math.isnan(best[size])
    ]
    shares = [s for s, b in zip(share, best) if not math.isnan(b)]
    total = sum(shares)
    return math.exp(sum(lost * of_all for lost, of_all in zip(of_size, shares)) / total) if total else 1.0


def _fastest(seconds: Costs, members: Sequence[int], size: int) -> int | None:
    able = [member for member in members if not math.isnan(seconds[member, size])]
    return min(able, key=lambda member: seconds[member, size], default=None)


def _lowest(seconds: Costs) -> Costs:
    found = np.where(np.isnan(seconds), np.inf, seconds).min(axis=0, initial=np.inf)
    return np.where(np.isinf(found), np.nan, found)


def _undominated(losses: Costs) -> list[int]:
    """Rows that no other row equals or beats everywhere; of equal ones the first."""
    order = sorted(range(len(losses)), key=lambda row: (losses[row].sum(), row))
    kept: list[int] = []
    for row in order:
        if not any(np.all(losses[other] <= losses[row]) for other in kept):
            kept.append(row)
    return kept


def _greedy(losses: Costs, most: int) -> list[int]:
    chosen: list[int] = []
    now = np.full(losses.shape[1], np.inf)
    for _ in range(min(most, len(losses))):
        sums = np.minimum(losses, now).sum(axis=1)
        row = int(sums.argmin())
        if chosen and sums[row] >= now.sum():
            break
        chosen.append(row)
        now = np.minimum(now, losses[row])
    return chosen


def _swapped(losses: Costs, chosen: list[int]) -> list[int]:
    """Swap one member for another row as long as that lowers the loss."""
    chosen = list(chosen)
    best = losses[chosen].min(axis=0).sum()
    improved = True
    while improved:
        improved = False
        for place in range(len(chosen)):
            others = [row for at, row in enumerate(chosen) if at != place]
            rest = losses[others].min(axis=0, initial=np.inf)
            sums = np.minimum(losses, rest).sum(axis=1)
            row = int(sums.argmin())
            if sums[row] < best - 1e-12:
                chosen[place], best, improved = row, sums[row], True
    return chosen


def _branch_and_bound(losses: Costs, most: int, begun: list[int], most_nodes: int) -> tuple[list[int], bool]:
    """The best set of up to `most` rows, and whether that is certain. `losses` has its rows by total.

    A branch is bounded by the best of all rows to come, which no set can beat. It is left out if even that is no
    better than what is known.
    """
    count = len(losses)
    after = np.full((count + 1, losses.shape[1]), np.inf)
    for row in range(count - 1, -1, -1):
        after[row] = np.minimum(after[row + 1], losses[row])
    best_set, best = sorted(begun), float(losses[begun].min(axis=0).sum())
    nodes = 0
    waiting: list[tuple[int, tuple[int, ...], Costs]] = [(0, (), np.full(losses.shape[1], np.inf))]
    while waiting:
        row, chosen, now = waiting.pop()
        nodes += 1
        if nodes > most_nodes:
            return best_set, False
        if chosen:
            total = float(now.sum())
            if total < best - 1e-12 or (total <= best + 1e-12 and len(chosen) < len(best_set)):
                best_set, best = list(chosen), total
        if row == count or len(chosen) == most:
            continue
        bound = float(np.minimum(now, after[row]).sum())
        if bound > best + 1e-12 or (bound >= best - 1e-12 and len(chosen) + 1 >= len(best_set)):
            continue
        waiting.append((row + 1, chosen, now))
        waiting.append((row + 1, (*chosen, row), np.minimum(now, losses[row])))
    return sorted(best_set), True
