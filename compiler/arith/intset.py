"""The range an expression takes while some of its variables run over theirs.

This is what region inference asks: which elements does this index touch while the inner loops run?
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.arith.atoms import multiply
from compiler.arith.bounds import is_known
from compiler.arith.divide import div, mod
from compiler.arith.linear import DIV, MAX, MIN, MOD, MUL, SPLIT, VAR, Atom, Lin, plus
from compiler.arith.minmax import extreme
from compiler.arith.normal import Normal
from compiler.errors import IRError
from compiler.tir import nodes as n

Domains = Mapping[n.Var, tuple[Lin, Lin]]
Interval = tuple[Lin, Lin]


def relax(t: Normal, x: Lin, domains: Domains) -> Interval | None:
    """Return the least and greatest value of `x` while each variable of `domains` runs over its range.

    Exact for sums of distinct variables, else a superset. None where no bound is known.
    """
    low = high = x
    for part in _rounds(domains):
        lows, highs = _relax_once(t, low, part), _relax_once(t, high, part)
        if lows is None or highs is None:
            return None
        low, high = lows[0], highs[1]
    return low, high


def _rounds(domains: Domains) -> list[Domains]:
    """The domains in the order to relax them: each before those that it mentions."""
    left = dict(domains)
    rounds: list[Domains] = []
    while left:
        mentioned = {
            var
            for own, ends in left.items()
            for end in ends
            for atom in end.terms
            for var in atom.free
            if var is not own
        }
        first = {var: ends for var, ends in left.items() if var not in mentioned}
        if not first:
            raise IRError("the domains of " + ", ".join(v.name for v in left) + " mention each other in a circle")
        rounds.append(first)
        left = {var: ends for var, ends in left.items() if var in mentioned}
    return rounds


def _depends(atom: Atom, domains: Domains) -> bool:
    return not domains.keys().isdisjoint(atom.free)


def _relax_once(t: Normal, x: Lin, domains: Domains) -> Interval | None:
    moving = [(atom, c) for atom, c in x.terms.items() if _depends(atom, domains)]
    if not moving:
        return x, x
    low = high = Lin({a: c for a, c in x.terms.items() if not _depends(a, domains)}, x.const)
    for atom, c in moving:
        interval = _relax_atom(t, atom, domains)
        if interval is None:
            return None
        least, most = interval if c > 0 else interval[::-1]
        low, high = plus(low, least, c), plus(high, most, c)
    return t.finish(low), t.finish(high)


def _relax_atom(t: Normal, atom: Atom, domains: Domains) -> Interval | None:
    match atom.kind:
        case k if k == VAR:
            assert isinstance(atom.expr, n.Var)
            return domains[atom.expr]
        case k if k == SPLIT:
            found = _relax_split(t, atom, domains)
        case k if k in (MIN, MAX):
            found = _relax_extreme(t, atom, domains)
        case k if k in (DIV, MOD):
            found = _relax_symbolic(t, atom, domains)
        case k if k == MUL:
            found = _relax_product(t, atom, domains)
        case _:
            found = None
    return found if found is not None else _constant_bounds(atom)


def _constant_bounds(atom: Atom) -> Interval | None:
    if not is_known((atom.lo, atom.hi)):
        return None
    return Lin({}, int(atom.lo)), Lin({}, int(atom.hi))


def _relax_split(t: Normal, atom: Atom, domains: Domains) -> Interval | None:
    inner = _relax_once(t, atom.x, domains)
    if inner is None:
        return None
    low, high = inner
    if atom.upper:
        size = Lin({}, atom.upper)
        first, last = div(t.atoms, low, size), div(t.atoms, high, size)
        if not _equal(t, first, last):
            return Lin({}, 0), Lin({}, atom.upper // atom.lower - 1)
        low, high = mod(t.atoms, low, size), mod(t.atoms, high, size)
    divisor = Lin({}, atom.lower)
    return t.finish(div(t.atoms, low, divisor)), t.finish(div(t.atoms, high, divisor))


def _relax_extreme(t: Normal, atom: Atom, domains: Domains) -> Interval | None:
    x, y = _relax_once(t, atom.x, domains), _relax_once(t, atom.y, domains)
    if x is None or y is None:
        return None
    return extreme(t.atoms, atom.kind, x[0], y[0]), extreme(t.atoms, atom.kind, x[1], y[1])


def _relax_symbolic(t: Normal, atom: Atom, domains: Domains) -> Interval | None:
    if any(_depends(a, domains) for a in atom.y.terms) or atom.y.bounds()[0] < 0:
        return None
    inner = _relax_once(t, atom.x, domains)
    if atom.kind == MOD:
        last = Lin(atom.y.terms, atom.y.const - 1)
        if inner is None:
            return Lin({}, 0), last
        first, final = div(t.atoms, inner[0], atom.y), div(t.atoms, inner[1], atom.y)
        if not _equal(t, first, final):
            return Lin({}, 0), last
        return t.finish(mod(t.atoms, inner[0], atom.y)), t.finish(mod(t.atoms, inner[1], atom.y))
    if inner is None:
        return None
    return t.finish(div(t.atoms, inner[0], atom.y)), t.finish(div(t.atoms, inner[1], atom.y))


def _relax_product(t: Normal, atom: Atom, domains: Domains) -> Interval | None:
    """A product of one moving factor and fixed ones of known sign."""
    moving = [f for f in atom.factors if _depends(f, domains)]
    if len(moving) != 1:
        return None
    inner = _relax_atom(t, moving[0], domains)
    fixed = t.atoms.product(tuple(f for f in atom.factors if f is not moving[0]))
    lo, hi = fixed.bounds()
    if inner is None or (lo < 0 < hi):
        return None
    ends = [multiply(t.atoms, end, fixed) for end in (inner if lo >= 0 else inner[::-1])]
    low, high = ends
    return None if low is None or high is None else (low, high)


def _equal(t: Normal, a: Lin, b: Lin) -> bool:
    x = t.finish(plus(a, b, -1))
    return not x.terms and x.const == 0


def domain(t: Normal, low: Lin, extent: Lin) -> Interval:
    """(least, greatest) of the range that starts at `low`."""
    last = t.finish(plus(low, extent))
    return low, Lin(last.terms, last.const - 1)
