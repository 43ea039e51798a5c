"""Conditions: comparisons decided by bounds and put in one form, and, or, not folded.

A comparison of integers becomes `left < right` (or `<=` where that needs no constant), with positive
coefficients on both sides.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from compiler.arith.divide import drop_small
from compiler.arith.linear import Atom, Lin, expr_key, imm, ordered, plus, render, scaled
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

if TYPE_CHECKING:
    from compiler.arith.normal import Normal

_INDEX = ("int32", "int64")
_TRUE, _FALSE = imm("bool", 1), imm("bool", 0)
_ORDERINGS = (n.LT, n.LE, n.GT, n.GE)


def constant(value: bool) -> PrimExpr:
    return _TRUE if value else _FALSE


def simplify(normal: Normal, expr: PrimExpr) -> PrimExpr:
    """A bool expression in normal form."""
    match expr:
        case n.LT() | n.LE() | n.GT() | n.GE():
            if expr.a.dtype in _INDEX:
                return _less(normal, negative_form(normal, expr), expr)
            return _compare_other(normal, expr)
        case n.EQ() | n.NE():
            if expr.a.dtype in _INDEX:
                return _equal(normal, expr)
            return _compare_other(normal, expr)
        case n.And() | n.Or():
            return _junction(normal, expr)
        case n.Not(a):
            return _not(normal, expr, a)
        case n.Call(op=op, args=args) if getattr(op, "name", "") == "tir.likely":
            inner = normal.simplify(args[0])
            if isinstance(inner, n.IntImm):
                return inner
            return expr if inner is args[0] else n.Call(expr.dtype, op, (inner,), expr.span)
    return normal.rebuild(expr)


def negative_form(normal: Normal, expr: PrimExpr) -> Lin:
    """Return the sum that is negative exactly where the integer ordering `expr` holds."""
    match expr:
        case n.LT(a, b):
            return normal.finish(plus(normal.lin(a), normal.lin(b), -1))
        case n.GT(a, b):
            return normal.finish(plus(normal.lin(b), normal.lin(a), -1))
        case n.LE(a, b):
            low = plus(normal.lin(a), normal.lin(b), -1)
        case n.GE(a, b):
            low = plus(normal.lin(b), normal.lin(a), -1)
        case _:
            raise AssertionError(expr)
    return normal.finish(Lin(low.terms, low.const - 1))


def negatives(normal: Normal, condition: PrimExpr) -> list[Lin]:
    """Sums known to be negative where `condition` holds."""
    match condition:
        case n.And(a, b):
            return negatives(normal, a) + negatives(normal, b)
        case n.Call(op=op, args=args) if getattr(op, "name", "") == "tir.likely":
            return negatives(normal, args[0])
        case n.Not(a) if isinstance(a, _ORDERINGS) and a.a.dtype in _INDEX:
            form = negative_form(normal, a)
            return [Lin(scaled(form, -1).terms, -form.const - 1)]
        case n.Not(n.Or(a, b)):
            return negatives(normal, n.Not(a)) + negatives(normal, n.Not(b))
        case n.LT() | n.LE() | n.GT() | n.GE() if condition.a.dtype in _INDEX:
            return [negative_form(normal, condition)]
        case n.EQ(a, b) if a.dtype in _INDEX:
            x = plus(normal.lin(a), normal.lin(b), -1)
            return [Lin(x.terms, x.const - 1), Lin(scaled(x, -1).terms, -x.const - 1)]
    return []


# ------------------------------------------------------------------------------- comparisons


def _less(normal: Normal, x: Lin, like: PrimExpr) -> PrimExpr:
    """x < 0 as an expression."""
    decided = normal.negative(x)
    if decided is not None:
        return constant(decided)
    x = _coarsest(x)
    decided = normal.negative(x)
    if decided is not None:
        return constant(decided)
    dtype = next(iter(x.terms)).expr.dtype
    left, right = _sides(x)
    cls: type[n.CmpOp] = n.LT
    if not left.terms:  # c < right
        left, cls = Lin({}, left.const - right.const + 1), n.LE
        right = Lin(right.terms, 0)
    elif not right.terms:
        left, right = Lin(left.terms, 0), Lin({}, right.const - left.const)
    elif right.const == 1:
        right, cls = Lin(right.terms, 0), n.LE
    return _comparison(cls, left, right, dtype, like)


def _coarsest(x: Lin) -> Lin:
    """A sum with the same sign everywhere, without a common factor or terms too small to matter.

    x < 0 just where x // g < 0, for any g > 0.
    """
    coefficients = list(x.terms.values())
    common = gcd(*coefficients)
    if common > 1:
        x = Lin({a: c // common for a, c in x.terms.items()}, x.const // common)
    for g in sorted({abs(c) for c in x.terms.values() if abs(c) > 1}, reverse=True):
        split = drop_small(x, g)
        if split is not None:
            return _coarsest(split[0])
    return x


def _sides(x: Lin) -> tuple[Lin, Lin]:
    """(left, right) with x = left - right, all coefficients positive."""
    left: dict[Atom, int] = {}
    right: dict[Atom, int] = {}
    for atom, c in x.terms.items():
        if c > 0:
            left[atom] = c
        else:
            right[atom] = -c
    return Lin(left, max(x.const, 0)), Lin(right, max(-x.const, 0))


def _comparison(cls: type[n.CmpOp], left: Lin, right: Lin, dtype: str, like: PrimExpr) -> PrimExpr:
    same = type(like) is cls
    a = render(left, dtype, like.a if same else None)  # type: ignore[attr-defined]
    b = render(right, dtype, like.b if same else None)  # type: ignore[attr-defined]
    return like if same and a is like.a and b is like.b else cls(a, b)  # type: ignore[attr-defined]


def _equal(normal: Normal, expr: n.EQ | n.NE) -> PrimExpr:
    x = normal.finish(plus(normal.lin(expr.a), normal.lin(expr.b), -1))
    equal = isinstance(expr, n.EQ)
    decided = _is_zero(normal, x)
    if decided is not None:
        return constant(decided == equal)
    common = gcd(*x.terms.values())
    x = Lin({a: c // common for a, c in x.terms.items()}, x.const // common)
    if ordered(x.terms)[0][1] < 0:
        x = scaled(x, -1)
    left, right = _sides(x)
    if not right.terms:
        left, right = Lin(left.terms, 0), Lin({}, right.const - left.const)
    dtype = next(iter(x.terms)).expr.dtype
    return _comparison(type(expr), left, right, dtype, expr)


def _is_zero(normal: Normal, x: Lin) -> bool | None:
    if not x.terms:
        return x.const == 0
    if x.const % gcd(*x.terms.values()):
        return False
    lo, hi = x.bounds()
    if lo > 0 or hi < 0:
        return False
    if lo == hi == 0:
        return True
    below = normal.negative(x)
    if below:
        return False
    above = normal.negative(scaled(x, -1))
    if above:
        return False
    return True if below is False and above is False else None


def _compare_other(normal: Normal, expr: n.CmpOp) -> PrimExpr:
    """A comparison of floats, narrow integers or booleans: constants folded, nothing else."""
    a, b = normal.simplify(expr.a), normal.simplify(expr.b)
    if isinstance(a, n.IntImm) and isinstance(b, n.IntImm):
        return ops.binary(type(expr), a, b)
    return expr if a is expr.a and b is expr.b else type(expr)(a, b, expr.span)


# --------------------------------------------------------------------------- and, or, not


def _junction(normal: Normal, expr: n.And | n.Or) -> PrimExpr:
    is_and = isinstance(expr, n.And)
    parts: list[PrimExpr] = []
    for part in _flatten(type(expr), expr):
        simple = normal.simplify(part)
        parts.extend(_flatten(type(expr), simple))
    kept = _Kept(normal, is_and)
    for part in parts:
        if kept.add(part):
            return constant(not is_and)
    result: PrimExpr | None = None
    for part in kept.parts():
        result = part if result is None else type(expr)(result, part)
    if result is None:
        return constant(is_and)
    return expr if _same_chain(type(expr), expr, kept.parts()) else result


def _flatten(cls: type[n.BinaryOp], expr: PrimExpr) -> list[PrimExpr]:
    if type(expr) is not cls:
        return [expr]
    return _flatten(cls, expr.a) + _flatten(cls, expr.b)


def _same_chain(cls: type[n.BinaryOp], expr: PrimExpr, parts: list[PrimExpr]) -> bool:
    for part in reversed(parts[1:]):
        if type(expr) is not cls or expr.b is not part:
            return False
        expr = expr.a
    return expr is parts[0]


class _Kept:
    """The parts of a conjunction or disjunction that are not implied by the others."""

    def __init__(self, normal: Normal, is_and: bool) -> None:
        self._normal = normal
        self._and = is_and
        self._parts: dict[object, PrimExpr] = {}
        self._orders: dict[object, int] = {}  # terms of a sum known to be negative → its constant

    def parts(self) -> list[PrimExpr]:
        return list(self._parts.values())

    def add(self, part: PrimExpr) -> bool:
        """Take in one more part. Returns True if that decides the whole: false for and, true for or."""
        if isinstance(part, n.IntImm):
            return bool(part.value) != self._and
        if isinstance(part, _ORDERINGS) and part.a.dtype in _INDEX:
            return self._add_order(part)
        key = expr_key(part)
        opposite = expr_key(part.a) if isinstance(part, n.Not) else expr_key(n.Not(part))
        if opposite in self._parts:
            return True
        self._parts.setdefault(key, part)
        return False

    def _add_order(self, part: PrimExpr) -> bool:
        x = _coarsest(negative_form(self._normal, part))
        key = frozenset(x.terms.items())
        opposite = frozenset(scaled(x, -1).terms.items())
        other = self._orders.get(opposite)
        # x = T + c < 0 and -T + o < 0:  o < T < -c
        if other is not None and (other + x.const + 1 >= 0 if self._and else other + x.const < 0):
            return True
        known = self._orders.get(key)
        if known is None or (known < x.const) == self._and:
            self._orders[key] = x.const
            if known != x.const:
                self._parts[key] = part
        return False


def _not(normal: Normal, expr: n.Not, operand: PrimExpr) -> PrimExpr:
    a = normal.simplify(operand)
    match a:
        case n.IntImm(value=value):
            return constant(not value)
        case n.Not(inner):
            return inner
        case n.EQ(x, y):
            return normal.simplify(n.NE(x, y))
        case n.NE(x, y):
            return normal.simplify(n.EQ(x, y))
        case n.And(x, y):
            return normal.simplify(n.Or(n.Not(x), n.Not(y)))
        case n.Or(x, y):
            return normal.simplify(n.And(n.Not(x), n.Not(y)))
        case n.LT() | n.LE() | n.GT() | n.GE() if a.a.dtype in _INDEX:
            form = negative_form(normal, a)
            return _less(normal, Lin(scaled(form, -1).terms, -form.const - 1), expr)
    return expr if a is operand else n.Not(a, expr.span)
