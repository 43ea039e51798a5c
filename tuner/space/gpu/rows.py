"""Sketches of rows for GPUs.

Reductions along memory and what is computed from them, by warps and by blocks.

    for rows, `group` to a block:             blockIdx, threadIdx.y
      sum[row] = all threads of the row       threadIdx.x: shuffles in a warp, shared memory between warps
      y[row, ...] = f(x[row, ...], sum[row])  neighbours write neighbours, `vector` each

With 32 threads to a row a warp does it alone, without a barrier. `kept`: the row is read once, into shared memory, and
every pass over it takes it from there. A reduction of few rows is cut in parts first.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockInfo, blocks_of
from tuner.space.cpu.elementwise import inline_chains
from tuner.space.cpu.rows import Rows, rows_of
from tuner.space.gpu.hardware import WARP, Chip
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_THREADS = (32, 64, 128, 256, 512, 1024)  # of a row
_GROUPS = (1, 2, 4, 8)  # rows of a block
_VECTORS = (1, 2, 4, 8)
_PARTS = (16, 32, 64, 128, 256, 512, 1024)
_LOAD_BYTES = 16
_LONG = 1 << 15  # a row that one block would take long over
_PASS_REGISTERS = 32


def gpu_row_sketches(func: PrimFunc, chip: Chip) -> tuple[Sketch, ...]:
    """The sketches of a function made of rows; none when it is not."""
    sch = Schedule(func)
    inline_chains(sch)
    rows = rows_of(sch.func)
    if rows is None:
        return ()
    made = [_by_rows(sch.copy(), rows, chip, None)]
    kept = _read_again(sch, rows, chip)
    if kept is not None:
        made.append(_by_rows(sch.copy(), rows, chip, kept))
    if len(rows.blocks) == 1 and rows.count < chip.multiprocessors and rows.length >= _LONG:
        made.append(_by_parts(sch.copy(), rows, chip))
    return tuple(sketch for sketch in made if sketch is not None)


def _read_again(sch: Schedule, rows: Rows, chip: Chip) -> BlockAccess | None:
    """The argument whose rows several passes read, where a row fits shared memory."""
    arguments = set(sch.func.buffer_map.values())
    for access in rows.blocks[0].inputs:
        readers = [b for b in rows.blocks if any(i.buffer is access.buffer for i in b.inputs)]
        size = rows.length * parse_dtype(access.buffer.dtype).bytes
        if access.buffer in arguments and len(readers) > 1 and size <= chip.block_shared // 2:
            return access
    return None


def _by_rows(sch: Schedule, rows: Rows, chip: Chip, kept: BlockAccess | None) -> Sketch | None:
    recorder = Recorder(sch)
    try:
        _schedule(sch, recorder, rows, chip, kept)
    except ScheduleError:  # a block reads more than its own row
        return None
    judge = RowJudge(rows, chip, kept is not None)
    name = "rows" if kept is None else "rows+kept"
    return Sketch(name, sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _by_parts(sch: Schedule, rows: Rows, chip: Chip) -> Sketch | None:
    """Parts of the one reduction by blocks; one block adds them up."""
    [info] = rows.blocks
    cut = max(info.reduced, key=lambda a: a.extent)
    parts = tuple(p for p in _PARTS if p * WARP <= cut.extent)
    if not parts:
        return None
    recorder = Recorder(sch)
    block = sch.get_block(info.name)
    try:
        outer, _ = sch.split(sch.get_loops(block)[cut.position], [recorder.choose("parts", parts).rv, None])
        part = sch.rfactor(outer, 0, factor_first=False)
        name = sch.get(part).name_hint
        found = next(b for b in blocks_of(sch.func) if b.name == name)
        total = next(b for b in blocks_of(sch.func) if b.name == info.name)
        _schedule(sch, recorder, Rows((found,), len(found.spatial)), chip, None)
        _sum_of_parts(sch, sch.get_block(info.name), total)
    except ScheduleError:
        return None
    judge = RowJudge(rows, chip, False)
    return Sketch("parts", sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _sum_of_parts(sch: Schedule, block: BlockRV, info: BlockInfo) -> None:
    """A warp for each result."""
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    reduced = [loops[a.position] for a in info.reduced]
    spatial = [loops[a.position] for a in info.spatial]
    sch.reorder(*spatial, *reduced)
    if spatial:
        sch.bind(fuse_all(sch, spatial), "blockIdx.x")
    else:
        sch.bind(sch.add_unit_loop(reduced[0]), "blockIdx.x")
    _, lane = sch.split(fuse_all(sch, reduced), [None, WARP])
    sch.bind(lane, "threadIdx.x")


# -------------------------------------------------------------------------------- the schedule


def _schedule(sch: Schedule, recorder: Recorder, rows: Rows, chip: Chip, kept: BlockAccess | None) -> None:
    last = rows.blocks[-1]
    fitting = tuple(t for t in _THREADS if t <= chip.block_threads and (t == WARP or t <= rows.length))
    threads = recorder.choose("threads", fitting).rv
    groups = _GROUPS if rows.kept == 1 else (1,)  # rows of two indices, some of them, are no simple region
    group = recorder.choose("group", tuple(g for g in groups if g <= max(1, rows.count))).rv
    out = sch.get_block(last.name)
    copy = None if kept is None else _keep(sch, rows, kept)
    row = sch.get_loops(out)[: rows.kept]
    fused = fuse_all(sch, row) if row else sch.add_unit_loop(out)
    place, own = sch.split(fused, [None, group])
    sch.bind(place, "blockIdx.x")
    sch.bind(own, "threadIdx.y")
    if last.reduced:
        _share(sch, sch.get_loops(out)[2:], threads)
    else:
        element = parse_dtype(last.output.buffer.dtype).bytes
        vectors = tuple(v for v in _VECTORS if v * element <= _LOAD_BYTES and last.axes[-1].extent % v == 0)
        _spread(sch, sch.get_loops(out)[2:], threads, recorder.choose("vector", vectors).rv)
    for info in reversed(rows.blocks[:-1]):
        block = sch.get_block(info.name)
        sch.set_scope(block, 0, "shared")
        inner = _row_by_row(sch, block, place, rows)
        if info.reduced:
            _share(sch, inner, threads)
        else:
            _spread(sch, inner, threads, 1)
    if copy is not None and kept is not None:
        _spread(sch, _row_by_row(sch, copy, place, rows), threads, _kept_vector(rows, kept))


def _row_by_row(sch: Schedule, block: BlockRV, place: LoopRV, rows: Rows) -> list[LoopRV]:
    """Compute a block for the rows of a block of threads; the loops inside a row."""
    sch.compute_at(block, place, preserve_unit_loops=True)
    loops = sch.get_loops(block)[1:]
    row, inner = loops[: rows.kept], loops[rows.kept :]
    if row:
        sch.bind(fuse_all(sch, row), "threadIdx.y")
    return inner


def _keep(sch: Schedule, rows: Rows, kept: BlockAccess) -> BlockRV:
    """A copy in shared memory for all blocks that read `kept`."""
    readers = [sch.get_block(b.name) for b in rows.blocks if any(i.buffer is kept.buffer for i in b.inputs)]
    first = readers[0]
    return sch.cache_read(first, sch.read_index(first, kept.buffer.name), "shared", readers)


def _kept_vector(rows: Rows, kept: BlockAccess) -> int:
    most = _LOAD_BYTES // parse_dtype(kept.buffer.dtype).bytes
    return next(v for v in (8, 4, 2, 1) if v <= most and rows.length % v == 0)


def _share(sch: Schedule, reduced: list[LoopRV], threads: ExprRV) -> None:
    """The threads of a row reduce together, neighbours taking neighbours."""
    fused = fuse_all(sch, reduced)
    _, lane = sch.split(fused, [None, threads])
    sch.bind(lane, "threadIdx.x")


def _spread(sch: Schedule, loops: list[LoopRV], threads: ExprRV, vector: ExprRV | int) -> None:
    fused = fuse_all(sch, loops)
    _, thread, lane = sch.split(fused, [None, threads, vector])
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)


# ------------------------------------------------------------------------ constraints and draft


@dataclass(frozen=True, slots=True)
class RowJudge:
    """Judges how rows are given to threads."""

    rows: Rows
    chip: Chip
    kept: bool

    def allowed(self, values: Values) -> bool:
        """Whether a block's threads and its kept rows fit, and a row has work for its threads."""
        threads = values["threads"] * values["group"]
        if threads > self.chip.block_threads or (values["threads"] > WARP and values["threads"] > self._length(values)):
            return False
        return self.chip.resident(threads, _PASS_REGISTERS, self._shared(values)) >= 1

    def draft(self, values: Values) -> float:
        """Score a point by threads with loads under way, few waits, and little that is read again."""
        threads = values["threads"] * values["group"]
        blocks = -(-self.rows.count * values.get("parts", 1) // values["group"])
        resident = self.chip.resident(threads, _PASS_REGISTERS, self._shared(values))
        each = self._length(values) / values["threads"]
        waiting = each / (each + (1 if values["threads"] == WARP else 4))  # what a reduction's end costs
        wide = 0.8 + 0.2 * min(1.0, values.get("vector", 4) / 4)
        again = 1.0 if self.kept or len(self.rows.blocks) == 1 else 0.7
        busy = min(1.0, resident * threads / (self.chip.threads / 2))
        return self.chip.filled(blocks, max(1, resident)) * waiting * wide * again * busy

    def _length(self, values: Values) -> float:
        return self.rows.length / values.get("parts", 1)

    def _shared(self, values: Values) -> int:
        inner = sum(1 for b in self.rows.blocks[:-1] if not b.reduced)  # rows that are handed on
        element = max(parse_dtype(b.output.buffer.dtype).bytes for b in self.rows.blocks)
        return values["group"] * self.rows.length * element * (inner + self.kept)
