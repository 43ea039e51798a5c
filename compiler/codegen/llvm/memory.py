"""Addresses of elements, and what was read from them before. Buffers are one-dimensional by now."""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen, KernelStorage
from compiler.codegen.llvm.index import in_64_bits, resolve
from compiler.codegen.llvm.types import element_bytes, lanes_of, memory_type
from compiler.codegen.llvm.values import convert
from compiler.codegen.llvm.writer import Operand
from compiler.dtype import element_of, with_lanes
from compiler.errors import CodegenError
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_MAX_ALIGN = 64


def address(g: Gen, base: str, position: PrimExpr, element: str, size: int) -> tuple[str, int]:
    """Return the pointer to element `position` behind `base`, and what its address is a multiple of.

    The terms are added outermost loop first, each level's sum at that level. A known offset comes last, so unrolled
    copies of an access differ in that constant only.
    """
    w = g.w
    terms, offset = resolve(g, g.forms.form(position))
    pointer, spread = base, offset * size
    at, count = 0, len(terms)
    while at < count:
        level = terms[at][0]
        total: Operand = 0
        while at < count and terms[at][0] == level:
            _, name, scale = terms[at]
            total = w.iadd(total, w.imul(name, scale))
            spread |= scale * size
            at += 1
        pointer = w.value(f"getelementptr {element}, ptr {pointer}, i64 {total}", pointer, total)
    if offset:
        pointer = w.value(f"getelementptr i8, ptr {pointer}, i64 {offset * size}", pointer)
    return pointer, min(spread & -spread, _MAX_ALIGN) if spread else _MAX_ALIGN


def element_pointer(g: Gen, load: n.BufferLoad) -> str:
    """The address of the element that `load` would load."""
    element, size = memory_type(load.buffer.dtype), element_bytes(load.buffer.dtype) * lanes_of(load.buffer.dtype)
    position = flat_position(g, load.buffer, load.indices)
    return address(g, g.storage_of(load.buffer).pointer, position, element, size)[0]


def pointers(g: Gen, memory: KernelStorage, position: PrimExpr, dtype: str) -> str:
    """A vector of the addresses of `position`'s lanes."""
    lanes = lanes_of(position.dtype)
    if memory.elements is None or memory.elements > 1 << 31:
        wide = g.value(in_64_bits(position))
    else:
        wide = convert(g, g.value(position), position.dtype, with_lanes("int64", lanes))
    element = memory_type(element_of(dtype))
    return g.w.value(f"getelementptr {element}, ptr {memory.pointer}, <{lanes} x i64> {wide}", memory.pointer, wide)


def flat_position(g: Gen, buffer: n.Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """The only index. Raises CodegenError for a buffer of several dimensions."""
    if len(indices) != 1:
        raise CodegenError(
            f"buffer {buffer.name!r} of {g.symbol} is indexed with {len(indices)} dimensions",
            hint="lower the function before generating code",
        )
    return indices[0]


def is_unit_ramp(position: PrimExpr) -> bool:
    """Whether lanes are neighbours in memory, in order."""
    return isinstance(position, n.Ramp) and isinstance(position.stride, n.IntImm) and position.stride.value == 1


def is_inside(g: Gen, memory: KernelStorage, position: n.Ramp) -> bool:
    """Whether all lanes lie within private memory. Masked lanes may then be touched too."""
    if not memory.private or memory.elements is None:
        return False
    low, high = g.forms.bounds(position.base)
    return low >= 0 and high + position.lanes <= memory.elements


def read_at(g: Gen, memory: KernelStorage, pointer: str, ty: str, align: int) -> str:
    """A load, or the value that an earlier load of the same place gave."""
    return seen_before(g, memory, f"load {ty}, ptr {pointer}, align {align}")


def read(g: Gen, buffer: n.Buffer, rhs: str) -> str:
    """Return the value of `rhs`, an instruction that reads `buffer`. An equal earlier read is used again."""
    return seen_before(g, g.storage_of(buffer), rhs)


def seen_before(g: Gen, memory: KernelStorage, rhs: str) -> str:
    """Return the value of `rhs`, which reads `memory`, or that of an equal earlier read."""
    seen = g.w.loaded.setdefault(memory.pointer, {})
    name = seen.get(rhs)
    if name is None:
        name = seen[rhs] = g.w.inline(rhs)
    return name


def forget(g: Gen, memory: KernelStorage) -> None:
    """Note a store: loads from that memory must be made again."""
    if g.noalias or memory.private:
        g.w.loaded.pop(memory.pointer, None)
    else:
        g.w.loaded.clear()


def suffix(ty: str) -> str:
    """How LLVM abbreviates a type in intrinsic names: "<8 x float>" → "v8f32"."""
    lanes, _, element = ty.strip("<>").rpartition(" x ")
    short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(element, element)
    return f"v{lanes}{short}" if lanes else short
