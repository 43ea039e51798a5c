"""Sketches for contractions (matmul, convolution): a register tile, cache panels, packing, threads.

The scheme is Goto's (K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008),
stated for any block that reduces a product: one spatial axis runs along vectors (`v`), one along registers
(`m`), such that operands are shared across each. The accumulators of an m x v tile stay in registers while the
reduction runs; the operand that is read along `v` can be packed into a contiguous panel first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.schedule.schedule import BlockRV, LoopRV, Schedule
from compiler.target import Target
from tuner.space.analysis import Access, Axis, BlockInfo
from tuner.space.elementwise import vectorize_tail
from tuner.space.recorder import Recorder
from tuner.space.sketch import Values

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16)
_VECTORS = (1, 2, 3, 4, 5, 6, 7)
_PANELS = (1, 2, 3, 4, 6, 8, 16, 32)
_UNROLLS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Roles:
    """Which axis plays which part. `others` are the spatial axes left, outermost first."""

    v: Axis
    m: Axis | None
    others: tuple[Axis, ...]
    vector_operand: int | None  # index into inputs of the operand read along v, shared across m
    scalar_operand: int | None  # the one read along m, shared across v


def assign_roles(info: BlockInfo) -> Roles | None:
    """The roles of a contraction's axes, or None when no axis of the output is contiguous."""
    contiguous = [a for a in info.spatial if info.output.innermost == {a.position}]
    if not contiguous:
        return None
    v = contiguous[0]
    along_v = [i for i, op in enumerate(info.inputs) if v.position in op.axes]
    across_v = [i for i, op in enumerate(info.inputs) if v.position not in op.axes]

    def shares(axis: Axis) -> bool:
        scalar = any(axis.position in info.inputs[i].axes for i in across_v)
        return scalar and any(axis.position not in info.inputs[i].axes for i in along_v)

    rows = [a for a in info.spatial if a is not v and a.extent > 1 and shares(a)]
    m = max(rows, key=lambda a: a.extent, default=None)
    others = tuple(a for a in info.spatial if a is not v and a is not m)
    scalar = next((i for i in across_v if m is not None and m.position in info.inputs[i].axes), None)
    return Roles(v, m, others, along_v[0] if along_v else None, scalar)


@dataclass(frozen=True)
class Shape:
    """The structure of one sketch. `rows_outer`: m tiles run outside v panels. `pack`: copy the vector operand's
    panel before use."""

    rows_outer: bool
    pack: bool

    @property
    def name(self) -> str:
        return f"{'rows' if self.rows_outer else 'panels'}{'+pack' if self.pack else ''}"


@dataclass(frozen=True)
class Hardware:
    """What the draft score and the constraints need to know of the target."""

    lanes: int
    registers: int
    threads: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10

    @staticmethod
    def of(target: Target, dtype: str) -> Hardware:
        lanes = max(1, target.vector_bits // parse_dtype(dtype).bits)
        return Hardware(lanes, target.vector_registers, max(1, target.num_cores or 1))


def _rows_domain(axis: Axis | None, hardware: Hardware) -> tuple[int, ...]:
    if axis is None:
        return (1,)
    return tuple(r for r in _ROWS if r <= min(axis.extent, hardware.registers))


def _vectors_domain(axis: Axis, hardware: Hardware) -> tuple[int, ...]:
    most = max(1, -(-axis.extent // hardware.lanes))
    return tuple(x for x in _VECTORS if x <= most)


def tile(
    sch: Schedule,
    recorder: Recorder,
    info: BlockInfo,
    roles: Roles,
    shape: Shape,
    hardware: Hardware,
    epilogue: str | None,
) -> None:
    """Apply the sketch `shape` to block `info`; `epilogue` names an elementwise consumer to fuse."""
    block = sch.get_block(info.name)
    if epilogue is None:
        writer = sch.cache_write(block, 0, "local")
    else:
        writer = sch.get_block(epilogue)
        sch.set_scope(block, 0, "local")
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    lanes = hardware.lanes

    rows = recorder.choose("rows", _rows_domain(roles.m, hardware))
    vectors = recorder.choose("vectors", _vectors_domain(roles.v, hardware))
    tiles = -(-roles.v.extent // lanes)
    panel = recorder.choose("panel", tuple(p for p in _PANELS if p <= tiles) or (1,))
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[roles.v.position], [None, panel.rv, vectors.rv, lanes])
    m_outer: list[LoopRV] = []
    m_tile: list[LoopRV] = []
    if roles.m is not None:
        outer, inner = sch.split(loops[roles.m.position], [None, rows.rv])
        m_outer, m_tile = [outer], [inner]
    batch, blocked = _split_others(sch, recorder, roles, loops)
    reduce_loops, unrolled = _split_reduction(sch, recorder, info, loops)

    if shape.rows_outer:
        parallel = [*batch, *m_outer]
        inside = [*blocked, v_outer, v_panel]
    else:
        parallel = [*batch, v_outer]
        inside = [*blocked, *m_outer, v_panel]
    sch.reorder(*parallel, *inside, *reduce_loops, *m_tile, v_tile, v_lane)
    sch.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    if shape.pack and roles.vector_operand is not None:
        _pack(sch, info, block, roles.vector_operand, parallel[-1], lanes)
    # fused only now: what a tile covers is plain to see while each axis has its own loop
    sch.parallel(sch.fuse(*parallel) if len(parallel) > 1 else parallel[0])
    init = sch.decompose_reduction(block, reduce_loops[0])
    for loop in [*unrolled, *m_tile, v_tile]:
        sch.unroll(loop)
    sch.vectorize(v_lane)
    tile_depth = len(m_tile) + 2
    init_loops = sch.get_loops(init)[-tile_depth:]
    for loop in init_loops[:-1]:
        sch.unroll(loop)
    sch.vectorize(init_loops[-1])
    vectorize_tail(sch, writer, lanes, depth=1 + len(inside))


def _split_others(
    sch: Schedule, recorder: Recorder, roles: Roles, loops: dict[int, LoopRV]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """The remaining spatial axes: whole outside, except that the last may leave a block inside."""
    batch: list[LoopRV] = []
    blocked: list[LoopRV] = []
    for axis in roles.others:
        if axis is roles.others[-1] and axis.extent > 1:
            sizes = tuple(d for d in range(1, min(axis.extent, 16) + 1) if axis.extent % d == 0)
            if len(sizes) > 1:
                size = recorder.choose("block", sizes)
                outer, inner = sch.split(loops[axis.position], [None, size.rv])
                batch.append(outer)
                blocked.append(inner)
                continue
        batch.append(loops[axis.position])
    return batch, blocked


def _split_reduction(
    sch: Schedule, recorder: Recorder, info: BlockInfo, loops: dict[int, LoopRV]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """The reduction loops in order, and those of them to unroll: small innermost ones whole, else a factor."""
    reduce_loops = [loops[a.position] for a in info.reduced]
    last = info.reduced[-1]
    if last.extent <= 8:
        return reduce_loops, [reduce_loops[-1]]
    factors = tuple(u for u in _UNROLLS if last.extent % u == 0)
    if len(factors) < 2:
        return reduce_loops, []
    unroll = recorder.choose("unroll", factors)
    outer, inner = sch.split(reduce_loops[-1], [None, unroll.rv])
    return [*reduce_loops[:-1], outer, inner], [inner]


def _pack(sch: Schedule, info: BlockInfo, block: BlockRV, operand: int, at: LoopRV, lanes: int) -> None:
    """Copy the operand's panel under `at` into a buffer of its own, in vectors."""
    index = sch.read_index(block, info.inputs[operand].buffer.name)
    packed = sch.cache_read(block, index, "global")
    sch.compute_at(packed, at, preserve_unit_loops=True)
    inner = sch.get_loops(packed)[-1]
    _, lane = sch.split(inner, [None, lanes])
    sch.vectorize(lane)


# ------------------------------------------------------------------------ constraints and draft


@dataclass(frozen=True)
class Judge:
    """Which decisions are worth building, and a draft of how good they are."""

    info: BlockInfo
    roles: Roles
    shape: Shape
    hardware: Hardware
    element_bytes: int

    def allowed(self, values: Values) -> bool:
        """The accumulators and one operand vector fit the registers; the packed panel fits the L2 cache."""
        if values["rows"] * values["vectors"] + 1 > self.hardware.registers:
            return False
        if values["panel"] * values["vectors"] * self.hardware.lanes >= 2 * self.roles.v.extent and values["panel"] > 1:
            return False
        return not self.shape.pack or self._panel_bytes(values) <= 2 * self.hardware.l2_bytes

    def draft(self, values: Values) -> float:
        """Relative speed guessed from arithmetic per load, latency hiding, waste on tails, and thread balance."""
        rows, vectors = values["rows"], values["vectors"]
        tile_ops = rows * vectors
        waste = _tail(self.roles.v.extent, vectors * self.hardware.lanes)
        if self.roles.m is not None:
            waste *= _tail(self.roles.m.extent, rows)
        latency = min(1.0, tile_ops / 10)
        loads = 1.0 / (1.0 + 0.5 * (rows + vectors) / tile_ops)
        spill = 1.0 if tile_ops + vectors + 1 <= self.hardware.registers else 0.85
        panel = 1.0 if self._panel_bytes(values) <= self.hardware.l2_bytes // 2 else 0.7
        return waste * latency * loads * spill * panel * self._balance(values)

    def _panel_bytes(self, values: Values) -> int:
        width = values["panel"] * values["vectors"] * self.hardware.lanes
        depth = math.prod(a.extent for a in self.info.reduced)
        return width * depth * self.element_bytes

    def _balance(self, values: Values) -> float:
        """How evenly the outer tiles spread over the threads."""
        if self.shape.rows_outer:
            chunks = -(-self.roles.m.extent // values["rows"]) if self.roles.m is not None else 1
        else:
            chunks = -(-self.roles.v.extent // (values["panel"] * values["vectors"] * self.hardware.lanes))
        chunks *= math.prod(a.extent for a in self.roles.others) // values.get("block", 1)
        rounds = -(-chunks // self.hardware.threads)
        return chunks / (rounds * self.hardware.threads)


def _tail(extent: int, tile_size: int) -> float:
    return extent / (-(-extent // tile_size) * tile_size)


def packable(access: Access, roles: Roles, info: BlockInfo) -> bool:
    """Packing pays when the operand is reused along m and does not change with the axes outside the panel."""
    return roles.m is not None and roles.m.position not in access.axes and bool(info.reduced)
