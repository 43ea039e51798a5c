"""Whether loops visit each iteration of a block once.

Splitting and fusing keep that; moving a block into a loop around which it is needed again (the overlap of two
windows, or a loop it does not depend on) gives it up on purpose. Where it is given up, a reduction must be
whole in each visit.

The question is answered by digits. The value of an axis, a sum such as `i_0*8 + i_1`, tells its terms apart when
each is a multiple of more than the smaller ones can reach. A term `x // 8`, `x % 8` or both is a digit of x; all
digits of x tell x, which is again a sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import expr_key
from compiler.ir.base import Node
from compiler.schedule.expr import TRUE, conjuncts, variables
from compiler.schedule.placement import analyzer_of
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr
from compiler.tir.visit import transform

Term = tuple[int, PrimExpr]  # coefficient, what it multiplies


@dataclass(frozen=True, slots=True)
class _Digit:
    """(x mod upper) // lower; `upper` 0: no remainder taken."""

    x: PrimExpr
    lower: int
    upper: int


class _Ranges:
    """What the terms of sums reach. Sums of loop variables alone, which is nearly all, need no analysis."""

    def __init__(self, loops: Sequence[n.For]) -> None:
        self._loops = loops
        self._spans = {f.loop_var: ops.as_int(f.extent) for f in loops}
        self._analyzer: Analyzer | None = None
        self.sums: dict[n.Var, PrimExpr] = {}

    def add(self, var: n.Var, total: PrimExpr, extent: int) -> None:
        """Take in a variable that stands for `total` and has `extent` values."""
        self._spans[var] = extent
        self.sums[var] = total

    @property
    def analyzer(self) -> Analyzer:
        if self._analyzer is None:
            self._analyzer = analyzer_of(self._loops)
        return self._analyzer

    def span(self, atom: PrimExpr) -> int | None:
        """The greatest less the least value."""
        if isinstance(atom, n.Var) and (extent := self._spans.get(atom)) is not None:
            return extent - 1
        low, high = self.analyzer.const_int_bound(atom)
        return None if low is None or high is None else high - low


def undetermined(
    values: Iterable[PrimExpr], moving: Sequence[n.For], around: Sequence[n.For], predicate: PrimExpr = TRUE
) -> list[n.For]:
    """Those loops of `moving` with more than one iteration that `values` do not determine while all other loops
    stand still and `predicate` holds. `around` are all loops, `moving` among them."""
    ranges = _Ranges(around)
    wanted = [f for f in moving if not ops.is_const(f.extent, 1)]
    as_given = list(values)
    known = _determined(as_given, {f.loop_var for f in moving}, ranges)
    if not known.issuperset(f.loop_var for f in wanted):
        known |= _determined(map(ranges.analyzer.simplify, as_given), {f.loop_var for f in moving}, ranges)
    if not known.issuperset(f.loop_var for f in wanted) and not ops.is_const(predicate, 1):
        sums = _guarded_sums(predicate, ranges)
        whole = [_with_sums(value, sums) for value in as_given]
        known |= _determined(whole, {f.loop_var for f in moving} | set(sums.values()), ranges, sums)
    return [f for f in wanted if f.loop_var not in known]


_Sums = dict[Hashable, n.Var]  # the key of a sum, and the variable that stands for it


def _guarded_sums(predicate: PrimExpr, ranges: _Ranges) -> _Sums:
    """A variable for every sum that `predicate` bounds. A split of a part keeps the part in its range with such a
    condition, which its loops alone do not show."""
    sums: _Sums = {}
    bounds = [c for c in conjuncts(predicate) if isinstance(c, n.LT) and isinstance(c.b, n.IntImm)]
    for condition in sorted(bounds, key=lambda c: len(variables(c.a))):
        low, end = ranges.analyzer.const_int_bound(condition.a)[0], ops.as_int(condition.b)
        if isinstance(condition.a, n.Add) and low is not None and end is not None:
            total = _with_sums(condition.a, sums)
            var = n.Var("sum", condition.a.dtype)
            ranges.add(var, total, max(end - low, 1))
            sums[expr_key(total)] = var
    return sums


def _with_sums(expr: PrimExpr, sums: _Sums) -> PrimExpr:
    """`expr` with each of the sums in it replaced by its variable."""

    def swap(node: Node) -> Node | None:
        return sums.get(expr_key(node)) if isinstance(node, n.Add) else None

    result = transform(expr, post=swap)
    assert isinstance(result, PrimExpr)
    return result


def _determined(
    values: Iterable[PrimExpr], moving: set[n.Var], ranges: _Ranges, sums: _Sums | None = None
) -> set[n.Var]:
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
        for var in known.intersection((sums or {}).values()):
            known.remove(var)
            pending.append(ranges.sums[var])
    return known


def _digits_of(expr: PrimExpr, moving: set[n.Var], ranges: _Ranges) -> list[_Digit]:
    """The digits that the value of `expr` tells; none when its terms cannot be told apart."""
    items = sorted((t for t in _terms(expr, 1) if variables(t[1]) & moving), key=lambda t: abs(t[0]))
    if not all(isinstance(atom, n.Var | n.FloorDiv | n.FloorMod) for _, atom in items):
        return []
    reach: int | None = 0
    for coefficient, atom in items:
        span = ranges.span(atom)
        if span != 0 and (reach is None or abs(coefficient) <= reach):
            return []
        reach = None if span is None or reach is None else reach + abs(coefficient) * span
    return [_digit(atom) for _, atom in items]


def _terms(expr: PrimExpr, factor: int) -> list[Term]:
    """The terms of factor * expr, constants left out."""
    match expr:
        case n.IntImm():
            return []
        case n.Add(a, b):
            return _terms(a, factor) + _terms(b, factor)
        case n.Sub(a, b):
            return _terms(a, factor) + _terms(b, -factor)
        case n.Mul(a, n.IntImm(value=value)):
            return _terms(a, factor * value)
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
    """Whether the order and number of a block's visits matter: it adds to what it wrote before."""
    own = {w.buffer for w in block.writes}
    return any(iv.iter_type is IterType.COMM_REDUCE for iv in block.iter_vars) or any(
        r.buffer in own for r in block.reads
    )


def repeating_loop(realize: n.BlockRealize, around: Sequence[n.For], first: int) -> n.For | None:
    """A loop from `around[first]` on, along no reduction axis, that visits elements of the result which other
    iterations of these loops visit too; None when there is none. `around` are all loops of the block."""
    pairs = list(zip(realize.block.iter_vars, realize.iter_values))
    reduced = {v for iv, value in pairs if iv.iter_type is IterType.COMM_REDUCE for v in variables(value)}
    data = [value for iv, value in pairs if iv.iter_type is not IterType.COMM_REDUCE]
    loops = [f for f in around[first:] if f.loop_var not in reduced]
    left = undetermined(data, loops, around, realize.predicate)
    return left[0] if left else None
