"""The tuner with a cost model.

Boosted trees on the knobs' values, asked for the best of many configs at once.

Named as in TVM after the library that it uses; the trees are our own (`tuner.faces.common.boosted_trees`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tuner.faces.autotvm.dispatch_context import Workload
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.features import FeatureTable
from tuner.faces.autotvm.index_tuners import RandomTuner
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.task import Task
from tuner.faces.common.boosted_trees import Array, BoostedTrees, Ints

_LEAST = 8  # measured configs before a model is fitted
_ALL = 1 << 14  # a space up to this size is scored whole
_CHAINS, _STEPS = 128, 60  # simulated annealing in a larger one
_EXPLORE = 0.05  # share of configs that is picked at random
_CHOICES = {
    "feature_type": ("itervar", "knob", "curve"),
    "loss_type": ("reg", "rank", "rank-binary"),
    "optimizer": ("sa",),
}


class XGBTuner(RandomTuner):
    """Picks the configs that a model of speed ranks highest, `plan_size` at a time.

    It fits the model anew with every quarter of a plan that was measured. The first configs are random. These are
    accepted as in TVM: `feature_type` (the features are always the knobs' values), `loss_type` (always squared loss
    of the logarithm of the speed), and `num_threads`, `log_interval` (without effect). `optimizer` is "sa".
    `diversity_filter_ratio` must be None. Raises ConfigError for other values.
    """

    def __init__(
        self, task: Task, plan_size: int = 64, feature_type: str = "itervar", loss_type: str = "reg",
        num_threads: int | None = None, optimizer: Any = "sa", diversity_filter_ratio: float | None = None,
        log_interval: int = 50, *, seed: int = 0,
    ) -> None:  # fmt: skip
        for name, given in (("feature_type", feature_type), ("loss_type", loss_type), ("optimizer", optimizer)):
            if given not in _CHOICES[name]:
                raise ConfigError(f"{name} {given!r} is not there", hint=f"known: {', '.join(_CHOICES[name])}")
        if diversity_filter_ratio is not None:
            raise ConfigError("diversity_filter_ratio is not there", hint="leave it out")
        if plan_size < 1:
            raise ConfigError(f"plan_size is at least 1, got {plan_size}")
        super().__init__(task, seed=seed)
        self.plan_size = plan_size
        self._features = FeatureTable(self.space)
        self._rows: list[Array] = []
        self._speeds: list[float] = []  # logarithms
        self._seeds: tuple[list[Array], list[float]] = ([], [])
        self._plan: list[int] = []
        self._since_plan = 0

    def pick(self) -> int | None:
        if not self.space.dims or self._rng.random() < _EXPLORE:
            return super().pick()
        stale = self._since_plan >= max(1, self.plan_size // 4)
        if (stale or not self._plan) and len(self._rows) + len(self._seeds[0]) >= _LEAST:
            self._plan = self._make_plan()
            self._since_plan = 0
        while self._plan:
            index = self._plan.pop(0)
            if self.fresh(index):
                return index
        return super().pick()

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            row = self._features.of(inp.config)
            if row is None:
                continue
            self._since_plan += 1
            self._rows.append(row)
            self._speeds.append(float(np.log(1 / result.cost)) if result.error_no == 0 else -np.inf)

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Fit to records of this template, of this and other sizes, before anything is measured.
        The model learns for each workload how its configs compare. Fewer than `min_seed_records` fitting ones are
        not used."""
        groups: defaultdict[Workload, list[tuple[Array, float]]] = defaultdict(list)
        for inp, result in data_set:
            row = self._features.of(inp.config) if inp.task.name == self.task.name else None
            if row is not None:
                speed = float(np.log(1 / result.cost)) if result.error_no == 0 else -np.inf
                groups[inp.task.workload].append((row, speed))
        rows: list[Array] = []
        speeds: list[float] = []
        for group in groups.values():
            rows += [row for row, _ in group]
            speeds += _relative([speed for _, speed in group])
        if len(rows) >= min_seed_records:
            self._seeds = rows, speeds

    # -- the model

    def _make_plan(self) -> list[int]:
        rows = [*self._rows, *self._seeds[0]]
        speeds = [*_relative(self._speeds), *self._seeds[1]]
        model = BoostedTrees.fit(np.stack(rows), np.array(speeds))
        ranked = self._scored_whole(model) if self.space.range_length <= _ALL else self._annealed(model)
        plan: list[int] = []
        for index in ranked:
            if len(plan) == self.plan_size:
                break
            if self.fresh(index):
                plan.append(index)
        return plan

    def _scored_whole(self, model: BoostedTrees) -> list[int]:
        points = self._features.digits(np.arange(self.space.range_length))
        scores = model.predict(self._features.rows(points))
        # equal scores in random order: leaves of a tree hold many configs
        order = np.lexsort((self._rng.random(len(scores)), -scores))
        return [int(i) for i in order]

    def _annealed(self, model: BoostedTrees) -> list[int]:
        """The indices that chains of simulated annealing came by, best first."""
        dims = np.array(self.space.dims)
        points: Ints = self._rng.integers(dims, size=(_CHAINS, len(dims)))
        scores = model.predict(self._features.rows(points))
        seen = {tuple(p): s for p, s in zip(points.tolist(), scores)}
        chains = np.arange(_CHAINS)
        for step in range(_STEPS):
            moved = points.copy()
            knob = self._rng.integers(len(dims), size=_CHAINS)
            moved[chains, knob] = self._rng.integers(dims[knob])
            fresh = model.predict(self._features.rows(moved))
            seen.update((tuple(p), s) for p, s in zip(moved.tolist(), fresh))
            heat = 0.5 * (1 - step / _STEPS) + 1e-3
            taken = self._rng.random(_CHAINS) < np.exp(np.minimum(0, (fresh - scores) / heat))
            points, scores = np.where(taken[:, None], moved, points), np.where(taken, fresh, scores)
        ranked = sorted(seen, key=lambda point: seen[point], reverse=True)
        return [self.space.knob2point(point) for point in ranked]


def _relative(speeds: Sequence[float]) -> list[float]:
    """Logarithms of speeds relative to the fastest.
    A failed trial counts as a little slower than the slowest."""
    known = [s for s in speeds if np.isfinite(s)]
    if not known:
        return [-1.0] * len(speeds)
    floor = min(known) - max(known) - 0.5
    return [s - max(known) if np.isfinite(s) else floor for s in speeds]
