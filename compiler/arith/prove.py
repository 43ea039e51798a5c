"""Proving inequalities about sums.

First by the constant bounds of the atoms. Where those are unknown, an atom is replaced by a sum that is at least as
great in the sum at hand, until constants decide. A loop variable is replaced by its last value, a minimum by one of its
operands, 32*(x//32) by x. The search is bounded; failing to prove says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from compiler.arith.atoms import Atoms, multiply
from compiler.arith.linear import DIV, MAX, MIN, MOD, MUL, SPLIT, VAR, Atom, Lin, plus, scaled

_DEPTH = 8
_STEPS = 60


def is_negative(t: Atoms, x: Lin) -> bool:
    """Whether x < 0 is proven, for every value of the variables within their bounds."""
    lo, hi = x.bounds()
    if hi < 0:
        return True
    if lo >= 0:
        return False
    if not x.terms:
        return False
    if _follows(t, x):
        return True
    if not t.ranges and all(atom.kind == VAR for atom in x.terms):
        return False
    return _search(t, x, _DEPTH, [_STEPS])


def _follows(t: Atoms, x: Lin) -> bool:
    """Whether x < 0 follows from one known fact f < 0:  x - f <= 0."""
    return any(plus(x, fact, -1).bounds()[1] <= 0 for fact in t.facts)


def _search(t: Atoms, x: Lin, depth: int, steps: list[int]) -> bool:
    lo, hi = x.bounds()
    if hi < 0:
        return True
    if lo >= 0:
        return False
    if depth == 0 or steps[0] <= 0:
        return False
    if t.facts and _follows(t, x):
        return True
    steps[0] -= 1
    for atom, c in reversed(x.terms.items()):
        for ways in _raise(t, x, atom, c):
            if all(_search(t, way, depth - 1, steps) for way in ways):
                return True
    return False


def _raise(t: Atoms, x: Lin, atom: Atom, c: int) -> Iterator[tuple[Lin, ...]]:
    """Yield tuples of sums without `atom`: x is at most the greatest sum of each tuple."""
    rest = Lin({a: k for a, k in x.terms.items() if a is not atom}, x.const)
    match atom.kind:
        case k if k == VAR:
            if atom in t.ranges:
                yield (plus(rest, t.ranges[atom][c > 0], c),)
        case k if k in (MIN, MAX):
            first, second = plus(rest, atom.x, c), plus(rest, atom.y, c)
            if (c > 0) == (atom.kind == MIN):  # either operand bounds it
                yield (first,)
                yield (second,)
            else:
                yield (first, second)
        case k if k == SPLIT and not atom.upper:
            up = atom.lower // gcd(c, atom.lower)  # times this, the sum has c a multiple of lower
            value = Lin(atom.x.terms, atom.x.const - (0 if c > 0 else atom.lower - 1))
            yield (plus(scaled(rest, up), value, c * up // atom.lower),)
        case k if k == DIV and atom.y.bounds()[0] >= 0:  # no divisor is 0, so multiply by it
            value = atom.x if c > 0 else plus(atom.x, Lin(atom.y.terms, atom.y.const - 1), -1)
            whole = multiply(t, rest, atom.y)
            if whole is not None:
                yield (plus(whole, value, c),)
        case k if k == MOD and atom.y.bounds()[0] >= 0:
            yield (plus(rest, Lin(atom.y.terms, atom.y.const - 1), c) if c > 0 else rest,)
        case k if k == MUL:
            yield from _raise_product(t, rest, atom, c)


def _raise_product(t: Atoms, rest: Lin, atom: Atom, c: int) -> Iterator[tuple[Lin, ...]]:
    for position, factor in enumerate(atom.factors):
        others = atom.factors[:position] + atom.factors[position + 1 :]
        left = t.product(others)
        if left.bounds()[0] < 0:
            continue
        if factor.kind == DIV and _same(factor.y, left):  # (x // n) * n
            slack = plus(factor.x, Lin(left.terms, left.const - 1), -1)
            yield (plus(rest, factor.x if c > 0 else slack, c),)
        elif factor in t.ranges:
            bound = t.ranges[factor][c > 0]
            value = scaled(left, bound.const)
            for term, k in bound.terms.items():
                value = plus(value, t.product((*term.factors, *others)), k)
            yield (plus(rest, value, c),)
        elif c < 0 and factor.lo > 0:  # at least its least value
            yield (plus(rest, left, c * int(factor.lo)),)


def _same(a: Lin, b: Lin) -> bool:
    return a.const == b.const and a.terms == b.terms
