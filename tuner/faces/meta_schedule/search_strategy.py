"""Search strategies by the names people know; each is one of the engine's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tuner.errors import TuningError
from tuner.model.guide import Guide
from tuner.search import base
from tuner.search.evolutionary import EvolutionarySearch as EngineEvolution
from tuner.search.evolutionary import EvolutionOptions
from tuner.search.random import RandomSearch
from tuner.space.sketch import Sketch


class SearchStrategy(ABC):
    """What makes the engine's ask/tell search for a task."""

    @abstractmethod
    def make(
        self, sketches: Sequence[Sketch], seed: int, seen: Sequence[str] = (), guide: Guide | None = None
    ) -> base.SearchStrategy:
        """A search over `sketches` that leaves out the candidates with the digests `seen`. `guide` says which promise
        most, to strategies that ask; without it the sketches' own drafts do."""

    @staticmethod
    def create(kind: SearchStrategy | str = "evolutionary", **kwargs: float) -> SearchStrategy:
        """The strategy called "evolutionary", "replay-trace" or "replay-func". Raises TuningError for another name."""
        if isinstance(kind, SearchStrategy):
            return kind
        match kind:
            case "evolutionary":
                return EvolutionarySearch(**kwargs)  # type: ignore[arg-type]
            case "replay-trace":
                return ReplayTrace(**kwargs)  # type: ignore[arg-type]
            case "replay-func":
                return ReplayFunc()
        raise TuningError(f"no search strategy {kind!r}", hint="there are evolutionary, replay-trace and replay-func")


class EvolutionarySearch(SearchStrategy):
    """Evolution without rounds. `eps_greedy` is the share drawn at random and `genetic_mutate_prob` how often a
    parent is mutated alone rather than crossed. The other options describe rounds, which this search does not have,
    and are kept for their names."""

    def __init__(
        self,
        *,
        population_size: int = 512,
        init_measured_ratio: float = 0.2,
        init_min_unmeasured: int = 50,
        max_fail_count: int = 5,
        genetic_num_iters: int = 4,
        genetic_mutate_prob: float = 0.85,
        genetic_max_fail_count: int = 10,
        eps_greedy: float = 0.05,
    ) -> None:
        for name, value in (("genetic_mutate_prob", genetic_mutate_prob), ("eps_greedy", eps_greedy)):
            if not 0.0 <= value <= 1.0:
                raise TuningError(f"{name} is a probability, got {value}")
        self.population_size = population_size
        self.init_measured_ratio = init_measured_ratio
        self.init_min_unmeasured = init_min_unmeasured
        self.max_fail_count = max_fail_count
        self.genetic_num_iters = genetic_num_iters
        self.genetic_mutate_prob = genetic_mutate_prob
        self.genetic_max_fail_count = genetic_max_fail_count
        self.eps_greedy = eps_greedy

    def make(
        self, sketches: Sequence[Sketch], seed: int, seen: Sequence[str] = (), guide: Guide | None = None
    ) -> base.SearchStrategy:
        options = EvolutionOptions(explore=self.eps_greedy, crossover=1.0 - self.genetic_mutate_prob)
        return EngineEvolution(sketches, seed, seen, options, guide)


class ReplayTrace(SearchStrategy):
    """Random decisions in the spaces' traces."""

    def __init__(self, max_fail_count: int = 100) -> None:
        self.max_fail_count = max_fail_count

    def make(
        self, sketches: Sequence[Sketch], seed: int, seen: Sequence[str] = (), guide: Guide | None = None
    ) -> base.SearchStrategy:
        return RandomSearch(sketches, seed, seen)


class ReplayFunc(ReplayTrace):
    """Random decisions too: the spaces are made once, and not again for each candidate."""
