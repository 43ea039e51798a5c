"""Sketches of products in narrow numbers on Intel's matrix unit (AMX).

Tiles of 16 × 16 sums in tile registers.

A tile of an operand has 16 rows of 64 bytes. Those of A are loaded as they lie, row by row. B is packed, a panel of
columns at a time and right before its use, into tiles of 1 KiB in one piece:

    B[k, j]  →  columns[j // 16, k // 32, k % 32 // 2, j % 16, k % 2]                neighbours along k side by side
    rows × columns tiles of sums:  C[16 i ..., 16 j ...] += A[16 i ..., 32 k ...] · columns[j, k]    one instruction

The tiles of bytes are 64 deep, with groups of 4. A finished tile of sums is stored in one piece, and vectors copy it
to its place. An operand that is the same at every call is packed ahead, A too.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.lower.blocks.split_preproc import layout_free
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule
from compiler.target.target import Target
from compiler.tir.intrin.amx import TILE, TILE_GROUPS
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockInfo, epilogue_of
from tuner.space.cpu.narrow.dots import begin, operands_of, spread_others
from tuner.space.cpu.panels import ahead_of_time, panel_dim
from tuner.space.cpu.roles import Roles
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_TILES = 8  # registers
_TILE_BYTES = 1024
_SPEED = 8.0  # of a tile's instruction, beside those on vectors
_ROWS = _COLUMNS = (1, 2, 3, 4)
_PANELS = (1, 2, 4, 8, 16)
_UNROLLS = (1, 2)
_PRODUCT, _NEAR, _FAR = (
    16.0,
    20.0,
    40.0,
)  # cycles: of a product, of a tile from the second-level cache, of one from beyond
_NEAR_BYTES = 1 << 19  # a quarter of the second-level cache of all CPUs with the unit


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
    sch, recorder, blocks, info = begin(func, name)
    epilogue = epilogue_of(sch.func, info, blocks)
    spread_others(sch, {name, epilogue}, target)
    try:
        _tile(sch, recorder, info, roles, unit, epilogue)
    except ScheduleError:
        return None
    assert roles.m is not None
    row_tiles, column_tiles = roles.m.extent // TILE, roles.v.extent // TILE
    depth_tiles = info.reduced[0].extent // unit.depth
    threads = max(1, target.num_cores or 1)

    def allowed(values: Values) -> bool:
        """Return whether tiles and panels are whole, and the sums and reused operands fit the registers."""
        rows, columns = values["rows"], values["columns"]
        if row_tiles % rows or column_tiles % (columns * values["panel"]):
            return False
        return rows * columns + min(rows, columns) + 1 <= _TILES

    def draft(values: Values) -> float:
        """Score a point by the tiles that it reads, and where they come from.
        Tiles of the columns are read from their panel for each tile of rows. Tiles of rows come from far once for
        each panel, and then from near."""
        rows, columns, width = values["rows"], values["columns"], values["columns"] * values["panel"]
        far = width * _TILE_BYTES * depth_tiles > _NEAR_BYTES
        loads = (_NEAR + _FAR * far) / rows + _NEAR / columns + _FAR / width
        chunks = column_tiles // width
        balance = chunks / (-(-chunks // threads) * threads)
        return _SPEED * _PRODUCT / max(_PRODUCT, loads) * balance

    return Sketch(unit.intrin, sch.trace, tuple(recorder.decisions), allowed, draft)


def _tile(
    sch: Schedule, recorder: Recorder, info: BlockInfo, roles: Roles, unit: TileUnit, epilogue: str | None
) -> None:
    """Schedule the product; the block `epilogue` is computed where finished tiles are copied."""
    block = sch.get_block(info.name)
    operands = operands_of(info, roles)
    assert operands is not None  # the unit was found for them
    assert roles.m is not None
    m, v, k = roles.m.position, roles.v.position, info.reduced[0].position
    writer = sch.cache_write(block, 0, "global")
    if epilogue is not None:
        sch.reverse_compute_inline(sch.get_block(epilogue))
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
    free = layout_free(sch.func)
    apart = operands.scalar.buffer not in free
    if not apart:
        _pack_rows(sch, block, operands.scalar, (m, k), unit)
    at = None if operands.vector.buffer in free else v_outer
    _pack_columns(sch, block, operands.vector, (v, k), unit, columns, at)
    sch.parallel(v_outer)
    init = sch.decompose_reduction(block, k_outer)
    for loop in [k_inner, m_tile, v_tile]:
        sch.unroll(loop)
    sch.tensorize(m_lane, f"{unit.intrin}_rows" if apart else unit.intrin)
    zeroed = sch.get_loops(init)[-4:]
    for loop in zeroed[:2]:
        sch.unroll(loop)
    sch.tensorize(zeroed[2], f"amx_zero_{unit.dtypes[0]}")
    _copy_tiles(sch, copy, f"amx_copy_{unit.dtypes[0]}")
    down, across = sch.get_loops(writer)[-2:]
    tile, row = sch.split(down, [None, TILE])
    vectors, lane = sch.split(across, [None, TILE])
    sch.reorder(tile, row, vectors, lane)
    for loop in [tile, row, vectors]:
        sch.unroll(loop)
    sch.vectorize(lane)


def _in_tiles(info: BlockInfo, m: int, v: int) -> str:
    """The layout of sums: tile by tile."""
    row, column = panel_dim(info.output, m), panel_dim(info.output, v)
    return f"lambda i0, i1: (i{row} // {TILE}, i{column} // {TILE}, i{row} % {TILE}, i{column} % {TILE})"


def _copy_tiles(sch: Schedule, copy: BlockRV, intrin: str) -> None:
    """Store finished tiles, each in one piece.
    Vectors that read parts of a register would spill all of them."""
    rows, columns = sch.get_loops(copy)[-2:]
    m_tile, m_lane = sch.split(rows, [None, TILE])
    v_tile, v_lane = sch.split(columns, [None, TILE])
    sch.reorder(m_tile, v_tile, m_lane, v_lane)
    sch.unroll(m_tile)
    sch.unroll(v_tile)
    sch.tensorize(m_lane, intrin)


def _pack_rows(sch: Schedule, block: BlockRV, operand: BlockAccess, axes: tuple[int, int], unit: TileUnit) -> None:
    """Pack all tiles of the rows, ahead of all calls. `axes`: of the rows and the reduction."""
    dim, k_dim = _dims(operand, axes)
    packed = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    ahead_of_time(sch, packed)
    _lay_out(sch, packed, dim, k_dim, unit, f"i{dim} % {TILE}, i{k_dim} % {unit.depth} // {unit.group}")
    loops = sch.get_loops(packed)
    outer, lane = sch.split(loops[dim], [None, TILE])
    k_outer, k_lane = sch.split(loops[k_dim], [None, unit.depth])
    sch.reorder(outer, k_outer, lane, k_lane)
    sch.vectorize(k_lane)
    sch.parallel(outer)


def _pack_columns(
    sch: Schedule, block: BlockRV, operand: BlockAccess, axes: tuple[int, int], unit: TileUnit, beside: ExprRV,
    at: LoopRV | None,
) -> None:  # fmt: skip
    """Pack the tiles of the columns that are used under `at`, there; without `at` all, ahead of all calls.
    `axes`: of the columns and the reduction. The tiles of `beside` columns are filled together."""
    dim, k_dim = _dims(operand, axes)
    packed = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    if at is not None:
        sch.compute_at(packed, at, preserve_unit_loops=True)
    _lay_out(sch, packed, dim, k_dim, unit, f"i{k_dim} % {unit.depth} // {unit.group}, i{dim} % {TILE}")
    loops = sch.get_loops(packed)[-2:]
    outer, tile, lane = sch.split(loops[dim], [None, beside, TILE])
    k_outer, k_lane, k_group = sch.split(loops[k_dim], [None, TILE_GROUPS, unit.group])
    if dim > k_dim:  # rows of the operand are read as far as they are near each other
        sch.reorder(k_outer, outer, k_lane, tile, lane, k_group)
        sch.unroll(k_lane)
        sch.unroll(tile)
        sch.tensorize(lane, f"amx_pack_{operand.buffer.dtype}")
    else:
        sch.reorder(outer, tile, k_outer, k_lane, lane, k_group)
        sch.tensorize(k_lane, f"amx_turn_{operand.buffer.dtype}")
    if at is None:
        first = k_outer if dim > k_dim else outer
        sch.parallel(first)
        [made] = sch.get_child_blocks(first)  # the block that became the intrinsic's
        ahead_of_time(sch, made)


def _dims(operand: BlockAccess, axes: tuple[int, int]) -> tuple[int, int]:
    dim, k_dim = (panel_dim(operand, axis) for axis in axes)
    assert dim is not None
    assert k_dim is not None
    return dim, k_dim


def _lay_out(sch: Schedule, packed: BlockRV, dim: int, k_dim: int, unit: TileUnit, tile: str) -> None:
    """A packed operand as tiles; `tile` says where an element is in its own."""
    place = f"i{dim} // {TILE}, i{k_dim} // {unit.depth}, {tile}, i{k_dim} % {unit.group}"
    sch.transform_layout(packed, ("write", 0), f"lambda i0, i1: ({place})")
