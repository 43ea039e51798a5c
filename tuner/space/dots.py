"""Sketches of products in narrow numbers, by the instructions that multiply groups of them (VNNI, AVX512-BF16).

One instruction adds, to each of 16 sums, the products of 2 or 4 neighbours along the reduction. So the operand that
runs along vectors is packed with those neighbours side by side, and a group of the other one goes to all lanes:

    B[k, j]    →    panel[j // 16, k // 4, j % 16, k % 4]
    tile of rows × vectors:  C[i, 16 j ...] += A[i, 4 k ...] · panel[j, k]     one instruction
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.schedule.schedule import Schedule
from compiler.target import Target
from compiler.tir import x86_intrin
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockInfo, blocks_of
from tuner.space.contraction import Roles
from tuner.space.elementwise import spread, vectorize_tail
from tuner.space.hardware import Hardware
from tuner.space.panels import panel_dim
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14)
_VECTORS = (1, 2, 3, 4)
_PANELS = (1, 2, 4, 8, 16)
_UNROLLS = (1, 2, 4)


@dataclass(frozen=True)
class Unit:
    """An instruction's tensor intrinsic, what it needs, its dtypes (sum, scalar operand, vector operand), its group."""

    intrin: str
    features: tuple[str, ...]
    dtypes: tuple[str, str, str]
    group: int


UNITS = (
    Unit("dot_16x4_vnni", ("avx512vnni",), ("int32", "uint8", "int8"), 4),
    Unit("dot_16x2_bf16", ("avx512bf16",), ("float32", "bfloat16", "bfloat16"), 2),
)
LANES = x86_intrin.LANES


def unit_for(info: BlockInfo, roles: Roles, target: Target) -> Unit | None:
    """The unit of `target` that can compute `info`, a plain product of matrices in whole groups and vectors."""
    if roles.vector_operand is None or roles.scalar_operand is None or len(info.reduced) != 1:
        return None
    vector, scalar = info.inputs[roles.vector_operand], info.inputs[roles.scalar_operand]
    dtypes = (info.output.buffer.dtype, scalar.buffer.dtype, vector.buffer.dtype)
    k = info.reduced[0]
    plain = all(panel_dim(vector, axis) is not None for axis in (roles.v.position, k.position))
    if not plain or scalar.innermost != {k.position} or len(vector.axes_by_dim) != 2:
        return None
    for unit in UNITS:
        fits = roles.v.extent % LANES == 0 and k.extent % unit.group == 0 and unit.dtypes == dtypes
        if fits and set(unit.features) <= target.features:
            return unit
    return None


def dot_sketch(func: PrimFunc, name: str, roles: Roles, unit: Unit, target: Target) -> Sketch | None:
    """The sketch that uses `unit`; None where the block's body is not what the unit computes."""
    sch = Schedule(func)
    recorder = Recorder(sch)
    for other in blocks_of(func):
        if other.name != name and other.injective:
            spread(sch, other, Hardware.of(target, other.output.buffer.dtype).lanes)
    info = next(b for b in blocks_of(func) if b.name == name)
    try:
        _tile(sch, recorder, info, roles, unit)
    except ScheduleError:
        return None
    registers = target.vector_registers
    threads = max(1, target.num_cores or 1)

    def allowed(values: Values) -> bool:
        """Panels are whole ones; the sums, a row's group and the panel's vectors fit the registers."""
        if roles.v.extent // LANES % (values["vectors"] * values["panel"]):
            return False
        return values["rows"] * values["vectors"] + values["vectors"] < registers

    def draft(values: Values) -> float:
        sums = values["rows"] * values["vectors"]
        columns = values["vectors"] * values["panel"] * LANES
        chunks = -(-roles.v.extent // columns)
        rows = 1 if roles.m is None else roles.m.extent
        whole = rows / (-(-rows // values["rows"]) * values["rows"])
        balance = chunks / (-(-chunks // threads) * threads)
        return min(1.0, sums / 12) * sums / (sums + values["rows"] / 2 + values["vectors"]) * whole * balance

    return Sketch(unit.intrin, sch.trace, tuple(recorder.decisions), allowed, draft)


def _tile(sch: Schedule, recorder: Recorder, info: BlockInfo, roles: Roles, unit: Unit) -> None:
    block = sch.get_block(info.name)
    writer = sch.cache_write(block, 0, "local")
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    most = roles.v.extent // LANES
    rows = recorder.choose("rows", tuple(r for r in _ROWS if r <= (roles.m.extent if roles.m is not None else 1))).rv
    vectors = recorder.choose("vectors", tuple(v for v in _VECTORS if most % v == 0)).rv
    panel = recorder.choose("panel", tuple(p for p in _PANELS if p <= most)).rv
    unrolls = tuple(u for u in _UNROLLS if info.reduced[0].extent % (u * unit.group) == 0)
    unroll = recorder.choose("unroll", unrolls).rv
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[roles.v.position], [None, panel, vectors, LANES])
    k_outer, k_inner, k_group = sch.split(loops[info.reduced[0].position], [None, unroll, unit.group])
    assert roles.m is not None  # the scalar operand runs along it
    m_outer, m_tile = sch.split(loops[roles.m.position], [None, rows])
    around = [*(loops[a.position] for a in roles.others), v_outer, m_outer, v_panel]
    sch.reorder(*around, k_outer, k_inner, m_tile, v_tile, v_lane, k_group)
    sch.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    _pack(sch, info, roles, unit)
    parallel = around[: len(roles.others) + 1]
    sch.parallel(sch.fuse(*parallel) if len(parallel) > 1 else parallel[0])
    init = sch.decompose_reduction(block, k_outer)
    for loop in [k_inner, m_tile, v_tile]:
        sch.unroll(loop)
    sch.tensorize(v_lane, unit.intrin)
    zeroed = sch.get_loops(init)[-3:]
    for loop in zeroed[:-1]:
        sch.unroll(loop)
    sch.vectorize(zeroed[-1])
    inside = len(around) - len(parallel) + 1
    vectorize_tail(sch, writer, LANES, depth=inside)


def _pack(sch: Schedule, info: BlockInfo, roles: Roles, unit: Unit) -> None:
    """All panels of the vector operand, each made by one thread, groups of the reduction innermost."""
    assert roles.vector_operand is not None
    operand = info.inputs[roles.vector_operand]
    block = sch.get_block(info.name)
    packed = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    v, k = (panel_dim(operand, axis) for axis in (roles.v.position, info.reduced[0].position))
    assert v is not None
    assert k is not None
    place = f"(i{v} // {LANES}, i{k} // {unit.group}, i{v} % {LANES}, i{k} % {unit.group})"
    sch.transform_layout(packed, ("write", 0), f"lambda i0, i1: {place}")
    loops = sch.get_loops(packed)
    v_outer, v_lane = sch.split(loops[v], [None, LANES])
    k_outer, k_group = sch.split(loops[k], [None, unit.group])
    sch.reorder(v_outer, k_outer, v_lane, k_group)
    sch.unroll(k_group)
    sch.parallel(v_outer)
