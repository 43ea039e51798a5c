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

_SHARED, _GLOBAL = "ptr addrspace(3)", "ptr addrspace(1)"
_FOUR = "{ float, float, float, float }"


def _place(g: Gen, data: PrimExpr, offset: PrimExpr, element: str, size: int) -> str:
    """The address of an element behind a data variable."""
    memory = g.storage.get(data) if isinstance(data, n.Var) else None
    if memory is None:
        raise CodegenError(f"{g.symbol}: {data} is no memory of this kernel")
    return address(g, memory.pointer, offset, element, size)[0]


def _in_space(g: Gen, pointer: str, space: str) -> str:
    return g.w.inline(f"addrspacecast ptr {pointer} to {space}")


def _registers(g: Gen, data: PrimExpr, offset: PrimExpr, count: int, ty: str) -> list[str]:
    """`count` pairs of 16-bit elements as values of `ty`, 32 bits each."""
    start = _place(g, data, offset, "i16", 2)
    found = []
    for pair in range(count):
        pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {pair * 4}", start) if pair else start
        found.append(g.w.inline(f"load {ty}, ptr {pointer}, align 4"))
    return found


def mma(g: Gen, call: n.Call) -> str:
    """mma.sync: operands from local memory, which becomes registers."""
    kind = call.args[3]
    assert isinstance(kind, n.StringImm)
    brain = kind.value == "bf16"
    ty = "i32" if brain else "<2 x half>"
    name = f"@llvm.nvvm.mma.m16n8k16.row.col.{'bf16' if brain else 'f32.f32'}"
    g.module.declare(name, f"{_FOUR} {name}({', '.join([ty] * 6 + ['float'] * 4)})")
    a = _registers(g, call.args[6], call.args[7], 4, ty)
    b = _registers(g, call.args[8], call.args[9], 2, ty)
    start = _place(g, call.args[10], call.args[11], "float", 4)
    places = [g.w.value(f"getelementptr float, ptr {start}, i64 {i}", start) if i else start for i in range(4)]
    c = [g.w.inline(f"load float, ptr {place}, align 4") for place in places]
    arguments = ", ".join([*(f"{ty} {x}" for x in (*a, *b)), *(f"float {x}" for x in c)])
    result = g.w.inline(f"call {_FOUR} {name}({arguments})")
    for i, place in enumerate(places):
        one = g.w.inline(f"extractvalue {_FOUR} {result}, {i}")
        g.w.effect(f"store float {one}, ptr {place}, align 4")
    g.w.loaded.clear()
    return "0"


def ldmatrix(g: Gen, call: n.Call) -> str:
    trans = ops.as_int(call.args[0])
    name = f"@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'.trans' if trans else ''}.b16.p3"
    result_type = "{ i32, i32, i32, i32 }"
    g.module.declare(name, f"{result_type} {name}({_SHARED})")
    source = _in_space(g, _place(g, call.args[5], call.args[6], "i16", 2), _SHARED)
    result = g.w.inline(f"call {result_type} {name}({_SHARED} {source})")
    start = _place(g, call.args[3], call.args[4], "i16", 2)
    for i in range(4):
        one = g.w.inline(f"extractvalue {result_type} {result}, {i}")
        pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {4 * i}", start) if i else start
        g.w.effect(f"store i32 {one}, ptr {pointer}, align 4")
    g.w.loaded.clear()
    return "0"


def cp_async(g: Gen, call: n.Call) -> str:
    """cp.async; 16 bytes go around the first-level cache."""
    size = ops.as_int(call.args[4])
    assert size in COPY_BYTES
    element = (memory_type(call.dtype), element_bytes(call.dtype))
    name = f"@llvm.nvvm.cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}"
    g.module.declare(name, f"void {name}({_SHARED}, {_GLOBAL})")
    target = _in_space(g, _place(g, call.args[0], call.args[1], *element), _SHARED)
    source = _in_space(g, _place(g, call.args[2], call.args[3], *element), _GLOBAL)
    g.w.effect(f"call void {name}({_SHARED} {target}, {_GLOBAL} {source})")
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
