"""What functions made of whole graphs call: kernels beside them, and where the model's constants are.

A check that fails ends the function with a code from FIRST_CHECK on; a kernel that fails, with the kernel's code.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.artifact import CONSTANTS, FIRST_CHECK
from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.index import index
from compiler.codegen.llvm.types import code_of, llvm_type, memory_type
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar
from compiler.tir import nodes as n


def function_call(g: Gen, call: n.Call) -> str:
    """Call another function of the module, and give up with its code if it fails."""
    assert isinstance(call.op, GlobalVar)
    symbol = g.module.symbols.get(call.op.name_hint)
    if symbol is None or g.module.options.device is not None:
        raise CodegenError(f"{g.symbol} calls {call.op.name_hint}, which is no function of the module beside it")
    given = ", ".join(f"{llvm_type(arg.dtype)} {_argument(g, arg)}" for arg in call.args)
    code = g.w.inline(f'call i32 @"{symbol}.run"({given}) noinline')
    g.w.loaded.clear()
    g.w.fail_unless(g.w.inline(f"icmp eq i32 {code}, 0"), code)
    return "0"


def _argument(g: Gen, arg: n.PrimExpr) -> str:
    """An argument's value. Addresses are computed where they are used: hundreds kept all along would be spilled."""
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


CALLS: dict[str, Callable[[Gen, n.Call], str]] = {
    "tir.graph_constant": _constant,
    "tir.graph_value": _value,
    "tir.graph_check": _check,
    "tir.graph_copy": _copy,
}
