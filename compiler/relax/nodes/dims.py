"""Dimensions: integer expressions (int64), and what can be said about two of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import same_expr
from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute

_MOST_APART = 3
"""For so many variables `same_size` looks at 0 apart."""
_LARGEST = 1 << 40
_CONSTANT = re.compile(r"T\.int64\((-?\d+)\)")


@lru_cache(maxsize=4096)
def int64(value: int) -> n.IntImm:
    """`value` as an int64 constant. Equal ones are one object."""
    return n.IntImm("int64", value)


def dim(value: Any, what: str = "a dimension") -> PrimExpr:
    """`value` (an int or an expression of type int64) as a dimension.
    Raises IRError, naming `what`, otherwise."""
    if type(value) is int:
        return int64(value)
    if isinstance(value, n.IntImm):
        return int64(value.value)
    if isinstance(value, PrimExpr):
        if value.dtype != "int64":
            raise IRError(
                f"{what} is {value!r} of type {value.dtype}, but dimensions are int64",
                hint='make the variable with tir.Var("n", "int64")',
            )
        return value
    if isinstance(value, bool | float | str) or not hasattr(value, "__index__"):
        raise IRError(f"{what} is {value!r} ({type(value).__name__}), not an integer")
    return int64(value.__index__())


def dims(values: Iterable[Any], what: str = "a dimension") -> tuple[PrimExpr, ...]:
    """`values` as dimensions."""
    return tuple([dim(value, what) for value in values])


def same_structure(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    """Whether two shapes are written alike, over the same variables."""
    return len(a) == len(b) and all(x is y or same_expr(x, y) for x, y in zip(a, b))


def proven_equal(a: PrimExpr, b: PrimExpr, analyzer: Analyzer | None = None) -> bool:
    """Return whether `a` and `b` have the same value for all values of their variables.
    That is as far as `arith` can tell."""
    if a is b:
        return True
    if isinstance(a, n.IntImm) and isinstance(b, n.IntImm):
        return a.value == b.value
    return (analyzer or Analyzer()).can_prove_equal(a, b)


def same_size(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether `a` and `b` are equal for all sizes that their variables may be: none is negative.

    Sizes from 1 on and the size 0 are proven separately, because a proof for both at once often fails: n and max(n +
    min(n, 1) - 1, 0).
    """
    if proven_equal(a, b):
        return True
    free = list(dict.fromkeys([*variables(a), *variables(b)]))
    if not 0 < len(free) <= _MOST_APART:
        return False
    for empty in product((False, True), repeat=len(free)):
        analyzer = Analyzer()
        none: dict[n.Var, PrimExpr] = {}
        for var, is_empty in zip(free, empty):
            if is_empty:
                none[var] = int64(0)
            else:
                analyzer.bind(var, n.Range(int64(1), int64(_LARGEST)))
        if not analyzer.can_prove_equal(substitute(a, none), substitute(b, none)):
            return False
    return True


def proven_different(a: PrimExpr, b: PrimExpr, analyzer: Analyzer | None = None) -> bool:
    """Whether `a` and `b` differ for all values of their variables, as far as `arith` can tell."""
    if a is b:
        return False
    if isinstance(a, n.IntImm) and isinstance(b, n.IntImm):
        return a.value != b.value
    return (analyzer or Analyzer()).can_prove(ops.not_equal(a, b))


def simplified(value: PrimExpr, analyzer: Analyzer | None = None) -> PrimExpr:
    """`value` in normal form."""
    if isinstance(value, n.IntImm | n.Var):
        return value
    found = (analyzer or Analyzer()).simplify(value)
    return int64(found.value) if isinstance(found, n.IntImm) and found.dtype == "int64" else found


def variables(expr: PrimExpr) -> list[n.Var]:
    """The variables of `expr`, each once, in order."""
    if isinstance(expr, n.IntImm):
        return []
    if isinstance(expr, n.Var):
        return [expr]
    return list(dict.fromkeys(node for node in walk(expr) if isinstance(node, n.Var)))


def replaced(expr: PrimExpr, values: Callable[[n.Var], PrimExpr | None]) -> PrimExpr:
    """`expr` with variables replaced by what `values` gives for them, in normal form; itself when none is."""
    if isinstance(expr, n.IntImm):
        return expr
    found = {var: value for var in variables(expr) if (value := values(var)) is not None and value is not var}
    return simplified(substitute(expr, found)) if found else expr


def text(expr: PrimExpr) -> str:
    """A dimension as a reader would write it."""
    if isinstance(expr, n.IntImm):
        return str(expr.value)
    if isinstance(expr, n.Var):
        return expr.name
    return _CONSTANT.sub(r"\1", repr(expr))


def shape_text(shape: Sequence[PrimExpr]) -> str:
    """A shape as a reader would write it: "(n, 4)"."""
    parts = [text(value) for value in shape]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
