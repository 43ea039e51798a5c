"""How good a series of trials is: the curves that autotvm compares cost models by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.faces.common.boosted_trees import Array


def max_curve(trial_scores: Sequence[float]) -> Array:
    """Return the best score of the first 1, 2, … trials."""
    return np.maximum.accumulate(np.asarray(trial_scores, dtype=np.float64))


def mean_curve(trial_scores: Sequence[float]) -> Array:
    """Return the mean score of the first 1, 2, … trials."""
    scores = np.asarray(trial_scores, dtype=np.float64)
    return np.asarray(np.cumsum(scores) / np.arange(1, len(scores) + 1), dtype=np.float64)


def recall_curve(trial_ranks: Sequence[int], top: int | None = None) -> Array:
    """Return which share of the N best is among the first N trials, for N from 1 on.

    `trial_ranks` has the true rank of each trial, 0 the best. With `top`, N is `top` for all.
    """
    ranks = np.asarray(trial_ranks)
    return np.array([np.sum(ranks[:n] < (top or n)) / (top or n) for n in range(1, len(ranks) + 1)])


def cover_curve(trial_ranks: Sequence[int]) -> Array:
    """Return which share of N the best ranks make without a gap among the first N trials, for N from 1 on."""
    found: list[float] = []
    seen: set[int] = set()
    covered = 0
    for count, rank in enumerate(trial_ranks, 1):
        seen.add(int(rank))
        while covered in seen:
            covered += 1
        found.append(covered / count)
    return np.array(found)


def average_recall(preds: Sequence[float], labels: Sequence[float], N: int) -> float:
    """Return the mean of the recall curve's first `N` values.
    Trials are in the order of their predicted scores."""
    order = np.argsort(-np.asarray(preds))
    ranks = np.argsort(np.argsort(-np.asarray(labels)))
    return float(np.sum(recall_curve([int(rank) for rank in ranks[order]])[:N]) / N)
