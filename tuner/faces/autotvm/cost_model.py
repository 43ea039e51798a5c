"""A model of a template's speed, under autotvm's names: boosted trees on the knobs' values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.features import FeatureTable
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.task import Task
from tuner.faces.common.boosted_trees import Array, BoostedTrees


class XGBoostCostModel:
    """Predicts the speed of configs of one task, as a share of the fastest that it was fitted to.

    Named as in TVM after the library there; the trees are our own. `feature_type` and `loss_type` are checked, and
    otherwise without effect, as are `num_threads` and `log_interval`.
    """

    def __init__(
        self, task: Task, feature_type: str, loss_type: str = "reg", num_threads: int | None = None,
        log_interval: int = 25, upper_model: XGBoostCostModel | None = None,
    ) -> None:  # fmt: skip
        if feature_type not in ("itervar", "knob", "curve"):
            raise ConfigError(f"feature_type {feature_type!r} is not there", hint="known: itervar, knob, curve")
        if loss_type not in ("reg", "rank", "rank-binary"):
            raise ConfigError(f"loss_type {loss_type!r} is not there", hint="known: reg, rank, rank-binary")
        self.task = task
        self.space = task.config_space
        self.fea_type, self.loss_type = feature_type, loss_type
        self.upper_model = upper_model
        self.base_model: XGBoostCostModel | None = None
        self._features = FeatureTable(self.space)
        self._model: BoostedTrees | None = None

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        """Fit to the speeds `ys` (operations a second) of the configs at the indices `xs`. `plan_size` is ignored."""
        self._fit(self._rows(xs), np.asarray(ys, dtype=np.float64))

    def fit_log(
        self, records: Iterable[tuple[MeasureInput, MeasureResult]], plan_size: int, min_seed_records: int = 500
    ) -> bool:
        """Fit to records; False where fewer than `min_seed_records` are of this template."""
        rows: list[Array] = []
        speeds: list[float] = []
        for inp, result in records:
            row = self._features.of(inp.config) if inp.task.name == self.task.name else None
            if row is not None:
                rows.append(row)
                speeds.append(inp.task.flop / result.cost if result.error_no == 0 else 0.0)
        if len(rows) < max(min_seed_records, 1):
            return False
        self._fit(np.stack(rows), np.array(speeds))
        return True

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> Array:
        """Return the predicted speeds of the configs at the indices `xs`. Raises ConfigError before any fit."""
        model = self._model
        if model is None:
            if self.base_model is None:
                raise ConfigError("the cost model was not fitted", hint="call fit or fit_log first")
            return self.base_model.predict(xs, output_margin)
        return model.predict(self._rows(xs))

    def load_basemodel(self, base_model: XGBoostCostModel) -> None:
        """Answer by `base_model` until this one is fitted."""
        self.base_model = base_model

    def spawn_base_model(self) -> XGBoostCostModel:
        """Return a new model of the same task and options."""
        return XGBoostCostModel(self.task, self.fea_type, self.loss_type, upper_model=self)

    def _fit(self, rows: Array, speeds: Array) -> None:
        self._model = BoostedTrees.fit(rows, speeds / max(float(speeds.max()), 1e-8))

    def _rows(self, indices: Any) -> Array:
        return self._features.rows(self._features.digits(np.asarray(indices, dtype=np.int64)))
