"""Gradient-boosted regression trees for a few thousand points of a few dozen features, in numpy.

It is Friedman's boosting with squared loss. Each tree is fitted to the residuals of those before it, on features put
in at most 64 bins, and counts by `rate`. (Ke et al., "LightGBM", 2017, has the histogram method.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

_BINS = 64


@dataclass(frozen=True)
class BoostOptions:
    """Options of boosted trees: at most `trees` of `depth` splits, none for fewer than `least` points.
    `ridge` shrinks leaves of few points."""

    trees: int = 80
    depth: int = 4
    rate: float = 0.15
    least: int = 2
    ridge: float = 1.0


@dataclass(frozen=True)
class _Tree:
    """A complete binary tree: node i has children 2i + 1 and 2i + 2.
    A node without a split sends everything to the left."""

    feature: Ints
    threshold: Array
    value: Array
    depth: int

    def leaves(self, x: Array) -> Array:
        node = np.zeros(len(x), dtype=np.int64)
        rows = np.arange(len(x))
        for _ in range(self.depth):
            right = x[rows, self.feature[node]] > self.threshold[node]
            node = 2 * node + 1 + right
        values: Array = self.value[node]
        return values


class BoostedTrees:
    """A model that was fitted. `predict` is deterministic, for any number of points."""

    def __init__(self, base: float, trees: tuple[_Tree, ...], rate: float) -> None:
        self._base = base
        self._depth = trees[0].depth
        self._features = np.stack([t.feature for t in trees])  # [tree, node], to walk all trees at once
        self._thresholds = np.stack([t.threshold for t in trees])
        self._values = rate * np.stack([t.value for t in trees])

    @staticmethod
    def fit(x: Array, y: Array, options: BoostOptions | None = None) -> BoostedTrees:
        """Fit `y[i]` to the features `x[i]`; at least one point."""
        options = options or BoostOptions()
        edges = [_edges(x[:, f]) for f in range(x.shape[1])]
        bins = np.stack([np.searchsorted(e, x[:, f], side="left") for f, e in enumerate(edges)], axis=1)
        base = float(y.mean())
        left = y - base
        trees = []
        for _ in range(options.trees):
            tree = _grow(bins, left, edges, options)
            trees.append(tree)
            left = left - options.rate * tree.leaves(x)
        return BoostedTrees(base, tuple(trees), options.rate)

    def predict(self, x: Array) -> Array:
        trees = np.arange(len(self._features))[:, None]
        points = np.arange(len(x))[None, :]
        node = np.zeros((len(self._features), len(x)), dtype=np.int64)
        for _ in range(self._depth):
            node = 2 * node + 1 + (x[points, self._features[trees, node]] > self._thresholds[trees, node])
        total: Array = self._base + self._values[trees, node].sum(axis=0)
        return total


def _edges(column: Array) -> Array:
    """Where a feature may be cut: halfway between values, or between quantiles when there are many."""
    values = np.unique(column)
    if len(values) > _BINS:
        values = np.unique(np.quantile(values, np.linspace(0, 1, _BINS)))
    return (values[1:] + values[:-1]) / 2


def _grow(bins: Ints, y: Array, edges: list[Array], options: BoostOptions) -> _Tree:
    count = 2 ** (options.depth + 1) - 1
    feature, threshold = np.zeros(count, dtype=np.int64), np.full(count, np.inf)
    value = np.zeros(count)
    members: dict[int, Ints] = {0: np.arange(len(y))}
    for node in range(count):
        rows = members.pop(node, None)
        if rows is None:
            continue
        value[node] = y[rows].sum() / (len(rows) + options.ridge)
        if 2 * node + 2 >= count:
            continue
        cut = _best_cut(bins[rows], y[rows], edges, options)
        if cut is None:
            members[2 * node + 1] = rows  # on to the lowest level, where values are read
            continue
        feature[node], at = cut
        threshold[node] = edges[feature[node]][at]
        right = bins[rows, feature[node]] > at
        members[2 * node + 1], members[2 * node + 2] = rows[~right], rows[right]
    return _Tree(feature, threshold, value, options.depth)


def _best_cut(bins: Ints, y: Array, edges: list[Array], options: BoostOptions) -> tuple[int, int] | None:
    """The feature and bin after which to cut: where the squared error falls most. None when nowhere."""
    rows, features = bins.shape
    if rows < 2 * options.least:
        return None
    width = max(len(e) for e in edges) + 1
    flat = (bins + width * np.arange(features)).ravel()
    size = features * width
    sums = np.bincount(flat, weights=np.repeat(y, features), minlength=size).reshape(features, width).cumsum(axis=1)
    counts = np.bincount(flat, minlength=size).reshape(features, width).cumsum(axis=1)
    total = y.sum()
    fits = (counts >= options.least) & (rows - counts >= options.least)
    gain = sums**2 / (counts + options.ridge) + (total - sums) ** 2 / (rows - counts + options.ridge)
    gain = np.where(fits, gain, -np.inf)
    best = int(gain.argmax())
    if gain.flat[best] <= total**2 / (rows + options.ridge) + 1e-12:
        return None
    return best // width, best % width
