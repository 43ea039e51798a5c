"""Sketches of products in narrow numbers, by the instructions that multiply groups of them.

One instruction adds, to each of 8 or 16 sums, the products of 2 or 4 neighbours along the reduction. So the operand
that runs along vectors is packed with those neighbours side by side, and a group of the other one goes to all lanes:

    B[k, j]    →    panel[j // 16, k // 4, j % 16, k % 4]
    tile of rows × vectors:  C[i, 16 j ...] += A[i, 4 k ...] · panel[j, k]     one instruction

Where the instruction takes wider numbers than the operands are (bytes as int16), both are copied, and widened once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.lower.blocks.split_preproc import layout_free
from compiler.schedule.core.schedule import BlockRV, Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockInfo, blocks_of
from tuner.space.cpu.contraction import Roles
from tuner.space.cpu.elementwise import spread, vectorize_tail
from tuner.space.cpu.hardware import Hardware
from tuner.space.cpu.panels import ahead_of_time, panel_dim
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14)
_VECTORS = (1, 2, 3, 4)
_PANELS = (1, 2, 4, 8, 16)
_UNROLLS = (1, 2, 4)
_BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class Unit:
    """An instruction's tensor intrinsic, the feature it needs, its number of sums and their dtype, its group, and the
    dtypes that the scalar and the vector operand may have. `held`: the dtype that the instruction takes."""

    intrin: str
    feature: str
    lanes: int
    group: int
    sums: str
    scalar: tuple[str, ...]
    vector: tuple[str, ...]
    held: str | None = None


_INT16 = ("int16", *_BYTES)
UNITS = (  # the faster first
    Unit("dot_16x4_vnni", "avx512vnni", 16, 4, "int32", ("uint8",), ("int8",)),
    Unit("dot_8x4_vnni", "avxvnni", 8, 4, "int32", ("uint8",), ("int8",)),
    Unit("dot_16x2_bf16", "avx512bf16", 16, 2, "float32", ("bfloat16",), ("bfloat16",)),
    Unit("dot_16x2_int16", "avx512bw", 16, 2, "int32", _INT16, _INT16, "int16"),
    Unit("dot_8x2_int16", "avx2", 8, 2, "int32", _INT16, _INT16, "int16"),
)


@dataclass(frozen=True)
class Operands:
    """The operands of a plain product of matrices, and the extent of its reduction."""

    scalar: BlockAccess
    vector: BlockAccess
    depth: int


def operands_of(info: BlockInfo, roles: Roles) -> Operands | None:
    """None for anything but a plain product whose scalar operand runs along the reduction in memory."""
    if roles.vector_operand is None or roles.scalar_operand is None or roles.m is None or len(info.reduced) != 1:
        return None
    vector, scalar = info.inputs[roles.vector_operand], info.inputs[roles.scalar_operand]
    k = info.reduced[0]
    plain = all(panel_dim(vector, axis) is not None for axis in (roles.v.position, k.position))
    if not plain or scalar.innermost != {k.position} or len(vector.axes_by_dim) != 2:
        return None
    return Operands(scalar, vector, k.extent)


def unit_for(info: BlockInfo, roles: Roles, target: Target) -> Unit | None:
    """The fastest unit of `target` that can compute `info`, a plain product of matrices in whole groups and vectors."""
    operands = operands_of(info, roles)
    if operands is None:
        return None
    for unit in UNITS:
        fits = roles.v.extent % unit.lanes == 0 and operands.depth % unit.group == 0
        fits &= info.output.buffer.dtype == unit.sums
        fits &= operands.scalar.buffer.dtype in unit.scalar and operands.vector.buffer.dtype in unit.vector
        if fits and unit.feature in target.features:
            return unit
    return None


def dot_sketch(func: PrimFunc, name: str, roles: Roles, unit: Unit, target: Target) -> Sketch | None:
    """The sketch that uses `unit`; None where the block's body is not what the unit computes."""
    sch = Schedule(func)
    recorder = Recorder(sch)
    spread_others(sch, {name}, target)
    info = next(b for b in blocks_of(func) if b.name == name)
    try:
        _tile(sch, recorder, info, roles, unit)
    except ScheduleError:
        return None
    registers = target.vector_registers
    threads = max(1, target.num_cores or 1)

    def allowed(values: Values) -> bool:
        """Panels are whole ones; the sums, a row's group and the panel's vectors fit the registers."""
        if roles.v.extent // unit.lanes % (values["vectors"] * values["panel"]):
            return False
        return values["rows"] * values["vectors"] + values["vectors"] < registers

    def draft(values: Values) -> float:
        sums = values["rows"] * values["vectors"]
        columns = values["vectors"] * values["panel"] * unit.lanes
        chunks = -(-roles.v.extent // columns)
        rows = 1 if roles.m is None else roles.m.extent
        whole = rows / (-(-rows // values["rows"]) * values["rows"])
        balance = chunks / (-(-chunks // threads) * threads)
        return min(1.0, sums / 12) * sums / (sums + values["rows"] / 2 + values["vectors"]) * whole * balance

    return Sketch(unit.intrin, sch.trace, tuple(recorder.decisions), allowed, draft)


def spread_others(sch: Schedule, names: Collection[str | None], target: Target) -> None:
    """Threads and vectors for the blocks before and after the product, which is among `names`."""
    for other in blocks_of(sch.func):
        if other.name not in names and other.injective:
            spread(sch, other, Hardware.of(target, other.output.buffer.dtype).lanes)


def _tile(sch: Schedule, recorder: Recorder, info: BlockInfo, roles: Roles, unit: Unit) -> None:
    block = sch.get_block(info.name)
    writer = sch.cache_write(block, 0, "local")
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    assert roles.m is not None
    operands = operands_of(info, roles)
    assert operands is not None  # the unit was found for them
    most = roles.v.extent // unit.lanes
    rows = recorder.choose("rows", tuple(r for r in _ROWS if r <= roles.m.extent)).rv
    vectors = recorder.choose("vectors", tuple(v for v in _VECTORS if most % v == 0)).rv
    panel = recorder.choose("panel", tuple(p for p in _PANELS if p <= most)).rv
    unrolls = tuple(u for u in _UNROLLS if operands.depth % (u * unit.group) == 0)
    unroll = recorder.choose("unroll", unrolls).rv
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[roles.v.position], [None, panel, vectors, unit.lanes])
    k_outer, k_inner, k_group = sch.split(loops[info.reduced[0].position], [None, unroll, unit.group])
    m_outer, m_tile = sch.split(loops[roles.m.position], [None, rows])
    around = [*(loops[a.position] for a in roles.others), v_outer, m_outer, v_panel]
    sch.reorder(*around, k_outer, k_inner, m_tile, v_tile, v_lane, k_group)
    sch.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    _pack(sch, block, operands.vector, roles.v.position, info.reduced[0].position, unit)
    if unit.held not in (None, operands.scalar.buffer.dtype):
        _widen_rows(sch, block, operands.scalar, unit)
    parallel = around[: len(roles.others) + 1]
    sch.parallel(fuse_all(sch, parallel))
    init = sch.decompose_reduction(block, k_outer)
    for loop in [k_inner, m_tile, v_tile]:
        sch.unroll(loop)
    sch.tensorize(v_lane, unit.intrin)
    zeroed = sch.get_loops(init)[-3:]
    for loop in zeroed[:-1]:
        sch.unroll(loop)
    sch.vectorize(zeroed[-1])
    inside = len(around) - len(parallel) + 1
    vectorize_tail(sch, writer, unit.lanes, depth=inside)


def _pack(sch: Schedule, block: BlockRV, operand: BlockAccess, v_axis: int, k_axis: int, unit: Unit) -> None:
    """All panels of the vector operand, each made by one thread, groups of the reduction innermost."""
    packed = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    if operand.buffer in layout_free(sch.func):
        ahead_of_time(sch, packed)
    if unit.held not in (None, operand.buffer.dtype):
        sch.unsafe_set_dtype(packed, 0, unit.held)
    v, k = panel_dim(operand, v_axis), panel_dim(operand, k_axis)
    assert v is not None
    assert k is not None
    place = f"(i{v} // {unit.lanes}, i{k} // {unit.group}, i{v} % {unit.lanes}, i{k} % {unit.group})"
    sch.transform_layout(packed, ("write", 0), f"lambda i0, i1: {place}")
    loops = sch.get_loops(packed)
    v_outer, v_lane = sch.split(loops[v], [None, unit.lanes])
    k_outer, k_group = sch.split(loops[k], [None, unit.group])
    sch.reorder(v_outer, k_outer, v_lane, k_group)
    sch.unroll(k_group)
    sch.parallel(v_outer)


def _widen_rows(sch: Schedule, block: BlockRV, operand: BlockAccess, unit: Unit) -> None:
    """The scalar operand as it lies, in the dtype that the instruction takes."""
    assert unit.held is not None
    copy = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    sch.unsafe_set_dtype(copy, 0, unit.held)
    *outer, last = sch.get_loops(copy)
    _, lane = sch.split(last, [None, 2 * unit.lanes])
    sch.vectorize(lane)
    sch.parallel(fuse_all(sch, outer))
