"""Loads: vectors, masks, gathers, columns of small arrays."""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen, KernelStorage, emits
from compiler.codegen.llvm.index import resolve
from compiler.codegen.llvm.masked_loads import ZEROS, is_shuffled, mask_operand, masked, or_zeros, picked, some_elements
from compiler.codegen.llvm.memory import (
    address,
    flat_position,
    is_inside,
    is_unit_ramp,
    pointers,
    read_at,
    seen_before,
    suffix,
)
from compiler.codegen.llvm.types import code_of, element_bytes, lanes_of, memory_type
from compiler.codegen.llvm.values import choose, splat
from compiler.codegen.llvm.x86.columns import column_of, load_column
from compiler.dtype import element_of, with_lanes
from compiler.lower.analysis.lane_masks import LaneMask, lane_mask
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


@emits(n.BufferLoad)
def _load(g: Gen, expr: n.BufferLoad) -> str:
    buffer = expr.buffer
    position = flat_position(g, buffer, expr.indices)
    memory = g.storage_of(buffer)
    element, size = memory_type(buffer.dtype), element_bytes(buffer.dtype) * lanes_of(buffer.dtype)
    lanes = lanes_of(position.dtype)
    ty = memory_type(expr.dtype)
    if expr.predicate is not None:
        known = lane_mask(expr.predicate, lambda number: _known(g, number))
        mask = g.value(expr.predicate) if known is None else mask_operand(g, known)
        if mask not in ("true", "splat (i1 true)"):
            return _boolean(g, _masked_load(g, expr, memory, position, mask, known), expr.dtype)
    if lanes == 1 or is_unit_ramp(position):
        start = position.base if isinstance(position, n.Ramp) else position
        pointer, align = address(g, memory.pointer, start, element, size)
        return _boolean(g, read_at(g, memory, pointer, ty, align), expr.dtype)
    if isinstance(position, n.Ramp) and (column := _column(g, memory, position, expr.dtype, lanes)) is not None:
        return column
    if isinstance(position, n.Ramp) and isinstance(position.stride, n.IntImm):
        return _boolean(g, _strided_load(g, expr, memory, position), expr.dtype)
    return _boolean(g, _gather(g, memory, position, expr.dtype, "splat (i1 true)"), expr.dtype)


def _boolean(g: Gen, value: str, dtype: str) -> str:
    """A bool is a byte in memory and an i1 in a register."""
    if code_of(dtype) != "bool":
        return value
    return g.w.value(
        f"icmp ne {memory_type(dtype)} {value}, {'0' if lanes_of(dtype) == 1 else 'zeroinitializer'}", value
    )


def _strided_load(g: Gen, expr: n.BufferLoad, memory: KernelStorage, position: n.Ramp) -> str:
    """Load lanes whose addresses differ by constants.

    It takes one scalar load a lane, unless a few vectors hold all lanes.
    """
    assert isinstance(position.stride, n.IntImm)
    dtype = expr.dtype
    element, size = memory_type(element_of(dtype)), element_bytes(dtype)
    if is_shuffled(g, expr, position):
        return picked(g, memory, position, dtype, LaneMask((True,) * position.lanes))
    start, align = address(g, memory.pointer, position.base, element, size)
    if position.stride.value == 0:
        one = read_at(g, memory, start, element, align)
        return splat(g, one, with_lanes("uint8", 1) if code_of(dtype) == "bool" else element_of(dtype), position.lanes)
    vector = memory_type(dtype)
    result = "poison"
    for lane in range(position.lanes):
        pointer = start
        if lane:
            offset = lane * position.stride.value * size
            pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {offset}", start)
        one = read_at(g, memory, pointer, element, size)
        result = g.w.value(f"insertelement {vector} {result}, {element} {one}, i64 {lane}", result, one)
    return result


def _gather(g: Gen, memory: KernelStorage, position: PrimExpr, dtype: str, mask: str) -> str:
    lanes, ty = lanes_of(position.dtype), memory_type(dtype)
    name = f"@llvm.masked.gather.{suffix(ty)}.v{lanes}p0"
    g.module.declare(name, f"{ty} {name}(<{lanes} x ptr>, <{lanes} x i1>, {ty})")
    where = pointers(g, memory, position, dtype)
    align = element_bytes(dtype)
    return g.w.inline(
        f"call {ty} {name}(<{lanes} x ptr> align {align} {where}, <{lanes} x i1> {mask}, {ty} zeroinitializer)"
    )


def _masked_load(
    g: Gen, expr: n.BufferLoad, memory: KernelStorage, position: PrimExpr, mask: str, known: LaneMask | None
) -> str:
    lanes, ty = lanes_of(position.dtype), memory_type(expr.dtype)
    if mask in ("false", "splat (i1 false)") or (known is not None and not any(known.on)):
        return "zeroinitializer"
    if lanes == 1:
        return _guarded_load(g, memory, position, expr.dtype, mask)
    if known is not None and isinstance(position, n.Ramp):
        first = known.first_lanes
        column = None if first is None else _column(g, memory, position, expr.dtype, first)
        if column is not None:
            return column
        free = not known.when or g.module.options.device is None  # zeros lie in this machine's memory
        if free and known.span is not None and is_shuffled(g, expr, position):
            return picked(g, memory, position, expr.dtype, known)
    if not is_unit_ramp(position):
        return _gather(g, memory, position, expr.dtype, mask)
    assert isinstance(position, n.Ramp)
    pointer, align = address(
        g, memory.pointer, position.base, memory_type(element_of(expr.dtype)), element_bytes(expr.dtype)
    )
    if is_inside(g, memory, position):
        return choose(g, mask, lanes, ty, read_at(g, memory, pointer, ty, align), "zeroinitializer")
    if known is not None and g.module.options.device is None and lanes * element_bytes(expr.dtype) <= ZEROS:
        pointer, known = or_zeros(g, pointer, known)
        return some_elements(g, memory, pointer, align, ty, known)
    return seen_before(g, memory, masked(g, pointer, align, ty, lanes, mask))


def _guarded_load(g: Gen, memory: KernelStorage, position: PrimExpr, dtype: str, mask: str) -> str:
    w, ty = g.w, memory_type(dtype)
    read, after = w.label("read"), w.label("after")
    before = w.block
    w.branch_if(mask, read, after)
    w.start_block(read)
    pointer, align = address(g, memory.pointer, position, ty, element_bytes(dtype))
    value = w.inline(f"load {ty}, ptr {pointer}, align {align}")
    last = w.block
    w.branch(after)
    w.start_block(after)
    return w.inline(f"phi {ty} [ {value}, %{last} ], [ zeroinitializer, %{before} ]")


def _column(g: Gen, memory: KernelStorage, position: n.Ramp, dtype: str, count: int) -> str | None:
    """Load the first `count` lanes of a column of rows that are transposed in registers.
    The other lanes hold anything. None for loads of something else."""
    found = column_of(g, memory, position, dtype, count)
    if found is None:
        return None
    start, align = address(g, memory.pointer, found.base, memory_type(element_of(dtype)), element_bytes(dtype))
    seen = g.w.loaded.setdefault(memory.pointer, {})
    return load_column(g, found, start, align, lambda rhs: seen_before(g, memory, rhs), seen)


def _known(g: Gen, number: PrimExpr) -> int | None:
    """The value of an integer expression in this copy of unrolled code, if that is a constant."""
    terms, value = resolve(g, g.forms.form(number))
    return None if terms else value
