"""Python values as expressions: constants, conversions, operands of one dtype.

Operands of different dtypes are matched as TVM does: a Python number takes the other side's dtype.
An integer beside a float becomes that float; otherwise the wider type of the same code wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.dtype import DType, element_of, lanes_of, parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.ir.base import Span
from compiler.tir.nodes.axis import FloatImm, IntImm, StringImm, unchecked_int
from compiler.tir.nodes.base import PrimExpr
from compiler.tir.nodes.operators import operator


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(PrimExpr):
    CHILDREN = ("value",)

    dtype: str
    value: PrimExpr
    span: Span | None = None

    def __post_init__(self) -> None:
        to_exprs(self, "value")
        if lanes_of(self.dtype) != lanes_of(self.value.dtype):
            raise IRError(f"cannot cast {self.value.dtype} to {self.dtype}: the lane counts differ")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Broadcast(PrimExpr):
    """`value` in every lane."""

    CHILDREN = ("value",)

    value: PrimExpr
    lanes: int
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        to_exprs(self, "value")
        check_lanes(self.lanes, "Broadcast", self.value)
        object.__setattr__(self, "dtype", with_lanes(self.value.dtype, self.lanes))


def check_lanes(lanes: object, what: str, scalar: PrimExpr) -> None:
    """Raise IRError unless `lanes` is a number of lanes that makes a vector, and `scalar` one value."""
    if lanes_of(scalar.dtype) != 1:
        raise IRError(f"a {what} is made of a scalar, got {scalar!r} of {scalar.dtype}")
    if not isinstance(lanes, int) or lanes < 2:
        raise IRError(f"a {what} has at least two lanes, got {lanes!r}")


def to_exprs(node: object, *fields: str) -> None:
    """Numbers given for the named fields, as expressions."""
    for name in fields:
        value = getattr(node, name)
        if not isinstance(value, PrimExpr):
            object.__setattr__(node, name, as_expr(value))


def to_tuples(node: object, *fields: str) -> None:
    """Sequences of numbers and expressions given for the named fields, as tuples of expressions."""
    for name in fields:
        value = getattr(node, name)
        if type(value) is not tuple or not all(isinstance(item, PrimExpr) for item in value):
            object.__setattr__(node, name, as_exprs(value))


def as_exprs(values: Any) -> tuple[PrimExpr, ...]:
    items: Sequence[Any] = values if isinstance(values, tuple | list) else (values,)
    return tuple(map(as_expr, items))


def number_as(value: Any, dtype: str, what: str) -> PrimExpr:
    """A number, or integer constant, as a constant of `dtype`.
    Raises IRError, naming `what`, where it does not fit."""
    given = as_expr(value)
    if dtype != given.dtype and (("float" in given.dtype and "float" not in dtype) or not hasattr(given, "value")):
        raise IRError(f"{what} takes {dtype}, got {given!r} of {given.dtype}", hint=f'convert it: .astype("{dtype}")')
    return cast(dtype, given)


def const(value: bool | int | float, dtype: str | None = None, span: object = None) -> PrimExpr:
    """Make a constant.
    The default dtype is bool for bool, int32 (or int64 if needed) for int, float32 for float, and its own for a
    numpy number. `span` is ignored; accepted for compatibility with TVM."""
    if type(value) is int and -(1 << 31) <= value < 1 << 31 and dtype in ("int32", "int64", None):
        return unchecked_int(dtype or "int32", value)  # as nearly all are
    if dtype is None:
        dtype = _dtype_of(value)
    parsed = parse_dtype(dtype)
    if isinstance(value, str):
        raise IRError(f"a constant is a number, not the text {value[:60]!r}", hint="texts are StringImm")
    scalar: PrimExpr
    element = element_of(dtype)
    if parsed.is_float:
        scalar = FloatImm(element, float(value))
    elif parsed.code == "bool":
        scalar = IntImm(element, int(bool(value)))
    else:
        scalar = IntImm(element, wrap_int(int(value), element))
    return scalar if parsed.lanes == 1 else Broadcast(scalar, parsed.lanes)


def _dtype_of(value: Any) -> str:
    own = getattr(value, "dtype", None)
    if own is not None:
        return str(own)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int32" if -(1 << 31) <= value < 1 << 31 else "int64"
    return "float32"


def as_expr(value: Any) -> PrimExpr:
    """`value` as an expression: numbers become constants, axes their variable. Raises IRError otherwise."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, bool | int):
        return const(value)
    if isinstance(value, float):  # numpy's float64 is one too
        return const(value, "float32")
    convert = getattr(value, "asexpr", None)
    if convert is not None:
        result: PrimExpr = convert()
        return result
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return const(value.item(), str(value.dtype))
    if isinstance(value, str):
        return StringImm(value)
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
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, int):
        return int(expr)
    return None


def is_const(expr: PrimExpr, value: float | None = None) -> bool:
    """Whether `expr` is a scalar or broadcast constant (equal to `value` when given)."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    if not isinstance(expr, IntImm | FloatImm):
        return False
    return value is None or expr.value == value


@operator
def cast(dtype: str, value: Any) -> PrimExpr:
    """`value` converted to `dtype`; a scalar cast to a vector dtype is broadcast."""
    expr = as_expr(value)
    if expr.dtype == dtype:
        return expr
    want, have = parse_dtype(dtype), parse_dtype(expr.dtype)
    if want.lanes != have.lanes:
        if have.lanes != 1:
            raise IRError(f"cannot cast {expr.dtype} to {dtype}: the lane counts differ")
        return Broadcast(cast(element_of(dtype), expr), want.lanes)
    if isinstance(expr, IntImm):
        return const(expr.value, dtype)
    if isinstance(expr, FloatImm):
        if want.is_float:
            return FloatImm(dtype, expr.value)
        if math.isfinite(expr.value):
            return const(int(expr.value), dtype)
    return Cast(dtype, expr)


def match_types(lhs: Any, rhs: Any) -> tuple[PrimExpr, PrimExpr]:
    """Convert both operands to one common dtype."""
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
    if not parsed.is_float and not _fits(value, parsed):
        dtype = with_lanes(_dtype_of(value), parsed.lanes)
        return cast(dtype, expr), const(value, dtype)
    return expr, const(value, expr.dtype)


def _fits(value: float, dtype: DType) -> bool:
    """Whether integers of `dtype` hold `value`; a negative one wraps for unsigned ones, as in C."""
    if dtype.bits >= 64:
        return True
    if dtype.is_signed:
        return -(1 << dtype.bits - 1) <= value < 1 << dtype.bits - 1
    return value < 1 << dtype.bits


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
