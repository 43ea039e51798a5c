"""The context of a task: its module, target and space."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Literal

from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.errors import TuningError
from tuner.faces.meta_schedule.measure_types import RunnerResult
from tuner.faces.meta_schedule.record import MeasureCandidate, entry
from tuner.faces.meta_schedule.search_strategy import SearchStrategy
from tuner.faces.meta_schedule.spaces.space_generator import SpaceGenerator
from tuner.space.sketch import Sketch
from tuner.task import TuningTask


class TuneContext:
    """One task of a tuning run. `target` may be left out inside `with target:`.

    `space_generator`: a generator, the name of a kind, or a function that schedules. `search_strategy`: a strategy
    or its name. `num_threads` is how many processes build candidates ("physical", "logical": as many as cores).
    """

    def __init__(
        self, mod: IRModule | PrimFunc | None = None, *, target: Target | str | None = None,
        space_generator: SpaceGenerator | Callable[[Schedule], object] | str | None = None,
        search_strategy: SearchStrategy | str | None = None, task_name: str = "main", rand_state: int = -1,
        num_threads: int | Literal["physical", "logical"] = "physical", logger: logging.Logger | None = None,
    ) -> None:  # fmt: skip
        self.mod = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        found = Target.current(allow_none=True) if target is None else Target(target)
        if found is None and mod is None:
            found = Target("llvm")
        if found is None:
            raise TuningError("a TuneContext needs a target", hint='target="llvm", or `with target:` around it')
        self.target: Target = found.resolved()
        self.space_generator = _generator(space_generator)
        self.search_strategy = SearchStrategy.create(search_strategy or "evolutionary")
        self.task_name = task_name
        self.rand_state = max(0, rand_state)  # -1 asks for any seed: searches are the same each time
        self.num_threads = num_threads if isinstance(num_threads, int) else len(os.sched_getaffinity(0))
        self.logger = logger or logging.getLogger("tunefarm.meta_schedule")
        self.space_generator._initialize_with_tune_context(self)
        self.search_strategy._initialize_with_tune_context(self)

    @property
    def func(self) -> PrimFunc:
        """The function that is tuned. Raises TuningError without a module."""
        if self.mod is None:
            raise TuningError("the TuneContext has no module", hint="give it one: TuneContext(mod, target=...)")
        return entry(self.mod)

    @property
    def task(self) -> TuningTask:
        """This context as the engine's task."""
        return TuningTask(self.task_name, self.func, self.target)

    def generate_design_space(self) -> list[Schedule]:
        """The spaces as schedules with open decisions."""
        assert self.func is not None
        mod = self.mod
        assert mod is not None
        return self.space_generator.generate_design_space(mod)

    def sketches(self) -> tuple[Sketch, ...]:
        """The spaces as the search takes them."""
        self.func  # noqa: B018  (raises without a module)
        assert self.mod is not None
        return self.space_generator.sketches(self.mod)

    def pre_tuning(
        self, max_trials: int, num_trials_per_iter: int = 64, design_spaces: list[Schedule] | None = None,
        database: object = None, cost_model: object = None,
    ) -> None:  # fmt: skip
        """Begin a search that the program drives itself, of the spaces given or all.
        See `SearchStrategy`."""
        spaces = self.generate_design_space() if design_spaces is None else design_spaces
        self.search_strategy.pre_tuning(max_trials, num_trials_per_iter, spaces, database, cost_model)

    def post_tuning(self) -> None:
        """End the search."""
        self.search_strategy.post_tuning()

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next round's candidates, None where there are no more."""
        return self.search_strategy.generate_measure_candidates()

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Tell what a round took."""
        self.search_strategy.notify_runner_results(measure_candidates, results)

    def clone(self) -> TuneContext:
        """The same again."""
        return TuneContext(
            self.mod, target=self.target, space_generator=self.space_generator.clone(),
            search_strategy=self.search_strategy.clone(), task_name=self.task_name, rand_state=self.rand_state,
            num_threads=self.num_threads, logger=self.logger,
        )  # fmt: skip


def _generator(given: SpaceGenerator | Callable[[Schedule], object] | str | None) -> SpaceGenerator:
    if isinstance(given, SpaceGenerator):
        return given
    return SpaceGenerator.create("post-order-apply" if given is None else given)
