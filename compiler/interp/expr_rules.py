"""Python source for each kind of expression but calls: what the interpreter runs."""

from __future__ import annotations

import math
from typing import Any

from compiler.dtype import element_of, lanes_of, parse_dtype
from compiler.errors import LoweringError
from compiler.interp import math_functions as interp_math
from compiler.interp.expr import RULES, ExprWriter, Rule, Value, union
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_COMPARE = {n.EQ: "==", n.NE: "!=", n.LT: "<", n.LE: "<=", n.GT: ">", n.GE: ">="}
_RING = {n.Add: "+", n.Sub: "-", n.Mul: "*"}

# ----------------------------------------------------------------------------------- leaves


def _var(w: ExprWriter, e: n.Var, lane: int) -> Value:
    if e in w.lane_vars:
        return w.lane_vars[e][lane]
    found = w.vars.get(e)
    if found is None:
        raise LoweringError(f"variable {e.name!r} is used where it has no value")
    return found


def _int(w: ExprWriter, e: n.IntImm, lane: int) -> Value:
    if e.dtype == "bool":
        return Value(str(bool(e.value)), 0, 1)
    return Value(str(e.value) if e.value >= 0 else f"({e.value})", e.value, e.value)


def _float(w: ExprWriter, e: n.FloatImm, lane: int) -> Value:
    value = interp_math.ROUND[e.dtype](e.value)
    if math.isnan(value):
        return Value("NAN")
    if math.isinf(value):
        return Value("INF" if value > 0 else "(-INF)")
    return Value(f"({value!r})" if math.copysign(1, value) < 0 else repr(value))


def _ramp(w: ExprWriter, e: n.Ramp, lane: int) -> Value:
    return _ring_value("+", w.index(e.base), _ring_value("*", w.index(e.stride), Value(str(lane), lane, lane)))


def _shuffle(w: ExprWriter, e: n.Shuffle, lane: int) -> Value:
    vector, at = e.lane(lane)
    return w.operand(vector, at)


def _broadcast(w: ExprWriter, e: n.Broadcast, lane: int) -> Value:
    return w.broadcast(e)


# -------------------------------------------------------------------------------- arithmetic


def _ring(w: ExprWriter, e: Any, lane: int) -> Value:
    sign = _RING[type(e)]
    if parse_dtype(e.dtype).is_float:
        a, b = w.operand(e.a, lane), w.operand(e.b, lane)
        return Value(f"({a.code} {sign} {b.code})", exact=False)
    # wrapping commutes with +, - and *, so it is left to the end
    side = [w.raw(x, lane if lanes_of(x.dtype) > 1 else 0) for x in (e.a, e.b)]
    return _ring_value(sign, *side)


def _ring_value(sign: str, a: Value, b: Value) -> Value:
    code = f"({a.code} {sign} {b.code})"
    if sign == "*":
        if b.code in ("0", "1"):
            return a if b.code == "1" else b
        if None in (a.lo, a.hi, b.lo, b.hi):
            return Value(code)
        corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]  # type: ignore[operator]
        return Value(code, min(corners), max(corners))
    if b.code == "0":
        return a
    if sign == "-":
        b = Value(b.code, None if b.hi is None else -b.hi, None if b.lo is None else -b.lo)
    lo = None if a.lo is None or b.lo is None else a.lo + b.lo
    hi = None if a.hi is None or b.hi is None else a.hi + b.hi
    return Value(code, lo, hi)


def _floordiv(w: ExprWriter, e: n.FloorDiv, lane: int) -> Value:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        quotient = w.rounded(f"float_div({a.code}, {b.code})", element_of(e.dtype))
        return Value(f"float_floor({quotient.code})")
    if b.lo is not None and b.lo > 0 and a.lo is not None and a.hi is not None:
        ends = [a.lo // b.lo, a.hi // b.lo, *([a.lo // b.hi, a.hi // b.hi] if b.hi is not None else [0, -1])]
        return Value(f"({a.code} // {b.code})", min(ends), max(ends))
    return Value(f"floor_div({a.code}, {b.code})")


def _floormod(w: ExprWriter, e: n.FloorMod, lane: int) -> Value:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        return Value(f"float_floormod({a.code}, {b.code})", exact=False)
    if b.lo is not None and b.hi is not None and b.lo > 0:
        return Value(f"({a.code} % {b.code})", 0, b.hi - 1)
    return Value(f"floor_mod({a.code}, {b.code})")


def _div(w: ExprWriter, e: n.Div, lane: int) -> Value:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        return Value(f"float_div({a.code}, {b.code})", exact=False)
    return Value(f"trunc_div({a.code}, {b.code})")


def _mod(w: ExprWriter, e: n.Mod, lane: int) -> Value:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    if parse_dtype(e.dtype).is_float:
        return Value(f"float_mod({a.code}, {b.code})", exact=False)
    return Value(f"trunc_mod({a.code}, {b.code})")


def _extreme(w: ExprWriter, e: n.Min | n.Max, lane: int) -> Value:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    sign, pick = ("<", min) if isinstance(e, n.Min) else (">", max)
    x, y = w.name_of(a), w.name_of(b)
    lo = None if a.lo is None or b.lo is None else pick(a.lo, b.lo)
    hi = None if a.hi is None or b.hi is None else pick(a.hi, b.hi)
    nan = f" or {y} != {y}" if parse_dtype(e.dtype).is_float else ""
    return Value(f"({y} if {y} {sign} {x}{nan} else {x})", lo, hi)


def _compare(w: ExprWriter, e: n.CmpOp, lane: int) -> Value:
    a, b = w.operand(e.a, lane), w.operand(e.b, lane)
    return Value(f"({a.code} {_COMPARE[type(e)]} {b.code})", 0, 1)


def _junction(w: ExprWriter, e: n.And | n.Or, lane: int) -> Value:
    first = w.operand(e.a, lane)
    lines, second = w.captured(lambda: w.operand(e.b, lane))
    word = "and" if isinstance(e, n.And) else "or"
    if not lines:
        return Value(f"({first.code} {word} {second.code})", 0, 1)
    name = w.fresh("t")
    w.line(f"{name} = {first.code}")
    w.line(f"if {name if word == 'and' else f'not {name}'}:")
    w.lines.extend([*lines, " " * (w.depth + 1) + f"{name} = {second.code}"])
    return Value(name, 0, 1)


def _not(w: ExprWriter, e: n.Not, lane: int) -> Value:
    return Value(f"(not {w.operand(e.a, lane).code})", 0, 1)


def _select(w: ExprWriter, e: n.Select, lane: int) -> Value:
    """Both sides are evaluated, so a side that faults is found out."""
    a, b = w.operand(e.true_value, lane), w.operand(e.false_value, lane)
    x, y = w.name_of(a), w.name_of(b)
    return Value(f"({x} if {w.operand(e.condition, lane).code} else {y})", *union(a, b))


def _let(w: ExprWriter, e: n.Let, lane: int) -> Value:
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
        lanes.append(Value(name, found.lo, found.hi))
    w.lane_vars[var] = lanes


def _cast(w: ExprWriter, e: n.Cast, lane: int) -> Value:
    value = w.operand(e.value, lane)
    source, target = parse_dtype(element_of(e.value.dtype)), parse_dtype(element_of(e.dtype))
    if target.is_float:
        if source.is_float:
            return Value(value.code, exact=(target.bits >= source.bits and source.code == "float") or source.bits == 16)
        return Value(f"int_to_float({value.code}, {str(target)!r})")
    if target.code == "bool":
        return Value(f"({value.code} != 0)", 0, 1)
    if source.is_float:
        return w.wrapped(Value(f"float_to_int({value.code}, {str(target)!r})"), str(target))
    if source.code == "bool":
        return Value(f"int({value.code})", 0, 1)
    return value


def _load(w: ExprWriter, e: n.BufferLoad, lane: int) -> Value:
    if e.predicate is None:
        return _load_lane(w, e, lane)
    zero = "False" if element_of(e.dtype) == "bool" else "0"
    return w.branch(w.condition(e.predicate, lane), lambda: _load_lane(w, e, lane), lambda: Value(zero, 0, 0))


def _load_lane(w: ExprWriter, e: n.BufferLoad, lane: int) -> Value:
    memory, at = w.place(e.buffer, e.indices, lane)
    dtype = element_of(e.dtype)
    if dtype in ("float16", "bfloat16"):
        return Value(f"{dtype}_values[{memory}[{at}]]")
    parsed = parse_dtype(dtype)
    if parsed.is_int:
        half = 1 << (parsed.bits - 1) if parsed.is_signed else 0
        return Value(f"{memory}[{at}]", -half, (1 << parsed.bits) - half - 1)
    return Value(f"{memory}[{at}]", 0, 1) if parsed.code == "bool" else Value(f"{memory}[{at}]")


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
