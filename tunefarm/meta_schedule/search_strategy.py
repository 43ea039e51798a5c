"""Search strategies."""

from tuner.faces.meta_schedule.record import MeasureCandidate
from tuner.faces.meta_schedule.search_strategy import EvolutionarySearch, ReplayFunc, ReplayTrace, SearchStrategy

create = SearchStrategy.create

__all__ = ["EvolutionarySearch", "MeasureCandidate", "ReplayFunc", "ReplayTrace", "SearchStrategy", "create"]
