"""From expressions to normal form and back.

`Normal` knows what is bound to each variable and remembers every result. It is thrown away when a binding
changes, since bounds are baked into the atoms.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.arith import boolean, opaque, vector
from compiler.arith.atoms import Atoms, multiply
from compiler.arith.bounds import NEG, POS
from compiler.arith.divide import div, mod, rejoin
from compiler.arith.linear import MAX, MIN, SPLIT, Atom, Lin, render, same_expr, scaled
from compiler.arith.minmax import absorb, extreme
from compiler.arith.prove import is_negative
from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.visit import map_children
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute

INDEX_DTYPES = frozenset({"int32", "int64"})
_LEAVES = frozenset({n.IntImm, n.FloatImm, n.StringImm})


class Bindings:
    """Known facts of variables: constant bounds, ranges in symbols (least, greatest), values; conditions."""

    def __init__(self, keep_unit_vars: bool = False) -> None:
        self.keep_unit_vars = keep_unit_vars
        self.bounds: dict[n.Var, tuple[float, float]] = {}
        self.ranges: dict[n.Var, tuple[PrimExpr, PrimExpr]] = {}
        self.values: dict[n.Var, PrimExpr] = {}
        self.facts: list[PrimExpr] = []  # conditions that hold


class Normal:
    """Normal forms under one set of bindings."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self.atoms = Atoms()
        self.vars: dict[n.Var, Lin] = {}
        self._lins: dict[PrimExpr, Lin] = {}
        self._simple: dict[PrimExpr, PrimExpr] = {}
        self._lanes: dict[tuple[int, str], n.Var] = {}
        for fact in bindings.facts:
            self.atoms.facts.extend(boolean.negatives(self, fact))

    # ------------------------------------------------------------------------- simplifying

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        """`expr` in normal form; the same object when it is in it already."""
        cls = type(expr)
        if cls in _LEAVES:
            return expr
        found = self._simple.get(expr)
        if found is None:
            found = self._simple[expr] = self._simplify(expr)
            self._simple[found] = found
        return found

    def child(self, node: Node) -> Node:
        """`simplify`, typed for `map_children`."""
        return self.simplify(node) if isinstance(node, PrimExpr) else node

    def _simplify(self, expr: PrimExpr) -> PrimExpr:
        dtype = expr.dtype
        if dtype in INDEX_DTYPES:
            return render(self.lin(expr), dtype, expr)
        if dtype == "bool":
            return boolean.simplify(self, expr)
        if "x" in dtype:
            return vector.simplify(self, expr)
        return self.rebuild(expr)

    def rebuild(self, expr: PrimExpr) -> PrimExpr:
        """`expr` with its children simplified, constants folded."""
        if isinstance(expr, n.Var):
            return self.bindings.values.get(expr, expr)
        if isinstance(expr, n.Let):
            return self._let(expr)
        result = map_children(expr, self.child)
        if isinstance(result, n.Select) or is_conditional(result):
            return choose(result)
        if result is not expr and isinstance(result, n.BinaryOp):
            if ops.as_int(result.b) == 0 and isinstance(result, n.Div | n.Mod | n.FloorDiv | n.FloorMod):
                return result
            return ops.binary(type(result), result.a, result.b)
        if result is not expr and isinstance(result, n.Cast):
            return ops.cast(result.dtype, result.value)
        return result

    def _let(self, expr: n.Let) -> PrimExpr:
        value, body = self.simplify(expr.value), self.simplify(expr.body)
        if isinstance(value, n.Var | n.IntImm | n.FloatImm):
            return self.simplify(substitute(body, {expr.var: value}))
        if value is expr.value and body is expr.body:
            return expr
        return n.Let(expr.var, value, body, expr.span)

    # -------------------------------------------------------------------------- normal form

    def lin(self, expr: PrimExpr) -> Lin:
        """The normal form of an int32 or int64 expression."""
        found = self._lins.get(expr)
        if found is None:
            cls = type(expr)
            if cls is n.IntImm:
                return Lin({}, expr.value)  # type: ignore[attr-defined]
            rule = _RULES.get(cls)
            if rule is not None:
                found = rule(self, expr)
            else:
                terms: dict[Atom, int] = {}
                const = self._gather(expr, 1, terms)
                found = self._finish(terms, const)
            self._lins[expr] = found
        return found

    def _gather(self, expr: PrimExpr, scale: int, terms: dict[Atom, int]) -> int:
        """terms += scale * expr; returns the constant part. Leaves zero coefficients behind."""
        cls = type(expr)
        if cls is n.Mul:
            b = expr.b  # type: ignore[attr-defined]
            if type(b) is n.IntImm:
                scale *= b.value
                expr = expr.a  # type: ignore[attr-defined]
                cls = type(expr)
        if cls is n.Var:
            known = self.vars.get(expr)  # type: ignore[call-overload]
            lin: Lin = self.lin(expr) if known is None else known
        elif cls is n.Add or cls is n.Sub:
            first = self._gather(expr.a, scale, terms)  # type: ignore[attr-defined]
            side = scale if cls is n.Add else -scale
            return first + self._gather(expr.b, side, terms)  # type: ignore[attr-defined]
        elif cls is n.IntImm:
            return scale * expr.value  # type: ignore[attr-defined,no-any-return]
        else:
            lin = self.lin(expr)
        for atom, c in lin.terms.items():
            terms[atom] = terms.get(atom, 0) + c * scale
        return lin.const * scale

    def _finish(self, terms: dict[Atom, int], const: int) -> Lin:
        compound = False
        zero = False
        for atom, c in terms.items():
            if c == 0:
                zero = True
            elif atom.kind >= SPLIT:
                compound = True
        if zero:
            terms = {atom: c for atom, c in terms.items() if c}
        result = Lin(terms, const)
        if compound and len(terms) > 1:
            result = absorb(self.atoms, rejoin(self.atoms, result))
        return result

    def finish(self, x: Lin) -> Lin:
        """x with quotients rejoined and minima absorbed."""
        return self._finish(x.terms, x.const)

    def variable(self, expr: PrimExpr) -> Lin:
        assert isinstance(expr, n.Var)
        known = self.bindings
        if expr in known.values:
            lin = self.lin(known.values[expr])
        else:
            lo, hi = known.bounds.get(expr) or default_bounds(expr)
            lin = self.atoms.variable(expr, lo, hi, known.keep_unit_vars)
            atom = lin.single()
            if atom is not None and expr in known.ranges:
                low, high = known.ranges[expr]
                self.atoms.ranges[atom] = self.lin(low), self.lin(high)
        self.vars[expr] = lin
        return lin

    def lane(self, lanes: int, dtype: str) -> n.Var:
        """The variable that stands for the lane number of a vector."""
        var = self._lanes.get((lanes, dtype))
        if var is None:
            var = self._lanes[lanes, dtype] = n.Var("lane", dtype)
            self.vars[var] = self.atoms.variable(var, 0, lanes - 1)
            self._lins[var] = self.vars[var]
        return var

    def negative(self, x: Lin) -> bool | None:
        """True when x < 0 always, False when x >= 0 always, None when unknown."""
        lo, hi = x.bounds()
        if hi < 0:
            return True
        if lo >= 0:
            return False
        if is_negative(self.atoms, x):
            return True
        return False if is_negative(self.atoms, Lin(scaled(x, -1).terms, -x.const - 1)) else None


def default_bounds(var: n.Var) -> tuple[float, float]:
    return (0, POS) if isinstance(var, n.SizeVar) else (NEG, POS)


def is_conditional(expr: PrimExpr) -> bool:
    return isinstance(expr, n.Call) and getattr(expr.op, "name", "") == "tir.if_then_else"


def choose(expr: PrimExpr) -> PrimExpr:
    """Return the value of a Select or if_then_else whose condition is known or whose two values are equal."""
    parts = expr.args if isinstance(expr, n.Call) else ()
    if isinstance(expr, n.Select):
        parts = expr.condition, expr.true_value, expr.false_value
    condition, yes, no = parts
    if isinstance(condition, n.IntImm):
        return yes if condition.value else no
    if same_expr(yes, no):
        return yes
    return expr


# --------------------------------------------------------------------------- rules by node


def _mul(normal: Normal, e: PrimExpr) -> Lin:
    assert isinstance(e, n.Mul)
    product = multiply(normal.atoms, normal.lin(e.a), normal.lin(e.b))
    if product is None:
        return normal.atoms.opaque(n.Mul(normal.simplify(e.a), normal.simplify(e.b)), NEG, POS)
    return normal.finish(product)


def _floordiv(normal: Normal, e: PrimExpr) -> Lin:
    assert isinstance(e, n.FloorDiv)
    return normal.finish(div(normal.atoms, normal.lin(e.a), normal.lin(e.b)))


def _floormod(normal: Normal, e: PrimExpr) -> Lin:
    assert isinstance(e, n.FloorMod)
    return normal.finish(mod(normal.atoms, normal.lin(e.a), normal.lin(e.b)))


def _truncated(normal: Normal, e: PrimExpr) -> Lin:
    """Division towards zero is floor division of the absolute values, with the sign put back."""
    assert isinstance(e, n.Div | n.Mod)
    x, y = normal.lin(e.a), normal.lin(e.b)
    quotient = isinstance(e, n.Div)
    if not y.terms and y.const == 0:
        raise IRError("division by zero in an index expression")
    sign = 1
    if y.bounds()[1] < 0:
        y, sign = scaled(y, -1), -sign
    if y.bounds()[0] <= 0:
        return opaque.lin(normal, e)
    lo, hi = x.bounds()
    if hi <= 0:
        x, sign, side = scaled(x, -1), -sign, -1
    elif lo >= 0 or (quotient and not y.terms and not any(c % y.const for c in (x.const, *x.terms.values()))):
        side = 1
    else:
        return opaque.lin(normal, e)
    if quotient:
        return normal.finish(scaled(div(normal.atoms, x, y), sign))
    return normal.finish(scaled(mod(normal.atoms, x, y), side))


def _min(normal: Normal, e: PrimExpr) -> Lin:
    assert isinstance(e, n.Min)
    return normal.finish(extreme(normal.atoms, MIN, normal.lin(e.a), normal.lin(e.b)))


def _max(normal: Normal, e: PrimExpr) -> Lin:
    assert isinstance(e, n.Max)
    return normal.finish(extreme(normal.atoms, MAX, normal.lin(e.a), normal.lin(e.b)))


_RULES: dict[type, Callable[[Normal, PrimExpr], Lin]] = {
    n.Var: Normal.variable,
    n.SizeVar: Normal.variable,
    n.Mul: _mul,
    n.FloorDiv: _floordiv,
    n.FloorMod: _floormod,
    n.Div: _truncated,
    n.Mod: _truncated,
    n.Min: _min,
    n.Max: _max,
    **dict.fromkeys(opaque.TYPES, opaque.lin),
}
