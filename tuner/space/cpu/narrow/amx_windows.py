"""Sketches of convolutions of narrow numbers on Intel's matrix unit (AMX), and of batches of products.

Channels lie last in images and results. Neighbouring pixels of a row are the rows of a tile, loaded from the image as
they lie, and filters are packed:

    W[r, s, c, f]  →  filters[f // 16, r, s, c // 32, c % 32 // 2, f % 16, c % 2]           (bytes: 64, and groups of 4)
    lines × rows × columns tiles of sums, for all r, s and 32 c:
        out[y ..., 14 x ..., 16 f ...] += image[y + r, 14 x + s, 32 c ...] · filters[f, r, s, c]

Tiles have as many rows as divide an image's row (14 of 56). An instruction takes 16 cycles for any number of rows.
Where an image has few channels, a row of a tile is a part of the image's row, as wide as a window and the zeros beside
it: rows overlap. A batch of products is the same with rows of matrices, and its columns are packed at each call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, Schedule
from compiler.target.target import Target
from compiler.tir.intrin.amx import ROW_STEPS, TILE, TILE_GROUPS, TILE_ROWS, left_tile_name, tile_name
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAxis, BlockInfo, blocks_of, epilogue_of
from tuner.space.cpu.narrow.amx import UNITS, TileUnit
from tuner.space.cpu.narrow.amx_filled import fill_tiles, filled_rows, line_axis
from tuner.space.cpu.narrow.dots import Grouped, begin, grouped, moved_by, pack_groups, spread_others
from tuner.space.cpu.roles import Roles, assign_roles
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_TILES = 8  # registers
_SPEED = 8.0  # of a tile's instruction, beside those on vectors
_COUNTS = (1, 2, 3, 4)
_PANELS = (1, 2, 4, 8, 16)
_UNROLLS = (1, 2)
_TILE_BYTES = 1024
_PRODUCT, _NEAR, _FAR = 16.0, 20.0, 60.0  # cycles: of a product, of a tile from near caches, of one from beyond
_NEAR_BYTES = 1 << 19  # a quarter of the second-level cache of all CPUs with the unit
_FINISH = 160.0  # cycles that storing a whole tile of sums and what follows take
_COPY = 64.0  # and copying a tile of rows


def window_unit_for(info: BlockInfo, roles: Roles, target: Target) -> TileUnit | None:
    """The unit of `target` that can compute `info`, a convolution or a batch of products with whole tiles."""
    work = _by_pixels(info, roles)
    if work is None or not (_has_tiles(info, work) or _fills_more(info, work)):
        return None
    dtypes = (info.output.buffer.dtype, work.scalar.buffer.dtype, work.vector.buffer.dtype)
    for unit in UNITS:
        whole = not (work.roles.v.extent % TILE or work.k.extent % unit.depth)
        if whole and unit.dtypes == dtypes and unit.feature in target.features:
            return unit
    return None


def tile_windows_sketches(func: PrimFunc, name: str, unit: TileUnit, target: Target) -> list[Sketch]:
    """The sketches that use `unit`, with rows as they lie, and with tiles that are filled by a copy."""
    begun = _begin(func, name)
    if begun is None:
        return []
    info, work = begun.info, begun.work
    found = [_sketch(func, name, unit, target, *left) for left in _left_names(work) if _has_tiles(info, work)]
    made = [sketch for sketch in found if sketch is not None][:1]
    filled = _sketch(func, name, unit, target, "rows", 1, filled=True) if _fills_more(info, work) else None
    return made if filled is None else [*made, filled]


def _has_tiles(info: BlockInfo, work: Grouped) -> bool:
    """Whether rows that lie as they are make tiles. Those of two matrices have a sketch of their own."""
    return len(info.output.axes_by_dim) > 2 and bool(_left_names(work)) and _tile_rows(work) is not None


def _fills_more(info: BlockInfo, work: Grouped) -> bool:
    """Whether tiles have more rows if all pixels are in one row."""
    share = _all_rows(info, work) / filled_rows(info, work)
    return work.m.extent % TILE != 0 and share > (_tile_rows(work) or TILE // 2) / TILE


def _by_pixels(info: BlockInfo, roles: Roles) -> Grouped | None:
    """The product whose rows are the pixels of a line, which come before channels in the result."""
    work, before = grouped(info, roles), info.output.axes_by_dim[-2:-1]
    if (
        work is None
        or info.output.axes_by_dim[-1] != {work.roles.v.position}
        or len(before) != 1
        or len(before[0]) != 1
    ):
        return None
    row = info.axes[min(before[0])]
    if row.reduce or row.position not in work.scalar.axes or row.position in work.vector.axes:
        return None
    others = tuple(a for a in info.spatial if a not in (row, work.roles.v, *work.batch))
    return replace(work, roles=replace(work.roles, m=row, others=others))


def _left_names(work: Grouped) -> list[tuple[str, int]]:
    """How the rows of a tile may lie in memory, and their steps; none where they lie in no such way.
    Rows that follow each other in the last dimension overlap. The steps of others are found by trying."""
    dims = [dim for dim, axes in enumerate(work.scalar.axes_by_dim) if work.m.position in axes]
    last = len(work.scalar.axes_by_dim) - 1
    if len(dims) != 1:
        return []
    lie = {0: "along", 1: "rows", 2: "apart"}.get(last - dims[0])
    step = dict(work.scalar.steps).get(work.m.position)
    if lie == "along" and step not in ROW_STEPS[lie]:
        return []
    return [] if lie is None else [(lie, s) for s in ROW_STEPS[lie] if lie != "along" or s == step]


def _tile_rows(work: Grouped) -> int | None:
    """The rows of a tile: the most that divide a row of the image."""
    return next((rows for rows in TILE_ROWS if work.m.extent % rows == 0), None)


def _sketch(
    func: PrimFunc, name: str, unit: TileUnit, target: Target, lie: str, step: int, *, filled: bool = False
) -> Sketch | None:
    begun = _begin(func, name)
    if begun is None:
        return None
    sch, recorder, epilogue = begun.sch, begun.recorder, epilogue_of(begun.sch.func, begun.info, begun.blocks)
    rows, last = _all_rows(begun.info, begun.work), None
    try:
        if filled:
            last = fill_tiles(sch, begun.info, begun.work, epilogue)
            begun = _as_it_is(sch, recorder, name, begun.moved)
        height = None if begun is None else _tile_rows(begun.work)
        if begun is None or height is None:
            return None
        spread_others(sch, {name, epilogue if last is None else sch.get(last).name_hint, *begun.moved}, target)
        writer = _writer(sch, name, epilogue) if last is None else last
        _tile(begun, unit, writer, height, left_tile_name(unit.intrin, lie, height, step))
    except ScheduleError:
        return None
    info, work = begun.info, begun.work
    full = rows / work.m.extent if filled else height / TILE
    threads = max(1, target.num_cores or 1)
    column_tiles, row_tiles = work.roles.v.extent // TILE, work.m.extent // height
    above = _above(work)
    lines = 1 if above is None else above.extent
    around = math.prod(a.extent for a in (*work.batch, *work.roles.others) if a is not above)
    depth = math.prod(a.extent for a in info.reduced) // unit.depth

    def allowed(values: Values) -> bool:
        """Whether tiles and panels are whole, and the sums and reused operands fit the registers."""
        down, columns = values["rows"] * values["lines"], values["columns"]
        if row_tiles % values["rows"] or lines % values["lines"] or column_tiles % (columns * values["panel"]):
            return False
        return down * columns + min(down, columns) + 1 <= _TILES

    def draft(values: Values) -> float:
        """Score a point by the tiles read for each product, where they come from, and the tasks of threads.
        All lines of the image read the same panels of filters, and all panels the same copy of rows."""
        down, columns = values["rows"] * values["lines"], values["columns"]
        width = columns * values["panel"]
        columns_far = width * depth * _TILE_BYTES > _NEAR_BYTES
        rows_far = filled and row_tiles * depth * _TILE_BYTES > _NEAR_BYTES
        loads = (_FAR if columns_far else _NEAR) / down + (_FAR if rows_far else _NEAR) / columns
        chunks = column_tiles // width * around * (lines // values["lines"])
        balance = chunks / (-(-chunks // threads) * threads)
        finish = _FINISH * height / TILE / depth
        cycles = max(_PRODUCT, loads) + loads / 8 + finish + filled * _COPY / column_tiles
        return _SPEED * full * _PRODUCT / cycles * balance

    name = f"{unit.intrin}_{'filled' if filled else 'windows'}"
    return Sketch(name, sch.trace, tuple(recorder.decisions), allowed, draft)


@dataclass(frozen=True)
class _Begun:
    """A sketch that has begun: its product, and the blocks that move the product's columns."""

    sch: Schedule
    recorder: Recorder
    blocks: tuple[BlockInfo, ...]
    info: BlockInfo
    work: Grouped
    moved: tuple[str, ...]


def _begin(func: PrimFunc, name: str) -> _Begun | None:
    """Begin a sketch, in which the block reads its rows from where they were before they were moved.
    None where it is no product that the unit computes."""
    sch, recorder, _, _ = begin(func, name)
    begun = _as_it_is(sch, recorder, name)
    if begun is None:
        return None
    movers = {mover: sch.get(sch.get_block(mover)).writes[0].buffer for mover in moved_by(sch, begun.info, begun.work)}
    rows = [mover for mover, buffer in movers.items() if buffer is begun.work.scalar.buffer]
    for mover in rows:
        sch.compute_inline(sch.get_block(mover))
    return _as_it_is(sch, recorder, name, tuple(mover for mover in movers if mover not in rows))


def _as_it_is(sch: Schedule, recorder: Recorder, name: str, moved: tuple[str, ...] = ()) -> _Begun | None:
    """The product that the block `name` is now; None where it is none."""
    blocks = blocks_of(sch.func)
    info = next(b for b in blocks if b.name == name)
    roles = assign_roles(info)
    work = None if roles is None else _by_pixels(info, roles)
    return None if work is None else _Begun(sch, recorder, blocks, info, work, moved)


def _all_rows(info: BlockInfo, work: Grouped) -> int:
    """The rows of an image or a matrix."""
    above = line_axis(info, work)
    return work.m.extent * (1 if above is None else above.extent)


def _writer(sch: Schedule, name: str, epilogue: str | None) -> BlockRV:
    """The block that copies finished tiles, and computes what follows."""
    writer = sch.cache_write(sch.get_block(name), 0, "global")
    if epilogue is not None:
        sch.reverse_compute_inline(sch.get_block(epilogue))
    return writer


def _above(work: Grouped) -> BlockAxis | None:
    """The axis of the image's lines: the last of those beside the rows."""
    return next((a for a in reversed(work.roles.others) if a.extent > 1), None)


def _tile(begun: _Begun, unit: TileUnit, writer: BlockRV, height: int, intrin: str) -> None:
    """Schedule the convolution; `writer` copies finished tiles.
    Columns are packed from where they were before they were moved."""
    sch, recorder, info, work = begun.sch, begun.recorder, begun.info, begun.work
    block = sch.get_block(info.name)
    roles, above = work.roles, _above(work)
    copy = sch.cache_write(block, 0, "local")
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    most, row_tiles = roles.v.extent // TILE, work.m.extent // height
    rows = recorder.choose("rows", tuple(r for r in _COUNTS if row_tiles % r == 0)).rv
    high = 1 if above is None else above.extent
    lines = recorder.choose("lines", tuple(c for c in _COUNTS if high % c == 0)).rv
    columns = recorder.choose("columns", tuple(c for c in _COUNTS if most % c == 0)).rv
    panel = recorder.choose("panel", tuple(p for p in _PANELS if p <= most)).rv
    unroll = recorder.choose("unroll", tuple(u for u in _UNROLLS if work.k.extent % (u * unit.depth) == 0)).rv
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[roles.v.position], [None, panel, columns, TILE])
    m_outer, m_tile, m_lane = sch.split(loops[work.m.position], [None, rows, height])
    k_outer, k_inner, k_lane, k_group = sch.split(loops[work.k.position], [None, unroll, TILE_GROUPS, unit.group])
    batch = [loops[a.position] for a in work.batch]
    images = [loops[a.position] for a in roles.others if a is not above]
    h_outer, h_tile = (None, None) if above is None else sch.split(loops[above.position], [None, lines])
    window = [loops[a.position] for a in info.reduced if a is not work.k]
    around = [*batch, v_outer, *images, *([] if h_outer is None else [h_outer])]
    tiles = [*([] if h_tile is None else [h_tile]), m_tile, v_tile]
    sch.reorder(*around, m_outer, v_panel, *window, k_outer, k_inner, *tiles, m_lane, v_lane, k_lane, k_group)
    sch.reverse_compute_at(copy, v_panel, preserve_unit_loops=True)
    sch.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    rank = len(info.output.axes_by_dim)
    for made in (block, copy):
        sch.transform_layout(made, ("write", 0), _in_tiles(rank, height))
    pack_groups(sch, block, work, TILE, unit.group, unit.depth, begun.moved)
    sch.parallel(fuse_all(sch, around))
    init = sch.decompose_reduction(block, (*window, k_outer)[0])
    for loop in [k_inner, *tiles]:
        sch.unroll(loop)
    sch.tensorize(m_lane, intrin)
    zeroed = sch.get_loops(init)[-2 - len(tiles) :]
    for loop in zeroed[:-2]:
        sch.unroll(loop)
    sch.tensorize(zeroed[-2], tile_name(f"amx_zero_{unit.dtypes[0]}", height))
    _split_in_tiles(sch, copy, rank, height)
    sch.tensorize(sch.get_loops(copy)[-2], tile_name(f"amx_copy_{unit.dtypes[0]}", height))
    _split_in_tiles(sch, writer, rank, height)
    sch.vectorize(sch.get_loops(writer)[-1])


def _in_tiles(rank: int, height: int) -> str:
    """The layout of sums: tile by tile."""
    *outer, row, column = [f"i{dim}" for dim in range(rank)]
    place = [*outer, f"{row} // {height}", f"{column} // {TILE}", f"{row} % {height}", f"{column} % {TILE}"]
    return f"lambda {', '.join([*outer, row, column])}: ({', '.join(place)})"


def _split_in_tiles(sch: Schedule, block: BlockRV, rank: int, height: int) -> None:
    """Let a block of `rank` loops of its own go through its elements tile by tile, all tiles unrolled."""
    *around, rows, columns = sch.get_loops(block)[-rank:]
    line = around[-1:]
    m_tile, m_lane = sch.split(rows, [None, height])
    v_tile, v_lane = sch.split(columns, [None, TILE])
    sch.reorder(*line, m_tile, v_tile, m_lane, v_lane)
    for loop in (*line, m_tile, v_tile):
        sch.unroll(loop)
