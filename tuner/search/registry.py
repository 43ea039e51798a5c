"""The search strategies by name. A strategy is one file, and a row here. Importing this costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from compiler.target import entry_points
from tuner.errors import TuningError

if TYPE_CHECKING:
    from tuner.model.guide import Guide
    from tuner.search.base import Strategy
    from tuner.space.sketch import Sketch

Factory = Callable[..., Any]
"""Makes a strategy of sketches, a seed, and digests already seen. One with a true attribute `guided` also takes
`guide`: the features and scores it goes by."""

STRATEGIES: dict[str, str | Factory] = {
    "evolutionary": "tuner.search.evolutionary:EvolutionaryStrategy",
    "genetic": "tuner.search.genetic:GeneticSearch",
    "grid": "tuner.search.grid:GridSearch",
    "optuna": "tuner.search.optuna:OptunaSearch",
    "random": "tuner.search.random:RandomSearch",
}
"""What each strategy's name stands for, or where that is. It is imported when a search begins."""


def strategy_names() -> tuple[str, ...]:
    """Return the names of the strategies, in their order."""
    return tuple(sorted(entry_points.merged(STRATEGIES, entry_points.STRATEGY_GROUP)))


def register_strategy(name: str, factory: Factory, override: bool = False) -> None:
    """Add a strategy. Raises TuningError when the name is taken and `override` is false."""
    if name in STRATEGIES and not override:
        raise TuningError(f"there is a search strategy {name!r}", hint="pass override=True to replace it")
    STRATEGIES[name] = factory


def check_strategy(name: str) -> str:
    """Return `name`. Raises TuningError naming the known strategies when it is none of them."""
    if name not in STRATEGIES and name not in strategy_names():
        raise TuningError(f"no search strategy is called {name!r}", hint=f"known: {', '.join(strategy_names())}")
    return name


def find_strategy(name: str) -> Factory:
    """Return what makes the strategy called `name`. Raises TuningError naming the known ones."""
    row = STRATEGIES.get(check_strategy(name))
    if row is None:
        row = STRATEGIES[name] = entry_points.load(entry_points.STRATEGY_GROUP, name)
    if isinstance(row, str):
        module, attribute = row.split(":")
        row = STRATEGIES[name] = getattr(importlib.import_module(module), attribute)
    return row


def is_guided(name: str) -> bool:
    """Tell whether the strategy uses a guide's features and scores.
    Raises TuningError for an unknown strategy."""
    return bool(getattr(find_strategy(name), "guided", False))


def make_strategy(
    name: str, sketches: Sequence[Sketch], seed: int, seen: Iterable[str], guide: Guide | None = None
) -> Strategy:
    """Make the strategy called `name`; `guide` is for guided ones.
    Raises TuningError naming the known strategies."""
    factory = find_strategy(name)
    made: Strategy = factory(sketches, seed, seen, guide=guide) if is_guided(name) else factory(sketches, seed, seen)
    return made
