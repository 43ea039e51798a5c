"""Configs race over the sizes of a family.

One that is good at a size is tried at others, nearest first.

Each size has a search of its own, and all share one pool of configs. A size's asks go in turns to its search and to
the pool; the last third of its budget is the pool's alone. A config is offered if its times at other sizes promise
that it comes near the best there. So one that lost at a few sizes is not measured at the rest. Towards the end the
members of the best portfolio so far are completed first.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.families.configs import FamilyConfig, realised
from tuner.families.portfolio import TimeTable, choose_portfolio
from tuner.families.rule import doublings
from tuner.families.sizes import FamilyError, SizeList
from tuner.search.base import Candidate, Proposal, Strategy
from tuner.space.sketch import Sketch

_PROMISING = math.log(1.3)
"""A config that should be slower than the best by more is not offered."""
_REACH = 1.5
"""So many doublings away, what a time says of another size is worth 1/e."""
_DOUBT = 0.03
"""What is added to a guess for each doubling to the nearest size it rests on."""
_SEARCHED = 2 / 3
"""The share of a size's budget in which its own search has turns."""
_LOOKED_AT = 48
"""The most promising configs, of which a portfolio is sought while the race goes on."""

Costs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Entrant:
    """One size's part of the race: its space, its own search, and the trials it may have (0: not limited)."""

    sketches: tuple[Sketch, ...]
    search: Strategy
    budget: int = 0
    exact: bool = False


class Race:
    """The pool of a family's configs and their times. Used from one thread, as searches are."""

    def __init__(self, sizes: SizeList, entrants: Sequence[Entrant], most: int) -> None:
        if most < 1:
            raise FamilyError(f"a portfolio has at least 1 config, not {most}", hint="--portfolio 3")
        if len(entrants) != len(sizes.sizes):
            raise FamilyError(f"{len(sizes.sizes)} sizes have {len(entrants)} searches")
        self._sizes, self._entrants, self._most = sizes, tuple(entrants), most
        self._configs: dict[FamilyConfig, int] = {}
        self._cells: dict[tuple[int, int], float | None] = {}
        self._made: dict[tuple[int, int], Candidate | None] = {}
        self._of_digest: list[dict[str, list[int]]] = [{} for _ in entrants]
        self._near = np.array([[doublings(a, b) for b in sizes.sizes] for a in sizes.sizes])
        self._guesses: Costs | None = None
        self._favourites: tuple[int, ...] | None = None

    @property
    def configs(self) -> tuple[FamilyConfig, ...]:
        """Every config that was seen, in the order in which it came up."""
        return tuple(self._configs)

    def timings(self) -> TimeTable:
        """Return what is known by now."""
        return TimeTable.of(self._cells, len(self._configs), len(self._entrants))

    def trace(self, config: int, size: int) -> str:
        """The tuning record of a config at a size where it was measured."""
        made = self._made[config, size]
        assert made is not None
        return made.trace_json

    def searches(self) -> tuple[SharedSearch, ...]:
        """The searches to give to the engine, one a size."""
        return tuple(
            SharedSearch(self, at, entrant.search, entrant.budget) for at, entrant in enumerate(self._entrants)
        )

    def candidate(self, config: int, size: int) -> Candidate | None:
        """Return what a config is at a size; None where it is nothing there."""
        if (config, size) not in self._made:
            entrant = self._entrants[size]
            made = self._made[config, size] = realised(self.configs[config], entrant.sketches, entrant.exact)
            if made is not None:
                self._of_digest[size].setdefault(made.digest, []).append(config)
        return self._made[config, size]

    def learn(self, size: int, candidate: Candidate, cost: float | None) -> None:
        """Record that a candidate was measured at a size, or failed there.
        The time counts for its config, and for others that give the same candidate there."""
        config = FamilyConfig.of(candidate)
        number = self._configs.setdefault(config, len(self._configs))
        self._made[number, size] = candidate
        same = self._of_digest[size].setdefault(candidate.digest, [])
        if number not in same:
            same.append(number)
        for one in same:
            self._cells[one, size] = cost
        self._guesses = self._favourites = None

    def settle(self, size: int, finals: Mapping[str, float]) -> None:
        """Replace the search's times of a size by its finals', by candidates' digests.

        Finals run on an idle device. Other configs' times are scaled to that level, by the median ratio of the
        finalists.
        """
        before: dict[int, float] = {}
        for digest, cost in finals.items():
            for config in self._of_digest[size].get(digest, ()):
                searched = self._cells.get((config, size))
                if searched is not None and cost > 0:
                    before[config] = cost / searched
        if not before:
            return
        level = statistics.median(before.values())
        for (config, at), searched in self._cells.items():
            if at == size and searched is not None:
                self._cells[config, at] = searched * before.get(config, level)
        self._guesses = self._favourites = None

    def offer(self, size: int, taken: set[str], closing: bool) -> Candidate | None:
        """The config to try next at a size; None if none is promising enough.
        `taken` were asked for before."""
        guesses = self._expected()
        if closing:
            for config in self._candidates():
                if (found := self._open(config, size, taken)) is not None:
                    return found
        for config in np.argsort(guesses[:, size], kind="stable") if len(guesses) else ():
            if not guesses[config, size] < _PROMISING:
                break
            if (found := self._open(int(config), size, taken)) is not None:
                return found
        return None

    def _open(self, config: int, size: int, taken: set[str]) -> Candidate | None:
        if (config, size) in self._cells:
            return None
        found = self.candidate(config, size)
        if found is None:
            return None
        cost = self._measured_as(size, found)
        if cost is not None:  # another config is the same here
            self._cells[config, size] = cost
            self._guesses = self._favourites = None
            return None
        return None if found.digest in taken else found

    def _measured_as(self, size: int, candidate: Candidate) -> float | None:
        costs = [self._cells.get((other, size)) for other in self._of_digest[size].get(candidate.digest, ())]
        return next((cost for cost in costs if cost is not None), None)

    def _expected(self) -> Costs:
        """The logarithm of each config's time over the best at each size.
        It is measured, else estimated from other sizes. Failed configs have inf."""
        if self._guesses is not None:
            return self._guesses
        timings = self.timings()
        losses = np.log(timings.seconds / timings.best)
        known = np.isfinite(losses)
        nearness = np.exp(-self._near / _REACH)
        weight = known.astype(float) @ nearness
        with np.errstate(invalid="ignore", divide="ignore"):
            guessed = (np.where(known, losses, 0.0) @ nearness) / weight
        away = np.where(known[:, None, :], self._near[None, :, :], np.inf).min(axis=2, initial=np.inf)
        guessed = np.where(weight > 0, guessed + _DOUBT * np.where(np.isinf(away), 0.0, away), np.inf)
        self._guesses = np.where(timings.sound[:, None], np.where(known, losses, guessed), np.inf)
        return self._guesses

    def _candidates(self) -> tuple[int, ...]:
        """The members of the portfolio that today's times and guesses would give."""
        if self._favourites is None:
            guesses = self._expected()
            able = [config for config in range(len(guesses)) if np.isfinite(guesses[config]).any()]
            able.sort(key=lambda config: (float(np.mean(guesses[config])), config))
            self._favourites = ()
            if able := able[:_LOOKED_AT]:
                table = np.array([self._possible(config, guesses) for config in able])
                found = choose_portfolio(TimeTable(np.exp(table)), self._sizes.weights, self._most, most_nodes=0)
                self._favourites = tuple(able[member] for member in found.members)
        return self._favourites

    def _possible(self, config: int, guesses: Costs) -> Costs:
        """A config's guesses, nan at sizes where it is nothing."""
        there = [self.candidate(config, size) is not None for size in range(len(self._entrants))]
        return np.where(there, guesses[config], np.nan)


class SharedSearch:
    """One size's search: in turns its own strategy and the pool."""

    def __init__(self, race: Race, size: int, inner: Strategy, budget: int = 0) -> None:
        self._race, self._size, self._inner, self._budget = race, size, inner, budget
        self._taken: set[str] = set()
        self._pool_turn = False

    def ask(self, count: int) -> Sequence[Proposal]:
        chosen: list[Proposal] = []
        while len(chosen) < count:
            closing = 0 < self._budget * _SEARCHED <= len(self._taken)
            self._pool_turn = closing or not self._pool_turn
            found: Proposal | None = None
            if self._pool_turn:
                found = self._race.offer(self._size, self._taken, closing)
            found = found or self._searched()
            if found is None:
                break
            self._taken.add(found.digest)
            chosen.append(found)
        return chosen

    def _searched(self) -> Proposal | None:
        """A new candidate of the size's own search; of the pool when that has none."""
        while more := self._inner.ask(1):
            if more[0].digest not in self._taken:
                return more[0]
        return self._race.offer(self._size, self._taken, closing=True)

    def tell(self, candidate: Any, cost: float | None) -> None:
        self._taken.add(candidate.digest)
        if isinstance(candidate, Candidate):
            self._race.learn(self._size, candidate, cost)
        self._inner.tell(candidate, cost)
