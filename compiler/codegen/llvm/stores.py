"""Stores: elements, vectors, masks, scatters."""

from __future__ import annotations

from compiler.codegen.llvm.gen import NONTEMPORAL, STORED, Gen, KernelStorage, runs
from compiler.codegen.llvm.memory import (
    address,
    element_pointer,
    flat_position,
    forget,
    is_inside,
    is_unit_ramp,
    pointers,
    read_at,
    suffix,
)
from compiler.codegen.llvm.types import code_of, element_bytes, lanes_of, llvm_type, memory_type
from compiler.codegen.llvm.values import choose, is_constant
from compiler.dtype import element_of
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


@runs(n.BufferStore)
def _store(g: Gen, stmt: n.BufferStore) -> None:
    buffer = stmt.buffer
    position = flat_position(g, buffer, stmt.indices)
    memory = g.storage_of(buffer)
    dtype = stmt.value.dtype
    mask = None if stmt.predicate is None else g.value(stmt.predicate)
    if mask in ("false", "splat (i1 false)"):
        return
    if mask in ("true", "splat (i1 true)"):
        mask = None
    if lanes_of(position.dtype) == 1:
        _store_one(g, stmt, memory, position, mask)
        return
    if isinstance(stmt.value, n.Call) and (store := STORED.get(getattr(stmt.value.op, "name", ""))) is not None:
        assert isinstance(position, n.Ramp)
        store(g, stmt.value, element_pointer(g, n.BufferLoad(buffer, (position.base,))))
        forget(g, memory)
        return
    value = _in_memory(g, g.value(stmt.value), dtype)
    ty = memory_type(dtype)
    if is_unit_ramp(position):
        assert isinstance(position, n.Ramp)
        element = memory_type(element_of(dtype))
        pointer, align = address(g, memory.pointer, position.base, element, element_bytes(dtype))
        _store_vector(g, memory, position, pointer, align, ty, value, mask)
    else:
        _scatter(g, memory, position, dtype, value, mask)
    forget(g, memory)


def _store_one(g: Gen, stmt: n.BufferStore, memory: KernelStorage, position: PrimExpr, mask: str | None) -> None:
    w, dtype = g.w, stmt.value.dtype
    size = element_bytes(dtype) * lanes_of(dtype)
    after = w.label("after") if mask is not None else ""
    if mask is not None:
        write = w.label("write")
        w.branch_if(mask, write, after)
        w.start_block(write)
    value = _in_memory(g, g.value(stmt.value), dtype)
    pointer, align = address(g, memory.pointer, position, memory_type(dtype), size)
    w.effect(f"store {memory_type(dtype)} {value}, ptr {pointer}, align {align}")
    forget(g, memory)
    if mask is not None:
        w.branch(after)
        w.start_block(after)


def _in_memory(g: Gen, value: str, dtype: str) -> str:
    if code_of(dtype) != "bool":
        return value
    if is_constant(value) and lanes_of(dtype) == 1:
        return str(int(value == "true"))
    return g.w.value(f"zext {llvm_type(dtype)} {value} to {memory_type(dtype)}", value)


def _store_vector(
    g: Gen, memory: KernelStorage, position: n.Ramp, pointer: str, align: int, ty: str, value: str, mask: str | None
) -> None:
    lanes = position.lanes
    if mask is None:
        past = g.nontemporal and not memory.private
        if past:  # such stores are not ordered with those that tell another thread of them
            g.module.nontemporal = g.w.fenced = True
        g.w.effect(f"store {ty} {value}, ptr {pointer}, align {align}{f', !nontemporal {NONTEMPORAL}' if past else ''}")
    elif is_inside(g, memory, position):  # stays a register, which a masked store would not
        kept = choose(g, mask, lanes, ty, value, read_at(g, memory, pointer, ty, align))
        g.w.effect(f"store {ty} {kept}, ptr {pointer}, align {align}")
    else:
        name = f"@llvm.masked.store.{suffix(ty)}.p0"
        g.module.declare(name, f"void {name}({ty}, ptr, <{lanes} x i1>)")
        g.w.effect(f"call void {name}({ty} {value}, ptr align {align} {pointer}, <{lanes} x i1> {mask})")


def _scatter(g: Gen, memory: KernelStorage, position: PrimExpr, dtype: str, value: str, mask: str | None) -> None:
    lanes, ty = lanes_of(position.dtype), memory_type(dtype)
    if mask is None and isinstance(position, n.Ramp) and isinstance(position.stride, n.IntImm):
        _strided_store(g, memory, position, dtype, value)
        return
    name = f"@llvm.masked.scatter.{suffix(ty)}.v{lanes}p0"
    g.module.declare(name, f"void {name}({ty}, <{lanes} x ptr>, <{lanes} x i1>)")
    where = pointers(g, memory, position, dtype)
    mask = mask or "splat (i1 true)"
    g.w.effect(
        f"call void {name}({ty} {value}, <{lanes} x ptr> align {element_bytes(dtype)} {where}, <{lanes} x i1> {mask})"
    )


def _strided_store(g: Gen, memory: KernelStorage, position: n.Ramp, dtype: str, value: str) -> None:
    assert isinstance(position.stride, n.IntImm)
    element, size = memory_type(element_of(dtype)), element_bytes(dtype)
    start, _ = address(g, memory.pointer, position.base, element, size)
    for lane in range(position.lanes):
        offset = lane * position.stride.value * size
        pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {offset}", start) if offset else start
        one = g.w.value(f"extractelement {memory_type(dtype)} {value}, i64 {lane}", value)
        g.w.effect(f"store {element} {one}, ptr {pointer}, align {size}")
