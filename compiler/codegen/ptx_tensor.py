"""Tensor cores and asynchronous copies in LLVM's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.codegen.gen import Gen
from compiler.codegen.memory import address
from compiler.codegen.types import element_bytes, memory_type
from compiler.errors import CodegenError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.ptx_intrin import COPY_BYTES

SHARED, _GLOBAL = "ptr addrspace(3)", "ptr addrspace(1)"


def element_at(g: Gen, data: PrimExpr, offset: PrimExpr, element: str, size: int) -> str:
    """The address of an element behind a data variable."""
    memory = g.storage.get(data) if isinstance(data, n.Var) else None
    if memory is None:
        raise CodegenError(f"{g.symbol}: {data} is no memory of this kernel")
    return address(g, memory.pointer, offset, element, size)[0]


def in_space(g: Gen, pointer: str, space: str) -> str:
    return g.w.inline(f"addrspacecast ptr {pointer} to {space}")


def _registers(g: Gen, data: PrimExpr, offset: PrimExpr, element: tuple[str, int], count: int) -> list[str]:
    """The addresses of `count` values of 32 bits that begin at an element."""
    start = element_at(g, data, offset, *element)
    return [g.w.value(f"getelementptr i8, ptr {start}, i64 {4 * i}", start) if i else start for i in range(count)]


def _loaded(g: Gen, ty: str, places: list[str]) -> list[str]:
    return [g.w.inline(f"load {ty}, ptr {place}, align 4") for place in places]


# How LLVM calls a product, by the operands' dtypes: (its name's end, type of an operand's registers, their element).
_HALF, _BYTE = ("i16", 2), ("i8", 1)
_KINDS = {
    ("fp16", "fp16"): ("m16n8k16.row.col.f32.f32", "<2 x half>", _HALF),
    ("bf16", "bf16"): ("m16n8k16.row.col.bf16", "i32", _HALF),
    ("int8", "int8"): ("m16n8k32.row.col.s8", "i32", _BYTE),
    ("uint8", "uint8"): ("m16n8k32.row.col.u8", "i32", _BYTE),
    ("int8", "uint8"): ("m16n8k32.row.col.s8.u8", "i32", _BYTE),
    ("uint8", "int8"): ("m16n8k32.row.col.u8.s8", "i32", _BYTE),
}


def mma(g: Gen, call: n.Call) -> str:
    """mma.sync: operands from local memory, which becomes registers."""
    left, right = call.args[3], call.args[4]
    assert isinstance(left, n.StringImm)
    assert isinstance(right, n.StringImm)
    kind, ty, element = _KINDS[left.value, right.value]
    total = memory_type(call.dtype)
    four = f"{{ {', '.join([total] * 4)} }}"
    name = f"@llvm.nvvm.mma.{kind}"
    g.module.declare(name, f"{four} {name}({', '.join([ty] * 6 + [total] * 4)})")
    a = _loaded(g, ty, _registers(g, call.args[6], call.args[7], element, 4))
    b = _loaded(g, ty, _registers(g, call.args[8], call.args[9], element, 2))
    places = _registers(g, call.args[10], call.args[11], (total, 4), 4)
    c = _loaded(g, total, places)
    arguments = ", ".join([*(f"{ty} {x}" for x in (*a, *b)), *(f"{total} {x}" for x in c)])
    result = g.w.inline(f"call {four} {name}({arguments})")
    for i, place in enumerate(places):
        one = g.w.inline(f"extractvalue {four} {result}, {i}")
        g.w.effect(f"store {total} {one}, ptr {place}, align 4")
    g.w.loaded.clear()
    return "0"


def ldmatrix(g: Gen, call: n.Call) -> str:
    trans = ops.as_int(call.args[0])
    element = (memory_type(call.dtype), element_bytes(call.dtype))
    name = f"@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'.trans' if trans else ''}.b16.p3"
    result_type = "{ i32, i32, i32, i32 }"
    g.module.declare(name, f"{result_type} {name}({SHARED})")
    source = in_space(g, element_at(g, call.args[5], call.args[6], *element), SHARED)
    result = g.w.inline(f"call {result_type} {name}({SHARED} {source})")
    for i, place in enumerate(_registers(g, call.args[3], call.args[4], element, 4)):
        one = g.w.inline(f"extractvalue {result_type} {result}, {i}")
        g.w.effect(f"store i32 {one}, ptr {place}, align 4")
    g.w.loaded.clear()
    return "0"


def cp_async(g: Gen, call: n.Call) -> str:
    """cp.async; 16 bytes go around the first-level cache. Under a predicate none or all of them are read, and the rest
    is zeros."""
    size = ops.as_int(call.args[4])
    assert size in COPY_BYTES
    element = (memory_type(call.dtype), element_bytes(call.dtype))
    name = f"@llvm.nvvm.cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}"
    count = ""
    if len(call.args) > 5:
        name += ".s"
        count = f", i32 {g.w.inline(f'select i1 {g.value(call.args[5])}, i32 {size}, i32 0')}"
    g.module.declare(name, f"void {name}({SHARED}, {_GLOBAL}{', i32' if count else ''})")
    target = in_space(g, element_at(g, call.args[0], call.args[1], *element), SHARED)
    source = in_space(g, element_at(g, call.args[2], call.args[3], *element), _GLOBAL)
    g.w.effect(f"call void {name}({SHARED} {target}, {_GLOBAL} {source}{count})")
    return "0"


def commit_group(g: Gen, call: n.Call) -> str:
    name = "@llvm.nvvm.cp.async.commit.group"
    g.w.effect(f"call void {g.module.declare(name, f'void {name}()')}()")
    return "0"


def wait_group(g: Gen, call: n.Call) -> str:
    name = "@llvm.nvvm.cp.async.wait.group"
    g.module.declare(name, f"void {name}(i32)")
    g.w.effect(f"call void {name}(i32 {ops.as_int(call.args[0])})")
    g.w.loaded.clear()
    return "0"


CALLS: dict[str, Callable[[Gen, Any], str]] = {
    "tir.ptx_mma": mma,
    "tir.ptx_ldmatrix": ldmatrix,
    "tir.ptx_cp_async": cp_async,
    "tir.ptx_commit_group": commit_group,
    "tir.ptx_wait_group": wait_group,
}
