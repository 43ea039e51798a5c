"""Loads and stores: addresses, vectors, masks, gathers. Buffers are one-dimensional by now."""

from __future__ import annotations

from compiler.codegen.llvm.columns import column_of, load_column
from compiler.codegen.llvm.gen import NONTEMPORAL, STORED, Gen, KernelStorage, emits, runs
from compiler.codegen.llvm.index import in_64_bits, resolve
from compiler.codegen.llvm.types import code_of, element_bytes, lanes_of, llvm_type, memory_type
from compiler.codegen.llvm.values import choose, convert, is_constant, splat
from compiler.codegen.llvm.writer import Operand
from compiler.dtype import element_of, with_lanes
from compiler.errors import CodegenError
from compiler.lower.analysis.lane_masks import LaneMask, lane_mask
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_MAX_ALIGN = 64
_FARTHEST = 4  # elements from lane to lane that shuffles pick
ZEROS = 512  # bytes of zeros that loads of rows outside an image read
_TWO_SOURCES = 512  # bits of the registers of which one instruction picks any lanes of two


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
    position = _position(g, load.buffer, load.indices)
    return address(g, g.storage_of(load.buffer).pointer, position, element, size)[0]


def _position(g: Gen, buffer: n.Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    if len(indices) != 1:
        raise CodegenError(
            f"buffer {buffer.name!r} of {g.symbol} is indexed with {len(indices)} dimensions",
            hint="lower the function before generating code",
        )
    return indices[0]


def _is_unit_ramp(position: PrimExpr) -> bool:
    return isinstance(position, n.Ramp) and isinstance(position.stride, n.IntImm) and position.stride.value == 1


# ------------------------------------------------------------------------------------- loads


@emits(n.BufferLoad)
def _load(g: Gen, expr: n.BufferLoad) -> str:
    buffer = expr.buffer
    position = _position(g, buffer, expr.indices)
    memory = g.storage_of(buffer)
    element, size = memory_type(buffer.dtype), element_bytes(buffer.dtype) * lanes_of(buffer.dtype)
    lanes = lanes_of(position.dtype)
    ty = memory_type(expr.dtype)
    if expr.predicate is not None:
        known = lane_mask(expr.predicate, lambda number: _known(g, number))
        mask = g.value(expr.predicate) if known is None else _mask_operand(g, known)
        if mask not in ("true", "splat (i1 true)"):
            return _boolean(g, _masked_load(g, expr, memory, position, mask, known), expr.dtype)
    if lanes == 1 or _is_unit_ramp(position):
        start = position.base if isinstance(position, n.Ramp) else position
        pointer, align = address(g, memory.pointer, start, element, size)
        return _boolean(g, _read(g, memory, pointer, ty, align), expr.dtype)
    if isinstance(position, n.Ramp) and (column := _column(g, memory, position, expr.dtype, lanes)) is not None:
        return column
    if isinstance(position, n.Ramp) and isinstance(position.stride, n.IntImm):
        return _boolean(g, _strided_load(g, expr, memory, position), expr.dtype)
    return _boolean(g, _gather(g, memory, position, expr.dtype, "splat (i1 true)"), expr.dtype)


def _read(g: Gen, memory: KernelStorage, pointer: str, ty: str, align: int) -> str:
    """A load, or the value that an earlier load of the same place gave."""
    return _seen(g, memory, f"load {ty}, ptr {pointer}, align {align}")


def read(g: Gen, buffer: n.Buffer, rhs: str) -> str:
    """Return the value of `rhs`, an instruction that reads `buffer`. An equal earlier read is used again."""
    return _seen(g, g.storage_of(buffer), rhs)


def _seen(g: Gen, memory: KernelStorage, rhs: str) -> str:
    seen = g.w.loaded.setdefault(memory.pointer, {})
    name = seen.get(rhs)
    if name is None:
        name = seen[rhs] = g.w.inline(rhs)
    return name


def _column(g: Gen, memory: KernelStorage, position: n.Ramp, dtype: str, count: int) -> str | None:
    """Load the first `count` lanes of a column of rows that are transposed in registers.
    The other lanes hold anything. None for loads of something else."""
    found = column_of(g, memory, position, dtype, count)
    if found is None:
        return None
    start, align = address(g, memory.pointer, found.base, memory_type(element_of(dtype)), element_bytes(dtype))
    seen = g.w.loaded.setdefault(memory.pointer, {})
    return load_column(g, found, start, align, lambda rhs: _seen(g, memory, rhs), seen)


def _forget(g: Gen, memory: KernelStorage) -> None:
    """After a store: loads from that memory must be made again."""
    if g.noalias or memory.private:
        g.w.loaded.pop(memory.pointer, None)
    else:
        g.w.loaded.clear()


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
    if _is_shuffled(g, expr, position):
        return _picked(g, memory, position, dtype, LaneMask((True,) * position.lanes))
    start, align = address(g, memory.pointer, position.base, element, size)
    if position.stride.value == 0:
        one = _read(g, memory, start, element, align)
        return splat(g, one, with_lanes("uint8", 1) if code_of(dtype) == "bool" else element_of(dtype), position.lanes)
    vector = memory_type(dtype)
    result = "poison"
    for lane in range(position.lanes):
        pointer = start
        if lane:
            offset = lane * position.stride.value * size
            pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {offset}", start)
        one = _read(g, memory, pointer, element, size)
        result = g.w.value(f"insertelement {vector} {result}, {element} {one}, i64 {lane}", result, one)
    return result


def _is_shuffled(g: Gen, load: n.BufferLoad, position: PrimExpr) -> bool:
    """Whether lanes so far apart are picked from vectors by shuffles.
    Every second element is, from two vectors; every third or fourth where a shuffle takes two registers. Small arrays
    that are stored one by one would not become registers if vectors of them were loaded."""
    size, apart = element_bytes(load.dtype), ops.as_int(position.stride) if isinstance(position, n.Ramp) else None
    one = lanes_of(position.dtype) * size * 8 <= _TWO_SOURCES <= g.module.options.vector_bits
    far = one and load.buffer.scope != "local"
    return size >= 4 and apart is not None and (apart == 2 or (2 < apart <= _FARTHEST and far))


def _picked(g: Gen, memory: KernelStorage, position: n.Ramp, dtype: str, mask: LaneMask) -> str:
    """Load lanes that are a stride apart, and 0 for those that `mask` leaves out. Its lanes are neighbours.

    It takes vectors one after another, and shuffles. Nothing before the first lane or behind the last is touched.
    """
    size, lanes, vector, apart = element_bytes(dtype), position.lanes, memory_type(dtype), ops.as_int(position.stride)
    assert apart is not None
    assert mask.span is not None
    span = mask.span
    begin, needed = span[0] * apart, apart * (len(span) - 1) + 1
    start, align = address(g, memory.pointer, position.base, memory_type(element_of(dtype)), size)
    start, mask = _or_zeros(g, start, mask)
    if begin:
        start, align = g.w.value(f"getelementptr i8, ptr {start}, i64 {begin * size}", start), size

    def load(first: int) -> tuple[str, tuple[bool, ...]]:
        wanted = tuple([first + at < needed for at in range(lanes)])
        pointer = g.w.value(f"getelementptr i8, ptr {start}, i64 {first * size}", start) if first else start
        return _some_elements(g, memory, pointer, size if first else align, vector, LaneMask(wanted)), wanted

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
                result = choose(g, _mask_operand(g, mask), lanes, vector, result, "zeroinitializer")
            return result
        picks = [lane if at < have else at for lane, at in enumerate(picks)]
        there = tuple([lane in span or not nothing for lane in range(lanes)])


def _some_elements(g: Gen, memory: KernelStorage, pointer: str, align: int, vector: str, mask: LaneMask) -> str:
    if all(mask.on):
        return _read(g, memory, pointer, vector, align)
    return _seen(g, memory, _masked(g, pointer, align, vector, len(mask.on), _mask_operand(g, mask)))


def _masked(g: Gen, pointer: str, align: int, vector: str, lanes: int, mask: str) -> str:
    """A load of the lanes in `mask`; the others are 0."""
    name = f"@llvm.masked.load.{_suffix(vector)}.p0"
    g.module.declare(name, f"{vector} {name}(ptr, <{lanes} x i1>, {vector})")
    return f"call {vector} {name}(ptr align {align} {pointer}, <{lanes} x i1> {mask}, {vector} zeroinitializer)"


def _known(g: Gen, number: PrimExpr) -> int | None:
    """The value of an integer expression in this copy of unrolled code, if that is a constant."""
    terms, value = resolve(g, g.forms.form(number))
    return None if terms else value


def _mask_operand(g: Gen, mask: LaneMask) -> str:
    """The mask as a vector of i1."""
    lanes = len(mask.on)
    operand = "splat (i1 true)" if all(mask.on) else f"<{', '.join(f'i1 {str(bit).lower()}' for bit in mask.on)}>"
    for condition in mask.when:
        test = g.value(condition)
        zero = f"<{lanes} x i1> zeroinitializer"
        operand = g.w.value(f"select i1 {test}, <{lanes} x i1> {operand}, {zero}", test, operand)
    return operand


def _pointers(g: Gen, memory: KernelStorage, position: PrimExpr, dtype: str) -> str:
    """A vector of the addresses of `position`'s lanes."""
    lanes = lanes_of(position.dtype)
    if memory.elements is None or memory.elements > 1 << 31:
        wide = g.value(in_64_bits(position))
    else:
        wide = convert(g, g.value(position), position.dtype, with_lanes("int64", lanes))
    element = memory_type(element_of(dtype))
    return g.w.value(f"getelementptr {element}, ptr {memory.pointer}, <{lanes} x i64> {wide}", memory.pointer, wide)


def _gather(g: Gen, memory: KernelStorage, position: PrimExpr, dtype: str, mask: str) -> str:
    lanes, ty = lanes_of(position.dtype), memory_type(dtype)
    name = f"@llvm.masked.gather.{_suffix(ty)}.v{lanes}p0"
    g.module.declare(name, f"{ty} {name}(<{lanes} x ptr>, <{lanes} x i1>, {ty})")
    where = _pointers(g, memory, position, dtype)
    align = element_bytes(dtype)
    return g.w.inline(
        f"call {ty} {name}(<{lanes} x ptr> align {align} {where}, <{lanes} x i1> {mask}, {ty} zeroinitializer)"
    )


def _suffix(ty: str) -> str:
    """How LLVM abbreviates a type in intrinsic names: "<8 x float>" → "v8f32"."""
    lanes, _, element = ty.strip("<>").rpartition(" x ")
    short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(element, element)
    return f"v{lanes}{short}" if lanes else short


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
        if free and known.span is not None and _is_shuffled(g, expr, position):
            return _picked(g, memory, position, expr.dtype, known)
    if not _is_unit_ramp(position):
        return _gather(g, memory, position, expr.dtype, mask)
    assert isinstance(position, n.Ramp)
    pointer, align = address(
        g, memory.pointer, position.base, memory_type(element_of(expr.dtype)), element_bytes(expr.dtype)
    )
    if _inside(g, memory, position):
        return choose(g, mask, lanes, ty, _read(g, memory, pointer, ty, align), "zeroinitializer")
    if known is not None and g.module.options.device is None and lanes * element_bytes(expr.dtype) <= ZEROS:
        pointer, known = _or_zeros(g, pointer, known)
        return _some_elements(g, memory, pointer, align, ty, known)
    return _seen(g, memory, _masked(g, pointer, align, ty, lanes, mask))


def _or_zeros(g: Gen, pointer: str, mask: LaneMask) -> tuple[str, LaneMask]:
    """A pointer to zeros where the conditions of `mask` do not hold, and the mask without them.

    A load under a mask without lanes is slow where its address is in no page, as before the first row of an image.
    """
    for condition in mask.when:
        test = g.value(condition)
        pointer = g.w.value(f"select i1 {test}, ptr {pointer}, ptr {g.module.zeros(ZEROS)}", test, pointer)
    return pointer, LaneMask(mask.on)


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


def _inside(g: Gen, memory: KernelStorage, position: n.Ramp) -> bool:
    """Whether all lanes lie within private memory. Masked lanes may then be touched too."""
    if not memory.private or memory.elements is None:
        return False
    low, high = g.forms.bounds(position.base)
    return low >= 0 and high + position.lanes <= memory.elements


# ------------------------------------------------------------------------------------ stores


@runs(n.BufferStore)
def _store(g: Gen, stmt: n.BufferStore) -> None:
    buffer = stmt.buffer
    position = _position(g, buffer, stmt.indices)
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
        _forget(g, memory)
        return
    value = _in_memory(g, g.value(stmt.value), dtype)
    ty = memory_type(dtype)
    if _is_unit_ramp(position):
        assert isinstance(position, n.Ramp)
        element = memory_type(element_of(dtype))
        pointer, align = address(g, memory.pointer, position.base, element, element_bytes(dtype))
        _store_vector(g, memory, position, pointer, align, ty, value, mask)
    else:
        _scatter(g, memory, position, dtype, value, mask)
    _forget(g, memory)


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
    _forget(g, memory)
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
    elif _inside(g, memory, position):  # stays a register, which a masked store would not
        kept = choose(g, mask, lanes, ty, value, _read(g, memory, pointer, ty, align))
        g.w.effect(f"store {ty} {kept}, ptr {pointer}, align {align}")
    else:
        name = f"@llvm.masked.store.{_suffix(ty)}.p0"
        g.module.declare(name, f"void {name}({ty}, ptr, <{lanes} x i1>)")
        g.w.effect(f"call void {name}({ty} {value}, ptr align {align} {pointer}, <{lanes} x i1> {mask})")


def _scatter(g: Gen, memory: KernelStorage, position: PrimExpr, dtype: str, value: str, mask: str | None) -> None:
    lanes, ty = lanes_of(position.dtype), memory_type(dtype)
    if mask is None and isinstance(position, n.Ramp) and isinstance(position.stride, n.IntImm):
        _strided_store(g, memory, position, dtype, value)
        return
    name = f"@llvm.masked.scatter.{_suffix(ty)}.v{lanes}p0"
    g.module.declare(name, f"void {name}({ty}, <{lanes} x ptr>, <{lanes} x i1>)")
    where = _pointers(g, memory, position, dtype)
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
