"""Search strategies."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.record import MeasureCandidate
from tuner.faces.meta_schedule.search_strategy import EvolutionarySearch, ReplayFunc, ReplayTrace, SearchStrategy

create = SearchStrategy.create

__all__ = ["EvolutionarySearch", "MeasureCandidate", "ReplayFunc", "ReplayTrace", "SearchStrategy", "create"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
