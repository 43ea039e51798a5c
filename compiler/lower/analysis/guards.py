"""Guards: comparisons of index expressions, as `outer + inner < 0` seen from a place in the loop nest."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import gcd

from compiler.arith.bounds import Bounds, is_known, weighted_sum
from compiler.ir.base import Op
from compiler.ir.visit import walk
from compiler.lower.analysis.conditions import conjuncts
from compiler.lower.analysis.linear import LinearForms
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import free_vars

_IF_THEN_ELSE = Op.get("tir.if_then_else")
Term = tuple[PrimExpr, int]


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition sum(outer) + offset + sum(inner) < 0.

    Seen from a place in the loop nest, the outer terms are constant. The inner ones are variables of loops below it;
    their sum takes every value from `least` to `greatest`.
    """

    outer: tuple[Term, ...]
    inner: tuple[Term, ...]
    offset: int
    least: int
    greatest: int

    @property
    def key(self) -> Hashable:
        """Return a key that is equal for guards that hold for the same outer values."""
        return frozenset((expr_key(a), c) for a, c in self.outer), self.offset, self.least, self.greatest

    def always(self) -> PrimExpr:
        """Return the outer condition under which the guard holds for all inner values."""
        return below_zero(self.outer, self.offset + self.greatest)

    def ever(self) -> PrimExpr:
        """Return the outer condition under which the guard holds for some inner value."""
        return below_zero(self.outer, self.offset + self.least)

    def with_outer(self, value: int) -> PrimExpr:
        """Return the guard's condition where the outer sum has the known `value`."""
        return below_zero(self.inner, self.offset + value)


def below_zero(terms: tuple[Term, ...], offset: int) -> PrimExpr:
    """The condition sum(terms) + offset < 0, written without negative factors."""
    dtype = terms[0][0].dtype if terms else "int32"
    left: PrimExpr = ops.const(0, dtype)
    right: PrimExpr = ops.const(0, dtype)
    for atom, scale in terms:
        if scale > 0:
            left = ops.add(left, ops.mul(atom, scale))
        else:
            right = ops.add(right, ops.mul(atom, -scale))
    if ops.as_int(left) == 0:
        return ops.less_equal(offset + 1, right)
    return ops.less(left, ops.sub(right, offset))


def expr_key(expr: PrimExpr) -> Hashable:
    """Return a key that is equal for index expressions of the same form over the same variables."""
    match expr:
        case n.IntImm():
            return expr.value
        case n.BinaryOp():
            return type(expr), expr_key(expr.a), expr_key(expr.b)
        case n.Cast():
            return expr.dtype, expr_key(expr.value)
    return expr


def read_guard(part: PrimExpr, inside: frozenset[n.Var], forms: LinearForms) -> Guard | None:
    """Read `part` as a guard, seen from outside the loops of the variables `inside`; None if it is none."""
    difference = comparison(part, forms)
    if difference is None:
        return None
    terms, offset = difference
    outer: list[Term] = []
    inner: list[Term] = []
    least = greatest = 0
    for atom, scale in terms:
        if isinstance(atom, n.Var):
            if atom not in inside:
                outer.append((atom, scale))
                continue
            if not is_known(bounds := forms.bounds(atom)):
                return None
            inner.append((atom, scale))
            low, high = weighted_sum([(bounds, scale)])
            least, greatest = least + int(low), greatest + int(high)
        elif inside & free_vars(atom) or any(isinstance(x, n.BufferLoad) for x in walk(atom)):
            return None
        else:
            outer.append((atom, scale))
    return Guard(tuple(outer), tuple(inner), offset, least, greatest)


def comparison(part: PrimExpr, forms: LinearForms) -> tuple[tuple[Term, ...], int] | None:
    """Return (terms, offset) if `part` says that their sum is below 0, else None."""
    match part:
        case n.LT():
            a, b, slack = part.a, part.b, 0
        case n.LE():
            a, b, slack = part.a, part.b, -1
        case n.GT():
            a, b, slack = part.b, part.a, 0
        case n.GE():
            a, b, slack = part.b, part.a, -1
        case _:
            return None
    if not (forms.is_index(a) and forms.is_index(b)):
        return None
    form = forms.form(n.Sub(a, b))
    return form.terms, form.offset + slack


def conditions_in(stmt: Stmt) -> list[tuple[PrimExpr, bool]]:
    """The parts of every condition under `stmt`, and whether a statement (not an `if_then_else`) tests it."""
    found: list[tuple[PrimExpr, bool]] = []
    for node in walk(stmt):
        match node:
            case n.IfThenElse():
                found += [(part, True) for part in conjuncts(node.condition)]
            case n.Call() if node.op is _IF_THEN_ELSE:
                found += [(part, False) for part in conjuncts(node.args[0])]
            case _:
                pass
    return found


def tail_values(guard: Guard, forms: LinearForms) -> list[int] | None:
    """The value of the outer sum for which the guard holds for some inner values but not for all.

    It is in a list, which is empty without such a value; None if there may be more than one.
    """
    if not guard.outer:
        return None
    step = gcd(*(scale for _, scale in guard.outer))
    low, high = outer_bounds(guard, forms)
    # offset + value + greatest >= 0 and offset + value + least < 0
    first = -guard.offset - guard.greatest
    last = -guard.offset - guard.least - 1
    candidate = -(-int(max(first, low)) // step) * step
    last = int(min(last, high))
    if candidate > last:
        return []
    return [candidate] if candidate + step > last else None


def outer_bounds(guard: Guard, forms: LinearForms) -> Bounds:
    """Bounds of the outer sum, without the offset."""
    return weighted_sum([(forms.bounds(atom), scale) for atom, scale in guard.outer])
