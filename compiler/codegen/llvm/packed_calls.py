"""Calls of registered functions: the arguments in slots, and a text that says what they are.

The runtime's native part calls Python: `i32 tunefarm_call_packed(name, signature, slots)`. The signature names the
result's type and each argument's, separated by ";". A number or text has a letter ("i" int64, "u" uint64, "f" double,
"s" a C string), an array "dtype:dimensions". An array's slots are its address and its extents; with "/" in the place of
":" its strides follow. The first slot is the result's.
"""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.index import index
from compiler.codegen.llvm.memory import address
from compiler.codegen.llvm.types import bits_of, code_of, element_bytes, lanes_of, llvm_type, memory_type
from compiler.errors import CodegenError
from compiler.tir import nodes as n

Slot = tuple[str, str]
"""An LLVM type and a value of it."""


def packed_call(g: Gen, call: n.Call) -> str:
    """Call a registered function. If it fails, return its code."""
    name, *args = call.args
    if not isinstance(name, n.StringImm):
        raise CodegenError(f"{g.symbol}: the first argument of call_packed must be the function's name")
    if g.module.options.device is not None:
        raise CodegenError(f"{g.symbol} calls the registered function {name.value!r} in a GPU's code")
    described, slots = [_number_letter(g, call.dtype)], [("i64", "0")]
    for arg in args:
        letter, more = _array(g, arg) if _is_array(arg) else _plain(g, arg)
        described.append(letter)
        slots += more
    area = g.w.alloca("i64", len(slots), 8)
    for position, (ty, value) in enumerate(slots):
        g.w.effect(f"store {ty} {value}, ptr {_place(g, area, position)}, align 8")
    function = g.module.declare("@tunefarm_call_packed", "i32 @tunefarm_call_packed(ptr, ptr, ptr)")
    texts = f"ptr {g.module.string(name.value)}, ptr {g.module.string(';'.join(described))}"
    code = g.w.inline(f"call i32 {function}({texts}, ptr {area})")
    g.w.loaded.clear()
    g.w.fail_unless(g.w.inline(f"icmp eq i32 {code}, 0"), code)
    return _result(g, call.dtype, area)


def _place(g: Gen, area: str, position: int) -> str:
    return g.w.inline(f"getelementptr i64, ptr {area}, i64 {position}")


def _is_array(arg: n.PrimExpr) -> bool:
    return isinstance(arg, n.Call) and getattr(arg.op, "name", "") == "tir.tvm_stack_make_array"


def _array(g: Gen, arg: n.PrimExpr) -> tuple[str, list[Slot]]:
    assert isinstance(arg, n.Call)
    data, shape, strides, _, element, offset = arg.args
    extents = [("i64", str(index(g, x))) for x in shape.args] if isinstance(shape, n.Call) else []
    steps = [("i64", str(index(g, x))) for x in strides.args] if isinstance(strides, n.Call) else []
    dtype = element.dtype
    place = address(g, g.value(data), offset, memory_type(dtype), element_bytes(dtype))[0]
    return f"{dtype}{'/' if steps else ':'}{len(extents)}", [("ptr", place), *extents, *steps]


def _plain(g: Gen, arg: n.PrimExpr) -> tuple[str, list[Slot]]:
    if isinstance(arg, n.StringImm):
        return "s", [("ptr", g.module.string(arg.value))]
    letter, value, ty = _number_letter(g, arg.dtype), g.value(arg), llvm_type(arg.dtype)
    if letter == "f":
        return letter, [("double", value if ty == "double" else g.w.inline(f"fpext {ty} {value} to double"))]
    if ty == "i64":
        return letter, [(ty, value)]
    widen = "sext" if letter == "i" and code_of(arg.dtype) != "bool" else "zext"
    return letter, [("i64", g.w.inline(f"{widen} {ty} {value} to i64"))]


def _number_letter(g: Gen, dtype: str) -> str:
    code = code_of(dtype)
    if lanes_of(dtype) > 1 or code not in ("int", "uint", "bool", "float") or (code == "float" and bits_of(dtype) < 32):
        raise CodegenError(
            f"{g.symbol}: a registered function can take and return no {dtype}",
            hint="numbers are integers, float32 and float64; a buffer is passed as an array",
        )
    return {"int": "i", "uint": "u", "bool": "i", "float": "f"}[code]


def _result(g: Gen, dtype: str, area: str) -> str:
    ty = llvm_type(dtype)
    if code_of(dtype) == "float":
        value = g.w.inline(f"load double, ptr {area}, align 8")
        return value if ty == "double" else g.w.inline(f"fptrunc double {value} to {ty}")
    value = g.w.inline(f"load i64, ptr {area}, align 8")
    return value if ty == "i64" else g.w.inline(f"trunc i64 {value} to {ty}")


CALLS = {"tir.tvm_call_packed": packed_call}
