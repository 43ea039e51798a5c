"""Threads for blocks without tiles: elementwise functions, and reductions by single threads."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockInfo, blocks_of
from tuner.space.cpu.elementwise import inline_chains
from tuner.space.gpu.hardware import Chip
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_THREADS = (64, 128, 256, 512, 1024)
_VECTORS = (1, 2, 4, 8)
_STEPS = (1, 2, 4, 8)
_LOAD_BYTES = 16
_ENOUGH_BYTES = 32 << 10  # on their way to a multiprocessor, to hide what a load takes
_BUSY = 256  # threads of a block of which nothing is decided


def is_bound(sch: Schedule, block: BlockRV) -> bool:
    return any(sch.get(loop).thread_binding is not None for loop in sch.get_loops(block))


def bind_results(sch: Schedule, block: BlockRV, info: BlockInfo) -> None:
    """A thread for each result of a block that has no threads yet; neighbours in memory go to neighbours.

    Axes are split before they are fused, so that each thread's results are plain to see.
    """
    if is_bound(sch, block):
        return
    loops = sch.get_loops(block)
    spatial = [loop for loop, axis in zip(loops, info.axes) if not axis.reduce]
    if not spatial:
        sch.bind(sch.add_unit_loop(loops[0]), "blockIdx.x")
        return
    sch.reorder(*spatial, *(loop for loop, axis in zip(loops, info.axes) if axis.reduce))
    *around, last = spatial
    width = min(_BUSY, info.spatial[-1].extent)
    rest, x = sch.split(last, [None, width])
    inner = [x]
    if around and (height := min(_BUSY // width, info.spatial[-2].extent)) > 1:
        above, y = sch.split(around.pop(), [None, height])
        sch.bind(y, "threadIdx.y")
        around, inner = [*around, above], [y, x]
    sch.reorder(*around, rest, *inner)
    sch.bind(sch.fuse(*around, rest) if around else rest, "blockIdx.x")
    sch.bind(x, "threadIdx.x")


def inline_padding(sch: Schedule) -> None:
    """Compute the padding of an operand where it is read.
    A thread that skips a load costs less than a pass over memory."""
    outputs = set(sch.func.buffer_map.values())
    for info in blocks_of(sch.func):
        if info.injective and info.conditional and info.output.buffer not in outputs:
            sch.compute_inline(sch.get_block(info.name))


def elementwise_sketch(func: PrimFunc, chip: Chip) -> Sketch | None:
    """Return the sketch with a thread for `steps` vectors of results, a block apart.
    Several loads are then under way at once."""
    sch = Schedule(func)
    inline_chains(sch)
    blocks = blocks_of(sch.func)
    if not blocks or not all(info.injective for info in blocks):
        return None
    recorder = Recorder(sch)
    last = blocks[-1]
    judge = ElementwiseJudge(last.points, parse_dtype(last.output.buffer.dtype).bytes, chip)
    try:
        for info in blocks[:-1]:
            bind_results(sch, sch.get_block(info.name), info)
        _spread(sch, recorder, last, judge)
    except ScheduleError:
        return None
    return Sketch("threads", sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _spread(sch: Schedule, recorder: Recorder, info: BlockInfo, judge: ElementwiseJudge) -> None:
    block_threads, most = judge.chip.block_threads, judge.most
    vectors = tuple(
        v for v in _VECTORS if v * judge.element <= _LOAD_BYTES and judge.size % v == 0 and v * _THREADS[0] <= most
    )
    threads = recorder.choose("threads", tuple(t for t in _THREADS if t <= min(block_threads, most))).rv
    vector = recorder.choose("vector", vectors).rv
    step = recorder.choose("steps", tuple(s for s in _STEPS if s * _THREADS[0] <= most)).rv
    fused = fuse_all(sch, sch.get_loops(sch.get_block(info.name)))
    outer, turn, thread, lane = sch.split(fused, [None, step, threads, vector])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.unroll(turn)
    sch.vectorize(lane)


@dataclass(frozen=True, slots=True)
class ElementwiseJudge:
    """Judges how `size` results of `element` bytes are given to threads."""

    size: int
    element: int
    chip: Chip

    @property
    def most(self) -> int:
        """Results of one block."""
        return max(self.size, _THREADS[0])

    def allowed(self, values: Values) -> bool:
        """Threads have something to do, and registers for it."""
        return self._resident(values) >= 1 and _each(values) * values["threads"] <= self.most

    def draft(self, values: Values) -> float:
        """Enough bytes on their way; blocks for every multiprocessor."""
        blocks = -(-self.size // (_each(values) * values["threads"]))
        resident = self._resident(values)
        flight = resident * values["threads"] * _each(values) * self.element
        wide = 0.7 + 0.3 * min(1.0, values["vector"] * self.element / _LOAD_BYTES)
        return self.chip.filled(blocks, resident) * min(1.0, flight / _ENOUGH_BYTES) * wide

    def _resident(self, values: Values) -> int:
        registers = 24 + 2 * -(-_each(values) * self.element // 4)  # addresses, two operands
        return self.chip.resident(values["threads"], registers, 0)


def _each(values: Values) -> int:
    """Results of a thread."""
    return values["vector"] * values["steps"]
