"""Python source for each kind of expression but calls: what the interpreter runs."""

from __future__ import annotations

import math
from typing import Any

from compiler.dtype import element_of, lanes_of, parse_dtype
from compiler.errors import LoweringError
from compiler.interp import math_functions as interp_math
from compiler.interp.expr import RULES, ExprWriter, Rule, ValueCode, union
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_COMPARE = {n.EQ: "==", n.NE: "!=", n.LT: "<", n.LE: "<=", n.GT: ">", n.GE: ">="}
_RING = {n.Add: "+", n.Sub: "-", n.Mul: "*"}

# ----------------------------------------------------------------------------------- leaves


def _var(w: ExprWriter, e: n.Var, lane: int) -> ValueCode:
    if e in w.lane_vars:
        return w.lane_vars[e][lane]
    found = w.vars.get(e)
    if found is None:
        raise LoweringError(f"variable {e.name!r} is used where it has no value")
    return found


def _int(w: ExprWriter, e: n.IntImm, lane: int) -> ValueCode:
    if e.dtype == "bool":
        return ValueCode(str(bool(e.value)), 0, 1)
    return ValueCode(str(e.value) if e.value >= 0 else f"({e.value})", e.value, e.value)


def _float(w: ExprWriter, e: n.FloatImm, lane: int) -> ValueCode:
    value = interp_math.ROUND[e.dtype](e.value)
    if math.isnan(value):
        return ValueCode("NAN")
    if math.isinf(value):
        return ValueCode("INF" if value > 0 else "(-INF)")
    return ValueCode(f"({value!r})" if math.copysign(1, value) < 0 else repr(value))


def _ramp(w: ExprWriter, e: n.Ramp, lane: int) -> ValueCode:
    return _ring_value("+", w.index(e.base), _ring_value("*", w.index(e.stride), ValueCode(str(lane), lane, lane)))


def _shuffle(w: ExprWriter, e: n.Shuffle, lane: int) -> ValueCode:
    vector, at = e.lane(lane)
    return w.operand(vector, at)


def _broadcast(w: ExprWriter, e: n.Broadcast, lane: int) -> ValueCode:
    return w.broadcast(e)


# -------------------------------------------------------------------------------- arithmetic


def _ring(w: ExprWriter, e: Any, lane: int) -> ValueCode:
    sign = _RING[type(e)]
    if parse_dtype(e.dtype).is_float:
        a, b = w.operand(e.a, lane), w.operand(e.b, lane)
        return ValueCode(f"({a.code} {sign} {b.code})", exact=False)
    # wrapping commutes with +, - and *, so it is left to the end
    side = [w.raw(x, lane if lanes_of(x.dtype) > 1 else 0) for x in (e.a, e.b)]
    return _ring_value(sign, *side)


def _ring_value(sign: str, a: ValueCode, b: ValueCode) -> ValueCode:
    code = f"({a.code} {sign} {b.code})"
    if sign == "*":
        if b.code in ("0", "1"):
            return a if b.code == "1" else b
        if None in (a.lo, a.hi, b.lo, b.hi):
            return ValueCode(code)
        corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]  # type: ignore[operator]
        return ValueCode(code, min(corners), max(corners))
    if b.code == "0":
        return a
    if sign == "-":
        b = ValueCode(b.code, None if b.hi is None else -b.hi, None if b.lo is None else -b.lo)
    lo = None if a.lo is None or b.lo is None else a.lo + b.lo
    hi = None if a.hi is None or b.hi is None else a.hi + b.hi
    return ValueCode(code, lo, hi)


def _floordiv(w: ExprWriter, e: n.FloorDiv, lane: int) -> ValueCode:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        quotient = w.rounded(f"float_div({a.code}, {b.code})", element_of(e.dtype))
        return ValueCode(f"float_floor({quotient.code})")
    if b.lo is not None and b.lo > 0 and a.lo is not None and a.hi is not None:
        ends = [a.lo // b.lo, a.hi // b.lo, *([a.lo // b.hi, a.hi // b.hi] if b.hi is not None else [0, -1])]
        return ValueCode(f"({a.code} // {b.code})", min(ends), max(ends))
    return ValueCode(f"floor_div({a.code}, {b.code})")


def _floormod(w: ExprWriter, e: n.FloorMod, lane: int) -> ValueCode:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        return ValueCode(f"float_floormod({a.code}, {b.code})", exact=False)
    if b.lo is not None and b.hi is not None and b.lo > 0:
        return ValueCode(f"({a.code} % {b.code})", 0, b.hi - 1)
    return ValueCode(f"floor_mod({a.code}, {b.code})")


def _div(w: ExprWriter, e: n.Div, lane: int) -> ValueCode:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        return ValueCode(f"float_div({a.code}, {b.code})", exact=False)
    return ValueCode(f"trunc_div({a.code}, {b.code})")


def _mod(w: ExprWriter, e: n.Mod, lane: int) -> ValueCode:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        return ValueCode(f"float_mod({a.code}, {b.code})", exact=False)
    return ValueCode(f"trunc_mod({a.code}, {b.code})")


def _extreme(w: ExprWriter, e: n.Min | n.Max, lane: int) -> ValueCode:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    sign, pick = ("<", min) if isinstance(e, n.Min) else (">", max)
    x, y = w.name_of(a), w.name_of(b)
    lo = None if a.lo is None or b.lo is None else pick(a.lo, b.lo)
    hi = None if a.hi is None or b.hi is None else pick(a.hi, b.hi)
    nan = f" or {y} != {y}" if parse_dtype(e.dtype).is_float else ""
    return ValueCode(f"({y} if {y} {sign} {x}{nan} else {x})", lo, hi)


def _compare(w: ExprWriter, e: n.CmpOp, lane: int) -> ValueCode:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    return ValueCode(f"({a.code} {_COMPARE[type(e)]} {b.code})", 0, 1)


def _junction(w: ExprWriter, e: n.And | n.Or, lane: int) -> ValueCode:
    first = w.operand(e.a, lane)
    lines, second = w.captured(lambda: w.operand(e.b, lane))
    word = "and" if isinstance(e, n.And) else "or"
    if not lines:
        return ValueCode(f"({first.code} {word} {second.code})", 0, 1)
    name = w.fresh("t")
    w.line(f"{name} = {first.code}")
    w.line(f"if {name if word == 'and' else f'not {name}'}:")
    w.lines.extend([*lines, " " * (w.depth + 1) + f"{name} = {second.code}"])
    return ValueCode(name, 0, 1)


def _not(w: ExprWriter, e: n.Not, lane: int) -> ValueCode:
    return ValueCode(f"(not {w.operand(e.a, lane).code})", 0, 1)


def _select(w: ExprWriter, e: n.Select, lane: int) -> ValueCode:
    """Both sides are evaluated, so a side that faults is found out."""
    a, b = w.operand(e.true_value, lane), w.operand(e.false_value, lane)
    x, y = w.name_of(a), w.name_of(b)
    return ValueCode(f"({x} if {w.operand(e.condition, lane).code} else {y})", *union(a, b))


def _let(w: ExprWriter, e: n.Let, lane: int) -> ValueCode:
    bind(w, e.var, e.value)
    return w.raw(e.body, lane)


def bind(w: ExprWriter, var: n.Var, value: PrimExpr) -> None:
    """Assign `value` to `var`, lane by lane where it is a vector."""
    if lanes_of(value.dtype) == 1:
        found = w.value(value)
        w.line(f"{w.define(var, found.lo, found.hi)} = {found.code}")
        return
    lanes = []
    for lane in range(lanes_of(value.dtype)):
        found = w.value(value, lane)
        name = w.fresh("t")
        w.line(f"{name} = {found.code}")
        lanes.append(ValueCode(name, found.lo, found.hi))
    w.lane_vars[var] = lanes


def _cast(w: ExprWriter, e: n.Cast, lane: int) -> ValueCode:
    value = w.operand(e.value, lane)
    source, target = parse_dtype(element_of(e.value.dtype)), parse_dtype(element_of(e.dtype))
    if target.is_float:
        if source.is_float:
            exact = (target.bits >= source.bits and source.code == "float") or source.bits == 16
            return ValueCode(value.code, exact=exact)
        return ValueCode(f"int_to_float({value.code}, {str(target)!r})")
    if target.code == "bool":
        return ValueCode(f"({value.code} != 0)", 0, 1)
    if source.is_float:
        return w.wrapped(ValueCode(f"float_to_int({value.code}, {str(target)!r})"), str(target))
    if source.code == "bool":
        return ValueCode(f"int({value.code})", 0, 1)
    return value


def _load(w: ExprWriter, e: n.BufferLoad, lane: int) -> ValueCode:
    if e.predicate is None:
        return _load_lane(w, e, lane)
    zero = "False" if element_of(e.dtype) == "bool" else "0"
    return w.branch(w.condition(e.predicate, lane), lambda: _load_lane(w, e, lane), lambda: ValueCode(zero, 0, 0))


def _load_lane(w: ExprWriter, e: n.BufferLoad, lane: int) -> ValueCode:
    memory, at = w.place(e.buffer, e.indices, lane)
    dtype = element_of(e.dtype)
    if dtype in ("float16", "bfloat16"):
        return ValueCode(f"{dtype}_values[{memory}[{at}]]")
    parsed = parse_dtype(dtype)
    if parsed.is_int:
        half = 1 << (parsed.bits - 1) if parsed.is_signed else 0
        return ValueCode(f"{memory}[{at}]", -half, (1 << parsed.bits) - half - 1)
    return ValueCode(f"{memory}[{at}]", 0, 1) if parsed.code == "bool" else ValueCode(f"{memory}[{at}]")


_RULES: dict[type, Rule] = {
    n.Var: _var, n.SizeVar: _var, n.IntImm: _int, n.FloatImm: _float,
    n.Ramp: _ramp, n.Broadcast: _broadcast, n.Shuffle: _shuffle,
    n.Add: _ring, n.Sub: _ring, n.Mul: _ring,
    n.FloorDiv: _floordiv, n.FloorMod: _floormod, n.Div: _div, n.Mod: _mod,
    n.Min: _extreme, n.Max: _extreme,
    **dict.fromkeys(_COMPARE, _compare),
    n.And: _junction, n.Or: _junction, n.Not: _not,
    n.Select: _select, n.Let: _let, n.Cast: _cast, n.BufferLoad: _load,
}  # fmt: skip
RULES.update(_RULES)
