"""Matrices times vectors by shared sums: exact, and with no more operations than by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from compiler.schedule.analysis.cook_toom import fast_filter
from compiler.schedule.analysis.shared_sums import Matrix, times_vector
from tests.kit.fuzzing import cases


@dataclass(frozen=True)
class Symbol:
    """A number known by how it was computed. `sums` has each sum and difference once, as a compiler would."""

    text: str
    sums: set[str] = field(compare=False)

    def __add__(self, other: Symbol) -> Symbol:
        return self._sum(f"({self.text} + {other.text})")

    def __sub__(self, other: Symbol) -> Symbol:
        return self._sum(f"({self.text} - {other.text})")

    def times(self, factor: Fraction) -> Symbol:
        return Symbol(f"({factor} * {self.text})", self.sums)

    def _sum(self, text: str) -> Symbol:
        self.sums.add(text)
        return Symbol(text, self.sums)


def additions(matrix: Matrix) -> int:
    sums: set[str] = set()
    times_vector(matrix, [Symbol(f"t{k}", sums) for k in range(len(matrix[0]))], Symbol.times)
    return len(sums)


def product(matrix: Matrix, terms: list[Fraction]) -> list[Fraction]:
    return [sum((c * t for c, t in zip(row, terms)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize("scaled_data", [False, True])
@pytest.mark.parametrize("taps", [2, 3, 5])
@pytest.mark.parametrize("results", [2, 3, 4])
def test_matrices_of_fast_filters_are_applied_exactly(results: int, taps: int, scaled_data: bool) -> None:
    fast = fast_filter(results, taps, scaled_data)
    rng = np.random.default_rng(results * 8 + taps)
    for matrix in (fast.data, fast.taps, fast.result):
        terms = [Fraction(int(v)) for v in rng.integers(-9, 10, len(matrix[0]))]
        assert times_vector(matrix, terms, lambda t, c: t * c) == product(matrix, terms)


@pytest.mark.parametrize("seed", range(cases(40)))
def test_any_matrix_is_applied_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = (int(v) for v in rng.integers(1, 7, 2))
    drawn = rng.integers(-2, 3, (rows, columns))
    for at in range(rows):  # rows and columns that are alike but for signs, which have sums in common
        if at and rng.random() < 0.5:
            drawn[at] = drawn[at - 1] * rng.choice([-1, 1]) * (-1) ** np.arange(columns)
    if columns > 1 and rng.random() < 0.5:
        drawn[:, 1] = drawn[:, 0] * rng.choice([-1, 1], rows)
    drawn[~drawn.any(axis=1), 0] = 1  # rows of zeros are none
    matrix = tuple(tuple(Fraction(int(v), int(rng.integers(1, 3))) for v in row) for row in drawn)
    terms = [Fraction(int(v)) for v in rng.integers(-9, 10, columns)]
    assert times_vector(matrix, terms, lambda t, c: t * c) == product(matrix, terms)


def test_neighbouring_points_share_their_sums() -> None:
    """Counted for four results of three taps: written out, they would take 18, 12 and 14 additions."""
    fast = fast_filter(4, 3)
    assert [additions(matrix) for matrix in (fast.data, fast.taps, fast.result)] == [12, 6, 10]


def test_fractions_stand_where_they_are_told_to() -> None:
    assert all(c.denominator == 1 for row in fast_filter(4, 3).data for c in row)
    assert all(c.denominator == 1 for row in fast_filter(4, 3, scaled_data=True).taps for c in row)
    assert any(c.denominator > 1 for row in fast_filter(4, 3, scaled_data=True).data for c in row)
