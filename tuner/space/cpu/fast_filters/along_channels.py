"""Sketches of convolutions by fast filters, of images with channels last (see `Schedule.winograd`).

    taps, transformed                                    ahead of all calls, where they may be packed
    for each band of tile rows (parallel):
        the band's pixels, padded and widened
        tiles of the band, transformed                   vectors of channels; 36 matrices, near in the cache
        for each of the 36: product of tiles and taps    a register tile, as any product of matrices
        results, transformed back                        vectors of filters

Where the taps are more than a cache holds, one band has all tiles, and chunks of filters are in parallel. Numbers may
be narrower than the sums, which bfloat16 in float32 are: 36 products in float32 take less time than 144 of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.lower.blocks.split_preproc import layout_free
from compiler.lower.loops.inject_prefetch import SOFTWARE_PREFETCH
from compiler.lower.loops.prefetch_group import NEXT_PANEL
from compiler.schedule.core.rv import BlockRV, ExprRV, LoopRV
from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockInfo, blocks_of
from tuner.space.cpu.elementwise import inline_chains, spread
from tuner.space.cpu.fast_filters.along_rows import padding_of, with_epilogue
from tuner.space.cpu.fast_filters.sizes import summed_channels
from tuner.space.cpu.hardware import Hardware
from tuner.space.cpu.panels import ahead_of_time, panel_dim
from tuner.space.cpu.roles import Roles
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_TILE = 4  # smaller ones save too little beside products of pairs
_PRODUCTS = 36
_MOST_CHANNELS = 256  # of float32: the more are added up, the more digits of their sums are lost
_MOST_NARROW_CHANNELS = 1024  # of narrower numbers, which have fewer digits to lose
_MOST_BYTES = 32 << 20  # of all tiles and their products
_LEAST_TILES = 8  # for fewer, it takes longer to load taps than to use them
_ROWS = tuple(range(1, 15))
_VECTORS = (1, 2, 3, 4)
_UNROLLS = (1, 2, 4)
_WINDOW = 9
_LATENCY = 10  # sums that hide how long a multiplication takes
_TRANSFORM = 350  # multiplications that take as long as to transform a vector of tiles there or back
_LOADED, _CACHED = 8, 20  # bytes in the time of a multiplication, from memory and from the last cache
_PLAIN = 0.85  # how a sketch of pairs that is as fast as its instruction is scored
_APART = 32  # planes are an odd number of cache lines apart: else all lie in few sets of a cache
_BYTES = 4  # of a sum
_LINE = 64 // _BYTES
PAIRS = 2
_LEAST_REGISTERS = 32  # vectors of 64 bytes: transforms have many numbers under way


@dataclass(frozen=True)
class _Sizes:
    filters: int
    channels: int
    rows: int  # of tiles
    columns: int
    images: int
    pixels: int


@dataclass(frozen=True)
class _Split:
    """`band` rows of tiles at a time (0: all), which are `tiles`."""

    band: int
    tiles: int


def winograd_channel_sketches(
    func: PrimFunc, info: BlockInfo, roles: Roles, hardware: Hardware, beside: int = 1
) -> list[Sketch]:
    """Return the sketches of the block `info` by fast filters with channels along vectors.
    There are none where it is no convolution of 3 × 3 without strides that this could pay for. `beside` is how many
    products an instruction of other sketches adds to a sum at once."""
    sizes = _sizes(func, info, roles, hardware)
    if sizes is None:
        return []
    return [_sketch(func, info, roles, split, sizes, hardware, beside) for split in _splits(sizes, hardware)]


def _sizes(func: PrimFunc, info: BlockInfo, roles: Roles, hardware: Hardware) -> _Sizes | None:
    channels = summed_channels(info)
    if roles.vector_operand is None or roles.scalar_operand is None or len(info.reduced) != 3 or len(channels) != 1:
        return None
    image, dims = info.inputs[roles.scalar_operand], info.output.axes_by_dim
    if image.innermost != {channels[0].position} or len(dims) != 4 or dims[-1] != {roles.v.position}:
        return None
    if hardware.registers < _LEAST_REGISTERS or parse_dtype(info.output.buffer.dtype).bytes != _BYTES:
        return None
    whole = all(axis.extent % hardware.lanes == 0 for axis in (roles.v, channels[0]))
    most = _MOST_CHANNELS if parse_dtype(image.buffer.dtype).bytes >= _BYTES else _MOST_NARROW_CHANNELS
    window = {a.extent for a in info.reduced if a is not channels[0]}
    if not whole or channels[0].extent > most or window != {3}:
        return None
    try:
        sch = Schedule(func)
        sch.winograd(sch.get_block(info.name), _TILE)
    except ScheduleError:
        return None
    images, high, wide = (info.axes[next(iter(dim))].extent if dim else 1 for dim in dims[:3])
    rows, columns = -(-high // _TILE), -(-wide // _TILE)
    if images * rows * columns < _LEAST_TILES:
        return None
    return _Sizes(roles.v.extent, channels[0].extent, rows, columns, images, images * high * wide)


def _splits(sizes: _Sizes, hardware: Hardware) -> list[_Split]:
    """All tiles at once, and bands of which each thread has as many, as long as they are near.
    All tiles of a large image are left out, because they take a multiple of its memory."""
    row = _PRODUCTS * (sizes.channels + sizes.filters) * _BYTES * sizes.columns
    near = [band for band in range(2, sizes.rows) if band * row <= 2 * hardware.l2_bytes]

    def busiest(band: int) -> tuple[int, int]:
        bands = sizes.images * -(-sizes.rows // band)
        return -(-bands // hardware.threads) * band, -band

    whole = sizes.images == 1 and sizes.rows * row <= _MOST_BYTES
    found = [*([0] if whole else []), *([min([1, *near], key=busiest)] if sizes.rows > 1 or not whole else [])]
    return [_Split(band, (band or sizes.rows) * sizes.columns) for band in found]


def _sketch(
    func: PrimFunc, info: BlockInfo, roles: Roles, split: _Split, sizes: _Sizes, hardware: Hardware, beside: int
) -> Sketch:
    sch = Schedule(func)
    recorder = Recorder(sch)
    assert roles.vector_operand is not None
    access = info.inputs[roles.vector_operand]
    ahead = access.buffer in layout_free(func)
    made = sch.winograd(sch.get_block(info.name), _TILE, split.band)
    phases, lines, tiles, tap_lines, taps, product, out_lines, _ = made
    own = {sch.get(block).name_hint for block in made}
    inline_chains(sch, kept=own)
    last = with_epilogue(sch, info.name)
    padding = padding_of(sch, phases)
    if padding is not None:
        sch.compute_inline(sch.get_block(padding))
    for other in blocks_of(sch.func):
        if other.injective and other.name not in {*own, sch.get(last).name_hint}:
            spread(sch, other, hardware.lanes)
    vectors = recorder.choose("vectors", _fitting(sizes.filters // hardware.lanes, _VECTORS)).rv
    chunk = recorder.choose("chunk", _chunks(sizes, split, hardware)).rv
    planes = sch.cache_write(product, 0, "global")
    for block in (tiles, planes):
        sch.storage_align(block, 0, 2, _APART, _LINE)
    bands, chunks = _results(sch, last, out_lines, split, sizes, chunk, hardware.lanes)
    sch.compute_at(planes, chunks, preserve_unit_loops=True)
    sch.compute_at(product, chunks, preserve_unit_loops=True)
    k_outer = _multiply(sch, recorder, product, planes, split, sizes, vectors, hardware.lanes)
    if ahead:
        sch.annotate(k_outer, SOFTWARE_PREFETCH, NEXT_PANEL)
    filters_last = _filters_last(access, roles, summed_channels(info)[0].position)
    _transform_taps(sch, taps, tap_lines, filters_last, [vectors, chunk], hardware.lanes)
    if ahead:
        ahead_of_time(sch, taps)
    _transform_tiles(sch, phases, tiles, lines, bands[-1] if split.band else None, hardware.lanes)
    sch.parallel(sch.fuse(*bands) if split.band else sch.fuse(*bands, chunks))
    judge = _Judge(split, sizes, hardware, beside)
    name = "winograd-channels" + (f"+band{split.band}" if split.band else "")
    return Sketch(name + "+ahead" * ahead, sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _fitting(extent: int, values: Sequence[int]) -> tuple[int, ...]:
    return tuple(value for value in values if extent % value == 0)


def _chunks(sizes: _Sizes, split: _Split, hardware: Hardware) -> tuple[int, ...]:
    """Filters at a time: all of them in bands."""
    if split.band:
        return (sizes.filters,)
    lanes = hardware.lanes
    return tuple(c for c in range(lanes, sizes.filters + 1, lanes) if sizes.filters % c == 0)


def _filters_last(taps: BlockAccess, roles: Roles, channels: int) -> bool:
    """Whether filters come after channels in the taps' dimensions."""
    filters, depth = panel_dim(taps, roles.v.position), panel_dim(taps, channels)
    assert filters is not None
    assert depth is not None
    return filters > depth


def _results(
    sch: Schedule, last: BlockRV, out_lines: BlockRV, split: _Split, sizes: _Sizes, chunk: ExprRV, lanes: int
) -> tuple[list[LoopRV], LoopRV]:
    """The loops around all that belongs to a band, and around a chunk of filters."""
    image, y, x, filters = sch.get_loops(last)
    band, row, inner_y = sch.split(y, [None, split.band or sizes.rows, _TILE])
    chunks, one = sch.split(filters, [None, chunk])
    vectors, lane = sch.split(one, [None, lanes])
    column, inner_x = sch.split(x, [None, _TILE])
    around = [image, band, chunks, row, column, vectors]
    sch.reorder(*around, inner_y, inner_x, lane)
    sch.compute_at(out_lines, vectors, preserve_unit_loops=True)
    sch.set_scope(out_lines, 0, "local")
    _, i, b, *_, along = sch.get_loops(out_lines)[len(around) :]
    sch.reorder(b, i)
    for loop in (i, b, inner_y, inner_x):
        sch.unroll(loop)
    for loop in (along, lane):
        sch.vectorize(loop)
    return [image, band], chunks


def _multiply(
    sch: Schedule, recorder: Recorder, product: BlockRV, planes: BlockRV, split: _Split, sizes: _Sizes,
    vectors: ExprRV, lanes: int,
) -> LoopRV:  # fmt: skip
    """The register tile of the products of matrices, tiles by vectors of filters; the loop of its sums."""
    rows = recorder.choose("rows", _fitting(split.tiles, _ROWS)).rv
    unroll = recorder.choose("unroll", _fitting(sizes.channels, _UNROLLS)).rv
    *_, tiles, filters, channels = sch.get_loops(product)
    t_outer, t_tile = sch.split(tiles, [None, rows])
    f_outer, f_tile, f_lane = sch.split(filters, [None, vectors, lanes])
    k_outer, k_inner = sch.split(channels, [None, unroll])
    sch.reorder(f_outer, t_outer, k_outer, k_inner, t_tile, f_tile, f_lane)
    sch.set_scope(product, 0, "local")
    sch.reverse_compute_at(planes, t_outer, preserve_unit_loops=True)
    *_, p_row, p_along = sch.get_loops(planes)
    p_tile, p_lane = sch.split(p_along, [None, lanes])
    zero = sch.decompose_reduction(product, k_outer)
    *_, z_row, z_tile, z_lane = sch.get_loops(zero)
    for loop in (k_inner, t_tile, f_tile, z_row, z_tile, p_row, p_tile):
        sch.unroll(loop)
    for loop in (f_lane, z_lane, p_lane):
        sch.vectorize(loop)
    return k_outer


def _transform_taps(
    sch: Schedule, taps: BlockRV, lines: BlockRV, filters_last: bool, sizes: Sequence[ExprRV], lanes: int
) -> None:
    """Transform the taps of all filters, and put them in the order in which register tiles read them.
    `sizes`: vectors in a register tile, and filters in a chunk."""
    a, b, *others = sch.get_loops(taps)
    outer, lane = sch.split(others[1], [None, lanes])
    sch.reorder(others[0], outer, a, b, lane)
    sch.compute_at(lines, outer, preserve_unit_loops=True)
    sch.set_scope(lines, 0, "local")
    l_a, *_, l_lane, l_s = sch.get_loops(lines)[-4:]
    sch.reorder(l_a, l_s, l_lane)
    for loop in (a, b, l_a, l_s):
        sch.unroll(loop)
    for loop in (lane, l_lane):
        sch.vectorize(loop)
    sch.parallel(others[0])
    c, f = ("i", "j") if filters_last else ("j", "i")
    width = f"(t * {lanes})"
    layout = f"lambda a, b, i, j, t, n: ({f} // n, a, b, {f} % n // {width}, {c}, {f} % {width})"
    sch.transform_layout(taps, ("write", 0), layout, sizes=sizes)


def _transform_tiles(
    sch: Schedule, phases: BlockRV, tiles: BlockRV, lines: BlockRV, at: LoopRV | None, lanes: int
) -> None:
    """The tiles of a band at `at`, or of all first."""
    if at is not None:
        sch.compute_at(tiles, at, preserve_unit_loops=True)
    band, a, b, image, row, column, channels = sch.get_loops(tiles)[-7:]
    outer, lane = sch.split(channels, [None, lanes])
    sch.reorder(band, image, row, column, outer, a, b, lane)
    sch.compute_at(lines, outer, preserve_unit_loops=True)
    sch.set_scope(lines, 0, "local")
    _, l_a, l_s, *_, l_lane = sch.get_loops(lines)[-7:]
    sch.reorder(l_s, l_a)
    for loop in (a, b, l_a, l_s):
        sch.unroll(loop)
    for loop in (lane, l_lane):
        sch.vectorize(loop)
    if at is None:
        row = sch.fuse(band, image, row)
        sch.parallel(row)
    sch.compute_at(phases, row, preserve_unit_loops=True)
    _, p_lane = sch.split(sch.get_loops(phases)[-1], [None, lanes])
    sch.vectorize(p_lane)


# --------------------------------------------------------------------------------------- judging


@dataclass(frozen=True)
class _Judge:
    """Judges the decisions: the register tile, and how evenly threads share the work."""

    split: _Split
    sizes: _Sizes
    hardware: Hardware
    beside: int

    def allowed(self, values: Values) -> bool:
        """Whether tiles are whole, and their sums and the taps under way fit the registers."""
        rows, vectors = values["rows"], values["vectors"]
        loaded = vectors * min(2, values["unroll"])
        whole = values["chunk"] % (vectors * self.hardware.lanes) == 0
        return whole and rows * vectors + loaded < self.hardware.registers

    def draft(self, values: Values) -> float:
        """Score a point by the time of the plain sum over its own, in multiplications of a vector."""
        sizes, threads = self.sizes, self.hardware.threads
        bands = sizes.images * (-(-sizes.rows // self.split.band) if self.split.band else 1)
        tiles, vectors = bands * self.split.tiles, self._vectors(sizes.filters)
        tasks = bands if self.split.band else sizes.filters // values["chunk"]
        share = -(-tasks // threads) / tasks
        products = _PRODUCTS * tiles * sizes.channels * vectors / self._busy(values)
        turned = _TRANSFORM * tiles * (vectors + self._vectors(sizes.channels))
        taps = _PRODUCTS * sizes.channels * sizes.filters * _BYTES
        far = taps * (bands - 1) if taps > 2 * self.hardware.l2_bytes else 0
        planes = _PRODUCTS * self.split.tiles * (sizes.channels + sizes.filters) * _BYTES
        far += planes if planes > 2 * self.hardware.l2_bytes else 0
        plain = _WINDOW * sizes.pixels * sizes.channels * vectors / self.beside / threads
        moved = far / _CACHED + taps / _LOADED
        return _PLAIN * plain / ((products + turned) * share + moved / threads)

    def _vectors(self, channels: int) -> int:
        return channels // self.hardware.lanes

    def _busy(self, values: Values) -> float:
        """The part of the multiplications in the time of the products."""
        rows, vectors = values["rows"], values["vectors"]
        operations = rows * vectors
        return min(1.0, operations / _LATENCY) / (1.0 + 0.1 * (rows + vectors) / operations)
