"""Whether loops visit each iteration of a block once.

Splitting and fusing keep that. Moving a block into a loop around which it is needed again gives it up on purpose: the
overlap of two windows, or a loop it does not depend on. A reduction must then be whole in each visit.

Digits answer the question. The value of an axis is a sum such as `i_0*8 + i_1`. It tells its terms apart if each is a
multiple of more than the smaller ones can reach. A term `x // 8`, `x % 8` or both is a digit of x; all digits of x tell
x, which is again a sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import expr_key
from compiler.schedule.analysis.expr import TRUE, conjuncts, variables
from compiler.schedule.analysis.placement import analyzer_of
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr

Term = tuple[int, PrimExpr]  # coefficient, what it multiplies


@dataclass(frozen=True, slots=True)
class _Digit:
    """(x mod upper) // lower; `upper` 0: no remainder taken."""

    x: PrimExpr
    lower: int
    upper: int


class _Ranges:
    """The ranges of the terms of sums. Most sums are of loop variables alone, and need no analysis."""

    def __init__(self, loops: Sequence[n.For]) -> None:
        self._loops = loops
        self._spans = {f.loop_var: ops.as_int(f.extent) for f in loops}
        self._analyzer: Analyzer | None = None
        self._narrowed: dict[Hashable, int] = {}  # the span of an atom, where a condition bounds it
        self._sums: dict[n.Var, list[Term]] = {}  # a variable that stands for a sum

    def narrow(self, atom: PrimExpr, extent: int) -> None:
        """Record that `atom` has only `extent` values."""
        known = self.span(atom)
        self._narrowed[expr_key(atom)] = extent - 1 if known is None else min(extent - 1, known)

    def add(self, terms: list[Term], extent: int) -> None:
        """Record that the sum of `terms` has only `extent` values."""
        var = n.Var("sum", terms[0][1].dtype)
        self._spans[var] = extent
        self._sums[var] = terms

    def grouped(self, terms: list[Term]) -> list[Term]:
        """`terms` with multiples of known sums as one term each."""
        for var, parts in self._sums.items():
            places = {expr_key(atom): at for at, (_, atom) in enumerate(terms)}
            at = [places.get(expr_key(atom)) for _, atom in parts]
            factor = 0 if at[0] is None else terms[at[0]][0] // parts[0][0]
            if factor and all(i is not None and terms[i][0] == factor * c for i, (c, _) in zip(at, parts)):
                terms = [t for i, t in enumerate(terms) if i not in at] + [(factor, var)]
        return terms

    def variables(self, atom: PrimExpr) -> set[n.Var]:
        """The variables in `atom`, or in the sum that it stands for."""
        parts = self._sums.get(atom) if isinstance(atom, n.Var) else None
        return variables(atom) if parts is None else {v for _, part in parts for v in self.variables(part)}

    def digits(self, atom: PrimExpr, moving: set[n.Var]) -> list[_Digit]:
        """Return the digits that `atom` determines; a sum determines its terms."""
        parts = self._sums.get(atom) if isinstance(atom, n.Var) else None
        return [_digit(atom)] if parts is None else _digits(parts, moving, self)

    @property
    def analyzer(self) -> Analyzer:
        if self._analyzer is None:
            self._analyzer = analyzer_of(self._loops)
        return self._analyzer

    def span(self, atom: PrimExpr) -> int | None:
        """Return the greatest value less the least."""
        if self._narrowed and (span := self._narrowed.get(expr_key(atom))) is not None:
            return span
        if isinstance(atom, n.Var) and (extent := self._spans.get(atom)) is not None:
            return extent - 1
        low, high = self.analyzer.const_int_bound(atom)
        return None if low is None or high is None else high - low


def undetermined(
    values: Iterable[PrimExpr], moving: Sequence[n.For], around: Sequence[n.For], predicate: PrimExpr = TRUE
) -> list[n.For]:
    """Return the loops of `moving`, of more than one iteration, that `values` do not determine.
    All other loops stand still, and `predicate` holds. `around` are all loops, `moving` among them."""
    ranges = _Ranges(around)
    wanted = [f for f in moving if not ops.is_const(f.extent, 1)]
    as_given = list(values)
    known = _determined(as_given, {f.loop_var for f in moving}, ranges)
    if not known.issuperset(f.loop_var for f in wanted):
        known |= _determined(map(ranges.analyzer.simplify, as_given), {f.loop_var for f in moving}, ranges)
    if not known.issuperset(f.loop_var for f in wanted) and not ops.is_const(predicate, 1):
        _take_in(predicate, ranges)
        for form in (as_given, map(ranges.analyzer.simplify, as_given)):
            known |= _determined(form, {f.loop_var for f in moving}, ranges)
    return [f for f in wanted if f.loop_var not in known]


def _take_in(predicate: PrimExpr, ranges: _Ranges) -> None:
    """Record in `ranges` the bounds that `predicate` sets to variables and sums.
    A sum becomes one variable. When a part of a loop is split, only such a condition shows its range."""
    bounds = [c for c in conjuncts(predicate) if isinstance(c, n.LT) and isinstance(c.b, n.IntImm)]
    for condition in sorted(bounds, key=lambda c: len(variables(c.a))):
        low, end = ranges.analyzer.const_int_bound(condition.a)[0], ops.as_int(condition.b)
        if low is None or end is None:
            continue
        terms = ranges.grouped(terms_of(condition.a, 1))
        if len(terms) == 1 and terms[0][0] == 1:
            ranges.narrow(terms[0][1], max(end - low, 1))
        elif terms:
            ranges.add(terms, max(end - low, 1))


def _determined(values: Iterable[PrimExpr], moving: set[n.Var], ranges: _Ranges) -> set[n.Var]:
    """The variables whose value follows from `values`, as far as can be shown."""
    digits: dict[tuple[Hashable, int, int], _Digit] = {}
    known: set[n.Var] = set()
    told: set[Hashable] = set()
    pending = list(values)
    while pending:
        for expr in pending:
            for digit in _digits_of(expr, moving, ranges):
                if isinstance(digit.x, n.Var) and not digit.upper and digit.lower == 1:
                    known.add(digit.x)
                else:
                    digits[expr_key(digit.x), digit.lower, digit.upper] = digit
        groups: dict[Hashable, list[_Digit]] = {}
        for (key, _, _), digit in digits.items():
            groups.setdefault(key, []).append(digit)
        pending = [group[0].x for key, group in groups.items() if key not in told and _complete(group, ranges)]
        told.update(expr_key(x) for x in pending)
    return known


def _digits_of(expr: PrimExpr, moving: set[n.Var], ranges: _Ranges) -> list[_Digit]:
    """Return the digits that the value of `expr` determines; none if its terms cannot be separated."""
    return _digits(ranges.grouped(terms_of(expr, 1)), moving, ranges)


def _digits(terms: list[Term], moving: set[n.Var], ranges: _Ranges) -> list[_Digit]:
    moved = [t for t in terms if ranges.variables(t[1]) & moving]
    items = sorted(moved, key=lambda t: (abs(t[0]), ranges.span(t[1]) or 0))
    if not all(isinstance(atom, n.Var | n.FloorDiv | n.FloorMod) for _, atom in items):
        return []
    reach: int | None = 0
    for coefficient, atom in items:
        span = ranges.span(atom)
        if span != 0 and (reach is None or abs(coefficient) <= reach):
            return []
        reach = None if span is None or reach is None else reach + abs(coefficient) * span
    return [digit for _, atom in items for digit in ranges.digits(atom, moving)]


def terms_of(expr: PrimExpr, factor: int) -> list[Term]:
    """The terms of factor * expr, constants left out."""
    match expr:
        case n.IntImm():
            return []
        case n.Add(a, b):
            return terms_of(a, factor) + terms_of(b, factor)
        case n.Sub(a, b):
            return terms_of(a, factor) + terms_of(b, -factor)
        case n.Mul(a, n.IntImm(value=value)):
            return terms_of(a, factor * value)
    return [(factor, expr)]


def _digit(atom: PrimExpr) -> _Digit:
    match atom:
        case n.FloorDiv(n.FloorMod(x, n.IntImm(value=upper)), n.IntImm(value=lower)):
            return _Digit(x, lower, upper)
        case n.FloorMod(n.FloorDiv(x, n.IntImm(value=lower)), n.IntImm(value=upper)):
            return _Digit(x, lower, lower * upper)
        case n.FloorDiv(x, n.IntImm(value=lower)):
            return _Digit(x, lower, 0)
        case n.FloorMod(x, n.IntImm(value=upper)):
            return _Digit(x, 1, upper)
    return _Digit(atom, 1, 0)


def _complete(group: list[_Digit], ranges: _Ranges) -> bool:
    """Whether the digits of one x, put together, are all of x."""
    reached = 1
    for digit in sorted(group, key=lambda d: d.lower):
        if digit.lower > reached:
            return False
        if not digit.upper:
            return True
        reached = max(reached, digit.upper)
    low, high = ranges.analyzer.const_int_bound(group[0].x)
    return low is not None and high is not None and low >= 0 and high < reached


# --------------------------------------------------------------------------------- reductions


def is_reduction(block: n.Block) -> bool:
    """Whether the order and number of a block's visits matter, because it adds to what it wrote before."""
    own = {w.buffer for w in block.writes}
    return any(iv.iter_type is IterType.COMM_REDUCE for iv in block.iter_vars) or any(
        r.buffer in own for r in block.reads
    )


def repeating_loop(realize: n.BlockRealize, around: Sequence[n.For], first: int) -> n.For | None:
    """Find a loop, from `around[first]` on, that visits iterations of the block more than once.
    None if there is none. `around` are all loops of the block, outermost first."""
    left = undetermined(realize.iter_values, around[first:], around, realize.predicate)
    return left[0] if left else None
