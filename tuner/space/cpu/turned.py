"""Sketches for functions that transpose: they read along memory and write across it.

    for tile in parallel:
      for i in rows:                   neighbours of the operand: a tile reads whole cache lines of it
        for j in vectors of columns:   neighbours of the result
          y[i, j] = x[j, i]

In tiles, a line that is read serves `rows` results before it leaves the cache; row by row it serves one.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAxis, BlockInfo, blocks_of
from tuner.space.cpu.elementwise import inline_chains
from tuner.space.cpu.hardware import Hardware
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values, anything

_ROWS = (4, 8, 16, 32)
_VECTORS = (1, 2, 4)  # of a tile's columns
_SMALL = 4096  # elements below which threads cost more than they save
_LINE = 64  # bytes


@dataclass(frozen=True)
class TurnedProduct:
    """The block, the axis that is read along memory, the one that is written along it."""

    info: BlockInfo
    read: BlockAxis
    written: BlockAxis


def turn_of(func: PrimFunc) -> TurnedProduct | None:
    """How `func`, a single block, turns dimensions around; None where it does not."""
    blocks = blocks_of(func)
    if len(blocks) != 1 or not blocks[0].injective or not blocks[0].axes:
        return None
    [info] = blocks
    written = info.axes[-1]
    if info.output.innermost != {written.position}:
        return None
    for access in sorted(info.inputs, key=lambda a: -len(a.axes)):
        inner = access.innermost
        if len(inner) == 1 and written.position in access.axes and written.position not in inner:
            return TurnedProduct(info, info.axes[next(iter(inner))], written)
    return None


def turned_sketch(func: PrimFunc, hardware: Hardware) -> Sketch | None:
    """Return the sketch of a function that transposes.
    None for others, and for dimensions of a few elements."""
    sch = Schedule(func)
    inline_chains(sch)
    turn = turn_of(sch.func)
    if turn is None or hardware.lanes < 2:
        return None
    rows = _fitting(turn.read, _ROWS)
    columns = _fitting(turn.written, tuple(v * hardware.lanes for v in _VECTORS))
    if not rows or not columns:
        return None
    recorder = Recorder(sch)
    try:
        _schedule(sch, recorder, turn, rows, columns)
    except ScheduleError:
        return None
    judge = _Judge(turn, hardware)
    return Sketch("turned", sch.trace, tuple(recorder.decisions), anything, judge.draft)


def _fitting(axis: BlockAxis, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of tiles that leave little over at the edge."""
    return tuple(size for size in sizes if size <= axis.extent and -(-axis.extent // size) * size <= 1.5 * axis.extent)


def _schedule(
    sch: Schedule, recorder: Recorder, turn: TurnedProduct, rows: tuple[int, ...], columns: tuple[int, ...]
) -> None:
    loops = list(sch.get_loops(sch.get_block(turn.info.name)))
    read, written = loops[turn.read.position], loops[turn.written.position]
    rest = [loop for loop in loops if loop not in (read, written)]
    outer, row = sch.split(read, [None, recorder.choose("rows", rows).rv])
    across, column = sch.split(written, [None, recorder.choose("columns", columns).rv])
    sch.reorder(*rest, outer, across, row, column)
    sch.vectorize(column)
    if turn.info.points >= _SMALL:
        sch.parallel(fuse_all(sch, [*rest, outer]))


@dataclass(frozen=True)
class _Judge:
    turn: TurnedProduct
    hardware: Hardware

    def draft(self, values: Values) -> float:
        """Whether whole lines are read, and a tile needs no more of them at one distance than a cache holds."""
        size = parse_dtype(self.turn.info.output.buffer.dtype).bytes
        lines = min(1.0, values["rows"] * size / _LINE)
        whole = all(axis.extent % values[name] == 0
                    for axis, name in ((self.turn.read, "rows"), (self.turn.written, "columns")))  # fmt: skip
        crowd = min(1.0, 16 / values["columns"])
        return lines * crowd * (1.0 if whole else 0.7)
