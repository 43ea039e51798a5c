"""Whole tiles of rows for Intel's matrix unit (AMX), where those of an image or a matrix fill none.

A tile with 7 rows takes as long as one with 16. So the pixels of an image are put in one row, with zeros at its end,
in a copy that has one part for each place of the window. What follows the sums leaves the last rows out:

    columns[r, s, 7 y + x, c] = image[y + r, x + s, c]        49 pixels, and 15 rows of zeros
    out[p // 7, p % 7, f]     = sums[p, f]                    for all p < 49
"""

from __future__ import annotations

from compiler.schedule.core.schedule import BlockRV, Schedule
from compiler.tir.intrin.amx import TILE
from tuner.space.analysis import BlockAxis, BlockInfo, blocks_of, consumers
from tuner.space.cpu.narrow.dots import Grouped
from tuner.space.index_maps import Place, index_map, joined

_ALONE = 4  # tiles of rows that share columns; of more, their number is to be even


def filled_rows(info: BlockInfo, work: Grouped) -> int:
    """The rows of whole tiles that hold all rows of `work`."""
    above = line_axis(info, work)
    tiles = -(-work.m.extent * (1 if above is None else above.extent) // TILE)
    return TILE * (tiles if tiles <= _ALONE else tiles + tiles % 2)


def line_axis(info: BlockInfo, work: Grouped) -> BlockAxis | None:
    """The axis of an image's lines, next to the rows in the result.
    None where there is none to join them with."""
    dims = info.output.axes_by_dim
    if len(dims) < 3 or len(dims[-3]) != 1:
        return None
    (position,) = dims[-3]
    axis = info.axes[position]
    own = position in work.scalar.axes and position not in work.vector.axes
    return axis if own and axis.extent > 1 and not axis.reduce else None


def fill_tiles(sch: Schedule, info: BlockInfo, work: Grouped, epilogue: str | None) -> BlockRV:
    """Give the block of `info` whole tiles of rows.
    Returns the block that reads its sums: `epilogue`, or a copy. Raises ScheduleError where that is not legal."""
    block, above, operand = sch.get_block(info.name), line_axis(info, work), work.scalar
    read = [a for a in info.axes if a.position in operand.axes]
    rows = [a for a in (above, work.m) if a is not None]
    own = [a for a in read if a not in (*rows, work.k)]
    others = [a for a in info.spatial if a not in (*rows, work.roles.v)]
    places: list[Place] = [*others, rows, work.roles.v, *info.reduced]
    copy = sch.reindex(block, ("read", sch.read_index(block, operand.buffer.name)))
    result = sch.reindex(block, ("write", 0))
    read_at = sch.read_index(block, sch.get(copy).writes[0].buffer.name)
    columns = index_map(read, [*own, rows, work.k])
    sch.transform_layout(block, ("read", read_at), columns)
    sch.transform_block_layout(copy, columns)
    sch.transform_layout(block, ("write", 0), index_map(info.spatial, places[: len(others) + 2]))
    sch.transform_block_layout(block, index_map(info.axes, places))
    sch.pad_einsum(block, [filled_rows(info, work) if place is rows else 1 for place in places])
    _inline_copies(sch, info.name, copy, result)
    if epilogue is None:
        last = result
    else:
        sch.compute_inline(result)
        last = sch.get_block(epilogue)
    if above is not None:
        _join_lines(sch, last)
    return last


def _inline_copies(sch: Schedule, name: str, copy: BlockRV, result: BlockRV) -> None:
    """Let one block make the columns with their zeros, and one copy the results without."""
    blocks = blocks_of(sch.func)
    main = next(b for b in blocks if b.name == name)
    [reader] = consumers(main, blocks)
    if reader.name != sch.get(result).name_hint:
        sch.compute_inline(sch.get_block(reader.name))
    made = sch.get(copy).writes[0].buffer
    if all(access.buffer is not made for access in main.inputs):
        sch.compute_inline(copy)


def _join_lines(sch: Schedule, last: BlockRV) -> None:
    """Let a block run along all pixels of an image in one loop."""
    name = sch.get(last).name_hint
    info = next(b for b in blocks_of(sch.func) if b.name == name)
    above, along = (info.axes[min(dim)] for dim in info.output.axes_by_dim[-3:-1])
    sch.transform_block_layout(last, joined(info.axes, (above, along)))
