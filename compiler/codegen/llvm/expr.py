"""Expressions as LLVM values: constants, arithmetic, comparisons, conversions, vectors."""

from __future__ import annotations

import math

from compiler.arith.bounds import POS
from compiler.codegen.llvm.division import divide
from compiler.codegen.llvm.gen import Gen, emits
from compiler.codegen.llvm.index import index, narrow, widen
from compiler.codegen.llvm.types import bits_of, code_of, float_constant, is_float, lanes_of, llvm_type
from compiler.codegen.llvm.values import SIGNED, choose, compare, convert, float_op, intrinsic, splat, unary_float
from compiler.codegen.llvm.whole_numbers import as_integer, narrowed, rounded
from compiler.codegen.llvm.x86.few_values import few_values, looked_up
from compiler.codegen.math.functions import math_call
from compiler.dtype import element_of, with_lanes
from compiler.errors import CodegenError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_COMPARE: dict[type, str] = {n.EQ: "eq", n.NE: "ne", n.LT: "lt", n.LE: "le", n.GT: "gt", n.GE: "ge"}
_FLOAT_OPS: dict[type, str] = {n.Add: "fadd", n.Sub: "fsub", n.Mul: "fmul"}
_INT_OPS: dict[type, str] = {n.Add: "add", n.Sub: "sub", n.Mul: "mul"}


# ------------------------------------------------------------------------------------ leaves


@emits(n.Var, n.SizeVar)
def _variable(g: Gen, expr: n.Var) -> str:
    found = g.value_vars.get(expr)
    if found is not None:
        return found
    held = g.index_vars.get(expr)
    if held is not None:
        return narrow(g, held, expr.dtype)
    memory = g.storage.get(expr)
    if memory is not None:
        return memory.pointer
    raise CodegenError(
        f"variable {expr.name!r} of {g.symbol} has no value here",
        hint="a symbolic extent must be an argument of the function as well",
    )


@emits(n.IntImm)
def _int(g: Gen, expr: n.IntImm) -> str:
    if expr.dtype == "bool":
        return "true" if expr.value else "false"
    return narrow(g, expr.value, expr.dtype)


@emits(n.FloatImm)
def _float(g: Gen, expr: n.FloatImm) -> str:
    return float_constant(expr.value, expr.dtype)


@emits(n.StringImm)
def _string(g: Gen, expr: n.StringImm) -> str:
    return g.module.string(expr.value)


@emits(n.Broadcast)
def _broadcast(g: Gen, expr: n.Broadcast) -> str:
    return splat(g, g.value(expr.value), expr.value.dtype, expr.lanes)


@emits(n.Shuffle)
def _shuffle(g: Gen, expr: n.Shuffle) -> str:
    """Return lanes of several vectors: LLVM makes the shuffles that the machine has.
    All vectors are joined and then shuffled at once, which leaves less to find; others are taken apart."""
    if (joined := _joined(g, expr)) is not None:
        return joined
    element, result, lanes = llvm_type(element_of(expr.dtype)), "poison", len(expr.indices)
    values = {vector: g.value(vector) for vector in expr.vectors}
    for position in range(lanes):
        vector, at = expr.lane(position)
        one = values[vector]
        if lanes_of(vector.dtype) > 1:
            one = g.w.value(f"extractelement {llvm_type(vector.dtype)} {one}, i64 {at}", one)
        if lanes == 1:
            return one
        result = g.w.inline(f"insertelement {llvm_type(expr.dtype)} {result}, {element} {one}, i64 {position}")
    return result


def _joined(g: Gen, expr: n.Shuffle) -> str | None:
    """A shuffle of several vectors of the same type; None for others."""
    lanes, element = lanes_of(expr.vectors[0].dtype), llvm_type(element_of(expr.dtype))
    alike = len({vector.dtype for vector in expr.vectors}) == 1
    if not alike or lanes == 1 or len(expr.vectors) == 1 or len(expr.indices) == 1:
        return None
    parts = [g.value(vector) for vector in expr.vectors]
    parts += ["poison"] * ((1 << (len(parts) - 1).bit_length()) - len(parts))
    while len(parts) > 1:
        ty, lanes = f"<{lanes} x {element}>", 2 * lanes
        order = ", ".join(f"i32 {lane}" for lane in range(lanes))
        pairs = zip(parts[::2], parts[1::2])
        parts = [g.w.inline(f"shufflevector {ty} {a}, {ty} {b}, <{lanes} x i32> <{order}>") for a, b in pairs]
    ty, order = f"<{lanes} x {element}>", ", ".join(f"i32 {ops.as_int(index)}" for index in expr.indices)
    one = _fenced(g, ty, parts[0]) if (lanes, bits_of(expr.dtype)) == (64, 8) else parts[0]
    return g.w.inline(f"shufflevector {ty} {one}, {ty} poison, <{len(expr.indices)} x i32> <{order}>")


def _fenced(g: Gen, ty: str, value: str) -> str:
    """Return 64 bytes as they are.
    Some CPUs shuffle the bytes of one vector in an instruction. LLVM would take part of the joining into it, and make
    it a shuffle of two vectors, which takes three times as long."""
    if "avx512vbmi" not in g.module.options.features:
        return value
    floats, name = "<16 x float>", "@llvm.arithmetic.fence.v16f32"
    g.module.declare(name, f"{floats} {name}({floats})")
    given = g.w.inline(f"bitcast {ty} {value} to {floats}")
    kept = g.w.inline(f"call {floats} {name}({floats} {given})")
    return g.w.inline(f"bitcast {floats} {kept} to {ty}")


@emits(n.Ramp)
def _ramp(g: Gen, expr: n.Ramp) -> str:
    dtype, element = expr.dtype, llvm_type(expr.base.dtype)
    base = _broadcast(g, n.Broadcast(expr.base, expr.lanes))
    if isinstance(expr.stride, n.IntImm):
        steps = ", ".join(f"{element} {i * expr.stride.value}" for i in range(expr.lanes))
        return g.w.value(f"add {llvm_type(dtype)} {base}, <{steps}>", base)
    numbers = ", ".join(f"{element} {i}" for i in range(expr.lanes))
    stride = _broadcast(g, n.Broadcast(expr.stride, expr.lanes))
    scaled = g.w.value(f"mul {llvm_type(dtype)} {stride}, <{numbers}>", stride)
    return g.w.value(f"add {llvm_type(dtype)} {base}, {scaled}", base, scaled)


@emits(n.Let)
def _let(g: Gen, expr: n.Let) -> str:
    bind(g, expr.var, expr.value)
    return g.value(expr.body)


def bind(g: Gen, var: n.Var, value: PrimExpr) -> None:
    """Give `var` the value of an expression, for what is emitted from here on."""
    if g.forms.is_index(value):
        g.index_vars[var] = index(g, value)
        g.forms.ranges.setdefault(var, g.forms.bounds(value))
        return
    operand = g.value_vars[var] = g.value(value)
    if var.dtype in ("int32", "int64"):
        g.forms.data.add(var)
        g.index_vars[var] = widen(g, operand, var.dtype)


# -------------------------------------------------------------------------------- arithmetic


@emits(n.Add, n.Sub, n.Mul)
def _sum(g: Gen, expr: n.BinaryOp) -> str:
    if is_float(expr.dtype):
        return float_op(g, _FLOAT_OPS[type(expr)], expr.dtype, g.value(expr.a), g.value(expr.b))
    if g.forms.is_index(expr):
        return narrow(g, index(g, expr), expr.dtype)
    a, b = g.value(expr.a), g.value(expr.b)
    return g.w.value(f"{_INT_OPS[type(expr)]} {llvm_type(expr.dtype)} {a}, {b}", a, b)


@emits(n.Div, n.Mod, n.FloorDiv, n.FloorMod)
def _division(g: Gen, expr: n.BinaryOp) -> str:
    kind, dtype = type(expr), expr.dtype
    if is_float(dtype):
        a, b = g.value(expr.a), g.value(expr.b)
        if kind is n.Mod:
            return _remainder(g, dtype, a, b)
        if kind is n.Div:
            return float_op(g, "fdiv", dtype, a, b)
        quotient = unary_float(g, "floor", dtype, float_op(g, "fdiv", dtype, a, b))
        if kind is n.FloorDiv:
            return quotient
        return float_op(g, "fsub", dtype, a, float_op(g, "fmul", dtype, quotient, b))
    if g.forms.is_index(expr):
        return narrow(g, index(g, expr), dtype)
    a, b = g.value(expr.a), g.value(expr.b)
    quotient_like = kind in (n.Div, n.FloorDiv)
    divisor = _scalar(expr.b)
    return divide(
        g, llvm_type(element_of(dtype)), lanes_of(dtype), a, b, signed=code_of(dtype) == "int", quotient=quotient_like,
        floors=kind in (n.FloorDiv, n.FloorMod), safe=isinstance(divisor, n.IntImm) and divisor.value not in (0, -1),
    )  # fmt: skip


def _remainder(g: Gen, dtype: str, a: str, b: str) -> str:
    """Return the remainder of a division of floats that is rounded towards zero.
    Of float64 by the C library."""
    wide = with_lanes("float32", lanes_of(dtype)) if bits_of(dtype) == 16 else dtype
    own = math_call(g, "fmod", wide, [convert(g, x, dtype, wide) for x in (a, b)])
    return float_op(g, "frem", dtype, a, b) if own is None else convert(g, own, wide, dtype)


def _scalar(expr: PrimExpr) -> PrimExpr:
    return expr.value if isinstance(expr, n.Broadcast) else expr


@emits(n.Min, n.Max)
def _extreme(g: Gen, expr: n.BinaryOp) -> str:
    dtype, least = expr.dtype, type(expr) is n.Min
    if g.forms.is_index(expr):
        return narrow(g, index(g, expr), dtype)
    a, b = g.value(expr.a), g.value(expr.b)
    if is_float(dtype):
        return _float_extreme(g, "lt" if least else "gt", dtype, a, b, isinstance(_scalar(expr.b), n.FloatImm))
    sign = "s" if code_of(dtype) == "int" else "u"
    return intrinsic(g, f"{sign}{'min' if least else 'max'}", dtype, a, b)


def _float_extreme(g: Gen, relation: str, dtype: str, a: str, b: str, is_number: bool) -> str:
    """Return b if it is beyond a, NaN if b is NaN, else a. A NaN of either side therefore stays.

    `is_number`: b is not NaN.

    On a CPU that NaN is a constant of its own. If it were b, LLVM would merge both tests into one choice, and would not
    use the machine's maximum or minimum.
    """
    if bits_of(dtype) == 16:
        wide = with_lanes("float32", lanes_of(dtype))
        x, y = convert(g, a, dtype, wide), convert(g, b, dtype, wide)
        return convert(g, _float_extreme(g, relation, wide, x, y, is_number), wide, dtype)
    ty, lanes = llvm_type(dtype), lanes_of(dtype)
    found = choose(g, compare(g, relation, dtype, b, a), lanes, ty, b, a)
    if g.module.options.nan_free or is_number:
        return found
    missing = b
    if g.module.options.device is None:
        nan = float_constant(math.nan, element_of(dtype))
        missing = nan if lanes == 1 else f"splat ({llvm_type(element_of(dtype))} {nan})"
    return choose(g, compare(g, "ne", dtype, b, b), lanes, ty, missing, found)


# ------------------------------------------------------------------- comparisons and booleans


@emits(n.EQ, n.NE, n.LT, n.LE, n.GT, n.GE)
def _comparison(g: Gen, expr: n.CmpOp) -> str:
    relation = _COMPARE[type(expr)]
    if g.forms.is_index(expr.a) and g.forms.is_index(expr.b):
        a, b = index(g, expr.a), index(g, expr.b)
        if type(a) is int and type(b) is int:
            holds = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
            return "true" if holds[relation] else "false"
        return g.w.value(f"icmp {SIGNED[relation]} i64 {a}, {b}", a, b)
    lanes = _lanes_below(g, expr)
    if lanes is not None:
        return lanes
    return compare(g, relation, expr.a.dtype, g.value(expr.a), g.value(expr.b))


def _lanes_below(g: Gen, expr: n.CmpOp) -> str | None:
    """The mask of a tail, `ramp < limit`, where the numbers compared may be larger than their dtype holds.

    The lanes' numbers 0, 1, ... are compared with what the limit is ahead of the ramp's start, which is clamped.
    """
    a, b = expr.a, expr.b
    if not isinstance(expr, n.LT | n.LE) or not isinstance(a, n.Ramp) or not isinstance(b, n.Broadcast):
        return None
    stride = a.stride.value if isinstance(a.stride, n.IntImm) else 0
    if not 0 < stride * a.lanes < _FAR or not (g.forms.is_index(a.base) and g.forms.is_index(b.value)):
        return None
    if g.forms.bounds(a.base)[1] != POS and g.forms.bounds(b.value)[1] != POS:
        return None
    ahead = index(g, n.Sub(b.value, a.base))
    if type(ahead) is int:
        return None
    for name, bound in (("smin", _FAR), ("smax", -_FAR)):
        g.module.declare(f"@llvm.{name}.i64", f"i64 @llvm.{name}.i64(i64, i64)")
        ahead = g.w.value(f"call i64 @llvm.{name}.i64(i64 {ahead}, i64 {bound})", ahead)
    limit = splat(g, narrow(g, ahead, "int32"), "int32", a.lanes)
    numbers = ", ".join(f"i32 {lane * stride}" for lane in range(a.lanes))
    test = "slt" if isinstance(expr, n.LT) else "sle"
    return g.w.value(f"icmp {test} <{a.lanes} x i32> <{numbers}>, {limit}", limit)


_FAR = 1 << 30


@emits(n.And, n.Or)
def _logic(g: Gen, expr: n.And | n.Or) -> str:
    both = type(expr) is n.And
    a = g.value(expr.a)
    if a in ("true", "false"):
        return g.value(expr.b) if (a == "true") == both else a
    b = g.value(expr.b)
    if b in ("true", "false"):
        return a if (b == "true") == both else b
    return g.w.value(f"{'and' if both else 'or'} {llvm_type(expr.dtype)} {a}, {b}", a, b)


@emits(n.Not)
def _not(g: Gen, expr: n.Not) -> str:
    a = g.value(expr.a)
    if a in ("true", "false"):
        return "false" if a == "true" else "true"
    ones = "true" if lanes_of(expr.dtype) == 1 else "splat (i1 true)"
    return g.w.value(f"xor {llvm_type(expr.dtype)} {a}, {ones}", a)


@emits(n.Select)
def _select(g: Gen, expr: n.Select) -> str:
    test = g.value(expr.condition)
    if test in ("true", "false"):
        return g.value(expr.true_value if test == "true" else expr.false_value)
    a, b = g.value(expr.true_value), g.value(expr.false_value)
    return choose(g, test, lanes_of(expr.condition.dtype), llvm_type(expr.dtype), a, b)


# -------------------------------------------------------------------------------- conversion


@emits(n.Cast)
def _cast(g: Gen, expr: n.Cast) -> str:
    if g.forms.is_index(expr):
        return narrow(g, index(g, expr), expr.dtype)
    found = rounded(expr)
    if found is not None:
        return narrowed(g, found)
    inner = rounded(expr.value) if isinstance(expr.value, n.Cast) and element_of(expr.dtype) == "int32" else None
    if inner is not None:
        return as_integer(g, inner)
    few = few_values(g, expr)
    if few is not None:
        return looked_up(g, few)
    return convert(g, g.value(expr.value), expr.value.dtype, expr.dtype)
