"""Making atoms: one object for each distinct term, with the bounds that follow from its operands.

Everything here returns a `Lin`, since a term whose bounds meet is a constant.
"""

from __future__ import annotations

from collections.abc import Hashable

from compiler.arith.bounds import maximum, minimum, product, quotient, remainder
from compiler.arith.linear import (
    DIV,
    MAX,
    MIN,
    MOD,
    MUL,
    OPAQUE,
    SPLIT,
    VAR,
    Atom,
    Lin,
    brief,
    expr_key,
    imm,
    plus,
    render,
    scaled,
)
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_MAX_PRODUCT = 64  # terms a multiplied-out product may have


class Atoms:
    """The atoms known so far. `ranges` holds the symbolic (least, greatest) value of a variable's atom."""

    def __init__(self) -> None:
        self._table: dict[Hashable, Lin] = {}
        self._operands: dict[Hashable, Lin] = {}
        self._serial = 0
        self.ranges: dict[Atom, tuple[Lin, Lin]] = {}
        self.facts: list[Lin] = []  # each is known to be negative

    def _add(self, key: Hashable, atom: Atom) -> Lin:
        lin = Lin({}, int(atom.lo)) if atom.lo == atom.hi else Lin({atom: 1}, 0)
        self._table[key] = lin
        return lin

    def operand(self, lin: Lin) -> Lin:
        """Return the one atom for the value of `lin`, so that operands compare by identity."""
        return self._operands.setdefault(lin.key(), lin)

    def variable(self, var: n.Var, lo: float, hi: float, keep: bool = False) -> Lin:
        """Return the sum for a variable. With `keep`, a variable that has only one value stays itself."""
        self._serial += 1
        atom = Atom(VAR, var, lo, hi, (-1, var.name, self._serial))
        if keep:
            return Lin({atom: 1}, 0)
        return self._add(var, atom)

    def opaque(self, expr: PrimExpr, lo: float, hi: float) -> Lin:
        """An atom for an expression nothing more is known of."""
        key = OPAQUE, expr_key(expr)
        found = self._table.get(key)
        return found if found is not None else self._add(key, Atom(OPAQUE, expr, lo, hi, _rank(brief(expr))))

    def split(self, x: Lin, lower: int, upper: int) -> Lin:
        """(x mod upper) // lower; upper is a multiple of lower, or 0 for no remainder."""
        x = self.operand(x)
        key = SPLIT, id(x), lower, upper
        found = self._table.get(key)
        if found is not None:
            return found
        dtype = dtype_of(x)
        expr = render(x, dtype)
        if upper:
            expr = n.FloorMod(expr, imm(dtype, upper))
        if lower != 1:
            expr = n.FloorDiv(expr, imm(dtype, lower))
        lo, hi = x.bounds()
        if upper and (lo < 0 or hi >= upper):
            lo, hi = 0, upper - 1
        atom = Atom(SPLIT, expr, *quotient((lo, hi), (lower, lower)), _rank(""))
        atom.rank = _rank(f"({x.text()})%{upper}//{lower}")
        atom.x, atom.lower, atom.upper = x, lower, upper
        return self._add(key, atom)

    def symbolic_div(self, x: Lin, y: Lin) -> Lin:
        """x // y for a divisor that is no constant."""
        lo, hi = quotient(x.bounds(), y.bounds())
        return self._binary(DIV, n.FloorDiv, x, y, lo, hi)

    def symbolic_mod(self, x: Lin, y: Lin) -> Lin:
        """x % y for a divisor that is no constant."""
        lo, hi = remainder(x.bounds(), y.bounds())
        return self._binary(MOD, n.FloorMod, x, y, lo, hi)

    def extreme(self, kind: int, x: Lin, y: Lin) -> Lin:
        """min or max of x and y."""
        if kind == MIN:
            return self._binary(MIN, n.Min, x, y, *minimum(x.bounds(), y.bounds()))
        return self._binary(MAX, n.Max, x, y, *maximum(x.bounds(), y.bounds()))

    def _binary(self, kind: int, node: type[n.BinaryOp], x: Lin, y: Lin, lo: float, hi: float) -> Lin:
        x, y = self.operand(x), self.operand(y)
        key = kind, id(x), id(y)
        found = self._table.get(key)
        if found is not None:
            return found
        dtype = dtype_of(x if x.terms else y)
        atom = Atom(kind, node(render(x, dtype), render(y, dtype)), lo, hi, _rank(""))
        atom.rank = _rank(f"{node.__name__}({x.text()},{y.text()})")
        atom.x, atom.y = x, y
        return self._add(key, atom)

    def product(self, factors: tuple[Atom, ...]) -> Lin:
        """The product of atoms, of which none is a product."""
        if len(factors) == 1:
            return Lin({factors[0]: 1}, 0)
        factors = tuple(sorted(factors, key=lambda a: a.rank))
        key = MUL, factors
        found = self._table.get(key)
        if found is not None:
            return found
        lo, hi = factors[0].lo, factors[0].hi
        expr = factors[0].expr
        for factor in factors[1:]:
            lo, hi = product((lo, hi), (factor.lo, factor.hi))
            expr = n.Mul(expr, factor.expr)
        rank = (-len(factors), "*".join(f.rank[1] for f in factors), 0)
        if len(factors) == 2 and factors[0] is factors[1]:
            lo = max(lo, 0)
        atom = Atom(MUL, expr, lo, hi, rank)
        atom.factors = factors
        return self._add(key, atom)


def multiply(t: Atoms, x: Lin, y: Lin) -> Lin | None:
    """x * y multiplied out; None when that has too many terms."""
    if not y.terms:
        return scaled(x, y.const)
    if not x.terms:
        return scaled(y, x.const)
    if len(x.terms) * len(y.terms) > _MAX_PRODUCT:
        return None
    total = plus(scaled(x, y.const), scaled(Lin(y.terms, 0), x.const))
    for a, c in x.terms.items():
        for b, k in y.terms.items():
            total = plus(total, t.product(a.factors + b.factors), c * k)
    return total


def _rank(text: str) -> tuple[int, str, int]:
    return -1, text, 0


def dtype_of(x: Lin) -> str:
    """The dtype of a sum with at least one atom."""
    return next(iter(x.terms)).expr.dtype
