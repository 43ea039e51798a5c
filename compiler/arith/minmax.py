"""Minima and maxima of sums, and sums that contain them."""

from __future__ import annotations

from compiler.arith.atoms import Atoms
from compiler.arith.linear import MAX, MIN, Atom, Lin, plus
from compiler.arith.prove import is_negative


def extreme(t: Atoms, kind: int, x: Lin, y: Lin) -> Lin:
    """min(x, y) or max(x, y): decided by bounds where they allow, common terms taken out."""
    chosen = _decided(t, kind, x, y)
    if chosen is not None:
        return chosen
    common = {a: c for a, c in x.terms.items() if y.terms.get(a) == c}
    const = x.const if x.const == y.const else 0
    if common or const:
        shared = Lin(common, const)
        return plus(_extreme(t, kind, plus(x, shared, -1), plus(y, shared, -1)), shared)
    return _extreme(t, kind, x, y)


def _decided(t: Atoms, kind: int, x: Lin, y: Lin) -> Lin | None:
    difference = plus(x, y, -1)
    lo, hi = difference.bounds()
    if hi <= 0:
        return x if kind == MIN else y
    if lo >= 0:
        return y if kind == MIN else x
    if t.ranges or t.facts:
        if is_negative(t, Lin(difference.terms, difference.const - 1)):
            return x if kind == MIN else y
        opposite = plus(y, x, -1)
        if is_negative(t, Lin(opposite.terms, opposite.const - 1)):
            return y if kind == MIN else x
    return None


def _extreme(t: Atoms, kind: int, x: Lin, y: Lin) -> Lin:
    for value, nested in ((x, y), (y, x)):
        inner = nested.single()
        if inner is not None and inner.kind == kind:
            # min(x, min(a, b)) where x beats a or b, or the other way round
            for kept, other in ((inner.y, inner.x), (inner.x, inner.y)):
                best = _decided(t, kind, value, other)
                if best is value:
                    return extreme(t, kind, value, kept)
                if best is other:
                    return nested
    if not x.terms or (y.terms and _order(y) < _order(x)):
        x, y = y, x
    return t.extreme(kind, x, y)


def _order(x: Lin) -> tuple[int, str]:
    return -len(x.terms), x.text()


def absorb(t: Atoms, x: Lin) -> Lin:
    """Move terms of x into a minimum or maximum where they cancel: min(a + 4, n) - a = min(4, n - a)."""
    while True:
        moved = _absorb_once(t, x)
        if moved is None:
            return x
        x = moved


def _absorb_once(t: Atoms, x: Lin) -> Lin | None:
    for atom, c in x.terms.items():
        if atom.kind in (MIN, MAX) and c in (1, -1):
            moved = {a: k for a, k in x.terms.items() if a is not atom and _cancels(atom, a, -c * k)}
            if moved:
                rest = {a: k for a, k in x.terms.items() if a is not atom and a not in moved}
                inner = Lin(moved, 0)
                value = extreme(t, atom.kind, plus(atom.x, inner, c), plus(atom.y, inner, c))
                return plus(Lin(rest, x.const), value, c)
    return None


def _cancels(extreme_atom: Atom, atom: Atom, c: int) -> bool:
    return extreme_atom.x.terms.get(atom) == c or extreme_atom.y.terms.get(atom) == c
