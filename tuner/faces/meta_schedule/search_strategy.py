"""Search strategies by the names people know; each is one of the engine's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from statistics import mean
from typing import TYPE_CHECKING, Any, ClassVar

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import Schedule as FaceSchedule
from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.trace import Trace
from tuner.errors import TuningError, UnknownKindError
from tuner.faces.meta_schedule.measure_types import RunnerResult
from tuner.faces.meta_schedule.record import ArgInfo, MeasureCandidate
from tuner.model.guide import Guide
from tuner.search import base
from tuner.search.base import Candidate, Proposal
from tuner.search.evolutionary import EvolutionaryStrategy, EvolutionOptions
from tuner.search.random import RandomSearch
from tuner.space.sketch import Sketch

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.tune_context import TuneContext


_MOST_FAILURES = 100


class SearchRounds:
    """At most `max_trials` candidates of an engine's search, `num_trials_per_iter` a round."""

    def __init__(
        self, mod: IRModule, search: base.Strategy, max_trials: int, num_trials_per_iter: int, max_fail_count: int
    ) -> None:
        self._mod, self._search, self._left = mod, search, max_trials
        self._round, self._most_failures = num_trials_per_iter, max_fail_count
        self._args = tuple(ArgInfo.from_entry_func(mod))
        self._asked: dict[int, Proposal] = {}
        self._given: list[MeasureCandidate] = []

    def ask(self) -> list[MeasureCandidate] | None:
        """Return the next round's candidates; None where there are no more."""
        wanted, failures = min(self._round, self._left), 0
        found: list[MeasureCandidate] = []
        while len(found) < wanted and failures <= self._most_failures:
            proposals = self._search.ask(wanted - len(found))
            if not proposals:
                break
            for proposal in proposals:
                try:
                    sch = FaceSchedule.replay(self._mod, Trace.from_json(proposal.trace_json))
                except ScheduleError:  # a point of the space that does not work out
                    failures += 1
                    self._search.tell(proposal, None)
                    continue
                candidate = MeasureCandidate(sch, self._args)
                self._asked[id(candidate)] = proposal
                self._given.append(candidate)
                found.append(candidate)
        self._left -= len(found)
        return found or None

    def tell(self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]) -> None:
        """Let the search learn from a round. Candidates that were not asked for are left out."""
        for candidate, result in zip(candidates, results):
            proposal = self._asked.pop(id(candidate), None)
            if isinstance(proposal, Candidate):
                self._search.tell(proposal, mean(map(float, result.run_secs)) if result.run_secs else None)


class SearchStrategy(ABC):
    """A maker of the engine's ask/tell search for a task.

    `tune_tir` drives it. A program that measures by itself calls `pre_tuning`, then `generate_measure_candidates` and
    `notify_runner_results` in turns, until there are no candidates.
    """

    SearchStrategyType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

    _context: TuneContext | None = None
    _rounds: SearchRounds | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._context = context

    def pre_tuning(
        self, max_trials: int, num_trials_per_iter: int, design_spaces: Sequence[Schedule], database: object = None,
        cost_model: object = None,
    ) -> None:  # fmt: skip
        """Begin a search of these spaces; `database` and `cost_model` are kept for their names.

        Raises TuningError for a strategy that no TuneContext has, and for a search that has begun.
        """
        if self._context is None or self._context.mod is None:
            raise TuningError("this strategy has no module to search for", hint="give it to a TuneContext with one")
        if self._rounds is not None:
            raise TuningError("this search has begun already", hint="call post_tuning before pre_tuning")
        sketches = self._context.space_generator.sketches_of(self._context.mod, design_spaces)
        search = self.make(sketches, max(0, self._context.rand_state))
        failures = int(getattr(self, "max_fail_count", _MOST_FAILURES))
        self._rounds = SearchRounds(self._context.mod, search, max_trials, num_trials_per_iter, failures)

    def post_tuning(self) -> None:
        """End the search."""
        self._rounds = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next round's candidates, None where there are no more.
        Raises TuningError before `pre_tuning`."""
        return self._begun().ask()

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Tell what a round took. Raises TuningError before `pre_tuning`."""
        self._begun().tell(measure_candidates, results)

    def clone(self) -> SearchStrategy:
        """Return this strategy for another task, with no search begun."""
        made = copy(self)
        made._context = made._rounds = None
        return made

    def _begun(self) -> SearchRounds:
        if self._rounds is None:
            raise TuningError("the search has not begun", hint="call pre_tuning first")
        return self._rounds

    @abstractmethod
    def make(
        self, sketches: Sequence[Sketch], seed: int, seen: Sequence[str] = (), guide: Guide | None = None
    ) -> base.Strategy:
        """A search over `sketches` that leaves out the candidates with the digests `seen`.
        `guide` tells strategies that ask which candidates are promising. Without it the sketches' own drafts do."""

    @staticmethod
    def create(kind: SearchStrategy | str = "evolutionary", **kwargs: float) -> SearchStrategy:
        """The strategy called "evolutionary", "replay-trace" or "replay-func".
        Raises TuningError for another name."""
        if isinstance(kind, SearchStrategy):
            return kind
        match kind:
            case "evolutionary":
                return EvolutionarySearch(**kwargs)  # type: ignore[arg-type]
            case "replay-trace":
                return ReplayTrace(**kwargs)  # type: ignore[arg-type]
            case "replay-func":
                return ReplayFunc()
        known = "evolutionary, replay-trace and replay-func"
        raise UnknownKindError(f"no search strategy {kind!r}", hint=f"there are {known}")


class EvolutionarySearch(SearchStrategy):
    """Evolution without rounds.
    `eps_greedy` is the share drawn at random and `genetic_mutate_prob` how often a parent is mutated alone rather
    than crossed. The other options describe rounds, which this search does not have; they are accepted for
    compatibility with TVM."""

    def __init__(
        self, *, population_size: int = 512, init_measured_ratio: float = 0.2, init_min_unmeasured: int = 50,
        max_fail_count: int = 5, genetic_num_iters: int = 4, genetic_mutate_prob: float = 0.85,
        genetic_max_fail_count: int = 10, eps_greedy: float = 0.05,
    ) -> None:  # fmt: skip
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
    ) -> base.Strategy:
        options = EvolutionOptions(explore=self.eps_greedy, crossover=1.0 - self.genetic_mutate_prob)
        return EvolutionaryStrategy(sketches, seed, seen, options, guide)


class ReplayTrace(SearchStrategy):
    """Random decisions in the spaces' traces."""

    def __init__(self, max_fail_count: int = 100) -> None:
        self.max_fail_count = max_fail_count

    def make(
        self, sketches: Sequence[Sketch], seed: int, seen: Sequence[str] = (), guide: Guide | None = None
    ) -> base.Strategy:
        return RandomSearch(sketches, seed, seen)


class ReplayFunc(ReplayTrace):
    """Random decisions too: the spaces are made once, not again for each candidate."""
