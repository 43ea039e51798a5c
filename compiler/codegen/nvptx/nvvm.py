"""Calls of LLVM's intrinsics for NVIDIA's GPUs, and the memory and registers that they are given."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.memory import address
from compiler.errors import CodegenError
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

SHARED, GLOBAL, CLUSTER = "ptr addrspace(3)", "ptr addrspace(1)", "ptr addrspace(7)"


def call(g: Gen, name: str, result: str, *operands: tuple[str, object]) -> str:
    """The text of a call of `llvm.nvvm.{name}`, which is declared; `operands` are (type, value)."""
    full = f"@llvm.nvvm.{name}"
    g.module.declare(full, f"{result} {full}({', '.join(ty for ty, _ in operands)})")
    return f"call {result} {full}({', '.join(f'{ty} {value}' for ty, value in operands)})"


def element_at(g: Gen, data: PrimExpr, offset: PrimExpr, element: str, size: int) -> str:
    """The address of an element behind a data variable."""
    memory = g.storage.get(data) if isinstance(data, n.Var) else None
    if memory is None:
        raise CodegenError(f"{g.symbol}: {data} is no memory of this kernel")
    return address(g, memory.pointer, offset, element, size)[0]


def in_space(g: Gen, pointer: str, space: str) -> str:
    return g.w.inline(f"addrspacecast ptr {pointer} to {space}")


def registers(g: Gen, start: str, ty: str, count: int) -> list[str]:
    """Return the addresses of `count` values of type `ty` in local memory, which becomes registers.
    They are counted from `start` on."""
    return [g.w.value(f"getelementptr {ty}, ptr {start}, i64 {i}", start) if i else start for i in range(count)]


def load(g: Gen, ty: str, places: Sequence[str]) -> list[str]:
    """Read the 32-bit registers at the addresses `places`."""
    return [g.w.inline(f"load {ty}, ptr {place}, align 4") for place in places]


def struct(ty: str, count: int) -> str:
    """The type of `count` results of one call."""
    return f"{{ {', '.join([ty] * count)} }}"


def store(g: Gen, ty: str, results: str, places: Sequence[str]) -> None:
    """Put the results of a call in registers of 32 bits."""
    whole = struct(ty, len(places))
    for i, place in enumerate(places):
        one = g.w.inline(f"extractvalue {whole} {results}, {i}")
        g.w.effect(f"store {ty} {one}, ptr {place}, align 4")
    g.w.loaded.clear()
