"""From a function to its search space on a CPU: a few sketches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.lower.blocks.split_preproc import layout_free
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockInfo, blocks_of, consumers, epilogue_of
from tuner.space.backend import TuningBackend
from tuner.space.cpu.channels import channel_roles, channels_fill_more, channels_last
from tuner.space.cpu.contraction import tile
from tuner.space.cpu.contraction_sizes import (
    MOST_VECTORS,
    ContractionShape,
    ContractionWork,
    depths,
    near_depths,
    packed_depths,
)
from tuner.space.cpu.elementwise import inline_chains, spread
from tuner.space.cpu.fast_filters.along_channels import PAIRS, winograd_channel_sketches
from tuner.space.cpu.fast_filters.along_rows import winograd_sketches
from tuner.space.cpu.few_rows import ALONE_UP_TO, few_rows_sketch
from tuner.space.cpu.hardware import Hardware, has_masks
from tuner.space.cpu.in_place import View, computed_in_place, moved_operands, unpacked_block
from tuner.space.cpu.judge import Judge
from tuner.space.cpu.narrow.amx import TileUnit, tile_sketch, tile_unit_for
from tuner.space.cpu.narrow.amx_windows import tile_windows_sketches, window_unit_for
from tuner.space.cpu.narrow.depthwise import windows_sketch, windows_unit
from tuner.space.cpu.narrow.dots import Unit, dot_sketch, unit_for
from tuner.space.cpu.panels import panel_dim
from tuner.space.cpu.pixels import Flat, flatten, flatten_consumer, has_gaps, has_pixels, has_steps, is_dense, unfold
from tuner.space.cpu.roles import Roles, assign_roles, window_axes
from tuner.space.cpu.rows import row_sketches
from tuner.space.cpu.skinny import skinny_shapes
from tuner.space.cpu.turned import turned_sketch
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values, anything, level

_ROW_PADDING = 12  # rows of padded tiles: tiles of 2, 3, 4, 6 and 12 rows fit
_MOST_WASTE = 1.25  # of work on padding
_FEW_ROWS = 32  # up to so many, an operand is used too seldom to be worth copying whole
_FEW_PIXELS = 64  # up to so many, filters are used for too few tiles to be worth copying at each call
_VECTORS_EACH = 16  # for a thread; of fewer, panels of tiles are no even parts
_SMALL_WINDOW = 9  # products
_LONG = 1024  # sums of so many products are cut as well, so that a sliver of columns stays in the first-level cache


class CPUTuningBackend(TuningBackend):
    """CPUs: register tiles and cache panels for contractions.
    Other blocks are inlined or spread over vectors."""

    def sketches(self, func: PrimFunc, target: Target) -> tuple[Sketch, ...]:
        blocks = blocks_of(func)
        if not any(_shared_both_ways(b) or _slides(b) for b in blocks):
            by_rows = row_sketches(func, Hardware.of(target, blocks[-1].output.buffer.dtype))
            if by_rows:
                return by_rows
        main = _main(blocks)
        roles = None if main is None else assign_roles(main)
        if main is None or roles is None:
            turned = turned_sketch(func, Hardware.of(target, blocks[-1].output.buffer.dtype))
            return (_plain(func, target),) if turned is None else (turned, _plain(func, target))
        units = _unit_sketches(func, main, roles, target)
        if units:
            return units  # no other instruction comes near
        hardware = Hardware.of(target, main.output.buffer.dtype)
        few = few_rows_sketch(func, main, roles, hardware)
        if few is not None and roles.m is not None and roles.m.extent <= ALONE_UP_TO:
            return (few,)  # what packs the larger operand comes nowhere near
        view = computed_in_place(func, main, roles)
        made = [_contraction(func, view, shape, hardware) for shape in _all_shapes(view, hardware)]
        made.append(few)
        fast = winograd_sketches(func, main, roles, hardware) or winograd_channel_sketches(func, main, roles, hardware)
        return (*(sketch for sketch in made if sketch is not None), *fast)

    def sketch(self, func: PrimFunc, target: Target, name: str, begin: Values) -> Sketch | None:
        blocks = blocks_of(func)
        if not any(_shared_both_ways(b) for b in blocks):
            return None
        main = _main(blocks)
        roles = None if main is None else assign_roles(main)
        if main is None or roles is None or any(_units_for(main, roles, target)):
            return None
        hardware = Hardware.of(target, main.output.buffer.dtype)
        view = computed_in_place(func, main, roles)
        named = [shape for shape in _all_shapes(view, hardware) if shape.name == name]
        return _contraction(func, view, named[0], hardware, begin) if len(named) == 1 else None

    def model_family(self, target: Target) -> str:
        """Name the family of targets that share a model: by instruction set and width of vectors.

        "llvm-x86_64-256" is x86 with AVX2, "llvm-x86_64-512" with AVX-512.
        """
        instructions = (target.triple or "any").split("-")[0]
        return f"{target.kind}-{instructions}-{target.vector_bits}"


CPU = CPUTuningBackend()


def _main(blocks: Sequence[BlockInfo]) -> BlockInfo | None:
    """The block that most of the work is in, of those whose operands or results are used again."""
    return max((b for b in blocks if b.contraction or _across_memory(b)), key=lambda b: b.points, default=None)


def _unit_sketches(func: PrimFunc, main: BlockInfo, roles: Roles, target: Target) -> tuple[Sketch, ...]:
    """The sketches with instructions for groups of narrow numbers.
    Vectors are offered beside tiles, because a system can forbid the use of tiles."""
    tiles, images, vectors, windows = _units_for(main, roles, target)
    made = [
        None if tiles is None else tile_sketch(func, main.name, roles, tiles, target),
        *([] if images is None else tile_windows_sketches(func, main.name, images, target)),
        None if vectors is None else dot_sketch(func, main.name, vectors, target),
        None if windows is None else windows_sketch(func, main.name, windows, target),
    ]
    if tiles is None and images is None and vectors is not None:
        made += winograd_channel_sketches(func, main, roles, Hardware.of(target, main.output.buffer.dtype), PAIRS)
    return tuple(sketch for sketch in made if sketch is not None)


def _units_for(
    main: BlockInfo, roles: Roles, target: Target
) -> tuple[TileUnit | None, TileUnit | None, Unit | None, Unit | None]:
    """The instructions for products in tiles, for images in tiles, in vectors, and in windows of an image."""
    tiles, images = tile_unit_for(main, roles, target), window_unit_for(main, roles, target)
    beside = tiles is not None or images is not None
    return tiles, images, unit_for(main, roles, target, beside), windows_unit(main, target)


def _ahead(func: PrimFunc, shape: ContractionShape, main: BlockInfo, roles: Roles) -> ContractionShape:
    """The shape with operands packed ahead of time where the function lets it."""
    packed = [roles.vector_operand if shape.pack else None, roles.scalar_operand if shape.pack_rows else None]
    unpacking = unpacked_block(func, main, roles) if shape.pack and not shape.flat else None
    from_free = unpacking is not None and any(i.buffer in layout_free(func) for i in unpacking.inputs)
    ahead = from_free or any(_is_free(func, main, i) for i in packed)
    return replace(shape, ahead=ahead and not shape.padded)


def _is_free(func: PrimFunc, main: BlockInfo, operand: int | None) -> bool:
    """Whether an operand can be packed ahead of time."""
    return operand is not None and main.inputs[operand].buffer in layout_free(func)


def _shared_both_ways(info: BlockInfo) -> bool:
    """A product of which each operand is used for many elements of the other."""
    roles = assign_roles(info) if info.contraction else None
    return roles is not None and roles.m is not None


def _across_memory(info: BlockInfo) -> bool:
    """A reduction whose neighbouring results add up neighbours in memory, such as a sum of columns."""
    last = info.spatial[-1].position if info.spatial else None
    return bool(info.reduced) and bool(info.inputs) and all(last in i.innermost for i in info.inputs)


def _slides(info: BlockInfo) -> bool:
    """A reduction of windows that move along memory, as in pooling; neighbouring results form a vector.
    A row has more of them than a window has elements, else a window is the row."""
    along = [a for a in info.reduced if any(a.position in i.innermost for i in info.inputs)]
    return _across_memory(info) and bool(along) and info.spatial[-1].extent > max(a.extent for a in along)


def _all_shapes(view: View, hardware: Hardware) -> list[ContractionShape]:
    func, main, roles = view.func, view.main, view.roles
    if streamed := skinny_shapes(func, main, roles):
        return streamed  # what goes down the columns of such a matrix comes nowhere near
    free = _is_free(func, main, roles.vector_operand)
    cold = bool(view.inlined) and roles.m is not None  # it comes from memory, where few rows of it follow on another
    packed = free or cold or unpacked_block(func, main, roles) is not None
    shapes, flat = _shapes(main, roles, hardware, free, packed), _flat_shapes(func, main, roles, hardware)
    if flat and is_dense(main, roles):
        shapes = []  # rows of an image are in the way only
    elif not flat and has_steps(main, roles) and unfold(Schedule(func), main, roles) is not None:
        both = _is_free(func, main, roles.scalar_operand)  # too few products to copy filters for each row
        shapes = [replace(s, unfolded=s.pack) for s in shapes if not s.padded and (both or not s.pack_rows)]
    elif flat and (roles.v.extent < 4 * hardware.lanes or has_gaps(main, roles)):  # vectors would be half empty
        shapes = [shape for shape in shapes if shape.name == "panels"]
    made = [_ahead(func, shape, main, roles) for shape in (*shapes, *flat)]
    if _is_free(func, main, roles.scalar_operand) and channels_fill_more(main, roles, hardware):
        made.append(ContractionShape(rows_outer=False, pack=True, ahead=True, across=True))
    return made


def _shapes(
    info: BlockInfo, roles: Roles, hardware: Hardware, free: bool = False, packed: bool = False
) -> list[ContractionShape]:
    """The shapes that can pay.
    An operand is packed when it is used again, or `free`, packed once for all calls. One that must be `packed` is
    never read in place."""
    operand = None if roles.vector_operand is None else info.inputs[roles.vector_operand]
    along_memory = operand is None or roles.v.position in operand.innermost
    orders = (True, False) if roles.m is not None or roles.others else (False,)
    as_it_lies = along_memory and not packed  # read so, a matrix shows another page in each row
    shapes = [ContractionShape(rows_outer=order, pack=False) for order in orders] if as_it_lies else []
    reused = operand is not None and roles.m is not None and _reused(operand, roles)
    packs_rows = roles.m is not None and _panels_of_rows(info, roles)
    rows = 1 if roles.m is None else roles.m.extent
    cut = bool(depths(info))
    if reused or free:
        shapes.append(ContractionShape(rows_outer=False, pack=True))
    if free and rows > _FEW_ROWS and near_depths(info) and _leaves_cache(info, roles, hardware):
        shapes.append(ContractionShape(rows_outer=False, pack=True, deep=True))
    if reused and packs_rows:
        shapes.append(ContractionShape(rows_outer=False, pack=True, pack_rows=True))
        if packed_depths(info) and info.reduced[0].extent >= _LONG:
            shapes.append(ContractionShape(rows_outer=False, pack=True, pack_rows=True, deep=True))
        if _odd(info, roles, hardware):
            shapes.append(ContractionShape(rows_outer=False, pack=True, pack_rows=True, padded=True))
    if cut and as_it_lies and rows <= _FEW_ROWS:
        shapes.append(ContractionShape(rows_outer=False, pack=False, deep=True))
    return shapes or [ContractionShape(rows_outer=roles.m is not None, pack=False)]


def _leaves_cache(info: BlockInfo, roles: Roles, hardware: Hardware) -> bool:
    """Whether the rows that all panels use take more than a panel may: half of the second-level cache."""
    if roles.scalar_operand is None:
        return False
    access = info.inputs[roles.scalar_operand]
    elements = math.prod(info.axes[position].extent for position in access.axes)
    return elements * parse_dtype(access.buffer.dtype).bytes > hardware.panel_bytes


def _flat_shapes(func: PrimFunc, info: BlockInfo, roles: Roles, hardware: Hardware) -> list[ContractionShape]:
    """The shapes of the product that a convolution becomes with its pixels in one row."""
    sch = Schedule(func)
    if not has_pixels(info, roles, hardware.lanes) or flatten(sch, info, roles, hardware.lanes) is None:
        return []
    flat = next(b for b in blocks_of(sch.func) if b.name == info.name)
    flat_roles = assign_roles(flat)
    assert flat_roles is not None  # pixels are contiguous
    if flat_roles.m is None and not is_dense(info, roles):
        return []  # each window is used once, as in a depthwise convolution: copying them takes twice as long
    uneven = flat_roles.v.extent % hardware.lanes != 0 and not has_masks(hardware, flat.output.buffer.dtype)
    filled = uneven and _padded(sch, flat.name, _filling(flat, flat_roles, hardware))
    used_again = flat_roles.v.extent > _FEW_PIXELS or _is_free(func, info, roles.scalar_operand)
    shapes = [s for s in _shapes(flat, flat_roles, hardware) if not s.rows_outer and (used_again or not s.pack_rows)]
    if _few_panels(flat, flat_roles, hardware):
        shapes.append(ContractionShape(rows_outer=True, pack=True))
    return [replace(shape, flat=True, filled=filled and shape.pack and not shape.padded) for shape in shapes]


def _few_panels(info: BlockInfo, roles: Roles, hardware: Hardware) -> bool:
    """Whether panels are too few for threads to share them evenly, and all together stay in a near cache.
    Then each thread can have all pixels, and filters of its own that it alone reads."""
    vectors = math.prod(a.extent for a in (roles.v, *roles.others)) / hardware.lanes
    near = math.prod(a.extent for a in info.reduced) * roles.v.extent * parse_dtype(info.output.buffer.dtype).bytes
    return hardware.threads > 1 and vectors <= _VECTORS_EACH * hardware.threads and near <= hardware.l2_bytes


def _reused(operand: BlockAccess, roles: Roles) -> bool:
    """Whether the vector operand is the same for all rows, so that a packed panel is used often."""
    return roles.m is not None and roles.m.position not in operand.axes


def _panels_of_rows(info: BlockInfo, roles: Roles) -> bool:
    if roles.scalar_operand is None or roles.m is None:
        return False
    return panel_dim(info.inputs[roles.scalar_operand], roles.m.position) is not None


def _odd(info: BlockInfo, roles: Roles, hardware: Hardware) -> bool:
    """Whether tiles don't divide the output, and padding makes them fit at little cost."""
    rows = 1 if roles.m is None else roles.m.extent
    if roles.v.extent % hardware.lanes == 0 and any(rows % r == 0 for r in (4, 5, 6)):
        return False
    extents = [a.extent for a in info.axes]
    padded = [-(-e // p) * p for e, p in zip(extents, _padding(info, roles, hardware))]
    waste = 1.0
    for before, after in zip(extents, padded):
        waste *= after / before
    return 1.0 < waste <= _MOST_WASTE


def _padding(info: BlockInfo, roles: Roles, hardware: Hardware) -> list[int]:
    """The multiples that the axes of `info` are padded to."""

    def multiple(position: int, reduce: bool) -> int:
        if position == roles.v.position:
            return 2 * hardware.lanes
        if roles.m is not None and position == roles.m.position:
            return _ROW_PADDING
        return 4 if reduce and len(info.reduced) == 1 else 1

    return [multiple(a.position, a.reduce) for a in info.axes]


def _filling(info: BlockInfo, roles: Roles, hardware: Hardware) -> list[int]:
    """The multiples that make vectors of the columns whole, and leave the rest as it is."""
    return [hardware.lanes if a is roles.v else 1 for a in info.axes]


def _plain(func: PrimFunc, target: Target) -> Sketch:
    sch = Schedule(func)
    recorder = Recorder(sch)
    inline_chains(sch)
    for info in blocks_of(sch.func):
        if info.injective:
            spread(sch, info, Hardware.of(target, info.output.buffer.dtype).lanes)
        else:
            loops = sch.get_loops(sch.get_block(info.name))
            if info.spatial and info.axes[0].extent > 1 and not info.axes[0].reduce:
                sch.parallel(loops[0])
    return Sketch("plain", sch.trace, tuple(recorder.decisions), anything, level)


def _contraction(
    func: PrimFunc, view: View, shape: ContractionShape, hardware: Hardware, begin: Values = MappingProxyType({})
) -> Sketch | None:
    """The sketch of `shape`; None where the function cannot be padded as it asks."""
    sch, name = Schedule(func), view.main.name
    view.inline(sch)
    recorder = Recorder(sch, begin)
    if shape.across:
        channels_last(sch, name)
    flat = _flattened(sch, name, shape, hardware) if shape.flat else None
    grown = shape.padded or shape.filled
    if grown and not _pad(sch, name, shape, hardware):
        return None
    columns = {flat.columns} if flat is not None and not (flat.by_pixels and grown) else frozenset[str]()
    unfolded = _unfolded(sch, name) if shape.unfolded else frozenset[str]()
    if flat is not None and flat.dense and not shape.pack:  # before others become part of the columns
        sch.compute_inline(sch.get_block(flat.columns))
    inline_chains(sch, kept=columns | unfolded)
    if flat is not None:
        flatten_consumer(sch, name)
    blocks = blocks_of(sch.func)
    main = next(b for b in blocks if b.name == name)
    roles = channel_roles(main) if shape.across else assign_roles(main)
    assert roles is not None  # padding and inlining leave the axes as they are
    making = columns if flat is not None and flat.by_pixels else unfolded
    made_by = {b.output.buffer.name: b.name for b in blocks if b.name in making or (grown and _fills(b, main))}
    unpacking = unpacked_block(sch.func, main, roles) if shape.pack and not shape.flat else None
    if unpacking is not None:
        made_by[unpacking.output.buffer.name] = unpacking.name
    # a filled tile would end in two places, at a vector where it is summed and at a pixel where it is written
    epilogue = None if shape.deep or shape.filled else epilogue_of(sch.func, main, blocks)
    if shape.across:
        [epilogue] = (b.name for b in consumers(main, blocks))
    alone = [b for b in blocks if _fills(b, main) and consumers(b, blocks) == (main,)]
    parted = [] if grown or shape.deep else [b for b in alone if _is_parted(main, b)]
    padding = parted[0].name if parted else None
    apart = {epilogue, *made_by.values(), *columns, padding}
    moved = [] if shape.deep else [b for b in moved_operands(sch, main, roles, shape.pack) if b not in apart]
    edges = padding is not None and _masks_edges(main, roles, hardware)
    if padding is not None and edges:
        moved, padding = [*moved, padding], None
    for info in blocks:
        if info.injective and info.name not in apart and info.name not in moved:
            spread(sch, info, hardware.lanes)
    free = frozenset(buffer.name for buffer in layout_free(func)) if shape.ahead else frozenset[str]()
    work = ContractionWork(main, roles, shape, hardware, epilogue, made_by, free, padding, edges, unpacking)
    tile(sch, recorder, work)
    for moving in moved:
        sch.compute_inline(sch.get_block(moving))
    judge = Judge(main, roles, shape, hardware, parse_dtype(main.output.buffer.dtype).bytes)
    return Sketch(shape.name, sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _unfolded(sch: Schedule, name: str) -> frozenset[str]:
    """The name of the block that copies what the block `name` reads every so many elements of."""
    main = next(b for b in blocks_of(sch.func) if b.name == name)
    roles = assign_roles(main)
    assert roles is not None
    columns = unfold(sch, main, roles)
    assert columns is not None  # else the shape is not offered
    return frozenset({columns})


def _flattened(sch: Schedule, name: str, shape: ContractionShape, hardware: Hardware) -> Flat | None:
    """The block `name` with all pixels in one row."""
    main = next(b for b in blocks_of(sch.func) if b.name == name)
    roles = assign_roles(main)
    assert roles is not None
    return flatten(sch, main, roles, hardware.lanes, packed=shape.pack)


def _pad(sch: Schedule, name: str, shape: ContractionShape, hardware: Hardware) -> bool:
    main = next(b for b in blocks_of(sch.func) if b.name == name)
    roles = assign_roles(main)
    assert roles is not None
    return _padded(sch, name, (_padding if shape.padded else _filling)(main, roles, hardware))


def _padded(sch: Schedule, name: str, padding: list[int]) -> bool:
    try:
        sch.pad_einsum(sch.get_block(name), padding)
    except ScheduleError:  # not a plain product of elements: its edges stay
        return False
    return True


def _fills(info: BlockInfo, main: BlockInfo) -> bool:
    """Whether `info` pads an operand of `main`."""
    return info.conditional and info.injective and any(i.buffer is info.output.buffer for i in main.inputs)


def _masks_edges(main: BlockInfo, roles: Roles, hardware: Hardware) -> bool:
    """Whether tiles read an image under masks, and need no copy with zeros around it.

    A tile has whole rows, and all of a window is written out: what its columns read beyond a row's ends is known.
    Rows outside the image are read by the first and last tiles only. Large windows must fit the registers for two rows
    of results, or else copied rows, which tiles can be parts of, are faster.
    """
    window, vectors = window_axes(main, roles), -(-roles.v.extent // hardware.lanes)
    if not window or vectors > MOST_VECTORS or not has_masks(hardware, main.output.buffer.dtype):
        return False
    products = math.prod(a.extent for a in window)
    return products <= _SMALL_WINDOW or vectors * (window[-1].extent + 3) < hardware.registers


def _is_parted(main: BlockInfo, source: BlockInfo) -> bool:
    """Whether results of `main` read separate parts of what `source` makes.
    Parts that windows share do not count, as in a depthwise convolution."""
    spatial = {a.position for a in main.spatial if a.extent > 1}
    return any(access.buffer is source.output.buffer and spatial <= access.axes for access in main.inputs)
