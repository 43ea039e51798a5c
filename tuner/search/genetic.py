"""Genetic search over decision vectors, without generations and without a model.

A steady-state genetic algorithm with rank selection (Whitley, "The GENITOR algorithm", 1989). Whenever a
candidate is asked for, parents are picked by rank among everything measured so far, crossed, mutated to
neighbouring values and repaired. A share of the asks explores at random. Before anything is measured, the
sketch's draft score picks among random points, so the first trials are already sensible kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.search.base import Candidate
from tuner.search.population import crossed, mutated
from tuner.search.random import RandomSearch
from tuner.space.repair import repair
from tuner.space.sketch import Sketch

_NEAR = 60  # points looked at to repair one


@dataclass(frozen=True)
class GeneticOptions:
    """`initial`: candidates drafted before evolution starts, each the best of `draft_pool` random points.
    `explore`: share of later asks drawn at random. `elite`: how many of the best may be parents.
    `crossover`: probability that two parents are mixed."""

    initial: int = 16
    draft_pool: int = 24
    explore: float = 0.15
    elite: int = 24
    crossover: float = 0.35


class GeneticSearch:
    """Ask/tell genetic search; see the module's text."""

    def __init__(
        self, sketches: Sequence[Sketch], seed: int = 0, seen: Iterable[str] = (), options: GeneticOptions | None = None
    ) -> None:
        self._options = options or GeneticOptions()
        self._rng = np.random.default_rng([seed, 1])
        self._random = RandomSearch(sketches, seed, seen)
        self._population: list[tuple[float, Candidate]] = []
        self._asked = 0

    def ask(self, count: int) -> list[Candidate]:
        chosen: list[Candidate] = []
        while len(chosen) < count:
            candidate = self._next()
            if candidate is None:
                break
            self._asked += 1
            chosen.append(candidate)
        return chosen

    def tell(self, candidate: Candidate, cost: float | None) -> None:
        self._random.tell(candidate, cost)
        if cost is None:
            return
        self._population.append((cost, candidate))
        self._population.sort(key=lambda entry: entry[0])
        del self._population[4 * self._options.elite :]

    def _next(self) -> Candidate | None:
        options = self._options
        if self._asked < options.initial or not self._population:
            drafted = self._draft()
        elif self._rng.random() < options.explore:
            drafted = None
        else:
            drafted = self._breed()
        if drafted is not None:
            return drafted
        fallback = self._random.ask(1)
        return fallback[0] if fallback else None

    def _draft(self) -> Candidate | None:
        """The unseen point of the best draft score among a pool of random ones."""
        pool = [c for c in (self._random.draw() for _ in range(self._options.draft_pool)) if c is not None]
        pool.sort(key=lambda c: c.sketch.score(c.decisions), reverse=True)
        return next((c for c in pool if self._random.claim(c)), None)

    def _breed(self) -> Candidate | None:
        for _ in range(64):
            mother = self._pick()
            point: Sequence[int] = mother.decisions
            if self._rng.random() < self._options.crossover:
                father = self._pick()
                if father.sketch is mother.sketch:
                    point = crossed(point, father.decisions, self._rng)
            decisions = repair(mother.sketch, mutated(mother.sketch, point, self._rng), most=_NEAR)
            child = None if decisions is None else Candidate(mother.sketch, decisions)
            if child is not None and self._random.claim(child):
                return child
        return None

    def _pick(self) -> Candidate:
        """A parent: linear rank selection among the elite."""
        elite = self._population[: self._options.elite]
        ranks = np.arange(len(elite), 0, -1, dtype=float)
        return elite[int(self._rng.choice(len(elite), p=ranks / ranks.sum()))][1]
