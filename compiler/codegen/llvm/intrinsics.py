"""Calls: `tir.*` intrinsics as LLVM intrinsics or calls into the C math library."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from compiler.codegen.llvm import graph_calls, packed_calls
from compiler.codegen.llvm.gen import Gen, emits
from compiler.codegen.llvm.memory import address, element_pointer
from compiler.codegen.llvm.types import (
    bits_of,
    code_of,
    element_bytes,
    float_constant,
    is_float,
    lanes_of,
    llvm_type,
    memory_type,
)
from compiler.codegen.llvm.values import choose, compare, convert, float_op, intrinsic, unary_float
from compiler.codegen.llvm.x86.amx import AMX_PRODUCTS, amx_product, amx_rows, amx_zero
from compiler.codegen.llvm.x86.dot_products import DOT_PRODUCTS, dot_product
from compiler.codegen.math.exp import SMALL
from compiler.codegen.math.functions import NAMES, OF_SMALL, math_call
from compiler.codegen.nvptx import threads as ptx_threads
from compiler.dtype import element_of, with_lanes
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar
from compiler.ir.visit import replace
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_MASKED_BITS = 512  # of registers that have masks: a masked load costs what a plain one does
Emit = Callable[[Gen, n.Call], str]
_CALLS: dict[str, Emit] = {}

# Operations LLVM has as intrinsics for vectors too (it calls the C library lane by lane where need be).
_LLVM_UNARY = ("sqrt", "floor", "ceil", "round", "trunc", "nearbyint", "fabs")
_CALLS.update({f"tir.{name}": dot_product for name in DOT_PRODUCTS})
_CALLS.update({f"tir.{name}": amx_product for name in AMX_PRODUCTS})
_CALLS["tir.x86_amx_rows"] = amx_rows
_CALLS["tir.x86_amx_zero"] = amx_zero
_CALLS.update(graph_calls.CALLS)
_CALLS.update(packed_calls.CALLS)
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def _for(*names: str) -> Callable[[Emit], Emit]:
    def register(emit: Emit) -> Emit:
        _CALLS.update({f"tir.{name}": emit for name in names})
        return emit

    return register


@emits(n.Call)
def _call(g: Gen, call: n.Call) -> str:
    if isinstance(call.op, GlobalVar):
        return graph_calls.function_call(g, call)
    emit = _CALLS.get(call.op.name)
    if g.module.options.device is not None:
        emit = ptx_threads.CALLS.get(call.op.name, emit)
    if emit is None:
        raise CodegenError(f"{g.symbol} calls {call.op.name}, which code generation for this target does not know")
    return emit(g, call)


def _name(call: n.Call) -> str:
    assert not isinstance(call.op, GlobalVar)
    return call.op.name.removeprefix("tir.")


@_for(*_LLVM_UNARY)
def _unary(g: Gen, call: n.Call) -> str:
    return unary_float(g, _name(call), call.dtype, g.value(call.args[0]))


@_for("fma", "copysign")
def _several(g: Gen, call: n.Call) -> str:
    return _in_single(g, call, lambda dtype, args: intrinsic(g, _name(call), dtype, *args))


@_for(*NAMES)
def _math(g: Gen, call: n.Call) -> str:
    """Vector code of our own, computed in float32 for the 16-bit floats.
    Functions without such code call the C library."""
    name = _name(call)
    if name in OF_SMALL and _is_small(call.args[0]):
        name = OF_SMALL[name]

    def emit(dtype: str, args: list[str]) -> str:
        own = math_call(g, name, dtype, args)
        return library_call(g, name, dtype, args) if own is None else own

    return _in_single(g, call, emit)


def _is_small(expr: n.PrimExpr) -> bool:
    """Whether `expr` is `min(_, c)` with a number c <= SMALL. It is then NaN or at most c."""
    limit = expr.b if isinstance(expr, n.Min) else expr
    limit = limit.value if isinstance(limit, n.Broadcast) else limit
    return isinstance(limit, n.FloatImm) and limit.value <= SMALL


def _in_single(g: Gen, call: n.Call, emit: Callable[[str, list[str]], str]) -> str:
    """`emit` on the arguments, which 16-bit floats reach as float32."""
    dtype = call.dtype
    args = [g.value(a) for a in call.args]
    if bits_of(dtype) != 16:
        return emit(dtype, args)
    wide = with_lanes("float32", lanes_of(dtype))
    return convert(g, emit(wide, [convert(g, a, dtype, wide) for a in args]), wide, dtype)


def library_call(g: Gen, name: str, dtype: str, args: list[str]) -> str:
    if g.module.options.device is not None:
        raise CodegenError(f"{g.symbol}: there is no GPU code for {name} of {dtype}", hint="compute it in float32")
    ty = llvm_type(element_of(dtype))
    full = f"@{name}{'f' if bits_of(dtype) == 32 else ''}"
    signature = ", ".join([ty] * len(args))
    g.module.declare(full, f"{ty} {full}({signature}) nounwind willreturn memory(none)")
    lanes, vector = lanes_of(dtype), llvm_type(dtype)
    if lanes == 1:
        return g.w.value(f"call {ty} {full}({', '.join(f'{ty} {a}' for a in args)})", *args)
    result = "poison"
    for lane in range(lanes):
        parts = [g.w.value(f"extractelement {vector} {a}, i64 {lane}", a) for a in args]
        one = g.w.inline(f"call {ty} {full}({', '.join(f'{ty} {p}' for p in parts)})")
        result = g.w.inline(f"insertelement {vector} {result}, {ty} {one}, i64 {lane}")
    return result


def _number(value: float, dtype: str) -> str:
    text = float_constant(value, element_of(dtype))
    return text if lanes_of(dtype) == 1 else f"splat ({llvm_type(element_of(dtype))} {text})"


@_for("rsqrt")
def _rsqrt(g: Gen, call: n.Call) -> str:
    """1 / sqrt(x), each rounded."""
    return _in_single(
        g, call, lambda dtype, args: float_op(g, "fdiv", dtype, _number(1.0, dtype), intrinsic(g, "sqrt", dtype, *args))
    )


@_for("isnan", "isinf", "isfinite")
def _classify(g: Gen, call: n.Call) -> str:
    dtype = call.args[0].dtype
    value = g.value(call.args[0])
    if not is_float(dtype):
        known = "true" if _name(call) == "isfinite" else "false"
        return known if lanes_of(dtype) == 1 else f"splat (i1 {known})"
    if bits_of(dtype) == 16:
        wide = with_lanes("float32", lanes_of(dtype))
        value, dtype = convert(g, value, dtype, wide), wide
    ty = llvm_type(dtype)
    if _name(call) == "isnan":
        return g.w.value(f"fcmp uno {ty} {value}, {value}", value)
    size = intrinsic(g, "fabs", dtype, value)
    relation = "oeq" if _name(call) == "isinf" else "olt"
    return g.w.value(f"fcmp {relation} {ty} {size}, {_number(math.inf, dtype)}", size)


@_for(*_BITWISE)
def _bits(g: Gen, call: n.Call) -> str:
    a, b = (g.value(x) for x in call.args)
    return g.w.value(f"{_BITWISE[_name(call)]} {llvm_type(call.dtype)} {a}, {b}", a, b)


@_for("shift_left", "shift_right")
def _shift(g: Gen, call: n.Call) -> str:
    """Shift by any count.
    A negative count, or one beyond the width, shifts every bit out; LLVM leaves those undefined."""
    a, b = (g.value(x) for x in call.args)
    dtype = call.dtype
    ty, bits, lanes = llvm_type(dtype), bits_of(dtype), lanes_of(dtype)
    left = _name(call) == "shift_left"
    op = "shl" if left else "ashr" if code_of(dtype) == "int" else "lshr"
    count = call.args[1].value if isinstance(call.args[1], n.Broadcast) else call.args[1]
    if isinstance(count, n.IntImm) and 0 <= count.value < bits:
        return g.w.value(f"{op} {ty} {a}, {b}", a, b)
    if op == "ashr":
        least = intrinsic(g, "umin", dtype, b, _whole(bits - 1, dtype))
        return g.w.value(f"ashr {ty} {a}, {least}", a, least)
    inside = g.w.value(f"icmp ult {ty} {b}, {_whole(bits, dtype)}", b)
    shifted = g.w.value(f"{op} {ty} {a}, {b}", a, b)
    return choose(g, inside, lanes, ty, shifted, _whole(0, dtype))


def _whole(value: int, dtype: str) -> str:
    return str(value) if lanes_of(dtype) == 1 else f"splat ({llvm_type(element_of(dtype))} {value})"


@_for("ldexp")
def _ldexp(g: Gen, call: n.Call) -> str:
    """x * 2^n, with n an int32; of float64 by the C library."""
    dtype, (x, power) = call.dtype, (g.value(a) for a in call.args)
    lanes = lanes_of(dtype)
    wide = with_lanes("float32", lanes) if bits_of(dtype) == 16 else dtype
    own = math_call(g, "ldexp", wide, [convert(g, x, dtype, wide), convert(g, power, call.args[1].dtype, wide)])
    if own is not None:
        return convert(g, own, wide, dtype)
    ty, whole = llvm_type(wide), with_lanes("int32", lanes)
    suffix = f"v{lanes}" if lanes > 1 else ""
    name = f"@llvm.ldexp.{suffix}f{bits_of(wide)}.{suffix}i32"
    g.module.declare(name, f"{ty} {name}({ty}, {llvm_type(whole)})")
    power = convert(g, power, call.args[1].dtype, whole)
    return g.w.value(f"call {ty} {name}({ty} {x}, {llvm_type(whole)} {power})", x, power)


@_for("nextafter")
def _nextafter(g: Gen, call: n.Call) -> str:
    """Return the next float: add 1 to the bits or subtract it; from 0 step to the least denormal."""
    dtype, (x, y) = call.dtype, (g.value(a) for a in call.args)
    w, lanes, ty = g.w, lanes_of(dtype), llvm_type(dtype)
    integer = with_lanes(f"int{bits_of(dtype)}", lanes)
    whole, mask = llvm_type(integer), llvm_type(with_lanes("bool", lanes))
    zero = _number(0.0, dtype)
    bits, goal = (w.value(f"bitcast {ty} {v} to {whole}", v) for v in (x, y))
    away = w.value(
        f"icmp eq {mask} {compare(g, 'gt', dtype, y, x)}, {compare(g, 'gt', dtype, x, zero)}",
        compare(g, "gt", dtype, y, x),
        compare(g, "gt", dtype, x, zero),
    )
    step = choose(g, away, lanes, whole, _whole(1, integer), _whole(-1, integer))
    moved = w.value(f"add {whole} {bits}, {step}", bits, step)
    sign = w.value(f"and {whole} {goal}, {_whole(-(1 << (bits_of(dtype) - 1)), integer)}", goal)
    least = w.value(f"or {whole} {sign}, {_whole(1, integer)}", sign)
    moved = choose(g, compare(g, "eq", dtype, x, zero), lanes, whole, least, moved)
    moved = choose(g, compare(g, "eq", dtype, x, y), lanes, whole, goal, moved)
    result = w.value(f"bitcast {whole} {moved} to {ty}", moved)
    for v in (x, y):
        result = choose(g, compare(g, "ne", dtype, v, v), lanes, ty, _number(math.nan, dtype), result)
    return result


@_for("bitwise_not")
def _bitwise_not(g: Gen, call: n.Call) -> str:
    a = g.value(call.args[0])
    ones = "-1" if lanes_of(call.dtype) == 1 else f"splat ({llvm_type(element_of(call.dtype))} -1)"
    return g.w.value(f"xor {llvm_type(call.dtype)} {a}, {ones}", a)


@_for("popcount", "clz")
def _count(g: Gen, call: n.Call) -> str:
    source = call.args[0].dtype
    value, ty = g.value(call.args[0]), llvm_type(source)
    if _name(call) == "popcount":
        counted = intrinsic(g, "ctpop", source, value)
    else:
        suffix = (f"v{lanes_of(source)}" if lanes_of(source) > 1 else "") + f"i{bits_of(source)}"
        name = g.module.declare(f"@llvm.ctlz.{suffix}", f"{ty} @llvm.ctlz.{suffix}({ty}, i1)")
        counted = g.w.value(f"call {ty} {name}({ty} {value}, i1 false)", value)
    return convert(g, counted, source, call.dtype)


@_for("reinterpret")
def _reinterpret(g: Gen, call: n.Call) -> str:
    source = call.args[0].dtype
    if bits_of(source) * lanes_of(source) != bits_of(call.dtype) * lanes_of(call.dtype):
        raise CodegenError(f"cannot reinterpret {source} as {call.dtype}: the sizes differ")
    value = g.value(call.args[0])
    if llvm_type(source) == llvm_type(call.dtype):
        return value
    return g.w.value(f"bitcast {llvm_type(source)} {value} to {llvm_type(call.dtype)}", value)


@_for("likely")
def _likely(g: Gen, call: n.Call) -> str:
    return g.value(call.args[0])


@_for("vectorlow")
def _vectorlow(g: Gen, call: n.Call) -> str:
    """The first lanes of a vector."""
    source = call.args[0].dtype
    value, lanes = g.value(call.args[0]), lanes_of(call.dtype)
    order = ", ".join(f"i32 {i}" for i in range(lanes))
    ty = llvm_type(source)
    return g.w.value(f"shufflevector {ty} {value}, {ty} poison, <{lanes} x i32> <{order}>", value)


@_for("prefetch")
def _prefetch(g: Gen, call: n.Call) -> str:
    """prefetch(address or element, rw, locality, cache type), as LLVM's."""
    pointer, *rest = call.args
    numbers = [str(x.value) if isinstance(x, n.IntImm) else d for x, d in zip(rest, ("0", "3", "1"))]
    numbers += ["0", "3", "1"][len(numbers) :]
    where = element_pointer(g, pointer) if isinstance(pointer, n.BufferLoad) else g.value(pointer)
    g.module.declare("@llvm.prefetch.p0", "void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    arguments = ", ".join(f"i32 {x}" for x in numbers)
    g.w.effect(f"call void @llvm.prefetch.p0(ptr {where}, {arguments})")
    return "0"


@_for("tvm_access_ptr")
def _access_ptr(g: Gen, call: n.Call) -> str:
    """tvm_access_ptr(element, address, offset, extent, mask): the address `offset` elements on."""
    kind, base, offset, *_ = call.args
    element, size = memory_type(element_of(kind.dtype)), element_bytes(kind.dtype)
    position = n.Mul(offset, ops.const(lanes_of(kind.dtype), offset.dtype)) if lanes_of(kind.dtype) > 1 else offset
    return address(g, g.value(base), position, element, size)[0]


@_for("tvm_storage_sync")
def _sync(g: Gen, call: n.Call) -> str:
    return "0"  # one CPU thread runs a task from start to end


@_for("call_extern")
def _extern(g: Gen, call: n.Call) -> str:
    """call_extern(name, args...): a C function; the loader must know the name."""
    name, *args = call.args
    if not isinstance(name, n.StringImm):
        raise CodegenError(f"{g.symbol}: the first argument of call_extern must be the function's name")
    types = [llvm_type(a.dtype) for a in args]
    result = llvm_type(call.dtype) if call.dtype != "handle" else "void"
    full = g.module.declare(f"@{name.value}", f"{result} @{name.value}({', '.join(types)})")
    text = f"call {result} {full}({', '.join(f'{t} {g.value(a)}' for t, a in zip(types, args))})"
    g.w.loaded.clear()
    if result == "void":
        g.w.effect(text)
        return "null"
    return g.w.inline(text)


@_for("call_llvm_intrin", "call_llvm_pure_intrin")
def _llvm_intrinsic(g: Gen, call: n.Call) -> str:
    """An intrinsic by LLVM's name. It is overloaded by the result's type, unless the name spells one."""
    name, *args = call.args
    assert isinstance(name, n.StringImm)
    result, types = llvm_type(call.dtype), [llvm_type(a.dtype) for a in args]
    spelled = re.search(r"\.(v\d+)?[if]\d+$", name.value)
    full = name.value if spelled else f"{name.value}.{_overload(call.dtype)}"
    declared = g.module.declare(f"@{full}", f"{result} @{full}({', '.join(types)})")
    text = f"call {result} {declared}({', '.join(f'{t} {g.value(a)}' for t, a in zip(types, args))})"
    g.w.loaded.clear()
    return g.w.inline(text)


def _overload(dtype: str) -> str:
    letter = "f" if code_of(dtype) in ("float", "bfloat") else "i"
    lanes = f"v{lanes_of(dtype)}" if lanes_of(dtype) > 1 else ""
    return f"{lanes}{letter}{bits_of(dtype)}"


def _masked_read(g: Gen, call: n.Call) -> n.BufferLoad | None:
    """The load under a mask that a choice between a vector in memory and 0 is.
    None for other choices, and where masks cost something."""
    condition, yes, no = call.args
    lanes, masks = lanes_of(call.dtype), g.module.options.vector_bits >= _MASKED_BITS
    if not masks or lanes == 1 or lanes_of(condition.dtype) > 1 or not isinstance(yes, n.BufferLoad):
        return None
    if not ops.is_const(no.value if isinstance(no, n.Broadcast) else no, 0):
        return None
    (position,) = yes.indices
    if not isinstance(position, n.Ramp) or not _safe(position.base):  # the place is computed in any case
        return None
    mask: PrimExpr = n.Broadcast(condition, lanes)
    return replace(yes, predicate=mask if yes.predicate is None else n.And(mask, yes.predicate))


@_for("if_then_else")
def _if_then_else(g: Gen, call: n.Call) -> str:
    """Only the taken side is evaluated, unless neither side can fault."""
    condition, yes, no = call.args
    test = g.value(condition)
    if test in ("true", "false"):
        return g.value(yes if test == "true" else no)
    if (masked := _masked_read(g, call)) is not None:
        return g.value(masked)
    ty = llvm_type(call.dtype)
    if lanes_of(condition.dtype) > 1 or (_safe(yes) and _safe(no)):
        return choose(g, test, lanes_of(condition.dtype), ty, g.value(yes), g.value(no))
    w = g.w
    then, other, after = w.label("then"), w.label("else"), w.label("after")
    w.branch_if(test, then, other)
    w.start_block(then)
    a = g.value(yes)
    from_then = w.block
    w.branch(after)
    w.start_block(other)
    b = g.value(no)
    from_other = w.block
    w.branch(after)
    w.start_block(after)
    return w.inline(f"phi {ty} [ {a}, %{from_then} ], [ {b}, %{from_other} ]")


def _safe(expr: Any) -> bool:
    """Whether evaluating `expr` costs little and cannot fault."""
    match expr:
        case n.IntImm() | n.FloatImm() | n.Var():
            return True
        case n.Broadcast() | n.Cast():
            return _safe(expr.value)
        case n.Add() | n.Sub() | n.Mul() | n.Min() | n.Max():
            return _safe(expr.a) and _safe(expr.b)
    return False
