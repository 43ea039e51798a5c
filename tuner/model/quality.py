"""How well scores rank candidates of one workload by their measured costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tuner.model.types import Floats, Ints

_TOP = 16


@dataclass(frozen=True)
class Quality:
    """How well a model ranks.
    `spearman`: rank correlation of score and speed, 1 at best. `ndcg`: the reached part of the best possible speed
    among the first 16. `recall`: the share of the fastest 16 among the 16 scored best (fewer, when there are fewer
    than 64). `found`: the least cost over the least cost among those scored best."""

    spearman: float
    ndcg: float
    recall: float
    found: float

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in asdict(self).items()}

    @staticmethod
    def mean(of: Sequence[Quality]) -> Quality:
        columns = zip(*((q.spearman, q.ndcg, q.recall, q.found) for q in of), strict=True)
        return Quality(*(float(np.mean(column)) for column in columns))


def rank_quality(scores: Floats, costs: Floats) -> Quality:
    """Return how well at least two candidates are ranked, by score (higher is better) and cost (seconds)."""
    top = max(1, min(_TOP, len(costs) // 4))
    by_score, by_cost = np.argsort(-scores, kind="stable"), np.argsort(costs, kind="stable")
    gain = costs.min() / costs
    discount = 1.0 / np.log2(np.arange(2, top + 2))
    return Quality(
        spearman=_correlation(_ranks(scores), _ranks(-costs)),
        ndcg=float((gain[by_score[:top]] * discount).sum() / (gain[by_cost[:top]] * discount).sum()),
        recall=len(set(by_score[:top].tolist()) & set(by_cost[:top].tolist())) / top,
        found=float(gain[by_score[:top]].max()),
    )


def _ranks(values: Floats) -> Floats:
    """Ranks from 0, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends: Ints = np.cumsum(counts)
    means: Floats = (ends - (counts + 1) / 2)[inverse]
    return means


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / scale) if scale > 0 else 0.0
