"""Sketches of products in narrow numbers, by the instructions that multiply groups of them.

One instruction adds the products of 2 or 4 neighbours along the reduction to each of 8 or 16 sums. So the operand
along vectors is packed with those neighbours side by side, and a group of the other one goes to all lanes:

    B[k, j]    →    panel[j // 16, k // 4, j % 16, k % 4]
    tile of rows × vectors:  C[i, 16 j ...] += A[i, 4 k ...] · panel[j, k]     one instruction

If the instruction takes wider numbers than the operands are (bytes as int16), both are copied, and widened once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.ir.visit import walk
from compiler.lower.blocks.split_preproc import layout_free
from compiler.lower.loops.inject_prefetch import SOFTWARE_PREFETCH
from compiler.lower.loops.prefetch_group import NEXT_GROUP
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule
from compiler.target.cpu_features import multiplies_pairs_fast
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.intrin.amx import TILE, TILE_GROUPS
from compiler.tir.intrin.x86 import TURNED, TURNED_BETWEEN, turn_name
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockAxis, BlockInfo, blocks_of, epilogue_of
from tuner.space.cpu.elementwise import inline_chains, spread, sum_in_registers, vectorize_tail, whole_tail
from tuner.space.cpu.hardware import Hardware
from tuner.space.cpu.in_place import keeps_rows, movers
from tuner.space.cpu.panels import ahead_of_time, panel_dim, widened_copy
from tuner.space.cpu.roles import Roles, assign_roles
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_VECTORS = (1, 2, 3, 4)
_PANELS = (1, 2, 4, 8, 16)
_UNROLLS = (1, 2, 4)
_BYTES = ("int8", "uint8")
_WHOLE = 16  # sums in a vector of which several are narrowed to bytes at once
_EVEN = (1, 2, 4)  # vectors of them
_LATENCY = 12  # sums that hide how long an instruction takes
_BROADCAST = 0.5  # instructions' time: of a group for all lanes
_FIRST, _SECOND, _FAR = 1.0, 2.5, 12.0  # and of a vector from the first-level cache, from the second, and from beyond
_FIRST_BYTES, _PANEL_BYTES = 24 << 10, 1 << 19  # half of these caches
_AGAIN = 8.0
_LONG = frozenset(f"tir.{name}" for name in ("erf", "exp", "tanh", "sigmoid", "log", "pow"))
_WRITTEN_OUT = 4  # steps of a loop that LLVM writes out by itself


def _always(cpu: str, features: frozenset[str]) -> bool:
    return True


def _beside_tiles(cpu: str, features: frozenset[str]) -> bool:
    """Pairs of bfloat16 are offered beside tiles as well, because a system can forbid the use of tiles."""
    return multiplies_pairs_fast(cpu, features) or "amx-bf16" in features


@dataclass(frozen=True)
class Unit:
    """An instruction as a tensor intrinsic: the CPU features it needs, and the numbers that it takes."""

    intrin: str
    features: frozenset[str]
    lanes: int  # sums
    group: int  # products that go into a sum
    sums: str  # their dtype
    scalar: tuple[str, ...]  # dtypes that the operand for all lanes may have
    vector: tuple[str, ...]  # and those of the operand along vectors
    held: str | None = None  # the dtype that the instruction takes, where the operands may be narrower
    is_fast: Callable[[str, frozenset[str]], bool] = _always  # on a CPU that has the features

    def is_available(self, target: Target) -> bool:
        """Whether a CPU has the instruction, and it is the fast way there."""
        return self.features <= target.features and self.is_fast(target.mcpu, target.features)


def _needs(*features: str) -> frozenset[str]:
    return frozenset(features)


_BF16, _INT16 = ("bfloat16",), ("int16", *_BYTES)
UNITS = (  # the faster first
    Unit("dot_16x4_vnni", _needs("avx512vnni"), 16, 4, "int32", ("uint8",), ("int8",)),
    Unit("dot_8x4_vnni", _needs("avxvnni"), 8, 4, "int32", ("uint8",), ("int8",)),
    Unit("dot_8x4_vnni", _needs("avx512vnni", "avx512vl"), 8, 4, "int32", ("uint8",), ("int8",)),
    Unit("dot_16x2_bf16", _needs("avx512bf16"), 16, 2, "float32", _BF16, _BF16, is_fast=_beside_tiles),
    Unit("dot_16x2_int16", _needs("avx512bw"), 16, 2, "int32", _INT16, _INT16, "int16"),
    Unit("dot_8x2_int16", _needs("avx2"), 8, 2, "int32", _INT16, _INT16, "int16"),
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


@dataclass(frozen=True)
class Grouped:
    """A product for groups of neighbours: the roles of its axes, its operands, and the axis `k`.
    Groups lie along `k`, an axis of the reduction. A convolution of images with channels last is one, its filters
    (R, S, C, K). So is one along whose rows groups lie, its results with channels last. A `batch` of products has
    axes that both operands and the results have."""

    roles: Roles
    scalar: BlockAccess
    vector: BlockAccess
    k: BlockAxis
    batch: tuple[BlockAxis, ...] = ()

    @property
    def m(self) -> BlockAxis:
        """The axis of the rows."""
        assert self.roles.m is not None
        return self.roles.m


def grouped(info: BlockInfo, roles: Roles) -> Grouped | None:
    """Return a sum of products over all axes of one operand, along one of which the other runs.
    None for anything else."""
    if roles.vector_operand is None or roles.scalar_operand is None or len(info.inputs) != 2:
        return None
    vector, scalar = info.inputs[roles.vector_operand], info.inputs[roles.scalar_operand]
    along = [a for a in info.reduced if a.position in scalar.innermost and _dims(scalar, a) == 1]
    batch = tuple(a for a in info.spatial if a.position in vector.axes & scalar.axes)
    rows = _rows(info, roles, scalar.axes - vector.axes)
    reduced = [a for a in info.reduced if a.extent > 1 or a.position in vector.axes]  # a step may be written 0
    wanted = {roles.v.position, *(a.position for a in (*reduced, *batch))}
    whole = vector.axes == wanted and all(len(axes) <= 1 for axes in vector.axes_by_dim) and vector.straight
    distinct = sum(map(len, vector.axes_by_dim)) == len(wanted)
    if len(along) != 1 or rows is None or not whole or not distinct or dict(scalar.steps).get(along[0].position) != 1:
        return None
    others = tuple(a for a in info.spatial if a is not roles.v and a is not rows and a not in batch)
    return Grouped(replace(roles, m=rows, others=others), scalar, vector, along[0], batch)


def _dims(access: BlockAccess, axis: BlockAxis) -> int:
    """The number of dimensions whose index `axis` is part of."""
    return sum(axis.position in axes for axes in access.axes_by_dim)


def _rows(info: BlockInfo, roles: Roles, own: Collection[int]) -> BlockAxis | None:
    """The rows of a tile: the longest of the axes that are the scalar operand's `own`, the last of equals."""
    found = [a for a in info.spatial if a is not roles.v and a.position in own and a.extent > 1]
    return max(reversed(found), key=lambda a: a.extent, default=None)


def unit_for(info: BlockInfo, roles: Roles, target: Target, beside_tiles: bool = False) -> Unit | None:
    """The fastest unit of `target` that can compute `info`, a product in whole groups and vectors.
    It may be a slow one where it is offered `beside_tiles`."""
    found = grouped(info, roles)
    if found is None:
        return None
    plain = operands_of(info, roles) is not None
    for unit in UNITS:
        fits = roles.v.extent % unit.lanes == 0 and found.k.extent % unit.group == 0
        fits &= info.output.buffer.dtype == unit.sums and (plain or unit.held is None)
        fits &= found.scalar.buffer.dtype in unit.scalar and found.vector.buffer.dtype in unit.vector
        slow = unit.sums == "float32" and not multiplies_pairs_fast(target.mcpu, target.features)
        fits &= beside_tiles or not (found.batch and slow)
        if fits and unit.is_available(target):
            return unit
    return None


def begin(func: PrimFunc, name: str) -> tuple[Schedule, Recorder, tuple[BlockInfo, ...], BlockInfo]:
    """Begin a sketch of `func`, with its chains inlined.
    Returns the schedule, its recorder, its blocks, and the block called `name`."""
    sch = Schedule(func)
    inline_chains(sch)
    blocks = blocks_of(sch.func)
    return sch, Recorder(sch), blocks, next(b for b in blocks if b.name == name)


def dot_sketch(func: PrimFunc, name: str, unit: Unit, target: Target) -> Sketch | None:
    """The sketch that uses `unit`; None where the block's body is not what the unit computes."""
    sch, recorder, blocks, info = begin(func, name)
    roles = assign_roles(info)
    work = None if roles is None else grouped(info, roles)
    if work is None:
        return None
    epilogue = epilogue_of(sch.func, info, blocks)
    moved = moved_by(sch, info, work)
    spread_others(sch, {name, epilogue, *moved}, target)
    try:
        _tile(sch, recorder, info, work, unit, epilogue, moved)
    except ScheduleError:
        return None
    threads = max(1, target.num_cores or 1)
    depth = math.prod(a.extent for a in info.reduced)
    around = math.prod(a.extent for a in (*work.roles.others, *work.batch))
    columns, rows = work.roles.v.extent, work.m.extent
    width = parse_dtype(unit.held or unit.vector[0]).bytes
    ahead, every = _groups_ahead(work, unit.group), work.k.extent // unit.group

    def groups(values: Values) -> tuple[int, int]:
        """Return the groups of all rows in the steps that are written out, and how many steps these are.
        LLVM writes all of a few out."""
        tile, steps = values["rows"], every if every <= _WRITTEN_OUT else values["unroll"]
        return (tile + ahead * (steps - 1), steps) if ahead else (tile, 1)

    def allowed(values: Values) -> bool:
        """Whether panels are whole, and the sums, groups and the panel's vectors fit the registers.
        LLVM keeps groups that another row has in the next step."""
        if columns // unit.lanes % (values["vectors"] * values["panel"]):
            return False
        shared, steps = groups(values)
        kept = shared if ahead and steps > 1 else 1
        return values["rows"] * values["vectors"] + values["vectors"] + kept <= target.vector_registers

    def draft(values: Values) -> float:
        """Score a point by the share of multiplying instructions, of rows outside tails, and of busy threads.
        A tile's columns come from the first-level cache, or from the second. If a panel does not stay there, each row
        of tiles fetches it anew."""
        tile, vectors = values["rows"], values["vectors"]
        sums, wide = tile * vectors, vectors * values["panel"] * unit.lanes
        each = _FIRST if vectors * unit.lanes * depth * width <= _FIRST_BYTES else _SECOND
        each = each if wide * depth * width <= _PANEL_BYTES else _FAR
        shared, steps = groups(values)
        loads = shared / steps * _BROADCAST + vectors * each
        whole = rows / (-(-rows // tile) * tile)
        tasks = columns // wide * around
        balance = tasks / (-(-tasks // threads) * threads)
        again = 1 + _AGAIN / wide  # rows are read, and the loops around begun, for each panel
        return min(1.0, sums / _LATENCY) * sums / max(sums, loads) / (1 + loads / sums / 8) * whole * balance / again

    return Sketch(unit.intrin, sch.trace, tuple(recorder.decisions), allowed, draft)


def _groups_ahead(work: Grouped, group: int) -> int:
    """How many rows lie between equal groups of neighbouring steps; 0 where none are equal.
    Those of windows along a row of an image are."""
    step = dict(work.scalar.steps).get(work.m.position, 0)
    return group // step if step and group % step == 0 else 0


def spread_others(sch: Schedule, names: Collection[str | None], target: Target) -> None:
    """Threads and vectors for the blocks before and after the product, which is among `names`."""
    for other in blocks_of(sch.func):
        if other.name not in names and other.injective:
            spread(sch, other, Hardware.of(target, other.output.buffer.dtype).lanes)


def _tile(
    sch: Schedule, recorder: Recorder, info: BlockInfo, work: Grouped, unit: Unit, epilogue: str | None,
    moved: Collection[str],
) -> None:  # fmt: skip
    """Schedule the product; the block `epilogue` is computed where a tile's sums are in registers.
    Operands are read from where they were before the blocks `moved` moved them."""
    block = sch.get_block(info.name)
    roles = work.roles
    last = sch.get_block(epilogue) if epilogue is not None and _is_long(sch, epilogue) else None
    writer = sum_in_registers(sch, block, epilogue if last is None else None)
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    most = roles.v.extent // unit.lanes
    rows = recorder.choose("rows", tuple(r for r in _ROWS if r <= work.m.extent)).rv
    narrow = sch.get(writer).writes[0].buffer.dtype == "uint8" and unit.lanes == _WHOLE and most % 2 == 0
    offered = tuple(v for v in (_EVEN if narrow else _VECTORS) if most % v == 0)
    vectors = recorder.choose("vectors", offered).rv
    panel = recorder.choose("panel", tuple(p for p in _PANELS if p <= most)).rv
    unrolls = tuple(u for u in _UNROLLS if work.k.extent % (u * unit.group) == 0)
    unroll = recorder.choose("unroll", unrolls).rv
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[roles.v.position], [None, panel, vectors, unit.lanes])
    k_outer, k_inner, k_group = sch.split(loops[work.k.position], [None, unroll, unit.group])
    m_outer, m_tile = sch.split(loops[work.m.position], [None, rows])
    batch, images = ([loops[a.position] for a in axes] for axes in (work.batch, roles.others))
    window = [loops[a.position] for a in info.reduced if a is not work.k]
    around = [*batch, v_outer, *images, m_outer, v_panel]
    sch.reorder(*around, *window, k_outer, k_inner, m_tile, v_tile, v_lane, k_group)
    sch.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    if last is not None:
        _after_sums(sch, last, v_panel, unit.lanes)
    if unit.held is not None and unit.held != work.scalar.buffer.dtype:
        widened_copy(sch, block, work.scalar, unit.held, 2 * unit.lanes)
    packed = pack_groups(sch, block, work, unit.lanes, unit.group, moved=moved)
    if unit.held not in (None, work.vector.buffer.dtype):
        sch.unsafe_set_dtype(packed, 0, unit.held)
    sch.parallel(fuse_all(sch, [*batch, v_outer, *images]))
    sch.annotate(k_outer, SOFTWARE_PREFETCH, NEXT_GROUP)
    init = sch.decompose_reduction(block, (*window, k_outer)[0])
    for loop in [k_inner, m_tile, v_tile]:
        sch.unroll(loop)
    sch.tensorize(v_lane, unit.intrin)
    zeroed = sch.get_loops(init)[-3:]
    for loop in zeroed[:-1]:
        sch.unroll(loop)
    sch.vectorize(zeroed[-1])
    if narrow:
        whole_tail(sch, writer, depth=3)
    else:
        vectorize_tail(sch, writer, unit.lanes, depth=3)


def _is_long(sch: Schedule, epilogue: str) -> bool:
    """Whether what follows the sums takes many instructions: those of several vectors fill the registers."""
    calls = [node for node in walk(sch.get(sch.get_block(epilogue)).body) if isinstance(node, n.Call)]
    return any(getattr(call.op, "name", "") in _LONG for call in calls)


def _after_sums(sch: Schedule, last: BlockRV, at: LoopRV, lanes: int) -> None:
    """Compute what follows the sums of a tile vector by vector, from the first-level cache.
    Written out for a whole tile, numbers under way are stored and loaded."""
    sch.reverse_compute_at(last, at, preserve_unit_loops=True)
    *_, along = sch.get_loops(last)
    _, lane = sch.split(along, [None, lanes])
    sch.vectorize(lane)


def moved_by(sch: Schedule, info: BlockInfo, work: Grouped) -> list[str]:
    """The blocks that only move operands to where the product reads them.
    It packs the vector operand from where it was, and reads groups of the other one there if they are neighbours."""
    found = [b for b in movers(sch, info) if b.inputs[0].straight and b.output.straight]
    return [b.name for b in found if b.output.buffer is work.vector.buffer or keeps_rows(b)]


def pack_groups(
    sch: Schedule, block: BlockRV, work: Grouped, lanes: int, group: int, depth: int | None = None,
    moved: Collection[str] = (),
) -> BlockRV:  # fmt: skip
    """Pack all panels of the vector operand, each made by one thread, groups of the reduction innermost.
    With a `depth`, so many neighbours of the reduction are together, with all lanes. What the blocks `moved` move is
    read from where it was. Returns the packing block."""
    operand = work.vector
    packed = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    free = operand.buffer in layout_free(sch.func)
    if free:
        ahead_of_time(sch, packed)
    for name in moved:
        sch.compute_inline(sch.get_block(name))
    v, k = panel_dim(operand, work.roles.v.position), panel_dim(operand, work.k.position)
    assert v is not None
    assert k is not None
    dims = [f"i{d}" for d in range(len(operand.axes_by_dim))]
    batch = [d for a in work.batch if (d := panel_dim(operand, a.position)) is not None]
    rest = [d for d in range(len(dims)) if d not in (v, k, *batch)]
    steps = [f"i{k} // {group}"] if depth is None else [f"i{k} // {depth}", f"i{k} % {depth} // {group}"]
    around = [*(dims[d] for d in batch), f"i{v} // {lanes}", *(dims[d] for d in rest)]
    place = [*around, *steps, f"i{v} % {lanes}", f"i{k} % {group}"]
    sch.transform_layout(packed, ("write", 0), f"lambda {', '.join(dims)}: ({', '.join(place)})")
    loops = sch.get_loops(packed)
    v_outer, v_lane = sch.split(loops[v], [None, lanes])
    k_outer, k_group = sch.split(loops[k], [None, group])
    sch.reorder(*(loops[d] for d in batch), v_outer, *(loops[d] for d in rest), k_outer, v_lane, k_group)
    sch.parallel(fuse_all(sch, [*(loops[d] for d in batch), v_outer]))
    source = next(b for b in blocks_of(sch.func) if b.name == sch.get(packed).name_hint).inputs[0]
    turn = None if free or lanes != TILE else _turn(source, v, k, group)
    if turn is not None and work.k.extent % (group * TILE_GROUPS) == 0:
        _, k_word = sch.split(k_outer, [None, TILE_GROUPS])
        sch.tensorize(k_word, turn)
        return packed
    if source.innermost == {v}:
        sch.reorder(k_group, v_lane)
        sch.vectorize(v_lane)  # a group's rows are shuffled
    sch.unroll(k_group)
    return packed


def _turn(source: BlockAccess, v: int, k: int, group: int) -> str | None:
    """The intrinsic that packs columns, along axis `v`, which lie as rows along axis `k`.
    None where they lie otherwise."""
    dtype, dims, columns = source.buffer.dtype, source.axes_by_dim, frozenset({v})
    if TURNED.get(dtype) != group or not source.straight or source.innermost != {k} or columns not in dims:
        return None
    between = len(dims) - 2 - dims.index(columns)
    return turn_name(dtype, between) if between in TURNED_BETWEEN else None
