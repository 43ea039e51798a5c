"""Build expressions: constant folding and arithmetic.

Conversions are in `compiler.tir.nodes.convert`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from compiler.dtype import element_of, parse_dtype
from compiler.errors import IRError
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.convert import as_expr, as_int, cast, const, is_const, match_types, wrap_int
from compiler.tir.nodes.operators import operator

__all__ = [
    "add", "as_condition", "as_expr", "as_int", "binary", "cast", "ceildiv", "const", "div", "equal", "floor_div_int",
    "floordiv", "floormod", "greater", "greater_equal", "is_const", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "match_types", "max_value", "maximum", "min_value", "minimum", "mul", "neg", "not_equal", "sub",
    "trunc_div_int", "truncdiv", "truncmod", "wrap_int",
]  # fmt: skip

# ---------------------------------------------------------------------------- constant folding


def floor_div_int(a: int, b: int) -> int:
    return a // b


def trunc_div_int(a: int, b: int) -> int:
    quotient = builtins.abs(a) // builtins.abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_INT_FOLD: dict[type[n.BinaryOp], Callable[[int, int], int]] = {
    n.Add: lambda a, b: a + b,
    n.Sub: lambda a, b: a - b,
    n.Mul: lambda a, b: a * b,
    n.Div: trunc_div_int,
    n.Mod: lambda a, b: a - trunc_div_int(a, b) * b,
    n.FloorDiv: floor_div_int,
    n.FloorMod: lambda a, b: a % b,
    n.Min: min,
    n.Max: max,
    n.EQ: lambda a, b: a == b,
    n.NE: lambda a, b: a != b,
    n.LT: lambda a, b: a < b,
    n.LE: lambda a, b: a <= b,
    n.GT: lambda a, b: a > b,
    n.GE: lambda a, b: a >= b,
    n.And: lambda a, b: a and b,
    n.Or: lambda a, b: a or b,
}
_DIVISIONS = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)


def binary(kind: type[n.BinaryOp], lhs: Any, rhs: Any) -> PrimExpr:
    """`kind(lhs, rhs)` with matched dtypes, integer constants folded and units removed."""
    same = isinstance(lhs, PrimExpr) and isinstance(rhs, PrimExpr) and lhs.dtype == rhs.dtype
    a, b = (lhs, rhs) if same else match_types(lhs, rhs)
    if a.dtype == "bool" and issubclass(kind, n.NumberOp):
        return kind(a, b)  # which refuses bools
    if kind in _DIVISIONS and isinstance(b, n.IntImm) and b.value == 0:
        raise IRError(f"{kind.__name__} of {a!r} by zero")
    if isinstance(a, n.IntImm) and isinstance(b, n.IntImm):
        dtype = "bool" if issubclass(kind, n.CmpOp) else a.dtype
        return const(_INT_FOLD[kind](a.value, b.value), dtype)
    folded = _fold_unit(kind, a, b)
    return kind(a, b) if folded is None else folded


def _fold_unit(kind: type[n.BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Simplify x+0, x*1, x//1, 0*i, x%1, min(x,x), and with true/false.
    Floats keep NaN and -0 semantics."""
    integer = not parse_dtype(a.dtype).is_float
    if kind is n.Add and integer:
        return a if is_const(b, 0) else b if is_const(a, 0) else None
    if kind is n.Sub and integer:
        return a if is_const(b, 0) else None
    if kind is n.Mul:
        if is_const(b, 1) or (integer and is_const(a, 0)):
            return a
        if is_const(a, 1) or (integer and is_const(b, 0)):
            return b
    if kind in (n.Div, n.FloorDiv) and is_const(b, 1):
        return a
    if kind in (n.Mod, n.FloorMod) and integer and is_const(b, 1):
        return const(0, a.dtype)
    if kind in (n.Min, n.Max) and a is b:
        return a
    if kind is n.And:
        return b if is_const(a, 1) or is_const(b, 0) else a if is_const(b, 1) or is_const(a, 0) else None
    if kind is n.Or:
        return b if is_const(a, 0) or is_const(b, 1) else a if is_const(b, 0) or is_const(a, 1) else None
    return None


# --------------------------------------------------------------------------------- arithmetic


@operator
def add(lhs: Any, rhs: Any) -> PrimExpr:
    return binary(n.Add, lhs, rhs)


@operator
def sub(lhs: Any, rhs: Any) -> PrimExpr:
    return binary(n.Sub, lhs, rhs)


@operator
def mul(lhs: Any, rhs: Any) -> PrimExpr:
    return binary(n.Mul, lhs, rhs)


@operator
def div(a: Any, b: Any) -> PrimExpr:
    """True division. Integers have several divisions, so the choice must be spelled out."""
    x, y = match_types(a, b)
    if not parse_dtype(x.dtype).is_float:
        raise IRError("'/' on integers is ambiguous", hint="use // (floordiv), tir.truncdiv, or cast to float first")
    if is_const(y, 0):
        raise IRError(f"Div of {x!r} by zero")
    folded = _fold_unit(n.Div, x, y)
    return n.Div(x, y) if folded is None else folded


def _refuse_float(name: str, *operands: Any) -> None:
    """Raise IRError where an operand of a division of integers is a float."""
    for operand in operands:
        dtype = "float32" if isinstance(operand, float) else str(getattr(operand, "dtype", "int32"))
        if parse_dtype(dtype).is_float:
            raise IRError(
                f"{name} divides integers, got {operand!r} of {dtype}",
                hint="of floats: tir.floor(a / b), and a - tir.floor(a / b) * b",
            )


def truncdiv(a: Any, b: Any) -> PrimExpr:
    _refuse_float("truncdiv", a, b)
    return binary(n.Div, a, b)


def truncmod(a: Any, b: Any) -> PrimExpr:
    return binary(n.Mod, a, b)


@operator
def floordiv(a: Any, b: Any) -> PrimExpr:
    """The quotient of integers, rounded down."""
    _refuse_float("floordiv", a, b)
    return binary(n.FloorDiv, a, b)


@operator
def floormod(a: Any, b: Any) -> PrimExpr:
    """The remainder of `floordiv`."""
    _refuse_float("floormod", a, b)
    return binary(n.FloorMod, a, b)


def ceildiv(lhs: Any, rhs: Any) -> PrimExpr:
    """lhs / rhs rounded up, for rhs > 0."""
    x, y = as_int(lhs), as_int(rhs)
    if x is not None and y is not None:
        return const(-(-x // y))
    return floordiv(add(lhs, sub(rhs, 1)), rhs)


@operator
def neg(a: Any) -> PrimExpr:
    expr = as_expr(a)
    if isinstance(expr, n.FloatImm):
        return n.FloatImm(expr.dtype, -expr.value)
    if parse_dtype(expr.dtype).is_float:
        return n.Mul(expr, const(-1.0, expr.dtype))
    return sub(const(0, expr.dtype), expr)


def minimum(a: Any, b: Any) -> PrimExpr:
    return binary(n.Min, a, b)


def maximum(a: Any, b: Any) -> PrimExpr:
    return binary(n.Max, a, b)


@operator
def less(a: Any, b: Any) -> PrimExpr:
    return binary(n.LT, a, b)


@operator
def less_equal(a: Any, b: Any) -> PrimExpr:
    return binary(n.LE, a, b)


@operator
def greater(a: Any, b: Any) -> PrimExpr:
    return binary(n.GT, a, b)


@operator
def greater_equal(a: Any, b: Any) -> PrimExpr:
    return binary(n.GE, a, b)


def _incomparable(a: Any, b: Any) -> bool:
    return any(x is None or isinstance(x, str | tuple | list | dict | type) for x in (a, b))


@operator
def equal(a: Any, b: Any) -> Any:
    if _incomparable(a, b):
        return NotImplemented
    x, y = as_expr(a), as_expr(b)
    if x.dtype != y.dtype and "handle" in (x.dtype, y.dtype):
        return const(False)
    x, y = match_types(a, b)
    if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return const(x.value == y.value)
    return n.EQ(x, y)


@operator
def not_equal(a: Any, b: Any) -> Any:
    if _incomparable(a, b):
        return NotImplemented
    x, y = match_types(a, b)
    if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return const(x.value != y.value)
    return n.NE(x, y)


def as_condition(value: Any, what: str) -> PrimExpr:
    """`value` as an expression. Raises IRError where it is no bool."""
    expr = as_expr(value)
    if not expr.dtype.startswith("bool"):
        raise IRError(f"{what} needs a condition of bool, got {expr!r} of {expr.dtype}", hint="compare it: x != 0")
    return expr


def logical_and(*conditions: Any) -> PrimExpr:
    """Logical and; true without conditions."""
    result = const(True)
    for condition in conditions:
        result = binary(n.And, result, as_condition(condition, "all"))
    return result


def logical_or(*conditions: Any) -> PrimExpr:
    result = const(False)
    for condition in conditions:
        result = binary(n.Or, result, as_condition(condition, "any"))
    return result


def logical_not(a: Any) -> PrimExpr:
    expr = as_condition(a, "not")
    if isinstance(expr, n.IntImm):
        return const(not expr.value)
    return expr.a if isinstance(expr, n.Not) else n.Not(expr)


def min_value(dtype: str) -> PrimExpr:
    """The least finite value of `dtype`."""
    parsed = parse_dtype(dtype)
    if parsed.is_float:
        return const(-_FLOAT_MAX[element_of(dtype)], dtype)
    return const(-(1 << (parsed.bits - 1)) if parsed.is_signed else 0, dtype)


def max_value(dtype: str) -> PrimExpr:
    """The greatest finite value of `dtype`."""
    parsed = parse_dtype(dtype)
    if parsed.is_float:
        return const(_FLOAT_MAX[element_of(dtype)], dtype)
    if parsed.code == "bool":
        return const(True, dtype)
    if parsed.code == "handle":
        raise IRError("addresses have no greatest value")
    return const((1 << (parsed.bits - (1 if parsed.is_signed else 0))) - 1, dtype)


_FLOAT_MAX = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
