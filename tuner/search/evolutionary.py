"""Evolutionary search over decision vectors, guided by a model.

When candidates run short, a population is drawn: random points, and children of the fastest candidates so far, that
is, points crossed, mutated and repaired. All of it is scored without building anything. The guide's prior (a trained
model, or an analytic draft) scores by earlier knowledge. A surrogate, fitted anew each time, scores by this run's
results. The best have children once more. The most promising are asked for, some by their expected cost and some for
what they could teach. A share of the asks explores at random (ε-greedy), so no mistake of a model lasts for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tuner.model.guide import Guide
from tuner.model.types import Floats
from tuner.search.base import Candidate
from tuner.search.population import Point, crossed, is_costly, mutated, sample
from tuner.search.random import RandomSearch
from tuner.search.surrogate import Surrogate
from tuner.space.repair import repair
from tuner.space.sketch import Sketch

_NEAR = 24  # points looked at to repair one
_ENOUGH = 4  # measured candidates before a surrogate is fitted
_SHORTLIST = 64  # candidates whose uncertainty is looked at
_FAILED = 2.0  # times the worst cost: what a failure is taken for


@dataclass(frozen=True)
class EvolutionOptions:
    """Options of the search.
    `explore`: share of asks drawn at random. `crossover`: probability that a child has two parents. `elite`: how
    many of the best may be parents. `population`: random points drawn; `first`: as long as nothing was measured, and
    the guide alone decides. `children`: how many the fastest have, and then the most promising. `batch`: candidates
    picked from one population. `curiosity`: by how many deviations below its expected cost a candidate is judged, in
    turns."""

    explore: float = 0.08
    crossover: float = 0.35
    elite: int = 24
    population: int = 256
    first: int = 1024
    children: int = 96
    batch: int = 8
    curiosity: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True)
class _Known:
    """The guide's facts of a candidate."""

    candidate: Candidate
    row: Floats
    prior: float


class EvolutionaryStrategy:
    """Ask/tell evolution; see the module's text."""

    guided: ClassVar[bool] = True

    def __init__(
        self, sketches: Sequence[Sketch], seed: int = 0, seen: Iterable[str] = (),
        options: EvolutionOptions | None = None, guide: Guide | None = None,
    ) -> None:  # fmt: skip
        """`guide` (default: one that knows the sketches' own drafts) must be of the same sketches."""
        self._options = options or EvolutionOptions()
        self._sketches = tuple(sketches)
        self._guide = guide or Guide(self._sketches)
        self._rng = np.random.default_rng([seed, 1])
        self._random = RandomSearch(self._sketches, seed, seen)
        self._taken: set[tuple[str, Point]] = set()
        self._told: list[tuple[Candidate, float | None]] = []
        self._known: dict[tuple[str, Point], _Known] = {}
        self._typical = np.zeros(1)
        self._waiting: deque[Candidate] = deque()
        self._since = 0  # candidates told since the population was drawn

    def ask(self, count: int) -> list[Candidate]:
        chosen: list[Candidate] = []
        while len(chosen) < count:
            candidate = self._next()
            if candidate is None:
                break
            self._taken.add(candidate.key)
            chosen.append(candidate)
        return chosen

    def tell(self, candidate: Candidate, cost: float | None) -> None:
        self._random.tell(candidate, cost)
        self._taken.add(candidate.key)
        self._told.append((candidate, cost))
        self._since += 1

    # -- one candidate

    def _next(self) -> Candidate | None:
        if self._rng.random() >= self._options.explore:
            if not self._waiting or self._since >= self._options.batch:
                self._waiting = deque(self._picked())
                self._since = 0
            while self._waiting:
                candidate = self._waiting.popleft()
                if self._is_new(candidate):
                    return candidate
        fallback = self._random.ask(1)
        return fallback[0] if fallback else None

    def _is_new(self, candidate: Candidate) -> bool:
        if candidate.key in self._taken:
            return False
        allowed = not is_costly(candidate.sketch) or candidate.sketch.is_allowed(candidate.decisions)
        return allowed and self._random.claim(candidate)

    # -- a population

    def _picked(self) -> list[Candidate]:
        """The most promising of a new population, best first."""
        pool = self._drawn()
        if not pool:
            return []
        self._describe([*pool, *(c for c, _ in self._told)])
        if len(self._typical) == 1:
            self._typical = np.array([self._known[c.key].prior for c in pool])
        surrogate = self._fitted()
        if surrogate is None:
            return self._by_prior(pool)
        expected = self._expected(surrogate, pool)
        best = [pool[i] for i in np.argsort(expected, kind="stable")[: self._options.elite]]
        children = self._children(best, self._options.children, {c.key for c in pool})
        if children:
            self._describe(children)
            expected = np.concatenate([expected, self._expected(surrogate, children)])
        return self._by_surrogate(surrogate, [*pool, *children], expected)

    def _drawn(self) -> list[Candidate]:
        """Random points of each sketch, and children of the fastest candidates; none that was asked for."""
        weights = np.array([np.log1p(s.size) for s in self._sketches])
        drawn = self._options.population if self._told else self._options.first
        counts = np.maximum(4, drawn * weights / max(weights.sum(), 1e-9)).astype(int)
        found: dict[tuple[str, Point], Candidate] = {}
        for sketch, count in zip(self._sketches, counts.tolist()):
            for point in sample(sketch, count, self._rng):
                candidate = Candidate(sketch, point)
                if candidate.key not in self._taken:
                    found[candidate.key] = candidate
        elite = sorted(((cost, at) for at, (_, cost) in enumerate(self._told) if cost is not None))
        parents = [self._told[at][0] for _, at in elite[: self._options.elite]]
        return [*found.values(), *self._children(parents, self._options.children, set(found))]

    def _children(self, parents: Sequence[Candidate], count: int, known: set[tuple[str, Point]]) -> list[Candidate]:
        """Children of `parents` that are neither known nor asked for, at most `count`.
        The first parents are the fittest."""
        if not parents:
            return []
        ranks = np.arange(len(parents), 0, -1, dtype=float)
        mothers, fathers = self._rng.choice(len(parents), size=(2, count), p=ranks / ranks.sum()).tolist()
        made: dict[tuple[str, Point], Candidate] = {}
        for a, b in zip(mothers, fathers):
            sketch, point = parents[a].sketch, parents[a].decisions
            if parents[b].sketch is sketch and self._rng.random() < self._options.crossover:
                point = crossed(point, parents[b].decisions, self._rng)
            point = mutated(sketch, point, self._rng)
            repaired = point if is_costly(sketch) else repair(sketch, point, _NEAR)
            if repaired is not None:
                child = Candidate(sketch, repaired)
                if child.key not in known and child.key not in self._taken:
                    made[child.key] = child
        return list(made.values())

    # -- what is known of it

    def _describe(self, candidates: Iterable[Candidate]) -> None:
        """Have the guide describe candidates, all of a sketch at once."""
        for sketch in self._sketches:
            new = {c.key: c for c in candidates if c.sketch is sketch and c.key not in self._known}
            if new:
                rows, prior = self._guide.describe(sketch, [c.decisions for c in new.values()])
                for candidate, row, score in zip(new.values(), rows, prior.tolist()):
                    self._known[candidate.key] = _Known(candidate, row, score)

    def _arrays(self, candidates: Sequence[Candidate]) -> tuple[Floats, Floats]:
        known = [self._known[c.key] for c in candidates]
        return np.array([k.row for k in known]), np.array([k.prior for k in known])

    def _fitted(self) -> Surrogate | None:
        measured = [cost for _, cost in self._told if cost is not None]
        if len(measured) < _ENOUGH:
            return None
        worst = _FAILED * max(measured)
        costs = np.array([worst if cost is None else cost for _, cost in self._told])
        return Surrogate.fit(*self._arrays([c for c, _ in self._told]), costs, self._typical)

    def _expected(self, surrogate: Surrogate, pool: Sequence[Candidate]) -> Floats:
        return surrogate.expected(*self._arrays(pool))

    # -- the choice

    def _by_prior(self, pool: Sequence[Candidate]) -> list[Candidate]:
        """Before anything is learnt: the best scores, every other one from further down, to learn more."""
        _, prior = self._arrays(pool)
        order = np.argsort(-prior, kind="stable").tolist()
        batch, spread = self._options.batch, max(1, len(order) // 8)
        further = [order[i] for i in self._rng.permutation(spread)[:batch].tolist()]
        mixed = [i for pair in zip(order, further) for i in pair] or order
        return [pool[i] for i in dict.fromkeys(mixed)][:batch]

    def _by_surrogate(self, surrogate: Surrogate, pool: Sequence[Candidate], expected: Floats) -> list[Candidate]:
        """Alternate the lowest predicted cost with the lowest confidence bound."""
        near = np.argsort(expected, kind="stable")[:_SHORTLIST]
        rows, _ = self._arrays([pool[i] for i in near])
        deviation = surrogate.deviation(rows)
        orders = [np.argsort(expected[near] - k * deviation, kind="stable").tolist() for k in self._options.curiosity]
        chosen: dict[int, None] = {}
        for turn in range(min(self._options.batch, len(near))):
            order = orders[turn % len(orders)]
            chosen[next(i for i in order if i not in chosen)] = None
        return [replace(pool[near[i]], expected=float(2.0 ** expected[near[i]])) for i in chosen]
