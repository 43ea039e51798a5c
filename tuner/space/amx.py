"""Sketches of products in narrow numbers on Intel's matrix unit (AMX): tiles of 16 × 16 sums in tile registers.

Both operands are packed into tiles of 16 rows of 64 bytes, each 1 KiB in one piece, in the order of their use:

    A[i, k]  →  rows[i // 16, k // 32, i % 16, k % 32]                               32 bfloat16, or 64 bytes
    B[k, j]  →  columns[j // 16, k // 32, k % 32 // 2, j % 16, k % 2]                neighbours along k side by side
    rows × columns tiles of sums:  C[16 i ..., 16 j ...] += rows[i, k] · columns[j, k]    one instruction

A tile of sums is kept in one piece too, and copied to its place by vectors when it is finished.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.lower.split_preproc import layout_free
from compiler.schedule.schedule import BlockRV, Schedule
from compiler.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.x86_intrin import TILE, TILE_GROUPS
from tuner.space.analysis import Access, BlockInfo, blocks_of
from tuner.space.contraction import Roles
from tuner.space.dots import operands_of, spread_others
from tuner.space.panels import ahead_of_time, panel_dim
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_TILES = 8  # registers
_SPEED = 8.0  # of a tile's instruction, beside those on vectors
_ROWS = _COLUMNS = (1, 2, 3, 4)
_PANELS = (1, 2, 4, 8, 16)
_UNROLLS = (1, 2, 4)


@dataclass(frozen=True)
class TileUnit:
    """A tensor intrinsic, the feature it needs, its group, and the dtypes of sums, left and right operand."""

    intrin: str
    feature: str
    group: int
    dtypes: tuple[str, str, str]

    @property
    def depth(self) -> int:
        """Neighbours along the reduction in a tile's row."""
        return TILE_GROUPS * self.group


UNITS = (
    TileUnit("amx_bf16", "amx-bf16", 2, ("float32", "bfloat16", "bfloat16")),
    TileUnit("amx_s8s8", "amx-int8", 4, ("int32", "int8", "int8")),
    TileUnit("amx_s8u8", "amx-int8", 4, ("int32", "int8", "uint8")),
    TileUnit("amx_u8s8", "amx-int8", 4, ("int32", "uint8", "int8")),
    TileUnit("amx_u8u8", "amx-int8", 4, ("int32", "uint8", "uint8")),
)


def tile_unit_for(info: BlockInfo, roles: Roles, target: Target) -> TileUnit | None:
    """The unit of `target` that can compute `info`, a plain product of two matrices in whole tiles."""
    operands = operands_of(info, roles)
    if operands is None or roles.m is None or roles.others or len(operands.scalar.axes_by_dim) != 2:
        return None
    dtypes = (info.output.buffer.dtype, operands.scalar.buffer.dtype, operands.vector.buffer.dtype)
    for unit in UNITS:
        whole = not (roles.v.extent % TILE or roles.m.extent % TILE or operands.depth % unit.depth)
        if whole and unit.dtypes == dtypes and unit.feature in target.features:
            return unit
    return None


def tile_sketch(func: PrimFunc, name: str, roles: Roles, unit: TileUnit, target: Target) -> Sketch | None:
    """The sketch that uses `unit`; None where the block's body is not what the unit computes."""
    sch = Schedule(func)
    recorder = Recorder(sch)
    spread_others(sch, name, target)
    info = next(b for b in blocks_of(func) if b.name == name)
    try:
        _tile(sch, recorder, info, roles, unit)
    except ScheduleError:
        return None
    assert roles.m is not None
    row_tiles, column_tiles = roles.m.extent // TILE, roles.v.extent // TILE
    threads = max(1, target.num_cores or 1)

    def allowed(values: Values) -> bool:
        """Tiles and panels are whole ones; the sums, and operands as long as they are used again, fit the registers."""
        rows, columns = values["rows"], values["columns"]
        if row_tiles % rows or column_tiles % (columns * values["panel"]):
            return False
        return rows * columns + min(rows, columns) + 1 <= _TILES

    def draft(values: Values) -> float:
        rows, columns = values["rows"], values["columns"]
        sums = rows * columns
        chunks = column_tiles // (columns * values["panel"])
        balance = chunks / (-(-chunks // threads) * threads)
        return _SPEED * min(1.0, sums / 4) * sums / (sums + (rows + columns) / 2) * balance

    return Sketch(unit.intrin, sch.trace, tuple(recorder.decisions), allowed, draft)


def _tile(sch: Schedule, recorder: Recorder, info: BlockInfo, roles: Roles, unit: TileUnit) -> None:
    block = sch.get_block(info.name)
    operands = operands_of(info, roles)
    assert operands is not None  # the unit was found for them
    assert roles.m is not None
    m, v, k = roles.m.position, roles.v.position, info.reduced[0].position
    writer = sch.cache_write(block, 0, "global")
    copy = sch.cache_write(block, 0, "local")
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    rows = recorder.choose("rows", tuple(r for r in _ROWS if roles.m.extent // TILE % r == 0)).rv
    columns = recorder.choose("columns", tuple(c for c in _COLUMNS if roles.v.extent // TILE % c == 0)).rv
    panel = recorder.choose("panel", tuple(p for p in _PANELS if p <= roles.v.extent // TILE)).rv
    unroll = recorder.choose("unroll", tuple(u for u in _UNROLLS if operands.depth % (u * unit.depth) == 0)).rv
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[v], [None, panel, columns, TILE])
    m_outer, m_tile, m_lane = sch.split(loops[m], [None, rows, TILE])
    k_outer, k_inner, k_lane, k_group = sch.split(loops[k], [None, unroll, TILE_GROUPS, unit.group])
    sch.reorder(v_outer, m_outer, v_panel, k_outer, k_inner, m_tile, v_tile, m_lane, v_lane, k_lane, k_group)
    sch.reverse_compute_at(copy, v_panel, preserve_unit_loops=True)
    sch.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    tiles = _in_tiles(info, m, v)
    for made in (block, copy):
        sch.transform_layout(made, ("write", 0), tiles)
    _pack(sch, block, operands.scalar, m, k, unit, left=True)
    _pack(sch, block, operands.vector, v, k, unit, left=False)
    sch.parallel(v_outer)
    init = sch.decompose_reduction(block, k_outer)
    for loop in [k_inner, m_tile, v_tile]:
        sch.unroll(loop)
    sch.tensorize(m_lane, unit.intrin)
    zeroed = sch.get_loops(init)[-4:]
    for loop in zeroed[:2]:
        sch.unroll(loop)
    sch.tensorize(zeroed[2], f"amx_zero_{unit.dtypes[0]}")
    _copy_tiles(sch, copy, f"amx_copy_{unit.dtypes[0]}")
    _, lane = sch.split(sch.get_loops(writer)[-1], [None, TILE])
    sch.vectorize(lane)


def _in_tiles(info: BlockInfo, m: int, v: int) -> str:
    """The layout of sums: tile by tile."""
    row, column = panel_dim(info.output, m), panel_dim(info.output, v)
    return f"lambda i0, i1: (i{row} // {TILE}, i{column} // {TILE}, i{row} % {TILE}, i{column} % {TILE})"


def _copy_tiles(sch: Schedule, copy: BlockRV, intrin: str) -> None:
    """Finished tiles to memory, each in one piece: vectors that read parts of a register would spill all of them."""
    rows, columns = sch.get_loops(copy)[-2:]
    m_tile, m_lane = sch.split(rows, [None, TILE])
    v_tile, v_lane = sch.split(columns, [None, TILE])
    sch.reorder(m_tile, v_tile, m_lane, v_lane)
    sch.unroll(m_tile)
    sch.unroll(v_tile)
    sch.tensorize(m_lane, intrin)


def _pack(sch: Schedule, block: BlockRV, operand: Access, axis: int, k_axis: int, unit: TileUnit, left: bool) -> None:
    """All tiles of an operand, rows of tiles each made by one thread."""
    dim, k_dim, group = panel_dim(operand, axis), panel_dim(operand, k_axis), unit.group
    assert dim is not None
    assert k_dim is not None
    packed = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    if operand.buffer in layout_free(sch.func):
        ahead_of_time(sch, packed)
    across, along = f"i{dim} % {TILE}", f"i{k_dim} % {unit.depth} // {group}"
    tile = f"{across}, {along}" if left else f"{along}, {across}"
    place = f"i{dim} // {TILE}, i{k_dim} // {unit.depth}, {tile}, i{k_dim} % {group}"
    sch.transform_layout(packed, ("write", 0), f"lambda i0, i1: ({place})")
    loops = sch.get_loops(packed)
    outer, lane = sch.split(loops[dim], [None, TILE])
    k_outer, k_group = sch.split(loops[k_dim], [None, group])
    sch.reorder(outer, k_outer, lane, k_group)
    sch.unroll(k_group)
    sch.parallel(outer)
