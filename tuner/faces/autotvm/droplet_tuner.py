"""The tuner by coordinate descent.

It moves from the best config to neighbours in one knob, then in several.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from tuner.faces.autotvm.index_tuners import IndexTuner
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.task import Task

_FAILED = 99999.0
_BATCH = 16


class DropletTuner(IndexTuner):
    """Offers the neighbours of the best config so far, and moves to one that is faster.

    It begins at `start_position`, the choice of each knob (default: the first of all). A config counts as faster
    if its mean is lower, and if chance explains the difference with a probability below `pvalue` where there are
    several samples. When no neighbour is faster, steps become wider; after the widest the search ends.
    """

    def __init__(self, task: Task, start_position: Sequence[int] | None = None, pvalue: float = 0.05) -> None:
        super().__init__(task)
        self.dims = self.space.dims
        begin = [0] * len(self.dims) if start_position is None else [int(digit) for digit in start_position]
        self.best_choice: tuple[int, list[int], list[float]] = (-1, begin, [_FAILED])
        self.pvalue = pvalue
        self.batch = _BATCH
        self.step = 1
        self.execution = 1
        self.total_execution = max(self.dims, default=1)
        self._waiting = [begin]
        self._offered: dict[int, list[int]] = {}

    def has_next(self) -> bool:
        return self._next() is not None

    def pick(self) -> int | None:
        point = self._next()
        if point is None:
            return None
        self._waiting.remove(point)
        index = self.space.knob2point(point)
        self._offered[index] = point
        return index

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            index = inp.config.index
            point = self._offered.pop(index, None) or self.space.point2knob(index)
            costs = [float(cost) for cost in result.costs] if result.error_no == 0 else [_FAILED]
            if np.mean(costs) < np.mean(self.best_choice[2]) and self._differ(costs, self.best_choice[2]):
                self.best_choice = (index, point, costs)
                self.step = self.execution = 1
                self._waiting = self._neighbours()

    def _next(self) -> list[int] | None:
        """A config that waits, the neighbours at wider steps where none does; None at the end."""
        while True:
            fresh = [point for point in self._waiting if self.fresh(self.space.knob2point(point))]
            self._waiting = fresh
            if fresh:
                return fresh[0]
            if self._offered or self.execution > self.total_execution:
                return self._next_unseen() if self._offered else None
            self._waiting = self._neighbours()
            self.step = self.execution
            self.execution += 1

    def _next_unseen(self) -> list[int] | None:
        """Any config that was not offered: what is measured now decides where the search goes."""
        index = self._first_fresh()
        if index is None:
            return None
        self._waiting.append(self.space.point2knob(index))
        return self._waiting[-1]

    def _neighbours(self) -> list[list[int]]:
        """Configs that are at most a step away in each knob, those that differ in the fewest knobs first."""
        centre = self.best_choice[1]
        moves = product((0, -self.step, self.step), repeat=len(self.dims)) if len(self.dims) <= 8 else self._single()
        points = [[at + by for at, by in zip(centre, move)] for move in moves if any(move)]
        inside = [p for p in points if all(0 <= at < dim for at, dim in zip(p, self.dims))]
        return sorted(inside, key=lambda point: sum(a != b for a, b in zip(point, centre)))

    def _single(self) -> list[tuple[int, ...]]:
        count = len(self.dims)
        return [tuple(by if at == knob else 0 for at in range(count)) for knob in range(count) for by in (-1, 1)]

    def _differ(self, costs: Sequence[float], others: Sequence[float]) -> bool:
        """Whether two sets of samples differ by more than chance explains.
        It is Welch's test, approximated by the normal distribution."""
        if len(costs) < 2 or len(others) < 2:
            return True
        spread = np.var(costs, ddof=1) / len(costs) + np.var(others, ddof=1) / len(others)
        if spread == 0:
            return True
        score = abs(np.mean(costs) - np.mean(others)) / np.sqrt(spread)
        return _two_sided(float(score)) <= self.pvalue


def _two_sided(score: float) -> float:
    """The probability that a normal variable is further from its mean than `score` deviations."""
    return math.erfc(score / math.sqrt(2))
