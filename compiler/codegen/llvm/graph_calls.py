"""Calls in functions made of whole graphs.

Kernels beside them, and the addresses of the model's constants.

The function ends with a code from FIRST_CHECK on if a check fails, and with the kernel's code if a kernel fails.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.artifact import CONSTANTS, FIRST_CHECK
from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.index import index
from compiler.codegen.llvm.types import code_of, llvm_type, memory_type
from compiler.codegen.llvm.writer import OUT_OF_MEMORY
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar
from compiler.tir import nodes as n


def function_call(g: Gen, call: n.Call) -> str:
    """Call another function of the module. If it fails, return its code."""
    assert isinstance(call.op, GlobalVar)
    symbol = g.module.symbols.get(call.op.name_hint)
    if symbol is None or g.module.options.device is not None:
        raise CodegenError(f"{g.symbol} calls {call.op.name_hint}, which is no function of the module beside it")
    types = [llvm_type(arg.dtype) for arg in call.args]
    if symbol in g.module.elsewhere:
        g.module.declare(f'@"{symbol}.run"', f'hidden i32 @"{symbol}.run"({", ".join(types)})')
    given = ", ".join(f"{type_} {_argument(g, arg)}" for type_, arg in zip(types, call.args, strict=True))
    code = g.w.inline(f'call i32 @"{symbol}.run"({given}) noinline')
    g.w.loaded.clear()
    g.w.fail_unless(g.w.inline(f"icmp eq i32 {code}, 0"), code)
    return "0"


def _argument(g: Gen, arg: n.PrimExpr) -> str:
    """The value of an argument.
    Addresses are computed at each use, because hundreds of live ones would be spilled."""
    match arg:
        case n.Call(op=op, args=(_, n.Var() as base, n.IntImm(value=offset), *_)) if _is(op, "tir.tvm_access_ptr"):
            return g.w.inline(f"getelementptr i8, ptr {g.value(base)}, i64 {offset}") if offset else g.value(base)
    return g.value(arg)


def _is(op: object, name: str) -> bool:
    return getattr(op, "name", "") == name


def _constant(g: Gen, call: n.Call) -> str:
    number = call.args[0]
    assert isinstance(number, n.IntImm)
    assert number.value < g.module.constants
    place = g.w.inline(f"getelementptr ptr, ptr @{CONSTANTS}, i64 {number.value}")
    return g.w.inline(f"load ptr, ptr {place}, align 8")


def _value(g: Gen, call: n.Call) -> str:
    if code_of(call.dtype) == "bool":
        return g.w.inline(f"icmp ne i8 {g.w.inline(f'load i8, ptr {_argument(g, call.args[0])}, align 1')}, 0")
    return g.w.inline(f"load {memory_type(call.dtype)}, ptr {_argument(g, call.args[0])}, align 1")


def _check(g: Gen, call: n.Call) -> str:
    condition, number = call.args
    assert isinstance(number, n.IntImm)
    test = g.value(condition)
    if test != "true":
        g.w.fail_unless(test, str(FIRST_CHECK + number.value))
    return "0"


def _copy(g: Gen, call: n.Call) -> str:
    target, source, nbytes = call.args
    name = g.module.declare("@llvm.memcpy.p0.p0.i64", "void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    places = f"ptr {_argument(g, target)}, ptr {_argument(g, source)}"
    g.w.effect(f"call void {name}({places}, i64 {index(g, nbytes)}, i1 false)")
    g.w.loaded.clear()
    return "0"


_RESERVE = "graph.reserve"
_RESERVE_TEXT = f"""\
define internal ptr @"{_RESERVE}"(ptr %cell, i64 %wanted) noinline nounwind {{
entry:
  %place = getelementptr i64, ptr %cell, i64 1
  %there = load i64, ptr %place, align 8
  %enough = icmp ule i64 %wanted, %there
  %some = icmp ugt i64 %there, 0
  %keep = and i1 %enough, %some
  %old = load ptr, ptr %cell, align 8
  br i1 %keep, label %kept, label %renew
kept:
  ret ptr %old
renew:
  call void @tunefarm_free(ptr %old)
  store ptr null, ptr %cell, align 8
  store i64 0, ptr %place, align 8
  %twice = shl i64 %there, 1
  %grown = call i64 @llvm.umax.i64(i64 %wanted, i64 %twice)
  %size = call i64 @llvm.umax.i64(i64 %grown, i64 64)
  %new = call ptr @tunefarm_alloc(i64 %size)
  %none = icmp eq ptr %new, null
  br i1 %none, label %out, label %keep_new
keep_new:
  store ptr %new, ptr %cell, align 8
  store i64 %size, ptr %place, align 8
  br label %out
out:
  ret ptr %new
}}
"""


def _reserve(g: Gen, call: n.Call) -> str:
    """Memory that doubles when it grows, so that a growing array is seldom moved."""
    cell, nbytes = call.args
    module = g.module
    if _RESERVE not in module.defined:
        module.defined.add(_RESERVE)
        declare_allocator(g)
        module.declare("@llvm.umax.i64", "i64 @llvm.umax.i64(i64, i64)")
        module.functions.append(_RESERVE_TEXT)
    found = g.w.inline(f'call ptr @"{_RESERVE}"(ptr {_argument(g, cell)}, i64 {index(g, nbytes)})')
    g.w.fail_unless(g.w.inline(f"icmp ne ptr {found}, null"), str(OUT_OF_MEMORY))
    return found


def _put(g: Gen, call: n.Call) -> str:
    address, value = call.args
    g.w.effect(f"store i64 {index(g, value)}, ptr {_argument(g, address)}, align 8")
    return "0"


def declare_allocator(g: Gen) -> None:
    """Declare the runtime's allocator in the module."""
    g.module.declare("@tunefarm_alloc", "noalias align 64 ptr @tunefarm_alloc(i64) nounwind")
    g.module.declare("@tunefarm_free", "void @tunefarm_free(ptr) nounwind")


CALLS: dict[str, Callable[[Gen, n.Call], str]] = {
    "tir.graph_constant": _constant,
    "tir.graph_value": _value,
    "tir.graph_check": _check,
    "tir.graph_copy": _copy,
    "tir.graph_reserve": _reserve,
    "tir.graph_put": _put,
}
