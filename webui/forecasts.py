"""How well a run's model predicted.

The time that it expected of each candidate, and the time measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from tuner.engine.run_recorder import EXPECTED
from tuner.model.quality import rank_quality
from tuner.records.model import Trial, TrialPurpose

_FEW = 8
"""Candidates below which no accuracy is told."""


@dataclass(frozen=True)
class Forecast:
    """Seconds a call of one candidate, as expected before it was measured and as measured."""

    sequence: int
    expected: float
    cost: float


@dataclass(frozen=True)
class Accuracy:
    """How good forecasts were.
    `rank`: Spearman's correlation of expected and measured times, 1 when the order was right. `error`: the median
    error, as a factor less one. `recall`: of the fastest quarter (sixteen at most), the share that was among as many
    expected to be fastest."""

    count: int
    rank: float
    error: float
    recall: float


def forecasts_of(trials: Iterable[Trial]) -> list[Forecast]:
    """Return the forecasts of search trials that were measured and had an expected time."""
    return [
        Forecast(trial.sequence, trial.environment[EXPECTED], trial.cost)
        for trial in trials
        if trial.purpose is TrialPurpose.SEARCH and trial.cost is not None and trial.environment.get(EXPECTED, 0.0) > 0
    ]


def accuracy_of(forecasts: Sequence[Forecast]) -> Accuracy | None:
    """None for too few."""
    if len(forecasts) < _FEW:
        return None
    quality = rank_quality(np.array([-f.expected for f in forecasts]), np.array([f.cost for f in forecasts]))
    error = math.exp(median(abs(math.log(f.expected / f.cost)) for f in forecasts)) - 1.0
    return Accuracy(len(forecasts), quality.spearman, error, quality.recall)
