"""Sketches for contractions (matmul, convolution): a register tile, cache panels, packing, threads.

The scheme is Goto's (K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008; F. Van Zee,
R. van de Geijn, "BLIS", 2015), stated for any block that reduces a product. One spatial axis runs along vectors
(`v`), one along registers (`m`), such that operands are shared across each. The accumulators of an m x v tile stay in
registers while the reduction runs; operands can be packed into panels first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.lower.loops.inject_prefetch import SOFTWARE_PREFETCH
from compiler.lower.loops.prefetch_group import NEXT_GROUP
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule
from compiler.tir.ops import as_int
from tuner.space.analysis import BlockAccess, BlockAxis, BlockInfo
from tuner.space.cpu.contraction_sizes import (
    MEMORY_BOUND,
    UNROLLS,
    ContractionWork,
    band_counts,
    depths,
    near_depths,
    packed_depths,
    tile_sizes,
)
from tuner.space.cpu.elementwise import sum_in_registers, transposed_tail, vectorize_tail
from tuner.space.cpu.panels import Panel, ahead_of_time, copy_at, copy_region, pack, panel_dim, widen, widened_copy
from tuner.space.cpu.roles import Roles, window_axes
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder

_UNROLLED = 8  # products of a sum's innermost loop that are written out
_UNROLLED_PIXELS = 3  # neighbours share pixels, which LLVM keeps from one column of a window to the next
_IN_A_BYTE = 8  # packed numbers at most
_OFTEN = 8  # vectors of results that a row's number goes into, so that it is worth widening once


@dataclass
class _Nest:
    """The loops of the tiled block by what they are for, outermost first; m loops may be missing."""

    batch: list[LoopRV]
    blocked: list[LoopRV]
    v_outer: LoopRV
    v_panel: LoopRV
    m_chunk: list[LoopRV]
    m_outer: list[LoopRV]


def tile(sch: Schedule, recorder: Recorder, work: ContractionWork) -> None:
    """Apply the sketch `work.shape` to the block `work.info`."""
    if work.shape.deep:
        _tile_deep(sch, recorder, work)
    else:
        _tile_whole(sch, recorder, work)


def _tile_whole(sch: Schedule, recorder: Recorder, work: ContractionWork) -> None:
    """Sum the whole reduction inside a tile: it is written once, when it is finished."""
    info, roles, shape, lanes = work.info, work.roles, work.shape, work.hardware.lanes
    block = sch.get_block(info.name)
    writer = sum_in_registers(sch, block, work.epilogue)
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    rows, vectors, panel, chunk = tile_sizes(recorder, work)
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[roles.v.position], [None, panel, vectors, lanes])
    bands = recorder.choose("bands", offered).rv if len(offered := band_counts(work)) > 1 else None
    m_chunk, m_outer, m_tile = _split_rows(sch, loops, roles.m, chunk, rows, bands)
    batch, blocked = _split_others(sch, recorder, roles, loops, blocks=not (shape.unfolded or shape.across))
    reduce_loops, unrolled = _split_reduction(sch, recorder, work, loops)
    nest = _Nest(batch, blocked, v_outer, v_panel, m_chunk, m_outer)
    if shape.rows_outer:
        parallel = [*batch, *m_chunk, *m_outer]
        if _rows_of_images(work):
            parallel = [*batch[:-1], *m_outer, batch[-1]]
        inside = [*blocked, v_outer, v_panel]
    elif bands is not None:
        parallel = [*batch, v_outer, *m_chunk] if _columns_count_for_more(work) else [*batch, *m_chunk, v_outer]
        inside = [*blocked, *m_outer, v_panel]
    elif shape.across:  # all pixels use a group of filters before the next one comes
        parallel, inside = [v_outer], [*batch, *blocked, *m_outer, v_panel]
    else:
        parallel = [*batch, v_outer]
        inside = [*blocked, *m_chunk, *m_outer, v_panel]
    sch.reorder(*parallel, *inside, *reduce_loops, *m_tile, v_tile, v_lane)
    sch.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    _pack_operands(sch, block, work, nest, (rows, vectors), at=parallel[-1])
    if work.padding is not None:
        copy_at(sch, sch.get_block(work.padding), parallel[-1], lanes)
    # fused only now: what a tile covers is plain to see while each axis has its own loop
    sch.parallel(fuse_all(sch, parallel))
    _into_registers(sch, block, reduce_loops[0], [*unrolled, *m_tile, v_tile], v_lane, depth=len(m_tile) + 2)
    if shape.ahead and shape.pack and work.unpacking is None and reduce_loops[0] not in unrolled:
        sch.annotate(reduce_loops[0], SOFTWARE_PREFETCH, NEXT_GROUP)
    (transposed_tail if shape.across else vectorize_tail)(sch, writer, lanes, depth=1 + len(inside))


def _tile_deep(sch: Schedule, recorder: Recorder, work: ContractionWork) -> None:
    """Cut the reduction into blocks of `depth` outside the tiles.
    The part of a block stays in a near cache while all tiles use it. Each tile is summed in registers, then added to
    the output.

        for v_outer (parallel), k_outer, m_chunk, v_panel, m_outer:
            tile = sum over k_inner
            C += tile

    Panels packed ahead of all calls are read from memory anyway. For them k_outer is the first loop, outside the
    parallel one.
    """
    info, roles, lanes = work.info, work.roles, work.hardware.lanes
    block = sch.get_block(info.name)
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    cut_first = work.shape.cut_first
    offered = near_depths(info) if cut_first else packed_depths(info) if work.shape.blocked else depths(info)
    offered = work.shape.streams or offered
    depth = recorder.choose("depth", offered).rv
    k_outer, _ = sch.split(loops[info.reduced[0].position], [None, depth])
    part = sch.rfactor(k_outer, 0, factor_first=False)
    sch.set_scope(part, 0, "local")
    if work.shape.kept:
        sch.cache_write(block, 0, "global")
    loops = dict(zip((a.position for a in info.axes), sch.get_loops(block)))
    k_outer = loops[info.reduced[0].position]
    rows, vectors, panel, chunk = tile_sizes(recorder, work)
    v_outer, v_panel, v_tile, v_lane = sch.split(loops[roles.v.position], [None, panel, vectors, lanes])
    m_chunk, m_outer, m_tile = _split_rows(sch, loops, roles.m, chunk, rows)
    batch = [loops[a.position] for a in roles.others]
    nest = _Nest(batch, [], v_outer, v_panel, m_chunk, m_outer)
    around = [*batch, v_outer, *m_chunk, v_panel, *m_outer]
    around.insert(0 if cut_first else len(batch) + 1, k_outer)
    sch.reorder(*around, *m_tile, v_tile, v_lane)
    sch.compute_at(part, around[-1], preserve_unit_loops=True)
    inner = dict(zip((a.position for a in info.axes), sch.get_loops(part)[len(around) :]))
    part_of, k_part = sch.get_loops(part)[len(around) :][len(info.spatial) :]
    streams = work.shape.streams  # each with loads of its own, by which prefetchers tell them apart
    unroll = min(UNROLLS[-1], *streams) if streams else recorder.choose("unroll", UNROLLS[1:]).rv
    k_step, k_inner = sch.split(k_part, [None, unroll])
    p_tile, p_lane = sch.split(inner[roles.v.position], [None, lanes])
    p_rows = [inner[roles.m.position]] if roles.m is not None else []
    rest = [inner[a.position] for a in roles.others]
    sch.reorder(*rest, part_of, k_step, k_inner, *p_rows, p_tile, p_lane)
    if work.shape.kept:
        _keep_tiles(sch, block, v_outer, vectors, lanes, len(info.spatial))
    _pack_operands(sch, part, work, nest, (rows, vectors), at=k_outer)
    _into_registers(sch, part, k_step, [k_inner, *p_rows, p_tile], p_lane, depth=len(p_rows) + 2)
    if cut_first:
        sch.annotate(k_step, SOFTWARE_PREFETCH, NEXT_GROUP)
    zero = sch.decompose_reduction(block, k_outer)
    vectorize_tail(sch, zero, lanes, depth=len(sch.get_loops(zero)) - 1)
    for loop in [*m_tile, v_tile]:
        sch.unroll(loop)
    sch.vectorize(v_lane)
    outer = [*batch, v_outer]
    sch.parallel(fuse_all(sch, outer))


def _rows_of_images(work: ContractionWork) -> bool:
    """Whether the rows are those of images.
    Threads then share them before channels. A thread has the same part of the image as in kernels that share pixels,
    and finds its own writes in its cache."""
    alone = work.roles.scalar_operand is None and len(work.roles.others) > 1
    return work.hardware.threads > 1 and alone and bool(window_axes(work.info, work.roles))


def _columns_count_for_more(work: ContractionWork) -> bool:
    """Whether the operand along vectors, with the result, is larger than the one along rows.
    Threads that share columns first have parts of the former of their own, and all read the whole of the latter."""
    info, roles = work.info, work.roles
    if roles.vector_operand is None or roles.scalar_operand is None:
        return False
    vector, scalar = (_elements(info.inputs[i]) for i in (roles.vector_operand, roles.scalar_operand))
    return vector + _elements(info.output) > scalar


def _elements(access: BlockAccess) -> int:
    return math.prod(as_int(size) or 1 for size in access.buffer.shape)


def _split_rows(
    sch: Schedule, loops: Mapping[int, LoopRV], m: BlockAxis | None, chunk: ExprRV | int, rows: ExprRV,
    bands: ExprRV | None = None,
) -> tuple[list[LoopRV], list[LoopRV], list[LoopRV]]:  # fmt: skip
    """Loops over chunks of tiles or `bands` of them, tiles, and the rows of one.
    Chunks of one tile have no loop."""
    if m is None:
        return [], [], []
    if bands is not None:
        band, outer, inner = sch.split(loops[m.position], [bands, None, rows])
        return [band], [outer], [inner]
    if isinstance(chunk, int):
        outer, inner = sch.split(loops[m.position], [None, rows])
        return [], [outer], [inner]
    chunks, outer, inner = sch.split(loops[m.position], [None, chunk, rows])
    return [chunks], [outer], [inner]


def _split_others(
    sch: Schedule, recorder: Recorder, roles: Roles, loops: dict[int, LoopRV], blocks: bool
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Split the remaining spatial axes.
    They are whole outside, except that the last may leave a block inside, with `blocks`."""
    batch: list[LoopRV] = []
    blocked: list[LoopRV] = []
    for axis in roles.others:
        if axis is roles.others[-1] and axis.extent > 1 and blocks:
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
    sch: Schedule, recorder: Recorder, work: ContractionWork, loops: dict[int, LoopRV]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """The reduction loops in order, and which to unroll: small innermost ones whole, else a factor."""
    info = work.info
    reduce_loops = [loops[a.position] for a in info.reduced]
    last = info.reduced[-1]
    if window := window_axes(info, work.roles):
        written_out = [loops[a.position] for a in window]
        return [*(loop for loop in reduce_loops if loop not in written_out), *written_out], written_out
    if last.extent <= (_UNROLLED_PIXELS if work.shape.across else _UNROLLED):
        return reduce_loops, [reduce_loops[-1]]
    factors = tuple(u for u in UNROLLS if last.extent % u == 0)
    if len(factors) < 2:
        return reduce_loops, []
    unroll = recorder.choose("unroll", factors)
    outer, inner = sch.split(reduce_loops[-1], [None, unroll.rv])
    return [*reduce_loops[:-1], outer, inner], [inner]


def _pack_operands(
    sch: Schedule, block: BlockRV, work: ContractionWork, nest: _Nest, sizes: tuple[ExprRV, ExprRV], at: LoopRV
) -> None:
    """Copy operands as the shape says.
    The vector operand is copied under `at`, the scalar operand for each chunk of rows."""
    info, roles, shape, lanes = work.info, work.roles, work.shape, work.hardware.lanes
    rows, vectors = sizes
    if shape.pack and roles.vector_operand is not None:
        access = info.inputs[roles.vector_operand]
        dim = panel_dim(access, roles.v.position)
        if dim is None:
            copy_region(sch, block, access, at, lanes)
        else:
            made_by = work.made_by.get(access.buffer.name)
            panel = Panel(access, dim, vectors, lanes, made_by)
            ahead = access.buffer.name in work.free
            narrow = ahead and (roles.m is None or roles.m.extent <= MEMORY_BOUND)
            if work.unpacking is not None:
                _order_narrow(sch, work, work.unpacking, panel)
                panel = replace(panel, together=_held_together(work.unpacking, panel))
            pack(sch, block, panel, None if ahead or shape.rows_outer else at, ahead, narrow)
    if (shape.pack_rows or shape.kept) and roles.scalar_operand is not None and roles.m is not None:
        access = info.inputs[roles.scalar_operand]
        dim = panel_dim(access, roles.m.position)
        assert dim is not None  # shapes that pack rows are offered for such operands only
        panel = Panel(access, dim, rows, 1, work.made_by.get(access.buffer.name))
        ahead = access.buffer.name in work.free
        pack(sch, block, panel, None if ahead else at if shape.kept else nest.m_chunk[0], ahead)
    elif roles.scalar_operand is not None and _widened_for_many(work):
        access = info.inputs[roles.scalar_operand]
        _widen_rows(sch, block, access, lanes, ahead=access.buffer.name in work.free)


def _order_narrow(sch: Schedule, work: ContractionWork, unpacking: BlockInfo, panel: Panel) -> None:
    """Copy what `unpacking` fills panels from, in their order, ahead of all calls where that may be.
    It comes from memory, and is read from its beginning to its end."""
    columns = tuple(unpacking.output.axes_by_dim[panel.dim])
    if len(columns) != 1:  # written at an index of several axes
        return
    for access in unpacking.inputs:
        dim = panel_dim(access, columns[0])
        if access.buffer.name in work.free and dim is not None:
            own = replace(panel, access=access, dim=dim, made_by=None)
            pack(sch, sch.get_block(unpacking.name), own, None, ahead=True, narrow=True)


def _held_together(unpacking: BlockInfo, panel: Panel) -> int:
    """Rows of a panel that one packed number holds; 1 where that does not divide all rows."""
    made, held = (_elements(access) for access in (unpacking.output, unpacking.inputs[0]))
    rows, together = as_int(unpacking.output.buffer.shape[panel.dim - 1]) or 1, max(1, made // held)
    return together if panel.dim and together <= _IN_A_BYTE and rows % together == 0 else 1


def _widened_for_many(work: ContractionWork) -> bool:
    """Whether narrow numbers, each of which goes to all lanes, are used often enough to be widened once."""
    roles, lanes = work.roles, work.hardware.lanes
    narrow = roles.scalar_operand is not None and work.info.inputs[roles.scalar_operand].used_as is not None
    return narrow and roles.m is not None and roles.m.extent > MEMORY_BOUND and roles.v.extent >= _OFTEN * lanes


def _widen_rows(sch: Schedule, block: BlockRV, operand: BlockAccess, lanes: int, ahead: bool) -> None:
    """Let `block` read an operand from a buffer of widened numbers.
    It is the buffer that another block fills for it alone and that is no result of the function, else a copy."""
    assert operand.used_as is not None
    makers = [m for m in sch.get_producers(block) if sch.get(m).writes[0].buffer.same_as(operand.buffer)]
    result = operand.buffer in sch.func.buffer_map.values()
    if len(makers) == 1 and len(sch.get_consumers(makers[0])) == 1 and not result:
        widen(sch, makers[0], operand)
        return
    copy = widened_copy(sch, block, operand, operand.used_as, lanes)
    if ahead:
        ahead_of_time(sch, copy)


def _into_registers(
    sch: Schedule, block: BlockRV, first: LoopRV, unrolled: list[LoopRV], lane: LoopRV, depth: int
) -> None:
    """Zero the tile before the reduction loop `first`.
    Unroll and vectorise it and its zeroing, `depth` loops."""
    init = sch.decompose_reduction(block, first)
    for loop in unrolled:
        sch.unroll(loop)
    sch.vectorize(lane)
    init_loops = sch.get_loops(init)[-depth:]
    for loop in init_loops[:-1]:
        sch.unroll(loop)
    sch.vectorize(init_loops[-1])


def _keep_tiles(sch: Schedule, block: BlockRV, at: LoopRV, vectors: ExprRV, lanes: int, rank: int) -> None:
    """Keep what `block` sums under `at` in tiles of `vectors` × `lanes` columns.
    They are copied to the output of `rank` dimensions there. `block` has its output cached: the block after it
    copies.

        the output, row major           kept, for tiles of 2 columns
          a b c d                         a b e f, c d g h
          e f g h                →

    A tile is loaded and stored for each block. In the output its rows are as far apart as the output's rows are
    long. If that is a power of two, all of them compete for the same few lines of a near cache. A kept tile is
    contiguous.
    """
    (results,) = sch.get_consumers(block)
    sch.reverse_compute_at(results, at, preserve_unit_loops=True)
    loops = sch.get_loops(results)[-rank:]
    tile, vector, lane = sch.split(loops[-1], [None, vectors, lanes])
    sch.reorder(tile, *loops[:-1], vector, lane)
    sch.unroll(vector)
    sch.vectorize(lane)
    *outer, last = [f"i{d}" for d in range(rank)]
    width = f"(t * {lanes})"
    moved = ", ".join([f"{last} // {width}", *outer, f"{last} % {width}"])
    layout = f"lambda {', '.join([*outer, last])}, t: ({moved})"
    sch.transform_layout(block, ("write", 0), layout, sizes=[vectors])
