"""A small matrix of fractions times a vector in few operations.

Sums that two rows need are written once. Matrices of fast filters have points p and -p. Their rows for p and -p differ
in the sign of every other number:

    e = d4 - 4 · d2,   o = d3 - 4 · d1:    e + o  and  e - o

Their columns for p and -p differ in signs alone, so that their terms are added and subtracted once for all rows. The
compiler finds equal expressions, and does not reorder sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Protocol, Self, TypeVar

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]


class _Number(Protocol):
    def __add__(self, other: Self, /) -> Self: ...
    def __sub__(self, other: Self, /) -> Self: ...


N = TypeVar("N", bound=_Number)
_ONE = Fraction(1)


def times_vector(matrix: Matrix, terms: Sequence[N], scaled: Callable[[N, Fraction], N]) -> list[N]:
    """Return each row of `matrix` times `terms`. No row may be all zeros.
    `scaled` multiplies a term by a fraction other than 1."""
    columns, made = _paired(matrix, terms)
    if columns != matrix:
        return [_sum(zip(row, made), scaled) for row in columns]
    return [_row(matrix, at, terms, scaled) for at in range(len(matrix))]


def _paired(matrix: Matrix, terms: Sequence[N]) -> tuple[Matrix, list[N]]:
    """The matrix and the terms with columns joined that differ in signs alone.
    They become those of the terms' sum and difference."""
    columns: list[Row] = list(zip(*matrix))
    made: list[tuple[Row, N]] = []
    left = list(range(len(columns)))
    while left:
        a = left.pop(0)
        magnitudes = [abs(c) for c in columns[a]]
        b = next((k for k in left if any(columns[a]) and [abs(c) for c in columns[k]] == magnitudes), None)
        if b is None:
            made.append((columns[a], terms[a]))
            continue
        left.remove(b)
        both = list(zip(columns[a], columns[b]))
        zero = Fraction(0)
        alike, unlike = (tuple(c if c == sign * d else zero for c, d in both) for sign in (1, -1))
        made += [(alike, terms[a] + terms[b])] if any(alike) else []
        made += [(unlike, terms[a] - terms[b])] if any(unlike) else []
    return tuple(zip(*(column for column, _ in made))), [term for _, term in made]


def _row(matrix: Matrix, at: int, terms: Sequence[N], scaled: Callable[[N, Fraction], N]) -> N:
    """One row times the terms.
    It is made of the same two sums as a row with every other sign changed, if there is one."""
    signs = {k: _mirrored(matrix[at], row) for k, row in enumerate(matrix) if k != at}
    other = next((k for k, sign in signs.items() if sign), None)
    if other is None:
        return _sum(zip(matrix[at], terms), scaled)
    first = matrix[min(at, other)]
    even, of_even = _with_factor(list(zip(first, terms))[::2], scaled)
    odd, of_odd = _with_factor(list(zip(first, terms))[1::2], scaled)
    if at > other:
        of_even, of_odd = of_even * signs[other], -of_odd * signs[other]
    return _sum(((of_even, even), (of_odd, odd)), scaled)


def _mirrored(row: Row, other: Row) -> int:
    """The sign by which `other` is `row` with the sign of every second number changed; 0 if it is not."""
    if not any(row[::2]) or not any(row[1::2]):
        return 0
    for sign in (1, -1):
        if all(d == (sign if k % 2 == 0 else -sign) * c for k, (c, d) in enumerate(zip(row, other))):
            return sign
    return 0


def _with_factor(parts: Iterable[tuple[Fraction, N]], scaled: Callable[[N, Fraction], N]) -> tuple[N, Fraction]:
    """A sum and what it is to be multiplied by, so that one of its terms needs no multiplication."""
    used = [(c, term) for c, term in parts if c]
    factor = min(abs(c) for c, _ in used)
    if all(c < 0 for c, _ in used):
        factor = -factor
    return _sum(((c / factor, term) for c, term in used), scaled), factor


def _sum(parts: Iterable[tuple[Fraction, N]], scaled: Callable[[N, Fraction], N]) -> N:
    """The sum of terms, each by its coefficient: positive ones first, so that none is negated."""
    used = sorted(((c, term) for c, term in parts if c), key=lambda pair: pair[0] < 0)
    (first, term), *others = used
    total = term if first == _ONE else scaled(term, first)
    for c, term in others:
        own = term if abs(c) == _ONE else scaled(term, abs(c))
        total = total + own if c > 0 else total - own
    return total
