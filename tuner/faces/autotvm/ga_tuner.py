"""A genetic algorithm over the knobs' choices, without generations.

Steady state (Whitley, "The GENITOR algorithm", 1989): a child is bred from whatever was measured so far, so nothing
waits for the slowest trial of a round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.index_tuners import RandomTuner
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.task import Task


class GATuner(RandomTuner):
    """Breeds configs from the `pop_size` fastest measured.
    Two parents, drawn in proportion to their speed, are mixed at one point, and each knob is changed with
    probability `mutation_prob`. The `elite_num` fastest are drawn twice as often. The first `pop_size` configs are
    random."""

    def __init__(
        self, task: Task, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1, *, seed: int = 0
    ) -> None:
        if not (1 <= elite_num <= pop_size and 0 <= mutation_prob <= 1):
            raise ConfigError("elite_num is within 1 to pop_size, mutation_prob within 0 to 1")
        super().__init__(task, seed=seed)
        self.pop_size = min(pop_size, len(self.space))
        self.elite_num = elite_num
        self.mutation_prob = mutation_prob
        self._population: list[tuple[float, list[int]]] = []  # fastest first

    def pick(self) -> int | None:
        if len(self.visited) < self.pop_size or len(self._population) < 2:
            return super().pick()
        for _ in range(64):
            child = self.space.knob2point(self._breed())
            if self.fresh(child):
                return child
        return super().pick()

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            if result.error_no == 0 and inp.config.index >= 0:
                speed = self.task.flop / result.cost
                self._population.append((speed, self.space.point2knob(inp.config.index)))
        self._population.sort(key=lambda entry: entry[0], reverse=True)
        del self._population[self.pop_size :]

    def _breed(self) -> list[int]:
        mother, father = self._parent(), self._parent()
        cut = int(self._rng.integers(len(mother) + 1))
        child = [*mother[:cut], *father[cut:]]
        return [
            int(self._rng.integers(dim)) if self._rng.random() < self.mutation_prob else gene
            for gene, dim in zip(child, self.space.dims)
        ]

    def _parent(self) -> list[int]:
        speeds = np.array([speed for speed, _ in self._population])
        speeds[: self.elite_num] *= 2
        return self._population[int(self._rng.choice(len(speeds), p=speeds / speeds.sum()))][1]
