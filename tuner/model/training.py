"""Training a ranking model with LightGBM: LambdaRank, a group for each workload.

C. Burges, "From RankNet to LambdaRank to LambdaMART", 2010. A candidate's relevance is how near its speed is to the
best of its group. So groups of different machines and sizes can be trained on together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.model.errors import ModelError
from tuner.model.features import NAMES
from tuner.model.forest import Forest
from tuner.model.quality import Quality, rank_quality
from tuner.model.types import Floats

_LEVELS = 31  # of relevance


@dataclass(frozen=True)
class Group:
    """Candidates of one workload on one kind of device: features and costs in seconds.
    Features are (candidates, len(NAMES)); the kernels run on so many `threads`."""

    workload: str
    matrix: Floats
    costs: Floats
    threads: int = 1


@dataclass(frozen=True)
class TrainingOptions:
    """Options of training.
    `folds`: into how many parts the workloads are divided to judge the model on those it was not trained on."""

    trees: int = 80
    leaves: int = 16
    rate: float = 0.1
    folds: int = 5
    threads: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """A trained model, and how well it ranks.
    `held_out`: the mean over workloads of how well a model ranks them that did not see them; None when there is only
    one workload. `by_workload` has each. `scale`: times it, a score is about the logarithm (base 2) of speed."""

    forest: Forest
    held_out: Quality | None
    by_workload: dict[str, Quality]
    scale: float


def train(groups: Sequence[Group], options: TrainingOptions = TrainingOptions()) -> Trained:
    """A model of all groups, judged by models that each left some of the workloads out.
    Raises ModelError without LightGBM, or with nothing to learn from."""
    usable = [group for group in groups if len(group.costs) >= 2]
    if not usable:
        raise ModelError(
            "there are no two measured candidates of one workload to learn from", hint="tunefarm tune WORKLOAD"
        )
    judged: dict[str, Quality] = {}
    for kept, held in _folds(usable, options.folds):
        forest = fit(kept, options)
        for group in held:
            judged[group.workload] = rank_quality(forest.predict(group.matrix), group.costs)
    held_out = Quality.mean(list(judged.values())) if judged else None
    forest = fit(usable, options)
    return Trained(forest, held_out, judged, _scale(forest, usable))


def _scale(forest: Forest, groups: Sequence[Group]) -> float:
    """The slope of log2 speed over score, within groups."""
    scores, speeds = [], []
    for group in groups:
        score, speed = forest.predict(group.matrix), -np.log2(group.costs)
        scores.append(score - score.mean())
        speeds.append(speed - speed.mean())
    x, y = np.concatenate(scores), np.concatenate(speeds)
    return max(0.0, float((x * y).sum()) / max(float((x * x).sum()), 1e-9))


def _folds(groups: Sequence[Group], folds: int) -> Iterator[tuple[list[Group], list[Group]]]:
    """Split groups into those to train on and those to judge by.
    All groups of a workload are on the same side."""
    workloads = sorted({group.workload for group in groups})
    folds = min(folds, len(workloads))
    for fold in range(folds if folds > 1 else 0):
        out = set(workloads[fold::folds])
        yield [g for g in groups if g.workload not in out], [g for g in groups if g.workload in out]


def fit(groups: Sequence[Group], options: TrainingOptions = TrainingOptions()) -> Forest:
    """One model of the groups. Raises ModelError without LightGBM."""
    lightgbm = _lightgbm()
    data = lightgbm.Dataset(
        np.concatenate([g.matrix for g in groups]),
        label=np.concatenate([_relevance(g.costs) for g in groups]),
        group=[len(g.costs) for g in groups],
        feature_name=list(NAMES),
        free_raw_data=False,
        params={"verbose": -1, "min_data_in_bin": 1, "use_missing": False},
    )
    parameters = {
        "objective": "lambdarank",
        "label_gain": list(range(_LEVELS + 1)),
        "lambdarank_truncation_level": 64,
        "num_leaves": options.leaves,
        "learning_rate": options.rate,
        "min_data_in_leaf": 5,
        "lambda_l2": 1.0,
        "feature_fraction": 0.8,
        "num_threads": options.threads,  # more than the cores that are free would make it wait, not work
        "seed": options.seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbose": -1,
        "use_missing": False,
    }
    booster = lightgbm.train(parameters, data, num_boost_round=options.trees)
    return Forest.parse(_without_extras(booster.model_to_string()))


def _relevance(costs: Floats) -> Floats:
    relevance: Floats = np.round(_LEVELS * costs.min() / costs)
    return relevance


def _without_extras(text: str) -> str:
    """The model without LightGBM's list of parameters, which has this machine's paths and thread counts."""
    return text.split("\nfeature_importances:")[0].rstrip("\n") + "\n"


def _lightgbm() -> Any:
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # OSError: installed, but a library it needs is not (libgomp)
        raise ModelError(f"training needs LightGBM: {error}", hint="pip install 'tunefarm[model]'") from None
    return lightgbm
