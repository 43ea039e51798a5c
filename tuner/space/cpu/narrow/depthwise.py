"""Depthwise convolutions of bytes with channels last, by an instruction for groups of four.

A channel's window of three rows is three columns of three bytes. A column and a zero are a group:

    for row of the image, some channels (parallel):
      the rows that its windows cover, with zeros around them     → a copy that stays in the first-level cache
      for tile of `rows` neighbours along x, 16 channels:
        column[x, lanes] = three rows shuffled together           one column more than results, without strides
        sums[x, lanes] = Σ_s column[x + s, lanes] · taps[s, lanes]    three instructions for nine products
        out[x, lanes] = what follows, of sums in registers

Neighbouring windows share columns: a tile is written out, and each of its columns is made once. So are those of taps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.intrin.x86 import COLUMN, GROUP
from compiler.tir.nodes import PrimFunc
from compiler.tir.ops import as_int
from tuner.space.analysis import BlockAccess, BlockAxis, BlockInfo, consumers, epilogue_of
from tuner.space.cpu.elementwise import sum_in_registers, whole_tail
from tuner.space.cpu.narrow.dots import Unit, begin, spread_others
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
_VECTORS = (1, 2, 4)
_PANELS = (1, 2, 3, 4, 5, 6, 9, 12, 15, 16, 18, 24, 30, 36)
_BLOCKS = (1, 2, 4, 7, 8, 14)
_SPARE = 4  # registers: how bytes are shuffled, limits of results
_COPIED = 64  # bytes of the widest vector that copies an image
_COLUMN, _RESULT, _AROUND = 3.0, 8.0, 10.0  # instructions: of a column, of a vector of results, around a tile
_PIXEL = 4.0  # of a pixel that is copied, beside its bytes
_NEAR = 32 << 10  # bytes of a copy that stays in the first-level cache
_PACKED = 1.0  # instructions less where several vectors become bytes at once
_FAR = 1.03  # times that a tile takes longer where it does not


def _unit(lanes: int, *features: str) -> Unit:
    name = f"columns_{lanes}x{COLUMN}_vnni"
    return Unit(name, frozenset(features), lanes, GROUP, "int32", ("uint8",), ("int8",))


_UNITS = (  # the faster first
    _unit(16, "avx512vnni", "avx512bw"),
    _unit(8, "avxvnni"),
    _unit(8, "avx512vnni", "avx512vl"),
)


@dataclass(frozen=True)
class Windows:
    """A depthwise convolution by windows of three rows.
    It reads `image[…, y·step + r, x·stride + s, v]` and taps, which have `r`, `s` and `v`. `others` are the axes of
    results left."""

    v: BlockAxis
    y: BlockAxis
    x: BlockAxis
    r: BlockAxis
    s: BlockAxis
    image: BlockAccess
    taps: BlockAccess
    others: tuple[BlockAxis, ...]
    stride: int


def windows_of(info: BlockInfo) -> Windows | None:
    """Return the parts of a depthwise convolution with windows of three rows.
    None for anything else, and for channels that are not last."""
    if len(info.inputs) != 2 or len(info.output.axes_by_dim) < 3:
        return None
    long = {a.position: a for a in info.axes if a.extent > 1}
    image, taps = info.inputs
    image_dims, taps_dims, out_dims = (
        [[long[p] for p in sorted(dim & long.keys())] for dim in access.axes_by_dim]
        for access in (image, taps, info.output)
    )
    if len(image_dims) != len(out_dims) or [len(dim) for dim in image_dims[-3:]] != [2, 2, 1]:
        return None
    rows, columns, [v] = image_dims[-3:]
    reduced = [[a for a in dim if a.reduce] for dim in (rows, columns)]
    kept = [[a for a in dim if not a.reduce] for dim in (rows, columns)]
    if [len(dim) for dim in (*reduced, *kept)] != [1, 1, 1, 1]:
        return None
    ([r], [s]), ([y], [x]) = reduced, kept
    plain = out_dims[-3:] == [[y], [x], [v]] and out_dims[:-3] == image_dims[:-3]
    plain &= [dim[:1] for dim in taps_dims] == [[r], [s], [], [v]] and all(len(dim) <= 1 for dim in taps_dims)
    plain &= len([a for a in long.values() if a.reduce]) == 2 and r.extent == COLUMN
    if not plain:
        return None
    others = tuple(a for a in info.spatial if a not in (v, y, x))
    stride = max(1, width_of(image) // x.extent)  # near enough for an estimate
    return Windows(v, y, x, r, s, image, taps, others, stride)


def width_of(image: BlockAccess) -> int:
    """The pixels in a row of an image with channels last."""
    return as_int(image.buffer.shape[-2]) or 1


def windows_unit(info: BlockInfo, target: Target) -> Unit | None:
    """The fastest unit of `target` that can compute a depthwise convolution; None if there is none."""
    found = windows_of(info)
    if found is None or info.output.buffer.dtype != "int32":
        return None
    for unit in _UNITS:
        fits = found.image.buffer.dtype in unit.scalar and found.taps.buffer.dtype in unit.vector
        if fits and found.v.extent % unit.lanes == 0 and unit.is_available(target):
            return unit
    return None


def windows_sketch(func: PrimFunc, name: str, unit: Unit, target: Target) -> Sketch | None:
    """The sketch that uses `unit`; None where the block's body is not what the unit computes."""
    sch, recorder, blocks, info = begin(func, name)
    work = windows_of(info)
    if work is None:
        return None
    epilogue = epilogue_of(sch.func, info, blocks)
    padding = _padding(info, work, blocks)
    spread_others(sch, {name, epilogue, padding}, target)
    copied = next(c for c in (_COPIED, _COPIED // 2, unit.lanes) if work.v.extent % c == 0)
    try:
        _tile(sch, recorder, info, work, unit, epilogue, padding, copied)
    except ScheduleError:
        return None
    judge = _Judge(work, unit, copied if padding is not None else 1, max(1, target.num_cores or 1), target)
    return Sketch(unit.intrin, sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _padding(info: BlockInfo, work: Windows, blocks: tuple[BlockInfo, ...]) -> str | None:
    """The name of the block that puts zeros around the image for this convolution alone."""
    makers = [b for b in blocks if b.output.buffer is work.image.buffer and b.injective and b.conditional]
    return makers[0].name if makers and consumers(makers[0], blocks) == (info,) else None


def _tile(
    sch: Schedule, recorder: Recorder, info: BlockInfo, work: Windows, unit: Unit, epilogue: str | None,
    padding: str | None, copied: int,
) -> None:  # fmt: skip
    """Schedule the convolution, the block `padding` before it, and `epilogue` on sums in registers."""
    block = sch.get_block(info.name)
    writer = sum_in_registers(sch, block, epilogue)
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    most = work.v.extent // unit.lanes
    rows = recorder.choose("rows", tuple(r for r in _ROWS if r <= work.x.extent)).rv
    vectors = recorder.choose("vectors", tuple(v for v in _VECTORS if most % v == 0)).rv
    panel = recorder.choose("panel", tuple(p for p in _PANELS if most % p == 0)).rv
    high = recorder.choose("block", tuple(b for b in _BLOCKS if work.y.extent % b == 0)).rv
    y_outer, y_inner = sch.split(loops[work.y.position], [None, high])
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[work.v.position], [None, panel, vectors, unit.lanes])
    x_outer, x_tile = sch.split(loops[work.x.position], [None, rows])
    batch = [loops[a.position] for a in work.others]
    units = [loops[a.position] for a in info.reduced if a not in (work.r, work.s)]
    column, group = loops[work.s.position], loops[work.r.position]
    parallel = [*batch, y_outer, v_outer]
    sch.reorder(*parallel, y_inner, v_panel, x_outer, x_tile, v_tile, *units, column, v_lane, group)
    sch.reverse_compute_at(writer, x_outer, preserve_unit_loops=True)
    if padding is not None:
        copy = sch.get_block(padding)
        sch.compute_at(copy, v_outer, preserve_unit_loops=True)
        _, lane = sch.split(sch.get_loops(copy)[-1], [None, copied])
        sch.vectorize(lane)
    sch.parallel(fuse_all(sch, parallel))
    init = sch.decompose_reduction(block, (*units, column)[0])
    for loop in (x_tile, v_tile, column):
        sch.unroll(loop)
    sch.tensorize(v_lane, unit.intrin)
    sch.vectorize(sch.get_loops(init)[-1])
    whole_tail(sch, writer, depth=4)


@dataclass(frozen=True)
class _Judge:
    """The judge of points: what is allowed, and what should be fast.
    Copies come in vectors of `copied` bytes, 1 if there are none."""

    work: Windows
    unit: Unit
    copied: int
    threads: int
    target: Target

    def allowed(self, values: Values) -> bool:
        """Tasks have whole panels and copy whole vectors; columns in use and sums fit the registers."""
        wide = values["vectors"] * values["panel"] * self.unit.lanes
        if self.work.v.extent % wide or wide % self.copied:
            return False
        held = values["vectors"] * (values["rows"] + 2 * self.work.s.extent) + _SPARE
        return values["rows"] <= 1 or held <= self.target.vector_registers

    def draft(self, values: Values) -> float:
        """Score a point by the instructions for a vector of results, of whole tiles and busy threads."""
        work, rows, high = self.work, values["rows"], values["block"]
        wide = values["vectors"] * values["panel"] * self.unit.lanes
        taps, stride = work.s.extent, min(work.stride, work.s.extent)
        columns = ((rows - 1) * stride + taps) / rows
        lines = ((high - 1) * stride + COLUMN) / high * stride  # of the image copied, for a row of results
        pixel = _PIXEL * self.unit.lanes / wide + self.unit.lanes / self.copied
        copied = 0.0 if self.copied == 1 else lines * pixel
        around = (_AROUND + values["vectors"] * taps * _COLUMN) / (rows * values["vectors"])
        result = _RESULT - (_PACKED if values["vectors"] > 1 else 0.0)
        one = columns * _COLUMN + taps + result + copied + around
        held = ((high - 1) * stride + COLUMN) * width_of(work.image) * wide
        far = _FAR if held > _NEAR else 1.0
        whole = work.x.extent / (-(-work.x.extent // rows) * rows)
        tasks = math.prod(a.extent for a in work.others) * (work.y.extent // high) * (work.v.extent // wide)
        balance = tasks / (-(-tasks // self.threads) * self.threads)
        return whole * balance / (one * far)
