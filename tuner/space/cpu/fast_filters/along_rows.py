"""Sketches of convolutions by fast filters (see `Schedule.winograd`).

2 × 2 results take 16 products instead of 36.

    phases of the image                                  in parallel
    taps, transformed                                    in parallel; ahead of all calls, where they may be packed
    for each band of tile rows (parallel):
        tiles of the band, transformed                   16 matrices, near in the cache
        for each of the 16: product of taps and tiles    a register tile, as any product of matrices
        results, transformed back

A late layer has few pixels and many filters: one band, and the taps of a `chunk` of filters stay near instead. Tiles
of 4 × 4 results take 36 products instead of 144. Their sums lose a digit more, and their transforms have many
numbers under way. So they only pay where registers hold many.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.lower.blocks.split_preproc import layout_free
from compiler.lower.loops.inject_prefetch import SOFTWARE_PREFETCH
from compiler.lower.loops.prefetch_group import NEXT_TASK
from compiler.schedule.core.rv import BlockRV, LoopRV
from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockAxis, BlockInfo, blocks_of, consumers, is_pointwise
from tuner.space.cpu.elementwise import inline_chains, spread
from tuner.space.cpu.fast_filters.sizes import (
    LARGE_TILE,
    TILE,
    WinogradSizes,
    WinogradSplit,
    summed_channels,
    summed_depths,
    tile_widths,
    winograd_splits,
)
from tuner.space.cpu.hardware import Hardware
from tuner.space.cpu.panels import ahead_of_time, panel_dim
from tuner.space.cpu.roles import Roles
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16)
_UNROLLS = (1, 2, 4, 8)
_PROMISE = {TILE: 1.3, LARGE_TILE: 2.2}  # times faster than a plain sum at its best, operations that are saved apart
_LONGEST_ROW = 32  # tiles in a row that are transformed at a time
_APART = 32  # planes are an odd number of cache lines apart: else all lie in few sets of a cache


def winograd_sketches(func: PrimFunc, info: BlockInfo, roles: Roles, hardware: Hardware) -> list[Sketch]:
    """Return the sketches of the block `info` by Winograd's filters.
    There are none where it is no convolution without strides that this could pay for."""
    found = winograd_splits(func, info, roles, hardware)
    if found is None:
        return []
    sizes, splits = found
    taps = None if roles.scalar_operand is None else info.inputs[roles.scalar_operand]
    free = taps if taps is not None and taps.buffer in layout_free(func) else None
    return [_sketch(func, info, split, sizes, hardware, free) for split in splits]


def _sketch(
    func: PrimFunc, info: BlockInfo, split: WinogradSplit, sizes: WinogradSizes, hardware: Hardware,
    free: BlockAccess | None,
) -> Sketch:  # fmt: skip
    """The sketch of `split`.
    `free` taps that are all transformed at once can be transformed ahead of all calls. Those of chunks are only
    packed then; transformed, they would take four times the memory."""
    sch = Schedule(func)
    recorder = Recorder(sch)
    made = sch.winograd(sch.get_block(info.name), sizes.tile, split.band, split.multiple)
    ahead = free is not None and split.chunk == sizes.filters
    channels = summed_channels(info)[0]
    packed = None if ahead or free is None else _packed_taps(sch, made[3], free, channels, hardware.lanes)
    own = {sch.get(block).name_hint for block in (*made, *([] if packed is None else [packed]))}
    inline_chains(sch, kept=own)
    last = with_epilogue(sch, info.name)
    padding = padding_of(sch, made[0])
    for other in blocks_of(sch.func):
        if other.injective and other.name not in {*own, padding, sch.get(last).name_hint}:
            spread(sch, other, hardware.lanes)
    phases, lines, tiles, tap_lines, taps, product, out_lines, _ = made
    depths = () if packed is None else summed_depths(split, sizes, hardware)
    if depths:
        depth = recorder.choose("depth", depths).rv
        *_, summed = sch.get_loops(product)
        parts, _ = sch.split(summed, [None, depth])
        part, planes = sch.rfactor(parts, 0, factor_first=False), product
        sch.set_scope(part, 0, "local")
    else:
        planes = sch.cache_write(product, 0, "global")
    for block in (tiles, planes):
        sch.storage_align(block, 0, 2, _APART, 64 // 4)
    if split.chunk < sizes.filters:
        sch.storage_align(taps, 0, 1, _APART, 64 // 4)
    _split_phases(sch, phases, padding)
    bands, chunk = _results(sch, last, out_lines, split, sizes)
    sch.compute_at(planes, chunk, preserve_unit_loops=True)
    at = chunk if split.chunk < sizes.filters else None
    if depths:
        k_outer, at = _multiply_parts(sch, recorder, product, part, split, hardware)
    else:
        sch.compute_at(product, chunk, preserve_unit_loops=True)
        k_outer = _multiply(sch, recorder, product, planes, split, sizes, hardware)
    if packed is not None:  # they come from memory, and the next chunk's meanwhile
        sch.annotate(k_outer, SOFTWARE_PREFETCH, NEXT_TASK)
    _transform_taps(sch, taps, tap_lines, at, hardware)
    if ahead:
        ahead_of_time(sch, taps)
    _transform_tiles(sch, tiles, lines, bands[-1] if split.band else None, split)
    parallel = bands if split.band else [*bands, chunk]
    sch.parallel(sch.fuse(*parallel))
    judge = _Judge(split, sizes, hardware)
    name = f"winograd{sizes.tile}" + (f"+band{split.band}" if split.band else f"+chunk{split.chunk}")
    return Sketch(
        name + "+ahead" * (ahead or packed is not None),
        sch.trace,
        tuple(recorder.decisions),
        judge.allowed,
        judge.draft,
    )


def with_epilogue(sch: Schedule, name: str) -> BlockRV:
    """The block that writes the result, with the convolution in it.
    It is the only elementwise consumer, if there is one."""
    blocks = blocks_of(sch.func)
    main = next(b for b in blocks if b.name == name)
    users = consumers(main, blocks)
    if main.output.buffer in sch.func.buffer_map.values() or len(users) != 1:
        return sch.get_block(name)
    if not is_pointwise(users[0], main.output.buffer):
        return sch.get_block(name)
    sch.compute_inline(sch.get_block(name))
    return sch.get_block(users[0].name)


def padding_of(sch: Schedule, phases: BlockRV) -> str | None:
    """The block that pads the image, if only the phases read what it makes."""
    blocks = blocks_of(sch.func)
    reader = next(b for b in blocks if b.name == sch.get(phases).name_hint)
    read = {access.buffer for access in reader.inputs}
    made = [b for b in blocks if b.output.buffer in read and b.injective and consumers(b, blocks) == (reader,)]
    return made[0].name if made else None


def _split_phases(sch: Schedule, phases: BlockRV, padding: str | None) -> None:
    """An image of a channel is padded just before it is split, so that it is still near.
    A row at a time would be read before it has arrived in the cache."""
    *around, _, phase, along = sch.get_loops(phases)
    sch.unroll(phase)
    sch.vectorize(along)
    image = sch.fuse(*around)
    sch.parallel(image)
    if padding is not None:
        padded = sch.get_block(padding)
        sch.compute_at(padded, image)
        sch.vectorize(sch.get_loops(padded)[-1])


def _results(
    sch: Schedule, last: BlockRV, out_lines: BlockRV, split: WinogradSplit, sizes: WinogradSizes
) -> tuple[list[LoopRV], LoopRV]:
    """The loops around all that belongs to a band, and around a chunk of filters."""
    *batch, filters, y, x = sch.get_loops(last)
    band, row, inner_y = sch.split(y, [None, split.rows, sizes.tile])
    chunk, one = sch.split(filters, [None, split.chunk])
    along, inner_x = sch.split(x, [split.columns, sizes.tile] if split.multiple > 1 else [None, sizes.tile])
    bands = [*batch, band]
    sch.reorder(*bands, chunk, one, row, inner_y, inner_x, along)
    sch.compute_at(out_lines, row, preserve_unit_loops=True)
    sch.set_scope(out_lines, 0, "local")
    depth = len(bands) + 3
    # band, i, b, the batch, a filter, a row, its tiles
    _, i, b, *_, tiles = sch.get_loops(out_lines)[depth:]
    for loop in (i, b, inner_y, inner_x):
        sch.unroll(loop)
    for loop in (tiles, along):
        _vectorize(sch, loop, split.columns)
    return bands, chunk


def _vectorize(sch: Schedule, loop: LoopRV, extent: int) -> None:
    """Make a row of tiles one vector, which is cut into the machine's.
    A last half of one is then still a vector."""
    if extent > _LONGEST_ROW:
        _, loop = sch.split(loop, [None, _LONGEST_ROW // 2])
    sch.vectorize(loop)


def _multiply(
    sch: Schedule, recorder: Recorder, product: BlockRV, planes: BlockRV, split: WinogradSplit, sizes: WinogradSizes,
    hardware: Hardware,
) -> LoopRV:  # fmt: skip
    """The register tile of the products of matrices; the loop of its sums."""
    whole = split.chunk == sizes.filters
    rows = tuple(r for r in _ROWS if r <= split.chunk and (whole or split.chunk % r == 0))
    tile_rows = recorder.choose("rows", rows).rv
    width = recorder.choose("width", tile_widths(split.tiles, hardware.lanes)).rv
    factors = tuple(u for u in _UNROLLS if sizes.channels % u == 0)
    unroll = recorder.choose("unroll", factors).rv
    *_, filters, tiles, channels = sch.get_loops(product)
    f_outer, f_tile = sch.split(filters, [None, tile_rows])
    t_outer, t_lane = sch.split(tiles, [None, width])
    k_outer, k_inner = sch.split(channels, [None, unroll])
    sch.reorder(t_outer, f_outer, k_outer, k_inner, f_tile, t_lane)
    sch.set_scope(product, 0, "local")
    sch.reverse_compute_at(planes, f_outer, preserve_unit_loops=True)
    *_, p_row, p_lane = sch.get_loops(planes)
    zero = sch.decompose_reduction(product, k_outer)
    *_, z_row, z_lane = sch.get_loops(zero)
    for loop in (k_inner, f_tile, z_row, p_row):
        sch.unroll(loop)
    for loop in (t_lane, z_lane, p_lane):
        sch.vectorize(loop)
    return k_outer


def _multiply_parts(
    sch: Schedule, recorder: Recorder, product: BlockRV, part: BlockRV, split: WinogradSplit, hardware: Hardware
) -> tuple[LoopRV, LoopRV]:
    """The products of some channels at a time, added up in memory.
    Returns the loop of a sum in registers, and the loop over parts of the channels."""
    tile_rows = recorder.choose("rows", tuple(r for r in _ROWS if split.chunk % r == 0)).rv
    width = recorder.choose("width", tile_widths(split.tiles, hardware.lanes)).rv
    unroll = recorder.choose("unroll", _UNROLLS).rv
    *planes, filters, tiles, parts = sch.get_loops(product)[-len(sch.get(product).iter_vars) :]
    f_outer, f_tile = sch.split(filters, [None, tile_rows])
    t_outer, t_lane = sch.split(tiles, [None, width])
    sch.reorder(parts, *planes, t_outer, f_outer, f_tile, t_lane)
    sch.compute_at(part, f_outer, preserve_unit_loops=True)
    *_, p_row, p_lane, p_of, channels = sch.get_loops(part)
    k_outer, k_inner = sch.split(channels, [None, unroll])
    sch.reorder(p_of, k_outer, k_inner, p_row, p_lane)
    zero = sch.decompose_reduction(part, k_outer)
    *_, z_row, z_lane = sch.get_loops(zero)
    clear = sch.decompose_reduction(product, parts)
    *_, c_lane = sch.get_loops(clear)
    for loop in (k_inner, p_row, z_row, f_tile):
        sch.unroll(loop)
    for loop in (t_lane, p_lane, z_lane, c_lane):
        sch.vectorize(loop)
    return k_outer, parts


def _packed_taps(sch: Schedule, lines: BlockRV, access: BlockAccess, channels: BlockAxis, lanes: int) -> BlockRV | None:
    """Put the taps of as many channels as a vector has lanes side by side, ahead of all calls.
    Gathering them takes as long as all products of a late layer. None if channels are no whole vectors."""
    dim = panel_dim(access, channels.position)
    if dim is None or channels.extent % lanes:
        return None
    copy = sch.cache_read(lines, sch.read_index(lines, access.buffer.name), "global")
    ahead_of_time(sch, copy)
    sch.parallel(sch.get_loops(copy)[0])
    indices = [f"i{d}" for d in range(len(access.axes_by_dim))]
    outer = [f"i{d} // {lanes}" if d == dim else f"i{d}" for d in range(len(indices))]
    layout = f"lambda {', '.join(indices)}: ({', '.join(outer)}, i{dim} % {lanes})"
    sch.transform_layout(copy, ("write", 0), layout)
    return copy


def _transform_taps(sch: Schedule, taps: BlockRV, lines: BlockRV, at: LoopRV | None, hardware: Hardware) -> None:
    """Transform the taps of all filters first, or of a chunk of them at `at`."""
    if at is not None:
        sch.compute_at(taps, at, preserve_unit_loops=True)
    a, b, filters, channels = sch.get_loops(taps)[-4:]
    outer, lane = sch.split(channels, [None, hardware.lanes])
    sch.reorder(filters, outer, a, b, lane)
    sch.compute_at(lines, outer, preserve_unit_loops=True)
    sch.set_scope(lines, 0, "local")
    l_a, l_filter, l_lane, l_s = sch.get_loops(lines)[-4:]
    sch.reorder(l_filter, l_a, l_s, l_lane)
    for loop in (a, b, l_a, l_s):
        sch.unroll(loop)
    for loop in (lane, l_lane):
        sch.vectorize(loop)
    if at is None:
        sch.parallel(filters)


def _transform_tiles(sch: Schedule, tiles: BlockRV, lines: BlockRV, at: LoopRV | None, split: WinogradSplit) -> None:
    """The tiles of a band at `at`, or of all bands first."""
    if at is not None:
        sch.compute_at(tiles, at, preserve_unit_loops=True)
    axes = len(sch.get(tiles).iter_vars)
    band, a, b, *batch, channel, row, along = sch.get_loops(tiles)[-axes:]
    sch.reorder(band, *batch, channel, row, a, b, along)
    sch.compute_at(lines, row, preserve_unit_loops=True)
    sch.set_scope(lines, 0, "local")
    _, l_a, l_s, *_, l_along = sch.get_loops(lines)[-axes:]
    sch.reorder(l_s, l_a)
    for loop in (a, b, l_a, l_s):
        sch.unroll(loop)
    for loop in (along, l_along):
        _vectorize(sch, loop, split.columns)
    if at is None:
        sch.parallel(sch.fuse(band, *batch, channel))


# --------------------------------------------------------------------------------------- judging


@dataclass(frozen=True)
class _Judge:
    """Judges the decisions: the register tile, and how far a band's tiles and the filters fill it."""

    split: WinogradSplit
    sizes: WinogradSizes
    hardware: Hardware

    def allowed(self, values: Values) -> bool:
        return values["rows"] * self._vectors(values) + 1 <= self.hardware.registers

    def draft(self, values: Values) -> float:
        rows, vectors = values["rows"], self._vectors(values)
        operations = rows * vectors
        whole, rest = divmod(values["width"], self.hardware.lanes)
        filled = (
            values["width"] / self.hardware.lanes / (whole + rest.bit_count())
        )  # the rest is loaded in powers of two
        filled *= self.split.chunk / (-(-self.split.chunk // rows) * rows)
        loads = 1.0 / (1.0 + 0.5 * (rows + vectors) / operations)
        spill = 1.0 if operations + vectors + 1 <= self.hardware.registers else 0.7
        return _PROMISE[self.sizes.tile] * filled * min(1.0, operations / 10) * loads * spill

    def _vectors(self, values: Values) -> int:
        return -(-values["width"] // self.hardware.lanes)
