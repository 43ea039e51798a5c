"""Building expressions: conversion, dtype matching, constant folding, arithmetic.

Operands of different dtypes are matched as the field does: a Python number takes the other side's dtype;
an integer beside a float becomes that float; otherwise the wider type of the same code wins.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from compiler.dtype import element_of, parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

# ------------------------------------------------------------------------------ conversion


def const(value: bool | int | float, dtype: str | None = None, span: object = None) -> PrimExpr:
    """A constant. Without a dtype: bool → bool, int → int32, float → float32. `span` is taken and left unused."""
    if type(value) is int and -(1 << 31) <= value < 1 << 31 and dtype in ("int32", "int64", None):
        return n.IntImm(dtype or "int32", value)  # as nearly all are
    if dtype is None:
        dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
    parsed = parse_dtype(dtype)
    scalar: PrimExpr
    element = element_of(dtype)
    if parsed.is_float:
        scalar = n.FloatImm(element, float(value))
    elif parsed.code == "bool":
        scalar = n.IntImm(element, int(bool(value)))
    else:
        scalar = n.IntImm(element, wrap_int(int(value), element))
    return scalar if parsed.lanes == 1 else n.Broadcast(scalar, parsed.lanes)


def as_expr(value: Any) -> PrimExpr:
    """`value` as an expression: numbers become constants, axes their variable. Raises IRError otherwise."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, bool | int | float):
        return const(value)
    convert = getattr(value, "asexpr", None)
    if convert is not None:
        result: PrimExpr = convert()
        return result
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return const(value.item(), str(value.dtype))
    if isinstance(value, str):
        return n.StringImm(value)
    raise IRError(f"cannot use {value!r} ({type(value).__name__}) as an expression")


def wrap_int(value: int, dtype: str) -> int:
    """`value` wrapped to the range of an integer dtype, as two's complement arithmetic does."""
    parsed = parse_dtype(dtype)
    if parsed.code == "bool":
        return int(bool(value))
    value &= (1 << parsed.bits) - 1
    if parsed.is_signed and value >> (parsed.bits - 1):
        value -= 1 << parsed.bits
    return value


def as_int(expr: Any) -> int | None:
    """The value of an integer constant, else None."""
    if isinstance(expr, n.IntImm):
        return expr.value
    if isinstance(expr, int):
        return int(expr)
    return None


def is_const(expr: PrimExpr, value: float | None = None) -> bool:
    """Whether `expr` is a scalar or broadcast constant (equal to `value` when given)."""
    if isinstance(expr, n.Broadcast):
        expr = expr.value
    if not isinstance(expr, n.IntImm | n.FloatImm):
        return False
    return value is None or expr.value == value


def cast(dtype: str, value: Any) -> PrimExpr:
    """`value` converted to `dtype`; a scalar cast to a vector dtype is broadcast."""
    expr = as_expr(value)
    if expr.dtype == dtype:
        return expr
    want, have = parse_dtype(dtype), parse_dtype(expr.dtype)
    if want.lanes != have.lanes:
        if have.lanes != 1:
            raise IRError(f"cannot cast {expr.dtype} to {dtype}: the lane counts differ")
        return n.Broadcast(cast(element_of(dtype), expr), want.lanes)
    if isinstance(expr, n.IntImm):
        return const(expr.value, dtype)
    if isinstance(expr, n.FloatImm):
        if want.is_float:
            return n.FloatImm(dtype, expr.value)
        if math.isfinite(expr.value):
            return const(int(expr.value), dtype)
    return n.Cast(dtype, expr)


def match_types(lhs: Any, rhs: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both operands with one common dtype."""
    a, b = as_expr(lhs), as_expr(rhs)
    if a.dtype == b.dtype:
        return a, b
    # a bare Python number follows the other side
    if isinstance(rhs, int | float) and not isinstance(lhs, int | float):
        return _follow(a, b, rhs)
    if isinstance(lhs, int | float) and not isinstance(rhs, int | float):
        other, literal = _follow(b, a, lhs)
        return literal, other
    ta, tb = parse_dtype(a.dtype), parse_dtype(b.dtype)
    if ta.lanes != tb.lanes and 1 not in (ta.lanes, tb.lanes):
        raise IRError(f"operands have different lane counts: {a.dtype} and {b.dtype}")
    lanes = max(ta.lanes, tb.lanes)
    common = with_lanes(_common_element(a.dtype, b.dtype), lanes)
    return cast(common, a), cast(common, b)


def _follow(expr: PrimExpr, literal: PrimExpr, value: float) -> tuple[PrimExpr, PrimExpr]:
    parsed = parse_dtype(expr.dtype)
    if isinstance(value, float) and not parsed.is_float:
        dtype = with_lanes("float32", parsed.lanes)
        return cast(dtype, expr), cast(dtype, literal)
    if parsed.code == "bool" and not isinstance(value, bool):
        return cast(with_lanes("int32", parsed.lanes), expr), const(value, with_lanes("int32", parsed.lanes))
    return expr, const(value, expr.dtype)


def _common_element(a: str, b: str) -> str:
    ta, tb = parse_dtype(element_of(a)), parse_dtype(element_of(b))
    if "handle" in (ta.code, tb.code):
        raise IRError(f"no arithmetic between {a} and {b}")
    if ta.is_float or tb.is_float:
        floats = [t for t in (ta, tb) if t.is_float]
        if len(floats) == 2 and {f.code for f in floats} == {"float", "bfloat"} and ta.bits == tb.bits:
            return "float32"
        return str(max(floats, key=lambda t: t.bits))
    ints = [t for t in (ta, tb) if t.code != "bool"]
    if len(ints) == 1:
        return str(ints[0])
    if ta.code == tb.code or ta.bits != tb.bits:
        return str(max((ta, tb), key=lambda t: t.bits))
    return str(ta if ta.code == "uint" else tb)


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
    if isinstance(a, n.IntImm) and isinstance(b, n.IntImm):
        if isinstance(b.value, int) and b.value == 0 and kind in _DIVISIONS:
            raise IRError(f"division by zero in {kind.__name__}")
        dtype = "bool" if issubclass(kind, n.CmpOp) else a.dtype
        return const(_INT_FOLD[kind](a.value, b.value), dtype)
    folded = _fold_unit(kind, a, b)
    return kind(a, b) if folded is None else folded


def _fold_unit(kind: type[n.BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """x+0, x*1, x//1, 0*i, x%1, min(x,x), and with true/false. Floats keep NaN and -0 semantics."""
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


def add(a: Any, b: Any) -> PrimExpr:
    return binary(n.Add, a, b)


def sub(a: Any, b: Any) -> PrimExpr:
    return binary(n.Sub, a, b)


def mul(a: Any, b: Any) -> PrimExpr:
    return binary(n.Mul, a, b)


def div(a: Any, b: Any) -> PrimExpr:
    """True division. Integers have several divisions, so the choice must be spelled out."""
    x, y = match_types(a, b)
    if not parse_dtype(x.dtype).is_float:
        raise IRError(
            "'/' on integers is ambiguous",
            hint="use // (floordiv), tir.truncdiv, or cast to float first",
        )
    folded = _fold_unit(n.Div, x, y)
    return n.Div(x, y) if folded is None else folded


def truncdiv(a: Any, b: Any) -> PrimExpr:
    return binary(n.Div, a, b)


def truncmod(a: Any, b: Any) -> PrimExpr:
    return binary(n.Mod, a, b)


def floordiv(a: Any, b: Any) -> PrimExpr:
    return binary(n.FloorDiv, a, b)


def floormod(a: Any, b: Any) -> PrimExpr:
    return binary(n.FloorMod, a, b)


def ceildiv(a: Any, b: Any) -> PrimExpr:
    """a / b rounded up, for b > 0."""
    x, y = as_int(a), as_int(b)
    if x is not None and y is not None:
        return const(-(-x // y))
    return floordiv(add(a, sub(b, 1)), b)


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


def less(a: Any, b: Any) -> PrimExpr:
    return binary(n.LT, a, b)


def less_equal(a: Any, b: Any) -> PrimExpr:
    return binary(n.LE, a, b)


def greater(a: Any, b: Any) -> PrimExpr:
    return binary(n.GT, a, b)


def greater_equal(a: Any, b: Any) -> PrimExpr:
    return binary(n.GE, a, b)


def _incomparable(a: Any, b: Any) -> bool:
    return any(x is None or isinstance(x, str | tuple | list | dict | type) for x in (a, b))


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


def not_equal(a: Any, b: Any) -> Any:
    if _incomparable(a, b):
        return NotImplemented
    x, y = match_types(a, b)
    if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return const(x.value != y.value)
    return n.NE(x, y)


def logical_and(*conditions: Any) -> PrimExpr:
    """Logical and; true without conditions."""
    result = const(True)
    for condition in conditions:
        result = binary(n.And, result, condition)
    return result


def logical_or(*conditions: Any) -> PrimExpr:
    result = const(False)
    for condition in conditions:
        result = binary(n.Or, result, condition)
    return result


def logical_not(a: Any) -> PrimExpr:
    expr = as_expr(a)
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
    return const((1 << (parsed.bits - (1 if parsed.is_signed else 0))) - 1, dtype)


_FLOAT_MAX = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
