"""Index arithmetic in 64 bits: sums by loop level, divisions without fix-ups where the sign is known."""

from __future__ import annotations

from compiler.codegen.llvm.division import divide
from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import bits_of, code_of, llvm_type
from compiler.codegen.llvm.writer import PINNED, Operand
from compiler.dtype import element_of, lanes_of, with_lanes
from compiler.ir.visit import walk
from compiler.lower.analysis.linear import LinearForm
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_DIVISIONS = (n.FloorDiv, n.FloorMod, n.Div, n.Mod)
_MOST_32 = (1 << 31) - 1


def index(g: Gen, expr: PrimExpr) -> Operand:
    """A scalar integer expression as an i64."""
    if type(expr) is n.IntImm:
        return expr.value
    if type(expr) is n.Var:
        found = g.index_vars.get(expr)
        if found is not None:
            return found
    terms, offset = resolve(g, g.forms.form(expr))
    total: Operand = 0
    for _, name, scale in terms:
        total = g.w.iadd(total, g.w.imul(name, scale))
    return g.w.iadd(total, offset)


def resolve(g: Gen, form: LinearForm) -> tuple[list[tuple[int, str, int]], int]:
    """Return the terms of `form` that have values now, and the constant.
    A term is (level, name, coefficient); the outermost comes first."""
    terms: list[tuple[int, str, int]] = []
    offset = form.offset
    known = g.index_vars
    level_of = g.w.level_of
    for atom, scale in form.terms:
        value = known.get(atom) if isinstance(atom, n.Var) else None
        if value is None:
            value = _atom(g, atom)
        if type(value) is int:
            offset += value * scale
        else:
            assert type(value) is str
            terms.append((level_of.get(value, PINNED), value, scale))
    if len(terms) > 1:
        terms.sort(key=_level)
    return terms, offset


def _level(term: tuple[int, str, int]) -> int:
    return term[0]


def _atom(g: Gen, expr: PrimExpr) -> Operand:
    """An expression that is no sum, as an i64."""
    kind = type(expr)
    if expr.dtype in ("int32", "int64"):
        if kind in _DIVISIONS:
            assert isinstance(expr, n.BinaryOp)
            return _division(g, expr)
        if kind is n.Min or kind is n.Max:
            assert isinstance(expr, n.BinaryOp)
            a, b = index(g, expr.a), index(g, expr.b)
            if type(a) is int and type(b) is int:
                return min(a, b) if kind is n.Min else max(a, b)
            name = f"@llvm.{'smin' if kind is n.Min else 'smax'}.i64"
            g.module.declare(name, f"i64 {name}(i64, i64)")
            return g.w.value(f"call i64 {name}(i64 {a}, i64 {b})", a, b)
        if kind is n.Mul:
            assert isinstance(expr, n.BinaryOp)
            a, b = index(g, expr.a), index(g, expr.b)
            if type(b) is int:
                return g.w.imul(a, b)
            return g.w.imul(b, a) if type(a) is int else g.w.value(f"mul nsw i64 {a}, {b}", a, b)
    return widen(g, g.value(expr), expr.dtype)


def in_64_bits(expr: PrimExpr) -> PrimExpr:
    """Return a vector of int32 index arithmetic as int64.

    Positions in an array of unknown size may not fit int32. Arithmetic on loaded data keeps its own width, in which it
    may wrap.
    """
    match expr:
        case _ if element_of(expr.dtype) != "int32":
            return expr
        case n.Add() | n.Sub() | n.Mul():
            return type(expr)(in_64_bits(expr.a), in_64_bits(expr.b))
        case n.FloorDiv() | n.FloorMod() if not any(isinstance(x, n.BufferLoad) for x in walk(expr)):
            return type(expr)(in_64_bits(expr.a), in_64_bits(expr.b))
        case n.Ramp():
            return n.Ramp(ops.cast("int64", expr.base), ops.cast("int64", expr.stride), expr.lanes)
        case n.Broadcast():
            return n.Broadcast(ops.cast("int64", expr.value), expr.lanes)
    return n.Cast(with_lanes("int64", lanes_of(expr.dtype)), expr)


def widen(g: Gen, value: str, dtype: str) -> Operand:
    """A scalar integer value of `dtype` as an i64."""
    if value.lstrip("-").isdigit():
        return int(value)
    if value in ("true", "false"):
        return int(value == "true")
    if bits_of(dtype) == 64:
        return value
    extend = "sext" if code_of(dtype) == "int" else "zext"
    return g.w.value(f"{extend} {llvm_type(dtype)} {value} to i64", value)


def narrow(g: Gen, value: Operand, dtype: str) -> str:
    """An i64 as an operand of the integer type `dtype`, wrapped."""
    if type(value) is int:
        bits = bits_of(dtype)
        wrapped = value & (1 << bits) - 1
        return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
    assert type(value) is str
    if bits_of(dtype) == 64:
        return value
    return g.w.value(f"trunc i64 {value} to {llvm_type(dtype)}", value)


def _division(g: Gen, expr: n.BinaryOp) -> Operand:
    a, b = index(g, expr.a), index(g, expr.b)
    low, high = g.forms.bounds(expr.a)
    natural = low >= 0
    kind = type(expr)
    if type(b) is int and b > 0:
        if type(a) is int:
            exact = natural or kind in (n.FloorDiv, n.FloorMod)
            result = a // b if exact or a >= 0 else -(-a // b)
            return result if kind in (n.FloorDiv, n.Div) else a - result * b
        if natural and max(high, b) <= _MOST_32 and g.module.options.device is not None:
            return _divide_in_32_bits(g, kind, str(a), b)
        return _divide_by_constant(g, kind, str(a), b, natural)
    return divide(
        g, "i64", 1, str(a), str(b), signed=True, quotient=kind in (n.FloorDiv, n.Div),
        floors=kind in (n.FloorDiv, n.FloorMod), safe=_is_positive(g, expr.b),
    )  # fmt: skip


def _is_positive(g: Gen, expr: PrimExpr) -> bool:
    return g.forms.bounds(expr)[0] > 0


def _divide_in_32_bits(g: Gen, kind: type[n.BinaryOp], a: str, b: int) -> Operand:
    """a divided by b, both known to be natural numbers of 31 bits.
    A GPU computes with 32 bits. A 64-bit division by a constant needs the high half of a product, which takes it
    several instructions."""
    w = g.w
    if b & (b - 1) == 0:
        return _divide_by_constant(g, kind, a, b, natural=True)  # a shift or a mask
    short = w.value(f"trunc nuw nsw i64 {a} to i32", a)
    result = w.value(f"{'udiv' if kind in (n.FloorDiv, n.Div) else 'urem'} i32 {short}, {b}", short)
    return w.value(f"zext nneg i32 {result} to i64", result)


def _divide_by_constant(g: Gen, kind: type[n.BinaryOp], a: str, b: int, natural: bool) -> Operand:
    """a divided by b > 0, with the fix-up for negative `a` only where `a` may be negative."""
    w = g.w
    power = b.bit_length() - 1 if b & (b - 1) == 0 else None
    divides = kind in (n.FloorDiv, n.Div)
    if b == 1:
        return a if divides else 0
    if natural or (power is not None and kind in (n.FloorDiv, n.FloorMod)):
        if power is not None:
            if divides:
                return w.value(f"{'lshr' if natural else 'ashr'} i64 {a}, {power}", a)
            return w.value(f"and i64 {a}, {b - 1}", a)
        return w.value(f"{'udiv' if divides else 'urem'} i64 {a}, {b}", a)
    if kind in (n.Div, n.Mod):
        return w.value(f"{'sdiv' if divides else 'srem'} i64 {a}, {b}", a)
    remainder = w.value(f"srem i64 {a}, {b}", a)
    sign = w.value(f"ashr i64 {remainder}, 63", remainder)  # -1 where the remainder is negative
    if divides:
        quotient = w.value(f"sdiv i64 {a}, {b}", a)
        return w.value(f"add i64 {quotient}, {sign}", quotient, sign)
    extra = w.value(f"and i64 {sign}, {b}", sign)
    return w.value(f"add i64 {remainder}, {extra}", remainder, extra)
