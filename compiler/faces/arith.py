"""Integer analysis of expressions, under Apache TVM's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from compiler.arith.analyzer import Analyzer as _Analyzer
from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_POS_INF = (1 << 63) - 1
_NEG_INF = -_POS_INF


@dataclass(frozen=True)
class ConstIntBound:
    """The least and the greatest value of an expression; `POS_INF` and `NEG_INF` where unknown."""

    min_value: int
    max_value: int
    POS_INF: ClassVar[int] = _POS_INF
    NEG_INF: ClassVar[int] = _NEG_INF

    def __repr__(self) -> str:
        low = "neg_inf" if self.min_value == _NEG_INF else self.min_value
        high = "pos_inf" if self.max_value == _POS_INF else self.max_value
        return f"ConstIntBound[{low},{high}]"


@dataclass(frozen=True)
class ModularSet:
    """The values coeff * k + base."""

    coeff: int
    base: int


@dataclass(frozen=True)
class IntervalSet:
    """The values from `min_value` to `max_value`, both included."""

    min_value: PrimExpr
    max_value: PrimExpr

    def __repr__(self) -> str:
        return f"IntervalSet[{self.min_value}, {self.max_value}]"

    def is_nothing(self) -> bool:
        return _Analyzer().can_prove(self.max_value < self.min_value)

    def is_everything(self) -> bool:
        return False


def _type_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type; the infinities for another."""
    parsed = parse_dtype(dtype)
    if parsed.code == "bool":
        return 0, 1
    if not parsed.is_int or parsed.bits >= 64:
        return (0 if parsed.code == "uint" else _NEG_INF), _POS_INF
    bits = parsed.bits - parsed.is_signed
    return (-(1 << bits) if parsed.is_signed else 0), (1 << bits) - 1


class Analyzer:
    """Knows the ranges of variables; simplifies and proves under them."""

    def __init__(self) -> None:
        self._core = _Analyzer()

    def bind(self, var: n.Var, expr: PrimExpr | n.Range | int, allow_override: bool = False) -> None:
        """Say that `var` runs over a range or has a value. A second call replaces the first."""
        self._core.bind(var, expr)

    def update(self, var: n.Var, info: ConstIntBound | ModularSet, override: bool = False) -> None:
        """Say between which numbers `var` lies.

        What else is known of it is kept only with a range from `bind`. Raises IRError for values that are not bounded,
        and for modular sets.
        """
        if not isinstance(info, ConstIntBound) or info.min_value == _NEG_INF or info.max_value == _POS_INF:
            raise IRError("update takes a ConstIntBound with two ends", hint="analyzer.constraint_scope says the rest")
        self._core.bind(var, n.Range(ops.const(info.min_value), ops.const(info.max_value - info.min_value + 1)))

    def simplify(self, expr: PrimExpr | int, steps: int = 2) -> PrimExpr:
        return self._core.simplify(expr)

    def rewrite_simplify(self, expr: PrimExpr | int) -> PrimExpr:
        return self._core.simplify(expr)

    def canonical_simplify(self, expr: PrimExpr | int) -> PrimExpr:
        return self._core.simplify(expr)

    def const_int_bound(self, expr: PrimExpr | int) -> ConstIntBound:
        value = ops.as_expr(expr)
        if value.dtype not in ("int32", "int64"):
            return ConstIntBound(*_type_range(value.dtype))
        low, high = self._core.const_int_bound(value)
        return ConstIntBound(_NEG_INF if low is None else low, _POS_INF if high is None else high)

    def const_int_bound_is_bound(self, var: n.Var) -> bool:
        low, high = self._core.const_int_bound(var)
        return (low, high) != _Analyzer().const_int_bound(var)

    def modular_set(self, expr: PrimExpr | int) -> ModularSet:
        return self._modular_set(ops.as_expr(expr))

    def _modular_set(self, expr: PrimExpr) -> ModularSet:
        match expr:
            case n.Min(a=a, b=b) | n.Max(a=a, b=b) | n.Select(true_value=a, false_value=b):
                one, other = self._modular_set(a), self._modular_set(b)
                coeff = gcd(one.coeff, other.coeff, one.base - other.base)
                return ModularSet(coeff, one.base % coeff if coeff else one.base)
        return ModularSet(*self._core.modular_set(expr))

    def can_prove(self, expr: PrimExpr | bool, strength: int = 0) -> bool:
        """Tell whether `expr` holds for all values of its variables. False also means: not shown."""
        return self._core.can_prove(expr)

    def can_prove_equal(self, lhs: PrimExpr | int, rhs: PrimExpr | int) -> bool:
        return self._core.can_prove_equal(lhs, rhs)

    def can_prove_greater_equal(self, expr: PrimExpr, lower_bound: int) -> bool:
        return self._core.can_prove(expr >= lower_bound)

    def can_prove_less(self, expr: PrimExpr, upper_bound: int) -> bool:
        return self._core.can_prove(expr < upper_bound)

    def int_set(self, expr: PrimExpr, dom_map: Mapping[n.Var, IntervalSet]) -> IntervalSet:
        """Give the values of `expr` while the variables of `dom_map` run over their sets.
        Raises IRError where no bound is known."""
        spans = {v: (s.min_value, self._core.simplify(s.max_value - s.min_value + 1)) for v, s in dom_map.items()}
        found = self._core.int_set(expr, spans)
        if found is None:
            raise IRError(f"int_set: {expr} has no known bounds")
        return IntervalSet(self._core.simplify(found[0]), self._core.simplify(found[1]))

    @contextmanager
    def constraint_scope(self, constraint: PrimExpr) -> Iterator[None]:
        """Within the block, `constraint` is known to hold."""
        with self._core.constraint(constraint):
            yield
