"""Linear equations and the bounds that comparisons give variables, under Apache TVM's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.faces.arith import IntervalSet
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

NEG_INF = n.Var("neg_inf", "int64")
POS_INF = n.Var("pos_inf", "int64")
"""The ends of a set without one; they have a name and no value."""

_Linear = tuple[PrimExpr, PrimExpr]
"""A factor of the variable, and what is left."""


class _NotLinear(Exception):
    """Raised for an expression in which a variable is not only multiplied by others and added to them."""


def detect_linear_equation(expr: Any, var_list: list[n.Var]) -> list[PrimExpr]:
    """Give the factors of the variables in `expr` and what is left; an empty list where it is not linear."""
    rest, found = ops.as_expr(expr), []
    try:
        for var in var_list:
            factor, rest = _linear(rest, var)
            found.append(factor)
    except _NotLinear:
        return []
    found.append(rest)
    simplify = Analyzer().simplify
    return [] if any(_uses(part, var) for part in found for var in var_list) else [simplify(part) for part in found]


def detect_clip_bound(expr: PrimExpr, var_list: list[n.Var]) -> list[PrimExpr | None]:
    """Give the least and greatest value of each variable by the comparisons that "and" joins in `expr`.

    An end that none of them gives is None. The list is empty if one of them is no linear comparison of a variable.
    """
    simplify = Analyzer().simplify
    bounds: list[PrimExpr | None] = []
    for var in var_list:
        low: PrimExpr | None = None
        high: PrimExpr | None = None
        for part in _conjunction(expr):
            if not _uses(part, var):
                continue
            found = _ends(part, var)
            if found is None:
                return []
            least, greatest = found
            if least is not None:
                low = least if low is None else ops.maximum(low, least)
            if greatest is not None:
                high = greatest if high is None else ops.minimum(high, greatest)
        bounds += [None if end is None else simplify(end) for end in (low, high)]
    return bounds


def deduce_bound(
    var: n.Var, cond: PrimExpr, hint_map: Mapping[n.Var, IntervalSet], relax_map: Mapping[n.Var, IntervalSet]
) -> IntervalSet:
    """Give the values of `var` for which the linear comparison `cond` holds.

    It holds whatever the variables of `relax_map` are. An end that is not bounded is `neg_inf` or `pos_inf`. The empty
    set, from `pos_inf` to `neg_inf`, says that nothing was found.
    """
    analyzer = Analyzer()
    found = _ends(cond, var)
    if found is None:
        return IntervalSet(POS_INF, NEG_INF)
    low, high = found
    try:
        least = NEG_INF if low is None else _relaxed(analyzer, low, relax_map)[1]
        greatest = POS_INF if high is None else _relaxed(analyzer, high, relax_map)[0]
    except IRError:
        return IntervalSet(POS_INF, NEG_INF)
    return IntervalSet(least, greatest)


def _relaxed(analyzer: Analyzer, expr: PrimExpr, relax_map: Mapping[n.Var, IntervalSet]) -> tuple[PrimExpr, PrimExpr]:
    """The least and the greatest value while the variables run over their sets.
    Raises IRError for unknown ones."""
    inside = {var: held for var, held in relax_map.items() if _uses(expr, var)}
    if not inside:
        return (simple := analyzer.simplify(expr)), simple
    spans = {var: (held.min_value, held.max_value - held.min_value + 1) for var, held in inside.items()}
    found = analyzer.int_set(expr, spans)
    if found is None:
        raise IRError(f"{expr} has no known bounds")
    return analyzer.simplify(found[0]), analyzer.simplify(found[1])


def _conjunction(expr: PrimExpr) -> Iterator[PrimExpr]:
    if isinstance(expr, n.And):
        yield from _conjunction(expr.a)
        yield from _conjunction(expr.b)
    else:
        yield expr


def _ends(part: PrimExpr, var: n.Var) -> tuple[PrimExpr | None, PrimExpr | None] | None:
    """The least and the greatest value of `var` by one comparison; None where it is no linear one."""
    match part:
        case n.LT(a=a, b=b):
            below = [ops.add(ops.sub(a, b), 1)]
        case n.LE(a=a, b=b):
            below = [ops.sub(a, b)]
        case n.GT(a=a, b=b):
            below = [ops.add(ops.sub(b, a), 1)]
        case n.GE(a=a, b=b):
            below = [ops.sub(b, a)]
        case n.EQ(a=a, b=b):
            below = [ops.sub(a, b), ops.sub(b, a)]
        case _:
            return None
    low: PrimExpr | None = None
    high: PrimExpr | None = None
    for difference in below:  # which is at most 0
        try:
            factor, rest = _linear(difference, var)
        except _NotLinear:
            return None
        step = ops.as_int(Analyzer().simplify(factor))
        if not step or _uses(rest, var):
            return None
        if step > 0:
            high = ops.floordiv(ops.sub(0, rest), step)
        else:
            low = ops.floordiv(ops.add(rest, -step - 1), -step)
    return low, high


def _linear(expr: PrimExpr, var: n.Var) -> _Linear:
    """`expr` as factor * var + rest. Raises _NotLinear."""
    zero = ops.const(0, expr.dtype)
    if expr is var:
        return ops.const(1, expr.dtype), zero
    if not _uses(expr, var):
        return zero, expr
    match expr:
        case n.Add() | n.Sub():
            combine = ops.add if isinstance(expr, n.Add) else ops.sub
            (a, rest), (b, other) = _linear(expr.a, var), _linear(expr.b, var)
            return combine(a, b), combine(rest, other)
        case n.Mul():
            moving, fixed = (expr.a, expr.b) if _uses(expr.a, var) else (expr.b, expr.a)
            if not _uses(fixed, var):
                factor, rest = _linear(moving, var)
                return ops.mul(factor, fixed), ops.mul(rest, fixed)
    raise _NotLinear


def _uses(expr: PrimExpr, var: n.Var) -> bool:
    return any(node is var for node in walk(expr))
