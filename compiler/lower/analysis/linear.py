"""Integer expressions as sums of multiples of atoms, with the range each can take.

`LinearForms` answers by node, once: code generation asks again for each unrolled copy of a statement, thousands
of times a function. It only takes sums apart; `compiler.arith` is what simplifies and proves.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arith.bounds import (
    ANY,
    NATURAL,
    NEG,
    POS,
    Bounds,
    either,
    is_known,
    maximum,
    minimum,
    product,
    quotient,
    remainder,
    weighted_sum,
)  # fmt: skip
from compiler.dtype import parse_dtype
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_LIMITS: dict[str, tuple[int, int]] = {
    name: (-(1 << bits - 1), (1 << bits - 1) - 1)
    for name, bits in (("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))
}


@dataclass(frozen=True, slots=True)
class LinearForm:
    """sum(atom * coefficient) + offset. Atoms are variables, or expressions that are not sums."""

    terms: tuple[tuple[PrimExpr, int], ...]
    offset: int


class LinearForms:
    """Forms and ranges of the expressions of one function, remembered by node."""

    def __init__(self) -> None:
        self.ranges: dict[n.Var, Bounds] = {}
        self.data: set[n.Var] = set()  # variables bound to data, whose arithmetic wraps in its own dtype
        self._forms: dict[int, tuple[PrimExpr, LinearForm]] = {}
        self._bounds: dict[int, tuple[PrimExpr, Bounds]] = {}
        self._is_index: dict[int, tuple[PrimExpr, bool]] = {}

    # -- which expressions are index arithmetic ---------------------------------------------------
    def is_index(self, expr: PrimExpr) -> bool:
        """Whether `expr` is arithmetic on loop variables and scalars only, and cannot overflow its dtype.

        Such an expression has the same value when computed in 64 bits. Index arithmetic over a variable of unknown
        range (a symbolic extent) is taken not to overflow, as in TVM.
        """
        found = self._is_index.get(id(expr))
        if found is None:
            found = self._is_index[id(expr)] = (expr, self._index(expr))
        return found[1]

    def _index(self, expr: PrimExpr) -> bool:
        if expr.dtype not in _LIMITS:
            return False
        match expr:
            case n.IntImm():
                return True
            case n.Var():
                return expr not in self.data
            case n.Cast():
                return expr.value.dtype in _LIMITS and self.is_index(expr.value) and self._fits(expr)
            case n.Div() | n.Mod() | n.FloorDiv() | n.FloorMod():
                # a division by zero must stay where it was written
                return isinstance(expr.b, n.IntImm) and expr.b.value != 0 and self.is_index(expr.a)
            case n.Add() | n.Sub() | n.Mul() | n.Min() | n.Max():
                return self.is_index(expr.a) and self.is_index(expr.b) and self._fits(expr)
        return False

    def _fits(self, expr: PrimExpr) -> bool:
        low, high = self.bounds(expr)
        least, greatest = _LIMITS[expr.dtype]
        return (low == NEG or low >= least) and (high == POS or high <= greatest)

    # -- linear form ------------------------------------------------------------------------------
    def form(self, expr: PrimExpr) -> LinearForm:
        found = self._forms.get(id(expr))
        if found is None:
            terms: dict[int, tuple[PrimExpr, int]] = {}
            offset = self._collect(expr, 1, terms)
            kept = tuple(t for t in terms.values() if t[1])
            found = self._forms[id(expr)] = (expr, LinearForm(kept, offset))
        return found[1]

    def _collect(self, expr: PrimExpr, scale: int, terms: dict[int, tuple[PrimExpr, int]]) -> int:
        """Add `expr * scale` to `terms`; returns the constant part."""
        match expr:
            case n.IntImm():
                return expr.value * scale
            case n.Add():
                return self._collect(expr.a, scale, terms) + self._collect(expr.b, scale, terms)
            case n.Sub():
                return self._collect(expr.a, scale, terms) + self._collect(expr.b, -scale, terms)
            case n.Mul(n.IntImm(value=factor), other) | n.Mul(other, n.IntImm(value=factor)):
                return self._collect(other, scale * factor, terms)
            case n.Cast() if self.is_index(expr):
                return self._collect(expr.value, scale, terms)
        key = id(expr)
        _, before = terms.get(key, (expr, 0))
        terms[key] = (expr, before + scale)
        return 0

    # -- ranges -----------------------------------------------------------------------------------
    def bounds(self, expr: PrimExpr) -> Bounds:
        """The least and greatest value `expr` can take; infinities where unknown."""
        found = self._bounds.get(id(expr))
        if found is None:
            found = self._bounds[id(expr)] = (expr, self._range(expr))
        return found[1]

    def _range(self, expr: PrimExpr) -> Bounds:
        match expr:
            case n.IntImm():
                return expr.value, expr.value
            case n.SizeVar():
                return self.ranges.get(expr, NATURAL)
            case n.Var():
                return self.ranges.get(expr, ANY)
            case n.Cast() if parse_dtype(expr.value.dtype).code in ("int", "uint", "bool"):
                return self.bounds(expr.value)
            case n.Add() | n.Sub():
                form = self.form(expr)
                return weighted_sum([(self.bounds(atom), scale) for atom, scale in form.terms], form.offset)
            case n.Mul() | n.Min() | n.Max() | n.FloorDiv() | n.FloorMod():
                return _combine(expr, self.bounds(expr.a), self.bounds(expr.b))
            case n.Select():
                return either(self.bounds(expr.true_value), self.bounds(expr.false_value))
        return ANY


def _combine(expr: n.BinaryOp, a: Bounds, b: Bounds) -> Bounds:
    match expr:
        case n.Mul() if is_known(a) and is_known(b):
            return product(a, b)
        case n.Mul():
            # An end that followed from one side alone would be taken as an overflow of the dtype.
            return NATURAL if a[0] >= 0 and b[0] >= 0 else ANY
        case n.Min():
            return minimum(a, b)
        case n.Max():
            return maximum(a, b)
        case n.FloorDiv() if b[0] == b[1] and b[0] > 0:
            return quotient(a, b)
        case n.FloorMod() if b[0] == b[1] and b[0] > 0:
            return remainder(a, b)
    return ANY
