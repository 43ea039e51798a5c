"""How a task's space is searched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.schedule.core.trace import Trace
from tuner.engine.plan import TaskSearch, sketch_search, trace_source
from tuner.faces.auto_scheduler.cost_model import CostModel, RandomModel, XGBModel, check_options
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.auto_scheduler.measure_methods import ProgramMeasurer
from tuner.faces.auto_scheduler.measure_types import MeasureInput, MeasureResult
from tuner.faces.auto_scheduler.record import load_records
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.auto_scheduler.state import State
from tuner.records.lookup.keys import candidate_digest
from tuner.search.base import Candidate, Proposal, Recorded
from tuner.space.generate import generate

SEARCH_OPTIONS = (
    "eps_greedy",
    "retry_search_one_round_on_empty",
    "sample_init_min_population",
    "sample_init_use_measured_ratio",
    "evolutionary_search_population",
    "evolutionary_search_num_iters",
    "evolutionary_search_mutation_prob",
    "cpu_multi_level_tiling_structure",
    "gpu_multi_level_tiling_structure",
    "max_innermost_split_factor",
    "max_vectorize_size",
    "disable_change_compute_location",
)
"""Parameters of TVM's search. They are accepted and change nothing: the search here decides them itself."""


class PreloadMeasuredStates:
    """States of a log: the task does not measure them again, and its search starts from them."""

    def __init__(self, filename: str | Path) -> None:
        self.filename = filename


class SearchPolicy(ABC):
    """A task and the strategy for it."""

    def __init__(self, task: SearchTask, seed: int | None, preload: Sequence[PreloadMeasuredStates]) -> None:
        self.task = task
        self.seed = seed or 0
        for callback in preload:
            if not isinstance(callback, PreloadMeasuredStates):
                raise SchedulerError(
                    f"{callback!r} is not understood before a search", hint="known: PreloadMeasuredStates"
                )
        self.preload = list(preload)

    @abstractmethod
    def search(self, weight: float = 1.0) -> TaskSearch:
        """The search in the engine's terms."""

    verbose = 1
    _search: TaskSearch | None = None

    def set_verbose(self, verbose: int) -> None:
        """Say how much is printed."""
        self.verbose = verbose

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Measure up to `num_measure` states that were not before, and learn from them."""
        if self._search is None:
            self._search = self.search()
        proposals = self._search.strategy.ask(num_measure)
        inputs = [MeasureInput(self.task, _state(self.task, proposal)) for proposal in proposals]
        results = measurer.measure(self.task, self, inputs)
        for proposal, result in zip(proposals, results):
            self._search.strategy.tell(proposal, None if result.error_no else result.cost)
        return inputs, results


class SketchPolicy(SearchPolicy):
    """An evolutionary search of the derived space, or a random one.

    It is at random with `program_cost_model=RandomModel()`. `seed` fixes the draws; entries of `params`
    (`SEARCH_OPTIONS`) change nothing. `init_search_callbacks` may hold `PreloadMeasuredStates`. Raises SchedulerError
    for what is not known.
    """

    def __init__(
        self, task: SearchTask, program_cost_model: CostModel | None = None, params: Mapping[str, Any] | None = None,
        seed: int | None = None, verbose: int = 1, init_search_callbacks: Sequence[PreloadMeasuredStates] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, seed, init_search_callbacks or ())
        check_options("the search", params or (), SEARCH_OPTIONS)
        self.program_cost_model = program_cost_model or XGBModel()
        if not isinstance(self.program_cost_model, CostModel):
            raise SchedulerError(f"not a cost model: {program_cost_model!r}", hint="known: XGBModel(), RandomModel()")
        self.verbose = verbose

    def search(self, weight: float = 1.0) -> TaskSearch:
        task = self.task.tuning_task
        found = [entry for preload in self.preload for entry in measured(self.task, preload.filename)]
        seen = [digest for digest, _, _ in found]
        made = sketch_search(task, self.program_cost_model.strategy, self.seed, seen)
        for digest, text, cost in found:
            candidate = made.recognise(digest, text)
            if candidate is not None:
                made.strategy.tell(candidate, cost)
        return TaskSearch(made.task, made.strategy, made.recognise, made.source, weight)

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Return a state of each family of schedules that is searched, at a point drawn at random."""
        task = self.task.tuning_task
        rng = np.random.default_rng(self.seed)
        drawn = [(sketch, sketch.random(rng)) for sketch in generate(task.func, task.target)]
        found = [Candidate(sketch, point) for sketch, point in drawn if point is not None]
        states = [_state(self.task, candidate) for candidate in found]
        if print_for_debug:
            print("\n".join(map(str, states)))
        return states

    def sample_initial_population(self) -> list[State]:
        """Return states drawn at random."""
        drawn = sketch_search(self.task.tuning_task, "random", self.seed).strategy.ask(_POPULATION)
        return [_state(self.task, proposal) for proposal in drawn]

    def evolutionary_search(self, init_populations: Sequence[State], out_size: int) -> list[State]:
        """Return states that should be fast.
        The search begins where its model says, not at `init_populations`."""
        drawn = sketch_search(self.task.tuning_task, "evolutionary", self.seed).strategy.ask(out_size)
        return [_state(self.task, proposal) for proposal in drawn]


_POPULATION = 50


def _state(task: SearchTask, proposal: Proposal) -> State:
    return State(task.compute_dag.func, Trace.from_json(proposal.trace_json))


class EmptyPolicy(SearchPolicy):
    """Measures the computation as it is written, and nothing else."""

    def __init__(self, task: SearchTask, init_search_callbacks: Sequence[PreloadMeasuredStates] | None = None) -> None:
        super().__init__(task, None, init_search_callbacks or ())

    def search(self, weight: float = 1.0) -> TaskSearch:
        task = self.task.tuning_task
        text = Trace().to_json()
        only = Recorded(candidate_digest(text), text)
        return TaskSearch(task, _Once(only), lambda digest, trace: None, trace_source(task), weight)


class _Once:
    def __init__(self, only: Proposal) -> None:
        self._left = [only]

    def ask(self, count: int) -> Sequence[Proposal]:
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def tell(self, candidate: Proposal, cost: float | None) -> None:
        pass


def make_policy(
    name: str, task: SearchTask, seed: int | None = None, preload: str | Path | None = None
) -> SearchPolicy:
    """The policy that a task scheduler's `search_policy` names. Raises SchedulerError."""
    models = {"default": XGBModel, "sketch.xgb": XGBModel, "sketch.random": RandomModel}
    before = [] if preload is None else [PreloadMeasuredStates(preload)]
    if name == "empty":
        return EmptyPolicy(task, before)
    if name not in models:
        raise SchedulerError(f"no search policy is called {name!r}", hint=f"known: {', '.join(models)}, empty")
    return SketchPolicy(task, models[name](), seed=seed, init_search_callbacks=before)


def measured(task: SearchTask, log: str | Path) -> list[tuple[str, str, float | None]]:
    """(digest, trace, cost) of a log's records of the task on its target; a cost of None failed.
    States made of steps have no trace, and are left out."""
    found = []
    for inp, result in load_records(log):
        if isinstance(inp.state, LoopState):
            continue
        if inp.task.workload_key == task.workload_key and str(inp.task.target) == str(task.target):
            text = inp.state.trace.to_json()
            found.append((candidate_digest(text), text, result.cost if result.error_no == 0 else None))
    return found
