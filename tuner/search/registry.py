"""The search strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tuner.errors import TuningError
from tuner.model.guide import Guide
from tuner.search.base import SearchStrategy
from tuner.search.evolutionary import EvolutionarySearch
from tuner.search.genetic import GeneticSearch
from tuner.search.grid import GridSearch
from tuner.search.optuna import OptunaSearch
from tuner.search.random import RandomSearch
from tuner.space.sketch import Sketch

Factory = Callable[[Sequence[Sketch], int, Iterable[str]], SearchStrategy]

STRATEGIES: dict[str, Factory] = {
    "evolutionary": EvolutionarySearch,
    "genetic": GeneticSearch,
    "grid": GridSearch,
    "optuna": OptunaSearch,
    "random": RandomSearch,
}


def is_guided(name: str) -> bool:
    """Whether the strategy goes by a guide's features and scores."""
    return STRATEGIES.get(name) is EvolutionarySearch


def make_strategy(
    name: str, sketches: Sequence[Sketch], seed: int, seen: Iterable[str], guide: Guide | None = None
) -> SearchStrategy:
    """The strategy called `name`; `guide` is for those that can be guided. Raises TuningError naming the known ones."""
    factory = STRATEGIES.get(name)
    if factory is None:
        raise TuningError(f"no search strategy is called {name!r}", hint=f"known: {', '.join(STRATEGIES)}")
    if is_guided(name):
        return EvolutionarySearch(sketches, seed, seen, guide=guide)
    return factory(sketches, seed, seen)
