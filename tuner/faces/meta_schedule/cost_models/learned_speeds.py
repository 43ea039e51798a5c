"""Boosted trees that learn from rows of features how fast candidates of a workload are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tuner.errors import TuningError
from tuner.faces.common.boosted_trees import BoostedTrees, BoostOptions
from tuner.faces.meta_schedule.record import FAILED_S
from tuner.model.types import Floats

_TREES = 100
_MOST_DEPTH = 6
_RETRAIN_SHARE = 0.2


class XGBConfig(NamedTuple):
    """Options of the trees, named as in TVM.
    `eta` is how much each tree counts and `max_depth` how deep one may be, up to 6; the others are accepted and
    change nothing."""

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0
    eta: float = 0.2
    seed: int = 43
    nthread: int | None = None
    tree_method: str | None = "auto"

    def to_dict(self) -> dict[str, Any]:
        """Return the options by name."""
        return self._asdict()


def max_curve(trial_scores: Floats) -> Floats:
    """Return the greatest score up to each trial."""
    found: Floats = np.maximum.accumulate(np.asarray(trial_scores))
    return found


@dataclass
class FeatureGroup:
    """The measurements of one workload: each candidate's rows of features, and its seconds."""

    group_hash: str
    features: list[Floats]
    costs: Floats

    @property
    def min_cost(self) -> float:
        return float(self.costs.min()) if len(self.costs) else FAILED_S

    def append(self, features: Sequence[Floats], costs: Floats) -> None:
        self.features.extend(features)
        self.costs = np.append(self.costs, costs)

    def shares(self) -> Floats:
        """Return each candidate's speed as a share of the fastest's."""
        found: Floats = self.min_cost / self.costs
        return found


class LearnedSpeeds:
    """The measurements by workload. Trees are fitted when they are first asked after new ones."""

    def __init__(self, config: XGBConfig) -> None:
        self.groups: OrderedDict[str, FeatureGroup] = OrderedDict()
        self.size = 0
        self.trained_size = 0
        self._config = config
        self._trees: BoostedTrees | None = None
        self._stale = False

    def add(self, workload: str, features: Sequence[Floats], costs: Floats, *, adaptive: bool) -> None:
        """Take measurements. An `adaptive` model is fitted again only when a fifth of what it knows is new."""
        group = self.groups.setdefault(workload, FeatureGroup(workload, [], np.zeros(0)))
        group.append(features, costs)
        self.size += len(costs)
        if not adaptive or self.size - self.trained_size >= self.trained_size * _RETRAIN_SHARE:
            self._stale = True
            self.trained_size = self.size

    def trees(self) -> BoostedTrees | None:
        """Return the fitted trees; None before anything was measured."""
        if self._stale:
            features = [each for group in self.groups.values() for each in group.features]
            shares = np.concatenate([group.shares() for group in self.groups.values()])
            options = BoostOptions(
                trees=_TREES, depth=max(1, min(self._config.max_depth, _MOST_DEPTH)), rate=self._config.eta
            )
            self._trees = BoostedTrees.fit(_summaries(features), shares, options)
            self._stale = False
        return self._trees

    def scores(self, features: Sequence[Floats]) -> Floats:
        """Return the predicted share of the best speed of each candidate. There must be trees."""
        trees = self.trees()
        assert trees is not None
        return trees.predict(_summaries(features)) if features else np.zeros(0)

    def save(self, path: str | Path) -> None:
        """Write the measurements as an archive of numpy."""
        groups = list(self.groups.values())
        features = [each for group in groups for each in group.features]
        with Path(path).open("wb") as file:
            np.savez(
                file,
                rows=np.concatenate(features) if features else np.zeros((0, 0)),
                counts=np.array([len(each) for each in features], np.int64),
                costs=np.concatenate([group.costs for group in groups]) if groups else np.zeros(0),
                sizes=np.array([len(group.costs) for group in groups], np.int64),
                workloads=np.array([group.group_hash for group in groups], dtype=np.str_),
            )

    @staticmethod
    def load(path: str | Path, config: XGBConfig) -> LearnedSpeeds:
        """Read what `save` wrote. Raises TuningError where the file holds none."""
        try:
            with np.load(Path(path), allow_pickle=False) as saved:
                parts = {name: saved[name] for name in ("rows", "counts", "costs", "sizes", "workloads")}
            return _from_parts(parts, config)
        except (ValueError, KeyError, EOFError) as error:
            raise TuningError(f"{path} holds no cost model: {error}") from None


def _from_parts(parts: dict[str, np.ndarray[Any, Any]], config: XGBConfig) -> LearnedSpeeds:
    counts, sizes, costs = parts["counts"], parts["sizes"], parts["costs"]
    if counts.sum() != len(parts["rows"]) or sizes.sum() != len(costs) or len(costs) != len(counts):
        raise ValueError("its parts are of different sizes")
    features = np.split(parts["rows"], np.cumsum(counts)[:-1]) if len(counts) else []
    loaded, at = LearnedSpeeds(config), 0
    for workload, size in zip(parts["workloads"].tolist(), sizes.tolist()):
        loaded.add(workload, features[at : at + size], costs[at : at + size], adaptive=False)
        at += size
    return loaded


def _summaries(features: Sequence[Floats]) -> Floats:
    """One row for each candidate's rows: the greatest and the mean of each feature."""
    return np.stack([np.concatenate([rows.max(axis=0), rows.mean(axis=0)]) for rows in features])
