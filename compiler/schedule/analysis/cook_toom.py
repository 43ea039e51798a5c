"""Matrices of fast convolutions: m neighbouring results of an r-tap filter in m + r - 1 products.

    y = Aᵀ [(G g) ⊙ (Bᵀ d)]        y[i] = Σ g[k] · d[i + k],   i < m, k < r

A product of polynomials is known from its values at m + r - 1 points (one of them infinity): evaluate, multiply,
interpolate. Transposed, the same scheme is a filter. S. Winograd, "Arithmetic Complexity of Computations", 1980;
A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from compiler.schedule.analysis.shared_sums import Matrix, Row

POINTS = tuple(Fraction(p) for p in ("0", "1", "-1", "2", "-2", "1/2", "-1/2"))
"""Where polynomials are evaluated, in the order of use: small powers of two lose few digits."""


@dataclass(frozen=True, slots=True)
class Fast:
    """The matrices of a fast filter: Bᵀ for the data, G for the filter, Aᵀ for the products."""

    data: Matrix
    taps: Matrix
    result: Matrix

    @property
    def products(self) -> int:
        return len(self.data)


@lru_cache(maxsize=16)
def fast_filter(results: int, taps: int, scaled_data: bool = False) -> Fast:
    """Return the matrices for `results` neighbours of a filter with `taps` taps.
    Together they may be at most eight. Fractions stand in the matrix of the filter, or in that of the data."""
    points = POINTS[: results + taps - 2]
    zero, one = Fraction(0), Fraction(1)
    data, filters = [], []
    for point in points:
        others = [p for p in points if p != point]
        scale = one
        for other in others:
            scale *= point - other
        sign = 1 if scale > 0 else -1
        of_data, of_taps = (1 / abs(scale), one) if scaled_data else (one, 1 / abs(scale))
        data.append((*(sign * of_data * c for c in _with_roots(others)), zero))
        filters.append(tuple(of_taps * point**k for k in range(taps)))
    data.append(_with_roots(list(points)))
    filters.append((zero,) * (taps - 1) + (one,))
    at_infinity = (zero,) * (results - 1) + (one,)
    result = tuple((*(p**i for p in points), last) for i, last in enumerate(at_infinity))
    return Fast(tuple(data), tuple(filters), result)


def _with_roots(roots: list[Fraction]) -> Row:
    """The coefficients, lowest first, of the polynomial that is 0 at `roots`."""
    found = [Fraction(1)]
    for root in roots:
        raised, lowered = [Fraction(0), *found], [root * c for c in found] + [Fraction(0)]
        found = [a - b for a, b in zip(raised, lowered)]
    return tuple(found)
