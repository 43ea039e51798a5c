"""A contraction's sketch: its structure, its work, and the sizes of tiles and blocks that it offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.schedule.core.schedule import ExprRV
from tuner.space.analysis import BlockInfo
from tuner.space.cpu.hardware import Hardware
from tuner.space.cpu.roles import Roles
from tuner.space.recorder import Recorder

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16)
MOST_VECTORS = 7
_VECTORS = tuple(range(1, MOST_VECTORS + 1))
_PANELS = (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256)
_CHUNKS = (1, 2, 4, 8, 16, 32)
_EVEN_ROWS = 3
_BANDS = (1, 2, 4, 8, 16, 32)
_LEAST_BAND = 32  # rows that use a panel, which each band packs anew
_DEPTHS = (4, 8, 16, 32, 64, 128, 256, 512)
_PACKED_DEPTHS = (128, 256, 512)  # at most; in shorter blocks the sums come and go too often
_LEAST_PACKED_DEPTH = 64
_DEEP_CHUNK = 8  # tiles of rows that a sliver of columns in the first-level cache is worth loading for
_NEAR_DEPTHS = (256, 384, 512, 768, 1024)
_NEAR_ROWS = (6, 7, 8)  # of a tile there: of fewer, panels are read too often; more of a long matrix share few sets
_MOST_NEAR_BEYOND = 1.05  # times the rows there are
UNROLLS = (1, 2, 4, 8)
MEMORY_BOUND = 32  # rows: of fewer, what packed weights take to come counts for more than what it takes to widen them
STREAM_BYTES = 16384  # of a row of a matrix from memory: of each panel, the first bytes of its rows come late
_MOST_BEYOND = 1.25  # times the rows there are


@dataclass(frozen=True)
class ContractionShape:
    """The structure of one sketch.

    `rows_outer`: m tiles run outside v panels. `pack`: the vector operand is packed for the panel in use, or with
    `rows_outer`, where every m tile reads all of it, whole. `pack_rows`: the scalar operand too, for a chunk of m
    tiles. `deep`: the reduction runs in blocks outside the tiles, which add up in the output. With `streams`, the
    depths of its blocks, those are rows of a matrix that comes from memory (see `skinny`). `padded`: operands are
    packed with zeros around them, so that every tile is a whole one. `flat`: the pixels of an image are one axis (see
    `pixels`); `filled`: zeros after the last make whole vectors of them. `unfolded`: every so many elements of an
    image's row are packed as neighbours. `ahead`: layout-free operands are packed
    whole, ahead of all calls. `kept`: sums and the rows' operand lie in the order of tiles while rows of `streams` are
    read. `across`: channels lie along vectors, and results are written across memory (see `channels`).
    """

    rows_outer: bool
    pack: bool
    pack_rows: bool = False
    deep: bool = False
    padded: bool = False
    flat: bool = False
    filled: bool = False
    unfolded: bool = False
    ahead: bool = False
    streams: tuple[int, ...] = ()
    kept: bool = False
    across: bool = False

    @property
    def blocked(self) -> bool:
        """Whether both operands are packed for a block of the reduction."""
        return self.deep and self.pack_rows and not self.streams

    @property
    def cut_first(self) -> bool:
        """Whether a block of the reduction is outside all panels, which are packed ahead."""
        return self.deep and self.pack and not self.pack_rows

    @property
    def name(self) -> str:
        if self.streams:
            return "stream+keep" if self.kept else "stream"
        order = "deep" if self.deep else "rows" if self.rows_outer else "panels"
        packed = "+pack2" if self.pack_rows else "+pack" if self.pack else ""
        return (
            order + packed + ("+pad" if self.padded else "") + ("+flat" if self.flat else "")
            + ("+fill" if self.filled else "") + ("+unfold" if self.unfolded else "") + ("+ahead" if self.ahead else "")
            + ("+across" if self.across else "")
        )  # fmt: skip


@dataclass(frozen=True)
class ContractionWork:
    """A contraction to tile: the block, the parts of its axes, the sketch's shape and the machine.
    `epilogue` names an elementwise consumer to fuse, `made_by` the blocks that make operands here, by the operand's
    name. `free` has the names of layout-free operands. `padding` is a block that pads an operand of which each task
    reads a part of its own. With `edges`, an image is read under masks instead, row by row. `unpacking` is the block
    that makes the packed vector operand of narrower numbers."""

    info: BlockInfo
    roles: Roles
    shape: ContractionShape
    hardware: Hardware
    epilogue: str | None = None
    made_by: Mapping[str, str] = field(default_factory=dict)
    free: frozenset[str] = frozenset()
    padding: str | None = None
    edges: bool = False
    unpacking: BlockInfo | None = None


def depths(info: BlockInfo, offered: tuple[int, ...] = _DEPTHS) -> tuple[int, ...]:
    """Return the depths of `offered` into which the reduction can be cut.
    None for several axes, or one that no depth divides."""
    if len(info.reduced) != 1:
        return ()
    extent = info.reduced[0].extent
    return tuple(d for d in offered if extent % d == 0 and d < extent)


def near_depths(info: BlockInfo) -> tuple[int, ...]:
    """Return the depths of a block of all rows that stays near while all panels use it."""
    return depths(info, _NEAR_DEPTHS)


def packed_depths(info: BlockInfo) -> tuple[int, ...]:
    """Return the depths into which the reduction can be cut when both operands are packed.
    There are a few long ones, which divide it and are themselves divided by each factor of unrolling."""
    if len(info.reduced) != 1:
        return ()
    extent, step = info.reduced[0].extent, UNROLLS[-1]
    parts = [d for d in range(step, _PACKED_DEPTHS[-1] + 1, step) if extent % d == 0]
    largest = {max((d for d in parts if d <= most), default=0) for most in _PACKED_DEPTHS}
    return tuple(sorted(d for d in largest if _LEAST_PACKED_DEPTH <= d < extent))


def tile_sizes(recorder: Recorder, work: ContractionWork) -> tuple[ExprRV, ExprRV, ExprRV | int, ExprRV | int]:
    """Rows and vectors of the register tile, tiles in a panel, and in a chunk of rows."""
    roles, hardware = work.roles, work.hardware
    most = max(1, -(-roles.v.extent // hardware.lanes))
    offered = sorted({*_ROWS, roles.m.extent}) if work.shape.across and roles.m is not None else _ROWS
    largest = 1 if roles.m is None else min(roles.m.extent, _ROWS[-1], hardware.registers)
    rows = tuple(r for r in offered if r <= largest)
    if work.shape.streams and roles.m is not None:  # few rows: tiles that hardly go beyond them
        rows = tuple(r for r in rows if -(-roles.m.extent // r) * r <= _MOST_BEYOND * roles.m.extent)
    if work.shape.cut_first and roles.m is not None:
        beyond = {r: -(-roles.m.extent // r) * r / roles.m.extent for r in _NEAR_ROWS}
        rows = tuple(r for r in _NEAR_ROWS if beyond[r] <= _MOST_NEAR_BEYOND) or _NEAR_ROWS[-1:]
    if work.edges and roles.m is not None:  # a last tile of fewer rows is a third version of the code
        even = tuple(r for r in rows if roles.m.extent % r == 0)
        rows = even if even[-1] >= _EVEN_ROWS else rows
    tile_rows = recorder.choose("rows", rows).rv
    vectors = recorder.choose("vectors", (most,) if work.edges else tuple(x for x in _VECTORS if x <= most)).rv
    if work.shape.rows_outer and work.shape.pack:  # one panel, of all there is
        return tile_rows, vectors, 1, 1
    if work.shape.cut_first:  # the next panel is fetched meanwhile
        return tile_rows, vectors, 1, 1
    panels = tuple(p for p in _PANELS if p <= (1 if work.edges else most)) or (1,)
    if work.shape.streams:
        wanted = min(STREAM_BYTES // 4, roles.v.extent // hardware.threads)
        panels = tuple(p for p in panels if p * _VECTORS[-1] * hardware.lanes >= wanted) or panels[-1:]
    panel = recorder.choose("panel", panels).rv
    if not work.shape.pack_rows or roles.m is None:
        return tile_rows, vectors, panel, 1
    chunks = tuple(c for c in _CHUNKS if c <= roles.m.extent)
    if work.shape.blocked:
        chunks = tuple(c for c in chunks if c >= _DEEP_CHUNK) or chunks[-1:]
    chunk = recorder.choose("chunk", chunks).rv
    return tile_rows, vectors, panel, chunk


def band_counts(work: ContractionWork) -> tuple[int, ...]:
    """Into how many bands of rows threads can share each panel of columns.
    Every band packs it for itself."""
    shape, m, threads = work.shape, work.roles.m, work.hardware.threads
    in_panels = shape.pack and not (shape.rows_outer or shape.pack_rows or shape.unfolded or shape.across)
    if m is None or threads == 1 or not in_panels:
        return ()
    return tuple(b for b in _BANDS if b <= min(2 * threads, m.extent // _LEAST_BAND))
