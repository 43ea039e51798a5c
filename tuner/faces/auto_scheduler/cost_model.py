"""Models that say which states promise to be fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.common.boosted_trees import Array, BoostedTrees
from tuner.model.features import NAMES, SketchFeatures
from tuner.records.lookup.keys import candidate_digest
from tuner.search.base import Candidate
from tuner.search.recognise import recogniser
from tuner.space.generate import generate

if TYPE_CHECKING:
    from tuner.faces.auto_scheduler.measure_types import MeasureInput, MeasureResult
    from tuner.faces.auto_scheduler.search_task import SearchTask
    from tuner.faces.auto_scheduler.state import State

MODEL_OPTIONS = ("verbose_eval", "num_warmup_sample", "seed", "model_file", "adaptive_training")
"""Options of TVM's model. They are accepted and change nothing: the model here is another."""


def check_options(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise SchedulerError for an option that TVM does not have either."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SchedulerError(f"{what} has no {', '.join(unknown)}", hint=f"known: {', '.join(known)}")


class CostModel:
    """Base of the cost models: which strategy searches with it."""

    strategy = "evolutionary"

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from what states took."""

    def predict(self, task: SearchTask, states: Sequence[State]) -> Array:
        """Return a score for each state: a higher one promises a faster kernel."""
        raise NotImplementedError(f"{type(self).__name__} has no predict: a model of your own overrides it")


class RandomModel(CostModel):
    """No model: points are drawn at random."""

    strategy = "random"

    def predict(self, task: SearchTask, states: Sequence[State]) -> Array:
        return np.random.default_rng().random(len(states))


class XGBModel(CostModel):
    """Boosted trees over the features of states, named as in TVM; `MODEL_OPTIONS` change nothing.

    A tuning run has a model of its own, which also knows the shipped one. This class is for programs that call
    `update` and `predict` themselves.
    """

    def __init__(self, **options: Any) -> None:
        check_options("the model", options, MODEL_OPTIONS)
        self._rows: Array = np.zeros((0, len(NAMES)))
        self._speeds: Array = np.zeros(0)
        self._fitted: BoostedTrees | None = None

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from results; those that failed, and states whose features are not known, are left out."""
        for inp, result in zip(inputs, results):
            row = _features(inp.task, inp.state)
            if row is not None and result.error_no == 0:
                speed = np.log2(inp.task.compute_dag.flop_ct / result.cost)
                self._rows = np.vstack([self._rows, row])
                self._speeds = np.append(self._speeds, speed)
        self._fit()

    def update_from_file(self, file_name: str | Path, n_lines: int | None = None) -> None:
        """Learn from the records of a log, of its first `n_lines` where these are given."""
        from tuner.faces.auto_scheduler.record import RecordReader

        self.update(*RecordReader(file_name).read_lines(n_lines))

    def predict(self, task: SearchTask, states: Sequence[State]) -> Array:
        """Return a score for each state; 0 for all before anything was learnt."""
        scores = np.zeros(len(states))
        if self._fitted is not None:
            rows = [_features(task, state) for state in states]
            known = [at for at, row in enumerate(rows) if row is not None]
            if known:
                scores[known] = self._fitted.predict(np.array([rows[at] for at in known], dtype=np.float64))
        return scores

    def save(self, file_name: str | Path) -> None:
        """Write what was learnt from."""
        with Path(file_name).open("wb") as file:
            np.savez(file, rows=self._rows, speeds=self._speeds)

    def load(self, file_name: str | Path) -> None:
        """Learn from what `save` wrote, and from nothing else."""
        with np.load(Path(file_name)) as saved:
            self._rows, self._speeds = saved["rows"], saved["speeds"]
        self._fit()

    def _fit(self) -> None:
        self._fitted = BoostedTrees.fit(self._rows, self._speeds) if len(self._speeds) else None


def _features(task: SearchTask, state: State) -> Array | None:
    """Return the features of a state that the search knows; None for another."""
    if isinstance(state, LoopState):
        return None
    tuning = task.tuning_task
    text = state.trace.to_json()
    found = recogniser(generate(tuning.func, tuning.target))(candidate_digest(text), text)
    if not isinstance(found, Candidate):
        return None
    rows = SketchFeatures.of(found.sketch, tuning.func, tuning.target).matrix([found.decisions])
    return np.asarray(rows[0], dtype=np.float64)
