"""Sketches for functions made of rows: reductions along memory and what is computed from them.

It covers softmax, layer_norm, sums and maxima of rows. A row is read once from memory and then from the cache:
everything is computed row by row, and threads share the rows.

    for row in parallel:
      for k: part[lanes] += x[row, k, lanes]     several vectors of partial sums, so that one addition
      four[4] = sums of part                     need not wait for the one before
      sum[row] = the sum of four
      for j: y[row, j, lanes] = f(x, sum[row])

Rows that are only reduced are read several at a time, because one core gets more from memory by several streams. A
reduction to a few results has no rows to share. It is cut in parts, which are then the rows (rfactor).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.lower.blocks.in_place import IN_PLACE
from compiler.lower.loops.inject_prefetch import SOFTWARE_PREFETCH, WHOLE_LOOP
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockInfo, blocks_of, consumers
from tuner.space.cpu.elementwise import inline_chains
from tuner.space.cpu.hardware import Hardware
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_VECTORS = (1, 2, 4, 8, 16)  # of partial sums
_STEPS = (1, 2, 4, 8)  # vectors of a row worked on at a time
_ABREAST = (1, 2, 4, 8)  # rows read at the same time
_LINES_ABREAST = (*_ABREAST, 16)  # where a vector is a whole line, of which nothing has to stay in a cache meanwhile
_LINE = 64  # bytes
_FEW_LANES = 4  # fewer are no vector
_TASKS = (1, 2, 4, 8, 16, 32, 64)  # rows that a thread takes at a time
_PARTS = (2, 4, 8, 16, 32, 64, 128)
_SHARED = 1 << 15  # elements worth handing to other threads
_STREAMED = 1 << 19  # elements that do not stay in a cache near the core
_PAST_CACHES = 1 << 25  # bytes of a result that no cache keeps for its reader


@dataclass(frozen=True)
class Rows:
    """The blocks of a function made of rows; their first `kept` axes say which row."""

    blocks: tuple[BlockInfo, ...]
    kept: int

    @property
    def count(self) -> int:
        return math.prod(a.extent for a in self.blocks[-1].axes[: self.kept])

    @property
    def length(self) -> int:
        """Elements of the longest row."""
        return max(math.prod(a.extent for a in b.axes[self.kept :]) for b in self.blocks)


def rows_of(func: PrimFunc) -> Rows | None:
    """How `func` is made of rows; None when it is not."""
    blocks = blocks_of(func)
    reductions = [b for b in blocks if b.reduced]
    if not reductions or not all(_along_memory(b) for b in reductions):
        return None
    kept = len(reductions[0].spatial)
    which = [a.extent for a in reductions[0].spatial]
    if any([a.extent for a in b.axes[:kept]] != which for b in blocks):
        return None
    if any(len(b.spatial) != kept for b in reductions) or any(len(b.axes) == kept for b in blocks[:-1]):
        return None
    return Rows(blocks, kept)


def _along_memory(info: BlockInfo) -> bool:
    """Whether neighbours in memory are added up, axes of the reduction after the others."""
    last = info.reduced[-1].position
    ordered = all(a.position < b.position for a in info.spatial for b in info.reduced)
    reads = [i for i in info.inputs if last in i.axes]
    return ordered and bool(reads) and all(last in i.innermost for i in reads)


def row_sketches(func: PrimFunc, hardware: Hardware) -> tuple[Sketch, ...]:
    """The sketches of a function made of rows; none when it is not, or a step is illegal on it."""
    sch = Schedule(func)
    inline_chains(sch)
    _inline_summands(sch)
    rows = rows_of(sch.func)
    if rows is None:
        return ()
    made = [_by_rows(sch.copy(), rows, hardware)]
    if len(rows.blocks) == 1 and rows.count < 4 * hardware.threads and rows.length >= _SHARED:
        made.append(_by_parts(sch.copy(), rows, hardware))
    return tuple(sketch for sketch in made if sketch is not None)


def _inline_summands(sch: Schedule) -> None:
    """Inline every unconditional block of which one sum alone reads each element, and once.
    Squares that are added are such."""
    blocks = blocks_of(sch.func)
    outputs = set(sch.func.buffer_map.values())
    for info in blocks:
        users = consumers(info, blocks)
        free = info.injective and not info.conditional and info.output.buffer not in outputs
        added = len(users) == 1 and bool(users[0].reduced) and not users[0].contraction
        if free and added and users[0].points == info.points:
            sch.compute_inline(sch.get_block(info.name))


def _by_rows(sch: Schedule, rows: Rows, hardware: Hardware) -> Sketch | None:
    recorder = Recorder(sch)
    try:
        _schedule(sch, recorder, rows, hardware)
    except ScheduleError:  # a block reads more than its own row
        return None
    return _sketch("rows", sch, recorder, rows, hardware)


def _by_parts(sch: Schedule, rows: Rows, hardware: Hardware) -> Sketch | None:
    """Parts of the one reduction in parallel, then their sum."""
    [info] = rows.blocks
    recorder = Recorder(sch)
    cut = max(info.reduced, key=lambda a: a.extent)
    parts = tuple(p for p in _PARTS if p <= cut.extent // 2)
    if not parts:
        return None
    block = sch.get_block(info.name)
    loop = sch.get_loops(block)[cut.position]
    outer, _ = sch.split(loop, [recorder.choose("parts", parts).rv, None])
    try:
        part = sch.rfactor(outer, 0, factor_first=False)
        name = sch.get(part).name_hint
        found = next(b for b in blocks_of(sch.func) if b.name == name)
        _schedule(sch, recorder, Rows((found,), len(found.spatial)), hardware, parts)
    except ScheduleError:
        return None
    return _sketch("parts", sch, recorder, rows, hardware)


def _sketch(name: str, sch: Schedule, recorder: Recorder, rows: Rows, hardware: Hardware) -> Sketch:
    judge = _Judge(rows, hardware)
    return Sketch(name, sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


# -------------------------------------------------------------------------------- the schedule


def _schedule(sch: Schedule, recorder: Recorder, rows: Rows, hardware: Hardware, parts: tuple[int, ...] = ()) -> None:
    last = rows.blocks[-1]
    vectors = recorder.choose("vectors", _fitting(_VECTORS, rows.length, hardware.lanes)).rv
    computed = [b for b in rows.blocks if not b.reduced and len(b.axes) > rows.kept]
    steps = recorder.choose("steps", _fitting(_STEPS, rows.length, hardware.lanes)).rv if computed else 1
    chains = {b.name: _in_vectors(sch, b, vectors, hardware.lanes) for b in rows.blocks if b.reduced}
    out = sch.get_block(last.name)
    row = sch.get_loops(out)[: rows.kept]
    place: LoopRV | None = row[-1] if row else None
    if row and (parts or rows.count * rows.length >= _SHARED):
        tasks = tuple(t for t in _TASKS if t <= max(1, rows.count // hardware.threads))
        task = recorder.choose("task", tasks).rv
        abreast = [] if computed else [recorder.choose("abreast", _abreast(rows, parts, hardware)).rv]
        outer, place, *_ = sch.split(fuse_all(sch, row), [None, task, *abreast])
        sch.parallel(outer)
    if not last.reduced and len(last.axes) > rows.kept:  # else it is a number a row
        _vectorise(sch, out, sch.get_loops(out)[-(len(last.axes) - rows.kept) :], steps, hardware.lanes)
        if _bytes(last) >= _PAST_CACHES:
            sch.annotate(sch.get_loops(out)[-2], "pragma_nontemporal", 1)
        elif _takes_lines(rows, hardware):
            sch.annotate(sch.get_loops(out)[-2], IN_PLACE, 1)
    for info in reversed(rows.blocks):
        block = sch.get_block(info.name)
        if info is not last and place is not None:
            sch.compute_at(block, place, preserve_unit_loops=True)
        if not info.reduced and info is not last and len(info.axes) > rows.kept:
            _vectorise(sch, block, sch.get_loops(block)[-(len(info.axes) - rows.kept) :], steps, hardware.lanes)
        for partial in reversed(chains.get(info.name, [])):
            _place_partial(sch, partial, place, rows.kept)
    if computed and _asks_ahead(rows, hardware):
        first = sch.get_block(computed[0].name)
        sch.annotate(sch.get_loops(first)[-2], SOFTWARE_PREFETCH, WHOLE_LOOP)


def _asks_ahead(rows: Rows, hardware: Hardware) -> bool:
    """Whether the first pass over a row prefetches the next row, which comes meanwhile.
    There must be many rows, each short enough that the near caches hold two and what is made of them. A vector must
    be a line, and each pass over a row have a loop of its own."""
    whole = rows.length % (hardware.lanes * max(_STEPS)) == 0 and len(rows.blocks[-1].axes) == rows.kept + 1
    widest = max(parse_dtype(i.buffer.dtype).bytes for b in rows.blocks for i in b.inputs)
    held = 8 * rows.length * widest <= hardware.panel_bytes
    return whole and held and rows.count * rows.length >= _STREAMED and _takes_lines(rows, hardware)


def _in_vectors(sch: Schedule, info: BlockInfo, vectors: ExprRV, lanes: int) -> list[BlockRV]:
    """Reduce to `vectors` vectors, these to one, that to a few numbers, and these to one.
    Returns the blocks before the last: numbers one after the other would wait for each other."""
    if lanes < 2:
        return []
    block = sch.get_block(info.name)
    if info.reduced[-1].extent < lanes:
        if not _dense(info):
            return []
        lanes = _even_lanes(math.prod(a.extent for a in info.reduced), lanes)
        if lanes < _FEW_LANES:
            return []
        fuse_all(sch, sch.get_loops(block)[len(info.spatial) :])
    _, vector, lane = sch.split(sch.get_loops(block)[-1], [None, vectors, lanes])
    innermost = len(info.spatial)
    first = sch.rfactor(sch.fuse(vector, lane), innermost, factor_first=False)
    _, lane = sch.split(sch.get_loops(block)[-1], [None, lanes])
    chain = [first, sch.rfactor(lane, innermost, factor_first=False)]
    if lanes > _FEW_LANES and lanes % _FEW_LANES == 0:
        _, lane = sch.split(sch.get_loops(block)[-1], [None, _FEW_LANES])
        chain.append(sch.rfactor(lane, innermost, factor_first=False))
    return chain


def _dense(info: BlockInfo) -> bool:
    """Whether the axes of the reduction are whole last dimensions of what is read, in their order."""
    count = len(info.reduced)
    for access in info.inputs:
        if access.axes.isdisjoint(a.position for a in info.reduced):
            continue
        dims, sizes = access.axes_by_dim[-count:], access.buffer.shape[-count:]
        if not access.straight or [frozenset({a.position}) for a in info.reduced] != list(dims):
            return False
        if [ops.as_int(size) for size in sizes] != [a.extent for a in info.reduced]:
            return False
    return True


def _even_lanes(length: int, most: int) -> int:
    """The most lanes that leave nothing over of so many elements."""
    return max(n for n in range(1, most + 1) if length % n == 0)


def _place_partial(sch: Schedule, partial: BlockRV, place: LoopRV | None, kept: int) -> None:
    """Compute a vector of partial results where its reader is; the lanes are its innermost loop."""
    depth = 0
    if place is not None:
        sch.compute_at(partial, place, preserve_unit_loops=True)
        depth = len(sch.get_loops(partial)) - _own_loops(sch, partial)
    loops = sch.get_loops(partial)[depth:]
    rows, lane, reduced = loops[:kept], loops[kept], loops[kept + 1 :]
    sch.reorder(*reduced, *rows, lane)
    if place is not None:
        for row in rows:
            sch.unroll(row)
    sch.vectorize(lane)


def _own_loops(sch: Schedule, block: BlockRV) -> int:
    return len(sch.get(block).iter_vars)


def _vectorise(sch: Schedule, block: BlockRV, loops: Sequence[LoopRV], steps: ExprRV | int, lanes: int) -> None:
    last = fuse_all(sch, loops)
    _, step, lane = sch.split(last, [None, steps, lanes])
    sch.vectorize(sch.fuse(step, lane))


def _fitting(counts: tuple[int, ...], length: int, lanes: int) -> tuple[int, ...]:
    return tuple(c for c in counts if c * lanes <= length) or (1,)


def _abreast(rows: Rows, parts: tuple[int, ...], hardware: Hardware) -> tuple[int, ...]:
    """How many rows (or parts) can be read at the same time, none left over."""
    extents = [a.extent for a in rows.blocks[-1].axes[: rows.kept] if a.extent > 1]
    counts = parts or (extents[-1] if extents else 1,)
    known = _LINES_ABREAST if _takes_lines(rows, hardware) else _ABREAST
    return tuple(a for a in known if any(count % a == 0 for count in counts))


def _takes_lines(rows: Rows, hardware: Hardware) -> bool:
    """Whether a vector of what is read is a cache line."""
    narrowest = min(parse_dtype(i.buffer.dtype).bytes for b in rows.blocks for i in b.inputs)
    return hardware.lanes * narrowest >= _LINE


def _bytes(info: BlockInfo) -> int:
    return math.prod(a.extent for a in info.spatial) * parse_dtype(info.output.buffer.dtype).bytes


# ------------------------------------------------------------------------ constraints and draft


@dataclass(frozen=True)
class _Judge:
    rows: Rows
    hardware: Hardware

    def allowed(self, values: Values) -> bool:
        """Partial results fit the registers; parts are read in whole groups."""
        abreast = values.get("abreast", 1)
        whole = values.get("parts", abreast) % abreast == 0
        return whole and max(abreast * values["vectors"], values.get("steps", 1)) <= self.hardware.registers

    def draft(self, values: Values) -> float:
        """Score a point by independent operations and streams of memory under way, and by its tasks.
        They should be large enough to hand out, and spread evenly."""
        abreast, parts = values.get("abreast", 1), values.get("parts", 1)
        latency = min(1.0, values["vectors"] * abreast / 8) * (0.6 + 0.4 * min(1.0, values.get("steps", 4) / 4))
        streams = min(1.0, 0.7 + 0.1 * abreast) if "abreast" in values else 1.0
        task = values.get("task", 1) * abreast
        tasks = -(-self.rows.count * parts // task)
        rounds = -(-tasks // self.hardware.threads)
        work = task * self.rows.length / parts
        return latency * streams * tasks / (rounds * self.hardware.threads) * work / (work + 2048)
