"""Answers about integer expressions: normal form, bounds, proofs, ranges.

    analyzer = Analyzer()
    analyzer.bind(io, Range.from_extent(86))
    analyzer.bind(ii, Range.from_extent(6))
    analyzer.simplify((io * 6 + ii) // 6)          # io
    analyzer.can_prove(io * 6 + ii < 516)          # True

Index arithmetic (int32 and int64) is taken not to overflow, as everywhere in the compiler; other dtypes are
left as they are but for constants. Results are the same on every run for the same sequence of calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import gcd
from typing import Any

from compiler.arith import intset
from compiler.arith.boolean import negatives
from compiler.arith.bounds import NEG, POS
from compiler.arith.linear import SPLIT, Lin, plus, render, same_expr
from compiler.arith.normal import INDEX_DTYPES, Bindings, Normal, default_bounds
from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


class Analyzer:
    """Knows the ranges of variables and simplifies under them.

    A variable bound to one value (a loop of extent 1, or `bind(var, expr)`) is replaced by it. With
    `keep_unit_vars` the variable of a loop of extent 1 stays where it is a term of a sum.
    """

    def __init__(self, keep_unit_vars: bool = False) -> None:
        self._bindings = Bindings(keep_unit_vars)
        self._normal = Normal(self._bindings)

    # --------------------------------------------------------------------------- knowledge

    def bind(self, var: n.Var | n.IterVar, value: n.Range | PrimExpr | int | tuple[Any, Any]) -> None:
        """Let `var` run over a `Range` (or (min, extent)), or give it the value of an expression.

        A second call replaces the first. Bind outer loops before inner ones whose ranges mention them.
        """
        target = var.var if isinstance(var, n.IterVar) else var
        if isinstance(value, n.IterVar):
            value = value.var
        known = self._bindings
        seen = target in self._normal.vars
        for table in (known.bounds, known.ranges, known.values):
            table.pop(target, None)
        if seen:
            self._restart()
        if isinstance(value, tuple):
            value = n.Range(ops.as_expr(value[0]), ops.as_expr(value[1]))
        if isinstance(value, n.Range):
            self._bind_range(target, value)
        else:
            known.values[target] = self._normal.simplify(ops.cast(target.dtype, value))

    def _bind_range(self, var: n.Var, dom: n.Range) -> None:
        known, normal = self._bindings, self._normal
        low, extent = normal.lin(dom.min), normal.lin(dom.extent)
        unit = not extent.terms and extent.const == 1
        if unit and not (known.keep_unit_vars or _reads(dom.min, var)):
            known.values[var] = normal.simplify(dom.min)
            return
        least, last = intset.domain(normal, low, extent)
        known.bounds[var] = least.bounds()[0], last.bounds()[1]
        if least.terms or last.terms:
            known.ranges[var] = render(least, var.dtype), render(last, var.dtype)

    @contextmanager
    def constraint(self, condition: PrimExpr) -> Iterator[None]:
        """Assume `condition` within the `with` block."""
        outer, normal = self._bindings, self._normal
        inner = Bindings(outer.keep_unit_vars)
        inner.bounds, inner.ranges = dict(outer.bounds), dict(outer.ranges)
        inner.values, inner.facts = dict(outer.values), list(outer.facts)
        for x in negatives(normal, condition):
            _tighten(inner, x)
        inner.facts.append(condition)
        self._bindings, self._normal = inner, Normal(inner)
        try:
            yield
        finally:
            self._bindings, self._normal = outer, normal

    def _restart(self) -> None:
        self._normal = Normal(self._bindings)

    # --------------------------------------------------------------------------- questions

    def simplify(self, expr: PrimExpr | int) -> PrimExpr:
        """Return `expr` in normal form. It is the same object if it is in normal form already."""
        return self._normal.simplify(expr if isinstance(expr, PrimExpr) else ops.as_expr(expr))

    def const_int_bound(self, expr: PrimExpr | int) -> tuple[int | None, int | None]:
        """(least, greatest) value of an integer or bool expression; None on a side where unknown."""
        node = ops.as_expr(expr)
        if node.dtype == "bool":
            value = ops.as_int(self.simplify(node))
            return (0, 1) if value is None else (value, value)
        lo, hi = self._lin(node).bounds()
        return (None if lo == NEG else int(lo)), (None if hi == POS else int(hi))

    def modular_set(self, expr: PrimExpr | int) -> tuple[int, int]:
        """(coefficient, base): every value is coefficient * k + base. (0, c) is the constant c."""
        x = self._lin(ops.as_expr(expr))
        coefficient, base = 0, x.const
        for atom, c in x.terms.items():
            step, start = 1, 0
            if atom.kind == SPLIT and atom.lower == 1 and atom.upper:
                step, start = _modular(atom.x, atom.upper)
            coefficient = gcd(coefficient, c * step)
            base += c * start
        return coefficient, base % coefficient if coefficient else base

    def can_prove(self, condition: PrimExpr | bool) -> bool:
        """Whether `condition` holds for all values of its variables. False also means: not shown."""
        node = ops.as_expr(condition)
        result = self.simplify(node)
        if isinstance(result, n.And):
            return self.can_prove(result.a) and self.can_prove(result.b)
        return isinstance(result, n.IntImm) and bool(result.value)

    def can_prove_equal(self, a: PrimExpr | int, b: PrimExpr | int) -> bool:
        """Whether `a` and `b` have the same value for all values of their variables."""
        x, y = ops.match_types(a, b)
        if x is y:
            return True
        if x.dtype in INDEX_DTYPES:
            normal = self._normal
            difference = normal.finish(plus(normal.lin(x), normal.lin(y), -1))
            if not difference.terms:
                return difference.const == 0
            return self.can_prove(n.EQ(render(difference, x.dtype), n.IntImm(x.dtype, 0)))
        return same_expr(self.simplify(x), self.simplify(y))

    def int_set(
        self, expr: PrimExpr | int, domains: Mapping[n.Var, tuple[Any, Any]]
    ) -> tuple[PrimExpr, PrimExpr] | None:
        """(least, greatest) value of `expr` while each variable of `domains` runs over its (min, extent).

        The ends are expressions in the other variables. Exact where `expr` is a sum of distinct variables
        (with constant factors), else possibly wider. None where no bound is known, as of an index
        that is read from a buffer.
        """
        node = ops.as_expr(expr)
        inner = self._free(domains)
        normal = inner._normal
        intervals = {
            var: intset.domain(normal, inner._lin(ops.cast(var.dtype, low)), inner._lin(ops.cast(var.dtype, extent)))
            for var, (low, extent) in domains.items()
        }
        found = intset.relax(normal, inner._lin(node), intervals)
        if found is None:
            return None
        return render(found[0], node.dtype), render(found[1], node.dtype)

    def _free(self, domains: Mapping[n.Var, Any]) -> Analyzer:
        """This analyzer, or one where the variables of `domains` are not replaced by a value."""
        known = self._bindings
        if not any(var in known.values for var in domains):
            return self
        result = Analyzer(known.keep_unit_vars)
        other = result._bindings
        other.bounds, other.ranges, other.facts = dict(known.bounds), dict(known.ranges), known.facts
        other.values = {var: value for var, value in known.values.items() if var not in domains}
        result._restart()
        return result

    def _lin(self, expr: PrimExpr) -> Lin:
        if expr.dtype not in INDEX_DTYPES:
            raise IRError(f"integer analysis needs int32 or int64, got {expr.dtype}")
        return self._normal.lin(expr)


def _reads(expr: PrimExpr, var: n.Var) -> bool:
    return any(node is var for node in walk(expr))


def _tighten(bindings: Bindings, x: Lin) -> None:
    """Narrow a variable's bounds by x < 0, where that is a condition on one variable."""
    if len(x.terms) != 1:
        return
    ((atom, c),) = x.terms.items()
    var = atom.expr
    if not isinstance(var, n.Var):
        return
    lo, hi = bindings.bounds.get(var) or default_bounds(var)
    if c > 0:  # c*v <= -const - 1
        hi = min(hi, (-x.const - 1) // c)
    else:
        lo = max(lo, -((-x.const - 1) // -c))
    if lo <= hi:
        bindings.bounds[var] = lo, hi


def _modular(x: Lin, upper: int) -> tuple[int, int]:
    """(step, start) of x % upper."""
    step = gcd(upper, *x.terms.values())
    return (0, 0) if step == 0 else (step, x.const % step)


def simplify(expr: PrimExpr | int) -> PrimExpr:
    """`expr` in normal form, with nothing known of its variables."""
    return Analyzer().simplify(expr)
