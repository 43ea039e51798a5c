"""Loads under a mask, and of lanes that are a stride apart, which shuffles pick from vectors."""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen, KernelStorage
from compiler.codegen.llvm.memory import address, read_at, seen_before, suffix
from compiler.codegen.llvm.types import element_bytes, lanes_of, memory_type
from compiler.codegen.llvm.values import choose
from compiler.dtype import element_of
from compiler.lower.analysis.lane_masks import LaneMask
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_FARTHEST = 4  # elements from lane to lane that shuffles pick
_TWO_SOURCES = 512  # bits of the registers of which one instruction picks any lanes of two
ZEROS = 512  # bytes of zeros that loads of rows outside an image read


def is_shuffled(g: Gen, load: n.BufferLoad, position: PrimExpr) -> bool:
    """Whether lanes so far apart are picked from vectors by shuffles.
    Every second element is, from two vectors; every third or fourth where a shuffle takes two registers. Small arrays
    that are stored one by one would not become registers if vectors of them were loaded."""
    size, apart = element_bytes(load.dtype), ops.as_int(position.stride) if isinstance(position, n.Ramp) else None
    one = lanes_of(position.dtype) * size * 8 <= _TWO_SOURCES <= g.module.options.vector_bits
    far = one and load.buffer.scope != "local"
    return size >= 4 and apart is not None and (apart == 2 or (2 < apart <= _FARTHEST and far))


def picked(g: Gen, memory: KernelStorage, position: n.Ramp, dtype: str, mask: LaneMask) -> str:
    """Load lanes that are a stride apart, and 0 for those that `mask` leaves out. Its lanes are neighbours.

    It takes vectors one after another, and shuffles. Nothing before the first lane or behind the last is touched.
    """
    size, lanes, vector, apart = element_bytes(dtype), position.lanes, memory_type(dtype), ops.as_int(position.stride)
    assert apart is not None
    assert mask.span is not None
    span = mask.span
    begin, needed = span[0] * apart, apart * (len(span) - 1) + 1
    start, align = address(g, memory.pointer, position.base, memory_type(element_of(dtype)), size)
    start, mask = or_zeros(g, start, mask)
    if begin:
        start, align = g.w.value(f"getelementptr i8, ptr {start}, i64 {begin * size}", start), size

    def load(first: int) -> tuple[str, tuple[bool, ...]]:
        wanted = tuple([first + at < needed for at in range(lanes)])
        pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {first * size}", start) if first else start
        return some_elements(g, memory, pointer, size if first else align, vector, LaneMask(wanted)), wanted

    (result, there), have = load(0), lanes
    # of what is there and comes; places of lanes once they are there
    picks = [lane * apart - begin for lane in range(lanes)]
    while True:
        first = have if needed - have >= lanes or len(span) < lanes else needed - lanes  # the last two overlap
        value, comes = load(first) if needed > have else ("poison", (True,) * lanes)
        nothing = [at for at, is_read in enumerate((*there, *comes)) if not is_read]  # these are 0
        order = [at if at < have else at - first + lanes if at < first + lanes else 0 for at in picks]
        order = [at if lane in span else nothing[0] if nothing else 0 for lane, at in enumerate(order)]
        given = ", ".join(f"i32 {at}" for at in order)
        result = g.w.value(
            f"shufflevector {vector} {result}, {vector} {value}, <{lanes} x i32> <{given}>", result, value
        )
        have = first + lanes
        if have >= needed:
            if len(span) < lanes and not nothing:
                result = choose(g, mask_operand(g, mask), lanes, vector, result, "zeroinitializer")
            return result
        picks = [lane if at < have else at for lane, at in enumerate(picks)]
        there = tuple([lane in span or not nothing for lane in range(lanes)])


def some_elements(g: Gen, memory: KernelStorage, pointer: str, align: int, vector: str, mask: LaneMask) -> str:
    """Load neighbours: all of them, or those in `mask`, and 0 for the others."""
    if all(mask.on):
        return read_at(g, memory, pointer, vector, align)
    return seen_before(g, memory, masked(g, pointer, align, vector, len(mask.on), mask_operand(g, mask)))


def masked(g: Gen, pointer: str, align: int, vector: str, lanes: int, mask: str) -> str:
    """A load of the lanes in `mask`; the others are 0."""
    name = f"@llvm.masked.load.{suffix(vector)}.p0"
    g.module.declare(name, f"{vector} {name}(ptr, <{lanes} x i1>, {vector})")
    return f"call {vector} {name}(ptr align {align} {pointer}, <{lanes} x i1> {mask}, {vector} zeroinitializer)"


def or_zeros(g: Gen, pointer: str, mask: LaneMask) -> tuple[str, LaneMask]:
    """A pointer to zeros where the conditions of `mask` do not hold, and the mask without them.

    A load under a mask without lanes is slow where its address is in no page, as before the first row of an image.
    """
    for condition in mask.when:
        test = g.value(condition)
        pointer = g.w.value(f"select i1 {test}, ptr {pointer}, ptr {g.module.zeros(ZEROS)}", test, pointer)
    return pointer, LaneMask(mask.on)


def mask_operand(g: Gen, mask: LaneMask) -> str:
    """The mask as a vector of i1."""
    lanes = len(mask.on)
    operand = "splat (i1 true)" if all(mask.on) else f"<{', '.join(f'i1 {str(bit).lower()}' for bit in mask.on)}>"
    for condition in mask.when:
        test = g.value(condition)
        zero = f"<{lanes} x i1> zeroinitializer"
        operand = g.w.value(f"select i1 {test}, <{lanes} x i1> {operand}, {zero}", test, operand)
    return operand
