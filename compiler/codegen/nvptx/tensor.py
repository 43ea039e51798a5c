"""Tensor cores and asynchronous copies in LLVM's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.types import element_bytes, memory_type
from compiler.codegen.nvptx import nvvm
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.ptx import COPY_BYTES
from compiler.tir.nodes import PrimExpr


def _registers(g: Gen, data: PrimExpr, offset: PrimExpr, element: tuple[str, int], count: int) -> list[str]:
    """The addresses of `count` values of 32 bits that begin at an element."""
    return nvvm.registers(g, nvvm.element_at(g, data, offset, *element), "i32", count)


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
    a = nvvm.load(g, ty, _registers(g, call.args[6], call.args[7], element, 4))
    b = nvvm.load(g, ty, _registers(g, call.args[8], call.args[9], element, 2))
    places = _registers(g, call.args[10], call.args[11], (total, 4), 4)
    c = nvvm.load(g, total, places)
    operands = [*((ty, x) for x in (*a, *b)), *((total, x) for x in c)]
    nvvm.store(g, total, g.w.inline(nvvm.call(g, f"mma.{kind}", nvvm.struct(total, 4), *operands)), places)
    return "0"


def ldmatrix(g: Gen, call: n.Call) -> str:
    trans = ".trans" if ops.as_int(call.args[0]) else ""
    element = (memory_type(call.dtype), element_bytes(call.dtype))
    source = nvvm.in_space(g, nvvm.element_at(g, call.args[5], call.args[6], *element), nvvm.SHARED)
    name = f"ldmatrix.sync.aligned.m8n8.x4{trans}.b16.p3"
    result = g.w.inline(nvvm.call(g, name, nvvm.struct("i32", 4), (nvvm.SHARED, source)))
    nvvm.store(g, "i32", result, _registers(g, call.args[3], call.args[4], element, 4))
    return "0"


def cp_async(g: Gen, call: n.Call) -> str:
    """Copy by cp.async; copies of 16 bytes bypass the first-level cache.
    A false predicate reads nothing and writes zeros."""
    size = ops.as_int(call.args[4])
    assert size in COPY_BYTES
    element = (memory_type(call.dtype), element_bytes(call.dtype))
    name = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}"
    count: list[tuple[str, str]] = []
    if len(call.args) > 5:
        name += ".s"
        count = [("i32", g.w.inline(f"select i1 {g.value(call.args[5])}, i32 {size}, i32 0"))]
    target = nvvm.in_space(g, nvvm.element_at(g, call.args[0], call.args[1], *element), nvvm.SHARED)
    source = nvvm.in_space(g, nvvm.element_at(g, call.args[2], call.args[3], *element), nvvm.GLOBAL)
    g.w.effect(nvvm.call(g, name, "void", (nvvm.SHARED, target), (nvvm.GLOBAL, source), *count))
    return "0"


def commit_group(g: Gen, call: n.Call) -> str:
    g.w.effect(nvvm.call(g, "cp.async.commit.group", "void"))
    return "0"


def wait_group(g: Gen, call: n.Call) -> str:
    g.w.effect(nvvm.call(g, "cp.async.wait.group", "void", ("i32", ops.as_int(call.args[0]))))
    g.w.loaded.clear()
    return "0"


CALLS: dict[str, Callable[[Gen, Any], str]] = {
    "tir.ptx_mma": mma,
    "tir.ptx_ldmatrix": ldmatrix,
    "tir.ptx_cp_async": cp_async,
    "tir.ptx_commit_group": commit_group,
    "tir.ptx_wait_group": wait_group,
}
