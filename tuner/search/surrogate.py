"""A run's own model of its task.

A Gaussian process over features, around what the prior score promises.

C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2 and 5. It serves a few hundred
trials at most. For each candidate it predicts a speed and how sure that is, and takes milliseconds to fit.

The linear algebra is done by hand, with sums that numpy carries out itself. A BLAS would start threads, which spin
on the cores where kernels are built and measured, and would take longer for such small matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tuner.model.types import Floats, Ints

_MOST = 192  # trials it is fitted to: the best ones and the newest ones
_SCALES = (0.5, 1.0, 2.0)  # of the distance between features at which costs have little to do with each other
_NOISE = 0.02
_TRUST = 4.0  # how many trials the prior's own scale counts for
_SLOPE = -0.5  # how much a score one deviation higher is believed to save, in logarithms of cost, before any trial


@dataclass(frozen=True)
class Surrogate:
    """Predicts the logarithm (base 2) of costs. Columns of features are scaled by `mean` and `scale`."""

    mean: Floats
    scale: Floats
    prior: tuple[float, float]  # its mean and deviation
    line: tuple[float, float]  # cost at a middling prior, and its slope
    spread: float
    rows: Floats
    weights: Floats
    root: Floats  # the lower triangle of the kernel matrix's Cholesky factor
    reach: float

    @staticmethod
    def fit(rows: Floats, prior: Floats, costs: Floats, typical: Floats) -> Surrogate:
        """Fit to what was measured: `rows` (trials, features), `prior` and `costs` (trials).
        `typical` are prior scores all over the space."""
        kept = _kept(costs)
        rows, prior, logs = rows[kept], prior[kept], np.log2(costs[kept])
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        varies = scale > 1e-9
        scaled = np.where(varies, (rows - mean) / np.where(varies, scale, 1.0), 0.0)
        centre, deviation = float(typical.mean()), max(float(typical.std()), 1e-9)
        height, slope = _line((prior - centre) / deviation, logs)
        left = logs - height - slope * (prior - centre) / deviation
        spread = max(float(left.std()), 0.05)
        distances = _distances(scaled, scaled)
        reach = max(1, int(varies.sum())) ** 0.5
        fitted = [_solved(distances / (reach * s), left / spread) for s in _SCALES]
        best = max(range(len(_SCALES)), key=lambda i: fitted[i][0])
        _, weights, root = fitted[best]
        return Surrogate(
            mean=mean, scale=np.where(varies, scale, np.inf), prior=(centre, deviation), line=(height, slope),
            spread=spread, rows=scaled, weights=weights, root=root, reach=reach * _SCALES[best],
        )  # fmt: skip

    def expected(self, rows: Floats, prior: Floats) -> Floats:
        """The logarithm of each cost that is expected."""
        trend = self.line[0] + self.line[1] * (prior - self.prior[0]) / self.prior[1]
        cost: Floats = trend + self.spread * np.einsum("ij,j->i", self._near(rows), self.weights)
        return cost

    def deviation(self, rows: Floats) -> Floats:
        """How sure that is: its standard deviation."""
        half = _forward(self.root, self._near(rows).T)
        deviation: Floats = self.spread * np.sqrt(np.maximum(1.0 - (half**2).sum(axis=0), 1e-6))
        return deviation

    def _near(self, rows: Floats) -> Floats:
        return _matern(_distances((rows - self.mean) / self.scale, self.rows) / self.reach)


def _kept(costs: Floats) -> Ints:
    if len(costs) <= _MOST:
        return np.arange(len(costs))
    best = np.argsort(costs, kind="stable")[: _MOST // 2]
    return np.union1d(best, np.arange(len(costs) - _MOST // 2, len(costs)))


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Height and slope of a line through the points. The slope is drawn towards its default."""
    centred = x - x.mean()
    slope = float(((y - y.mean()) * centred).sum() + _TRUST * _SLOPE) / (float((centred**2).sum()) + _TRUST)
    return float(y.mean()) - slope * float(x.mean()), min(0.0, slope)


def _distances(a: Floats, b: Floats) -> Floats:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2.0 * np.einsum("ik,jk->ij", a, b)
    distances: Floats = np.sqrt(np.maximum(squares, 0.0))
    return distances


def _matern(distances: Floats) -> Floats:
    """The Matérn kernel of smoothness 5/2."""
    d = math.sqrt(5.0) * distances
    kernel: Floats = (1.0 + d + d * d / 3.0) * np.exp(-d)
    return kernel


def _solved(distances: Floats, y: Floats) -> tuple[float, Floats, Floats]:
    """The log likelihood of `y`, the weights that interpolate it, and the kernel matrix's Cholesky factor."""
    root = _cholesky(_matern(distances) + _NOISE * np.eye(len(y)))
    weights = _backward(root, _forward(root, y[:, None])[:, 0])
    return float(-0.5 * (y * weights).sum() - np.log(np.diag(root)).sum()), weights, root


def _cholesky(matrix: Floats) -> Floats:
    """The lower triangle L with L·Lᵀ = matrix, a positive definite one, column by column."""
    root = np.tril(matrix)
    for j in range(len(root)):
        root[j:, j] -= np.einsum("ik,k->i", root[j:, :j], root[j, :j])
        root[j:, j] /= np.sqrt(root[j, j])
    return root


def _forward(root: Floats, columns: Floats) -> Floats:
    """L⁻¹ · columns."""
    found = np.array(columns)
    for i in range(len(root)):
        found[i] = (found[i] - np.einsum("k,kj->j", root[i, :i], found[:i])) / root[i, i]
    return found


def _backward(root: Floats, column: Floats) -> Floats:
    """L⁻ᵀ · column."""
    found = np.array(column)
    for i in range(len(root) - 1, -1, -1):
        found[i] = (found[i] - (root[i + 1 :, i] * found[i + 1 :]).sum()) / root[i, i]
    return found
