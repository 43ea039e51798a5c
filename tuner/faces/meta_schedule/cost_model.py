"""Models that say what candidates promise before they are measured."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import Schedule
from compiler.schedule.core.trace import Trace
from tuner.errors import TuningError
from tuner.faces.meta_schedule.record import ArgInfo, MeasureCandidate
from tuner.faces.meta_schedule.runner import RunnerResult
from tuner.model.guide import Guide
from tuner.model.types import Floats
from tuner.space.sketch import Sketch

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.tune_context import TuneContext


class CostModel(ABC):
    """The contract. A subclass is given to `tune_tir(cost_model=)`: its scores guide the evolutionary search."""

    @abstractmethod
    def load(self, path: str) -> None:
        """Read what `save` wrote."""

    @abstractmethod
    def save(self, path: str) -> None:
        """Write the model to a file."""

    @abstractmethod
    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Learn from what candidates took."""

    @abstractmethod
    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> np.ndarray:
        """Return a score for each candidate; a higher one promises a faster kernel."""

    @staticmethod
    def create(kind: str = "random", *args: Any, **kwargs: Any) -> CostModel:
        """Make the model called "random". Raises TuningError for another name."""
        if kind == "random":
            return RandomModel(*args, **kwargs)
        raise TuningError(
            f"no cost model {kind!r} is made apart from a run",
            hint=f'give tune_tir(cost_model="{kind}") its name, or a subclass of PyCostModel',
        )


PyCostModel = CostModel


class RandomModel(CostModel):
    """Scores drawn at random, below `max_range`."""

    def __init__(self, *, seed: int | None = None, path: str | None = None, max_range: int | None = 100) -> None:
        self.random_state = np.random.default_rng(seed)
        self.max_range = max_range or 100
        if path is not None:
            self.load(path)

    def load(self, path: str) -> None:
        """Read the state of the generator. Raises TuningError where a file holds none."""
        try:
            self.random_state.bit_generator.state = json.loads(Path(path).read_text())
        except (ValueError, TypeError, KeyError) as error:
            raise TuningError(f"{path} holds no state of a random model: {error}") from None

    def save(self, path: str) -> None:
        Path(path).write_text(json.dumps(self.random_state.bit_generator.state))

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Learn nothing."""

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> np.ndarray:
        return self.random_state.random(len(candidates)) * self.max_range


class AskedGuide(Guide):
    """The guide of a search whose candidates the user's own model scores."""

    def __init__(self, context: TuneContext, sketches: Sequence[Sketch], model: CostModel) -> None:
        super().__init__(sketches, f"the scores of {type(model).__name__}")
        self._context = context
        self._model_asked = model

    def describe(self, sketch: Sketch, points: Sequence[Sequence[int]]) -> tuple[Floats, Floats]:
        """Rows of the decisions' values, and the model's scores; all of a sketch are asked for at once."""
        rows, _ = super().describe(sketch, points)
        mod = self._context.mod
        assert mod is not None
        args = tuple(ArgInfo.from_entry_func(mod))
        candidates: dict[int, MeasureCandidate] = {}
        for at, point in enumerate(points):
            try:
                schedule = Schedule.replay(mod, Trace.from_json(sketch.trace_json(tuple(point))))
            except ScheduleError:
                continue
            candidates[at] = MeasureCandidate(schedule, args)
        found = np.asarray(self._model_asked.predict(self._context, list(candidates.values())), float).reshape(-1)
        if len(found) != len(candidates):
            raise TuningError(
                f"{type(self._model_asked).__name__}.predict gave {len(found)} scores for {len(candidates)} candidates"
            )
        scores = np.full(len(points), found.min(initial=0.0))  # the least, where a trace does not apply
        scores[list(candidates)] = found
        return rows, scores
