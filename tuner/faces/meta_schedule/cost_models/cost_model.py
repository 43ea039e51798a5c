"""Models that say what candidates promise before they are measured."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import Schedule
from compiler.schedule.core.trace import Trace
from tuner.errors import TuningError, UnknownKindError
from tuner.faces.common.boosted_trees import BoostedTrees
from tuner.faces.meta_schedule.cost_models.feature_extractor import FeatureExtractor
from tuner.faces.meta_schedule.cost_models.learned_speeds import FeatureGroup, LearnedSpeeds, XGBConfig
from tuner.faces.meta_schedule.measure_types import RunnerResult
from tuner.faces.meta_schedule.record import FAILED_S, ArgInfo, MeasureCandidate, Workload
from tuner.model.guide import Guide
from tuner.model.types import Floats
from tuner.space.sketch import Sketch

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.tune_context import TuneContext

_KINDS = ("xgb", "mlp", "random", "none")
_CONFIG = XGBConfig()


class CostModel(ABC):
    """The contract.
    A subclass is given to `tune_tir(cost_model=)`: its scores guide the evolutionary search."""

    CostModelType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

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
    def create(kind: str = "random", *args: Any, **kwargs: Any) -> CostModel | None:
        """Make the model of a name: "random", "xgb" or "mlp" (the same trees), or "none", which is no model.

        Raises TuningError for another name.
        """
        match kind:
            case "random":
                return RandomModel(*args, **kwargs)
            case "xgb" | "mlp":
                return XGBModel(*args, **kwargs)
            case "none":
                return None
        raise UnknownKindError(f"no cost model {kind!r}", hint=f"there are {', '.join(_KINDS)}")


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


class XGBModel(CostModel):
    """Boosted trees over features of candidates, named as TVM's model.

    It scores at random until `num_warmup_samples` candidates are known. With `adaptive_training` it is fitted again
    only when a fifth of what it knows is new. `early_stopping_rounds`, `verbose_eval`, `average_peak_n`,
    `num_tuning_cores` and `tree_method` are accepted for compatibility with TVM and change nothing.
    """

    def __init__(
        self, *, extractor: FeatureExtractor | str = "per-store-feature", config: XGBConfig = _CONFIG,
        num_warmup_samples: int = 100, early_stopping_rounds: int = 50, verbose_eval: int = 25,
        average_peak_n: int = 32, adaptive_training: bool = True, num_tuning_cores: int | None = None,
        tree_method: str | None = None,
    ) -> None:  # fmt: skip
        self.extractor = FeatureExtractor.create(extractor) if isinstance(extractor, str) else extractor
        self.config = config._replace(nthread=num_tuning_cores or config.nthread)
        if tree_method is not None:
            self.config = self.config._replace(tree_method=tree_method)
        self.num_warmup_samples = num_warmup_samples
        self.early_stopping_rounds = early_stopping_rounds
        self.verbose_eval = verbose_eval
        self.average_peak_n = average_peak_n
        self.adaptive_training = adaptive_training
        self._learned = LearnedSpeeds(self.config)
        self._random = np.random.default_rng(self.config.seed)

    @property
    def data(self) -> OrderedDict[str, FeatureGroup]:
        """The measurements by workload."""
        return self._learned.groups

    @property
    def data_size(self) -> int:
        """How many candidates are known."""
        return self._learned.size

    @property
    def last_train_size(self) -> int:
        """How many candidates the trees were fitted to."""
        return self._learned.trained_size

    @property
    def booster(self) -> BoostedTrees | None:
        """The fitted trees; None before anything was measured."""
        return self._learned.trees()

    @property
    def is_trained(self) -> bool:
        """Whether it scores by what it learnt."""
        return 0 < self.data_size >= self.num_warmup_samples

    def load(self, path: str) -> None:
        """Learn from a file that `save` wrote, and from nothing else.
        Raises TuningError if it holds no model."""
        self._learned = LearnedSpeeds.load(path, self.config)

    def save(self, path: str) -> None:
        """Write what was learnt from."""
        self._learned.save(path)

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Learn from what candidates took; one that failed counts as very slow."""
        if len(candidates) != len(results):
            raise TuningError(f"{len(candidates)} candidates have {len(results)} results")
        if not candidates:
            return
        costs = [float(np.median(result.run_secs)) if result.run_secs else FAILED_S for result in results]
        workload = "" if context.mod is None else Workload(context.mod).key
        self._learned.add(
            workload, self._features(context, candidates), np.array(costs), adaptive=self.adaptive_training
        )

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> np.ndarray:
        """Return the share of the best speed that each candidate promises."""
        if not self.is_trained:
            return self._random.random(len(candidates))
        return self._learned.scores(self._features(context, candidates))

    def _features(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[Floats]:
        return [np.asarray(found.numpy(), np.float64) for found in self.extractor.extract_from(context, candidates)]


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
