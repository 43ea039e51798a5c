"""Sizes of convolutions by fast filters, and how bands of tiles and chunks of filters divide them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.primitives.winograd import whole_tiles
from compiler.tir.nodes import PrimFunc
from compiler.tir.ops import as_int
from tuner.space.analysis import BlockAxis, BlockInfo
from tuner.space.cpu.hardware import Hardware
from tuner.space.cpu.panels import panel_dim
from tuner.space.cpu.pixels import row_above
from tuner.space.cpu.roles import Roles

TILE = 2
LARGE_TILE = 4
_MANY_LANES = 512  # in all registers together
_MOST_CHANNELS = 256  # of large tiles: the more are added up, the more digits of their sums are lost
_MOST_ADDED = 1.35  # times the tiles there are, to make whole vectors of them
_LEAST_CHUNK = 4
_BUSY = 4  # vectors
_MOST_VECTORS = 7
_LEAST_FILLED = 0.6
_DEPTHS = (16, 32, 64)  # channels
_PARTED_CHANNELS = 256  # from so many on, they are added up in parts
_LEAST_CHANNELS = 16  # with fewer of them, or filters, transforming takes longer than is saved
_LEAST_BYTES = 4  # of a sum: that of four may be beyond the range of float16, and bfloat16 has few digits to lose


@dataclass(frozen=True)
class WinogradSplit:
    """How a convolution is divided: `band` rows of tiles at a time, `chunk` filters at a time.
    One of them is all. `rows` rows of tiles of `columns` are then at work, some of which may only fill up vectors."""

    band: int
    chunk: int
    rows: int
    columns: int
    multiple: int = 1

    @property
    def tiles(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class WinogradSizes:
    """The numbers that describe a convolution.
    They are results along a tile, filters, channels, rows of tiles, tiles in a row, images, and products of a tile."""

    tile: int
    filters: int
    channels: int
    rows: int
    columns: int
    images: int
    products: int


def winograd_splits(
    func: PrimFunc, info: BlockInfo, roles: Roles, hardware: Hardware
) -> tuple[WinogradSizes, list[WinogradSplit]] | None:
    """Return the sizes of a convolution by Winograd's filters, and how it may be divided.
    None where it is no convolution without strides that this could pay for."""
    element_bytes = parse_dtype(info.output.buffer.dtype).bytes
    if element_bytes < _LEAST_BYTES:
        return None
    for tile in (LARGE_TILE, TILE):
        sizes = _sizes(func, info, roles, tile)
        if sizes is None or (tile == LARGE_TILE and not _pays(sizes, hardware)):
            continue
        bands = _by_bands(sizes, hardware, element_bytes)
        even = bands is not None and _even(_bands(sizes, bands), hardware.threads)
        splits = (bands, _by_filters(sizes, hardware, element_bytes, beside_bands=even))
        if any(splits):
            return sizes, [split for split in splits if split is not None]
    return None


def _pays(sizes: WinogradSizes, hardware: Hardware) -> bool:
    """Whether large tiles are used.
    The registers must hold many numbers of their transforms, which otherwise cost what is saved, and the products
    must be precise enough."""
    return hardware.registers * hardware.lanes >= _MANY_LANES and sizes.channels <= _MOST_CHANNELS


def _sizes(func: PrimFunc, info: BlockInfo, roles: Roles, tile: int) -> WinogradSizes | None:
    above, channels = row_above(info, roles), summed_channels(info)
    if above is None or roles.m is None or len(info.reduced) != 3 or len(channels) != 1:
        return None
    if min(roles.m.extent, channels[0].extent) < _LEAST_CHANNELS or not _along_window(info, roles):
        return None
    sch = Schedule(func)
    try:
        blocks = sch.winograd(sch.get_block(info.name), tile)
    except ScheduleError:
        return None
    _, many, also, *_ = (as_int(size) for size in sch.get(blocks[2]).writes[0].buffer.shape)
    assert many is not None
    assert also is not None
    return WinogradSizes(
        tile=tile, filters=roles.m.extent, channels=channels[0].extent,
        rows=-(-above.extent // tile), columns=-(-roles.v.extent // tile),
        images=math.prod(a.extent for a in roles.others if a is not above), products=many * also,
    )  # fmt: skip


def _along_window(info: BlockInfo, roles: Roles) -> bool:
    """Whether vectors run along rows of the image, as those of tiles do."""
    if roles.vector_operand is None:
        return False
    along = info.inputs[roles.vector_operand].innermost
    return roles.v.position in along and any(a.position in along for a in info.reduced)


def summed_channels(info: BlockInfo) -> list[BlockAxis]:
    """The axes that are summed over and no part of a window."""
    return [a for a in info.reduced if all(panel_dim(op, a.position) is not None for op in info.inputs)]


def _by_bands(sizes: WinogradSizes, hardware: Hardware, element_bytes: int) -> WinogradSplit | None:
    """Bands whose tiles and results fit near caches, shared by all threads as evenly as can be."""
    each = sizes.products * (sizes.channels + sizes.filters) * element_bytes
    fitting = [
        split
        for split in (_split(sizes, band, sizes.filters, hardware) for band in range(1, sizes.rows))
        if split.tiles * each <= 2 * hardware.l2_bytes
        if _bands(sizes, split) * split.tiles <= _MOST_ADDED * sizes.images * sizes.rows * sizes.columns
        if any(w >= 2 * hardware.lanes for w in tile_widths(split.tiles, hardware.lanes))
    ]

    def busiest(split: WinogradSplit) -> tuple[int, int]:
        """The tiles of the thread with most bands; of equals, the longest band."""
        each = -(-_bands(sizes, split) // hardware.threads)
        return each * split.tiles, -split.band

    return min(fitting, key=busiest, default=None)


def _bands(sizes: WinogradSizes, split: WinogradSplit) -> int:
    return sizes.images * -(-sizes.rows // split.band)


def _split(sizes: WinogradSizes, band: int, chunk: int, hardware: Hardware) -> WinogradSplit:
    """Whether tiles of 4 × 4 fill their vectors.
    Each is worth as much as four small ones, and a piece of a vector costs as much as a whole one."""
    multiple = 1 if sizes.tile == TILE else hardware.lanes
    rows, columns = whole_tiles(sizes.rows, sizes.columns, band, multiple)
    return WinogradSplit(band, chunk, rows, columns, multiple)


def _by_filters(
    sizes: WinogradSizes, hardware: Hardware, element_bytes: int, beside_bands: bool
) -> WinogradSplit | None:
    """All tiles of an image at a time, and chunks of filters whose taps take half of the near cache.
    `beside_bands`, which threads can share evenly, this holds only if filters are more than tiles; else those of a
    band are nearer."""
    if sizes.images > 1 or (beside_bands and sizes.rows * sizes.columns > sizes.filters):
        return None
    split = _split(sizes, 0, sizes.filters, hardware)
    if not tile_widths(split.tiles, hardware.lanes) or split.tiles > _MOST_ADDED * sizes.rows * sizes.columns:
        return None
    each = sizes.products * sizes.channels * element_bytes
    least, most = _LEAST_CHUNK, hardware.l2_bytes // 2
    if sizes.tile != TILE:  # what few tiles there are fill few vectors: only many filters keep the arithmetic busy
        least = _BUSY // min(_BUSY, -(-split.tiles // hardware.lanes)) * _LEAST_CHUNK
    fitting = [c for c in range(least, sizes.filters) if sizes.filters % c == 0 and (c == least or c * each <= most)]
    return replace(split, chunk=max(fitting)) if fitting else None


def tile_widths(tiles: int, lanes: int) -> tuple[int, ...]:
    """The columns that a register tile may have: whole parts of a band that about fill their vectors.
    A vector of 28 is three and a half of eight."""
    return tuple(
        w
        for w in range(2, _MOST_VECTORS * lanes + 1)
        if tiles % w == 0 and w / (-(-w // lanes) * lanes) >= _LEAST_FILLED
    )


def _even(tasks: int, threads: int) -> bool:
    return tasks % threads == 0 or tasks >= 4 * threads


def summed_depths(split: WinogradSplit, sizes: WinogradSizes, hardware: Hardware) -> tuple[int, ...]:
    """How many channels are added up at a time, so that their taps stay near between transforming and use.
    Of few channels they do so in any case, and sums are not stored in between."""
    few = sizes.channels < _PARTED_CHANNELS or hardware.registers * hardware.lanes < _MANY_LANES
    if split.chunk == sizes.filters or few:
        return ()
    return tuple(d for d in _DEPTHS if d % hardware.lanes == 0 and sizes.channels % d == 0)
