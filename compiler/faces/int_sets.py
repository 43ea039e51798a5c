"""Sets of integers and the regions that indices reach, under Apache TVM's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.arith.affine import as_affine
from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.faces.arith import IntervalSet
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Domains = Mapping[n.Var, n.Range]


class IntSet:
    """Makes sets: of one value, or of the values of a vector. Every set is an interval."""

    @staticmethod
    def single_point(point: PrimExpr | int) -> IntervalSet:
        """Return the set of one value."""
        value = ops.as_expr(point)
        return IntervalSet(value, value)

    @staticmethod
    def vector(vec: PrimExpr) -> IntervalSet:
        """Return the interval from the least to the greatest value of a ramp; of a scalar, that value."""
        if not isinstance(vec, n.Ramp):
            return IntSet.single_point(vec)
        last = Analyzer().simplify(vec.base + vec.stride * (vec.lanes - 1))
        return IntervalSet(vec.base, last)


def estimate_region_upper_bound(
    region: Sequence[n.Range], var_dom: Domains, predicate: PrimExpr | bool = True
) -> list[IntervalSet]:
    """Return for each dimension an interval that holds all that the region reaches.

    The variables run over their domains. Raises IRError where a dimension has no known bounds.
    """
    analyzer, domains = _narrowed(var_dom, predicate)
    found = []
    for item in region:
        low = analyzer.int_set(item.min, domains)
        high = analyzer.int_set(item.min + item.extent - 1, domains)
        if low is None or high is None:
            raise IRError(f"the region {item} has no known bounds")
        found.append(IntervalSet(analyzer.simplify(low[0]), analyzer.simplify(high[1])))
    return found


def estimate_region_strict_bound(
    region: Sequence[n.Range], var_dom: Domains, predicate: PrimExpr | bool = True
) -> list[IntervalSet] | None:
    """Return for each dimension exactly the interval that the region reaches; None where it is no box."""
    _, domains = _narrowed(var_dom, predicate)
    seen: set[n.Var] = set()
    for item in region:
        used = _used(item, domains)
        if used is None or not seen.isdisjoint(used) or not _is_gapless(item, used, domains):
            return None
        seen |= used
    if _unexplained(var_dom, predicate, domains):
        return None
    return estimate_region_upper_bound(region, var_dom, predicate)


estimate_region_lower_bound = estimate_region_strict_bound


def _narrowed(var_dom: Domains, predicate: PrimExpr | bool) -> tuple[Analyzer, dict[n.Var, Any]]:
    """The variables' first values and counts, as far as comparisons with constants narrow them.
    Each comparison must be of a single variable."""
    analyzer = Analyzer()
    bounds = {var: (dom.min, dom.extent) for var, dom in var_dom.items()}
    for part in _parts(predicate):
        found = _limit(part)
        if found is None or found[0] not in bounds:
            continue
        var, low, high = found
        first, count = bounds[var]
        last = first + count - 1
        if low is not None:
            first = ops.maximum(first, low)
        if high is not None:
            last = ops.minimum(last, high)
        bounds[var] = analyzer.simplify(first), analyzer.simplify(last - first + 1)
    return analyzer, dict(bounds)


def _parts(predicate: PrimExpr | bool) -> list[PrimExpr]:
    if isinstance(predicate, n.And):
        return [*_parts(predicate.a), *_parts(predicate.b)]
    return [] if isinstance(predicate, bool | n.IntImm) else [predicate]


def _limit(part: PrimExpr) -> tuple[n.Var, int | None, int | None] | None:
    """The variable that a comparison bounds by a constant, and its least and greatest value by it."""
    match part:
        case n.LT(a=n.Var() as var, b=n.IntImm(value=value)) | n.GT(a=n.IntImm(value=value), b=n.Var() as var):
            return var, None, value - 1
        case n.LE(a=n.Var() as var, b=n.IntImm(value=value)) | n.GE(a=n.IntImm(value=value), b=n.Var() as var):
            return var, None, value
        case n.GT(a=n.Var() as var, b=n.IntImm(value=value)) | n.LT(a=n.IntImm(value=value), b=n.Var() as var):
            return var, value + 1, None
        case n.GE(a=n.Var() as var, b=n.IntImm(value=value)) | n.LE(a=n.IntImm(value=value), b=n.Var() as var):
            return var, value, None
    return None


def _unexplained(var_dom: Domains, predicate: PrimExpr | bool, domains: Mapping[n.Var, Any]) -> bool:
    """Whether a part of the predicate says more than the bounds of one variable."""
    return predicate is False or any(
        (found := _limit(part)) is None or found[0] not in domains for part in _parts(predicate)
    )


def _used(item: n.Range, domains: Mapping[n.Var, Any]) -> set[n.Var] | None:
    """The variables that a dimension moves with; None where it does not do so by constant steps."""
    variables = list(domains)
    found = as_affine(item.min, variables)
    fixed = as_affine(item.extent, variables)
    if found is None or fixed is None or any(fixed[0]):
        return None
    return {var for var, factor in zip(variables, found[0]) if factor}


def _is_gapless(item: n.Range, used: set[n.Var], domains: Mapping[n.Var, Any]) -> bool:
    """Whether a dimension's steps leave nothing out between its first and its last value."""
    width, variables = ops.as_int(item.extent), list(domains)
    found = as_affine(item.min, variables)
    assert found is not None
    steps = sorted((abs(factor), ops.as_int(domains[var][1])) for var, factor in zip(variables, found[0]) if factor)
    for step, count in steps:
        if width is None or count is None or count < 1 or step > width:
            return False
        width += step * (count - 1)
    return width is not None and width > 0
