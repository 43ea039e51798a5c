"""Tuners over the indices of a space: in order, and at random."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.space import ConfigEntity
from tuner.faces.autotvm.task import Task
from tuner.faces.autotvm.tuner import Tuner


class IndexTuner(Tuner):
    """Base of the tuners that pick indices. `range_idx` bounds them: first and last, both included."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        self.space = task.config_space
        last = self.space.range_length - 1
        self.begin_idx, self.end_idx = (0, last) if range_idx is None else range_idx
        if not 0 <= self.begin_idx <= self.end_idx <= last:
            raise ConfigError(f"range_idx {range_idx} is not within 0 to {last}")
        self.visited: set[int] = set()
        self._scan = self.begin_idx
        super().__init__(task)

    def has_next(self) -> bool:
        return self._first_fresh() is not None

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        batch: list[ConfigEntity] = []
        while len(batch) < batch_size and (index := self.pick()) is not None:
            self.visited.add(index)
            batch.append(self.space.get(index))
        return batch

    def pick(self) -> int | None:
        """An index that was not visited, None when all were."""
        return self._first_fresh()

    def fresh(self, index: int) -> bool:
        """Whether `index` may be picked: in range, valid and not visited."""
        within = self.begin_idx <= index <= self.end_idx and index not in self.visited
        return within and self.space.is_index_valid(index)

    def _first_fresh(self) -> int | None:
        while self._scan <= self.end_idx and not self.fresh(self._scan):
            self._scan += 1  # what is behind was visited, or never can be
        return self._scan if self._scan <= self.end_idx else None

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Does nothing: the order does not depend on costs."""


class GridSearchTuner(IndexTuner):
    """Every config, in order of the index."""


class RandomTuner(IndexTuner):
    """Every config, in random order. `seed` fixes it."""

    _ATTEMPTS = 64

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None, *, seed: int = 0) -> None:
        super().__init__(task, range_idx)
        self._rng = np.random.default_rng(seed)

    def pick(self) -> int | None:
        for _ in range(self._ATTEMPTS):
            index = self.begin_idx + int(self._rng.integers(self.end_idx - self.begin_idx + 1))
            if self.fresh(index):
                return index
        rest = [i for i in range(self.begin_idx, self.end_idx + 1) if self.fresh(i)] if self._few_left else []
        return int(self._rng.choice(rest)) if rest else self._first_fresh()

    @property
    def _few_left(self) -> bool:
        """Whether the range is short enough to list what is left of it."""
        return self.end_idx - self.begin_idx < 1 << 16
