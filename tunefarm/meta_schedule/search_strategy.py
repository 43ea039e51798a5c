"""Search strategies."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.record import MeasureCandidate
from tuner.faces.meta_schedule.search_strategy import EvolutionarySearch, ReplayFunc, ReplayTrace, SearchStrategy

create = SearchStrategy.create

__all__ = ["EvolutionarySearch", "MeasureCandidate", "ReplayFunc", "ReplayTrace", "SearchStrategy", "create"]

refuse_other_names(__name__)
