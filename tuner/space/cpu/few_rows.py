"""Products of a few rows by a matrix, both along the sum in memory, as in a dense layer.

    for group of rows of W, in parallel:
      for tile of rows of A × rows of W:
        for k: part[tile, lanes] += A[i, k, lanes] · W[j, k, lanes]     both are read straight on
        sum[tile] = the sum of part

Packing W so that vectors run along its rows takes as long as some 20 rows of A. Here nothing is copied. The price is
a sum of lanes for each result, so long sums gain most.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.lower.blocks.split_preproc import layout_free
from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockInfo, blocks_of, epilogue_of
from tuner.space.cpu.elementwise import inline_chains
from tuner.space.cpu.hardware import Hardware
from tuner.space.cpu.roles import Roles
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

MOST_ROWS = 32
"""Rows of A up to which this can be as fast as packing W."""
ALONE_UP_TO = 8
"""Rows of A up to which packing W is slower by far."""
_VECTORS = 8  # of a sum: of a shorter one, adding up lanes takes as long as the products
_TILE_ROWS = (1, 2, 3, 4, 5, 6, 7, 8)
_ABREAST = (1, 2, 3, 4, 6, 8)  # rows of W read at the same time
_TASKS = (1, 2, 4, 8, 16, 32, 64)  # groups of them that a thread takes at a time
_BUSY = 8  # accumulators that keep two multiply-add units busy
_SUM_OF_LANES = 8.0  # instructions
_PACKING = 20  # rows of A in whose time W is packed


def few_rows_sketch(func: PrimFunc, main: BlockInfo, roles: Roles, hardware: Hardware) -> Sketch | None:
    """Return the sketch of a float32 product of 2 to 32 rows.
    None for another function, and where W can be packed ahead of all calls."""
    if not _is_product(func, main, roles, hardware):
        return None
    sch = Schedule(func)
    inline_chains(sch)
    blocks = blocks_of(sch.func)
    epilogue = epilogue_of(sch.func, main, blocks)
    if {b.name for b in blocks} - {main.name, epilogue}:
        return None
    recorder = Recorder(sch)
    try:
        _schedule(sch, recorder, main, epilogue, hardware)
    except ScheduleError:
        return None
    judge = _Judge(main, hardware)
    return Sketch("rows+few", sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _is_product(func: PrimFunc, info: BlockInfo, roles: Roles, hardware: Hardware) -> bool:
    """Whether each operand is a matrix of rows along the sum, with a row of the first for each result row."""
    if len(info.inputs) != 2 or len(info.axes) != 3 or len(info.reduced) != 1 or hardware.lanes < 2:
        return False
    rows, columns, total = info.axes
    if not total.reduce or roles.m != rows or roles.v != columns or not 2 <= rows.extent <= MOST_ROWS:
        return False
    if any(i.buffer.dtype != "float32" for i in (info.output, *info.inputs)):
        return False
    if any(i.buffer in layout_free(func) for i in info.inputs) or total.extent < _VECTORS * hardware.lanes:
        return False
    read = [list(i.axes_by_dim) for i in info.inputs]
    wanted = [[frozenset({a.position}), frozenset({total.position})] for a in (rows, columns)]
    return info.contraction and sorted(map(str, read)) == sorted(map(str, wanted))


def _schedule(sch: Schedule, recorder: Recorder, main: BlockInfo, epilogue: str | None, hardware: Hardware) -> None:
    block = sch.get_block(main.name)
    _, lane = sch.split(sch.get_loops(block)[2], [None, hardware.lanes])
    part = sch.rfactor(lane, 2, factor_first=False)
    last = sch.get_block(epilogue or main.name)
    rows, columns = sch.get_loops(last)[:2]
    extents = [axis.extent for axis in main.axes]
    tile_rows = recorder.choose("rows", tuple(r for r in _TILE_ROWS if r <= extents[0])).rv
    task = recorder.choose("task", tuple(t for t in _TASKS if t <= max(1, extents[1] // hardware.threads))).rv
    abreast = recorder.choose("abreast", tuple(a for a in _ABREAST if extents[1] % a == 0)).rv
    group, step, column = sch.split(columns, [None, task, abreast])
    outer, inner = sch.split(rows, [None, tile_rows])
    sch.reorder(group, step, outer, inner, column)
    sch.parallel(group)
    if epilogue is not None:
        sch.compute_at(sch.get_block(main.name), outer, preserve_unit_loops=True)
    sch.compute_at(part, outer, preserve_unit_loops=True)
    *_, row, column, lane, along = sch.get_loops(part)
    sch.reorder(along, row, column, lane)
    sch.unroll(row)
    sch.unroll(column)
    sch.vectorize(lane)


@dataclass(frozen=True)
class _Judge:
    main: BlockInfo
    hardware: Hardware

    def allowed(self, values: Values) -> bool:
        """Partial sums, one operand's vectors and one of the other fit the registers."""
        rows, abreast = values["rows"], values["abreast"]
        beside = 1 if 1 in (rows, abreast) else min(rows, abreast) + 1
        return rows * abreast + beside <= self.hardware.registers

    def draft(self, values: Values) -> float:
        """Score a point by arithmetic per load, sums under way, few sums of lanes, whole tiles, and balance.
        Tasks should be spread evenly. Drafts of sketches that pack leave out the packing, so this one gains by the
        packing's time."""
        rows, abreast = values["rows"], values["abreast"]
        tile, most = rows * abreast, self.main.axes[0].extent
        whole = most / (-(-most // rows) * rows)
        steps = self.main.axes[2].extent / self.hardware.lanes
        loads = 1.0 / max(1.0, (rows + abreast) / tile)
        lanes = steps / (steps + _SUM_OF_LANES)
        tasks = -(-self.main.axes[1].extent // (values["task"] * abreast))
        rounds = -(-tasks // self.hardware.threads)
        even = tasks / (rounds * self.hardware.threads)
        packing = (most + _PACKING) / most
        return min(1.0, tile / _BUSY) * loads * lanes * whole * even * packing * tasks / (tasks + 1)
