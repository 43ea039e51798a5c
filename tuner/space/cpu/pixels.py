"""Convolution as a matrix product: the pixels of an image in one row (im2col).

    out[f, y, x] += data[c, y + r, x + s] * w[f, c, r, s]

    →   columns[c, r, s, p] = data[c, p // W + r, p % W + s]       for all pixels p = y * W + x
        flat[f, p] += columns[c, r, s, p] * w[f, c, r, s]
        out[f, y, x] = flat[f, y * W + x]

Rows of pixels that are no multiple of a vector, such as the 7 and 14 of a network's last layers, leave vectors half
empty. All pixels together fill them. K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural
Networks for Document Processing", 2006.

The columns of a 1×1 convolution without strides are the data as it lies in memory. They are then no copy, but
another name for it: a tile reads the data, or it is packed. The results are always another name for the output.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, Schedule
from compiler.tir.ops import as_int
from tuner.space.analysis import BlockAccess, BlockAxis, BlockInfo, blocks_of, consumers
from tuner.space.cpu.roles import Roles
from tuner.space.index_maps import index_map, joined
from tuner.space.loops import fuse_all

_GATHERED_BYTES = 64  # of a vector
_LEAST_GATHERED = 4  # bytes of an element
_LONG_ROW = 4  # vectors of a row that are copied as such, sooner than gathered
STREAMS = 64  # lines of memory in a first-level TLB: rows of an unpacked operand that one tile goes through


def has_pixels(info: BlockInfo, roles: Roles, lanes: int) -> bool:
    """Return whether `v` has a neighbour to be joined with, where that pays.
    It pays where `v` does not fill its vectors alone or is read with gaps that cost something."""
    above = row_above(info, roles)
    if above is None or roles.m is None or roles.vector_operand is None:
        return False
    operand, scalar = info.inputs[roles.vector_operand], roles.scalar_operand
    both = {above.position, roles.v.position} <= operand.axes
    apart = scalar is not None and not {above.position, roles.v.position} & info.inputs[scalar].axes
    if not both or not apart or above.extent < 2 or len(info.inputs) != 2:
        return False
    if is_dense(info, roles):
        return True  # it costs nothing
    return roles.v.extent % lanes != 0 or (has_gaps(info, roles) and not _reads_few_rows(info, operand, roles))


def has_gaps(info: BlockInfo, roles: Roles) -> bool:
    """Whether neighbours along `v` are no neighbours in memory, as in a convolution with strides."""
    return roles.vector_operand is not None and dict(info.inputs[roles.vector_operand].steps).get(roles.v.position) != 1


def _reads_few_rows(info: BlockInfo, operand: BlockAccess, roles: Roles) -> bool:
    """Whether a tile reads every second element of few rows, such as those of three channels.
    They stay near, and are unfolded row by row; a copy of all columns would go through memory."""
    rows = math.prod(a.extent for a in info.reduced if a.position not in operand.innermost)
    return dict(operand.steps).get(roles.v.position) == 2 and rows <= STREAMS


@dataclass(frozen=True)
class Flat:
    """`flatten`'s result: the block that makes the columns, and two facts about it.

    One is whether the columns are its operand as it lies in memory, so that nothing need be copied. The other is
    whether the block runs along pixels, so that panels can be made of what it reads.
    """

    columns: str
    dense: bool
    by_pixels: bool


def flatten(sch: Schedule, info: BlockInfo, roles: Roles, lanes: int, packed: bool = False) -> Flat | None:
    """Make one axis of `v` and its neighbour; None if that is not legal.
    Reduction axes of one step are left out. With `packed`, the columns are read in panels only, which are gathered
    where the machine can."""
    above = row_above(info, roles)
    assert above is not None
    assert roles.vector_operand is not None
    operand = info.inputs[roles.vector_operand]
    block = sch.get_block(info.name)
    pair = above, roles.v
    steps = [a for a in info.reduced if a.extent > 1]
    dropped = [a for a in info.reduced if a not in steps] if len(steps) == 1 else []
    read = [a for a in info.axes if a.position in operand.axes]
    dense = is_dense(info, roles)
    by_pixels = dense or (packed and roles.v.extent < _LONG_ROW * lanes and _gathers(operand, lanes))
    try:
        columns = sch.reindex(block, ("read", sch.read_index(block, operand.buffer.name)))
        sch.reindex(block, ("write", 0))
        read_at = sch.read_index(block, sch.get(columns).writes[0].buffer.name)
        sch.transform_layout(block, ("read", read_at), joined(read, pair, dropped, last=True))
        sch.transform_layout(block, ("write", 0), joined(info.spatial, pair))
        sch.transform_block_layout(block, joined(info.axes, pair, dropped))
        if by_pixels:
            sch.transform_block_layout(columns, joined(read, pair, dropped, last=True))
    except ScheduleError:
        return None
    if not by_pixels:
        _copy(sch, columns, [a for a in read if a not in pair], pair, read, lanes)
    return Flat(sch.get(columns).name_hint, dense, by_pixels)


def _gathers(operand: BlockAccess, lanes: int) -> bool:
    """Whether gathering a vector is faster than copying columns twice, in rows and in panels.
    There are instructions for elements of 4 bytes and more; in vectors of 64 bytes they pay."""
    element_bytes = parse_dtype(operand.buffer.dtype).bytes
    return element_bytes >= _LEAST_GATHERED and lanes * element_bytes >= _GATHERED_BYTES


def is_dense(info: BlockInfo, roles: Roles) -> bool:
    """Return whether the pixels read are all those of an image, in order.
    Those of a 1×1 convolution without strides are."""
    above = row_above(info, roles)
    if above is None or roles.vector_operand is None or len(info.output.axes_by_dim) < 2:
        return False
    operand = info.inputs[roles.vector_operand]
    long = [frozenset(a for a in dim if info.axes[a].extent > 1) for dim in operand.axes_by_dim[-2:]]
    sizes = [as_int(size) for size in operand.buffer.shape[-2:]]
    return (
        long == [{above.position}, {roles.v.position}]
        and sizes == [above.extent, roles.v.extent]
        and dict(operand.steps).get(roles.v.position) == 1
    )


def unfold(sch: Schedule, info: BlockInfo, roles: Roles) -> str | None:
    """Let `info` read a copy of its vector operand with neighbours along `v` side by side in memory.
    Returns the copying block's name; None if that is not legal. A copy made panel by panel is near when tiles read
    it."""
    assert roles.vector_operand is not None
    operand = info.inputs[roles.vector_operand]
    block = sch.get_block(info.name)
    read = [a for a in info.axes if a.position in operand.axes]
    last = index_map(read, [*(a for a in read if a is not roles.v), roles.v])
    try:
        columns = sch.reindex(block, ("read", sch.read_index(block, operand.buffer.name)))
        read_at = sch.read_index(block, sch.get(columns).writes[0].buffer.name)
        sch.transform_layout(block, ("read", read_at), last)
        sch.transform_block_layout(columns, last)
    except ScheduleError:
        return None
    return sch.get(columns).name_hint


def has_steps(info: BlockInfo, roles: Roles) -> bool:
    """Whether neighbours along `v` are some elements of a row apart, and used for all rows of a tile."""
    if roles.vector_operand is None or roles.m is None:
        return False
    operand = info.inputs[roles.vector_operand]
    return dict(operand.steps).get(roles.v.position, 1) > 1 and roles.m.position not in operand.axes


def flatten_consumer(sch: Schedule, name: str) -> None:
    """Let the block that reads the flat results of the block `name` also run along pixels.
    It can then be computed where a tile is finished."""
    blocks = blocks_of(sch.func)
    users = consumers(next(b for b in blocks if b.name == name), blocks)
    if len(users) != 1 or not users[0].injective:
        return
    [consumer] = users
    dims = consumer.output.axes_by_dim
    last = [consumer.axes[min(dim)] for dim in dims[-2:] if len(dim) == 1]
    if len(last) == 2 and last[0] is not last[1]:
        with contextlib.suppress(ScheduleError):  # then it stays a pass of its own
            sch.transform_block_layout(sch.get_block(consumer.name), joined(consumer.axes, (last[0], last[1])))


def row_above(info: BlockInfo, roles: Roles) -> BlockAxis | None:
    """The axis that indexes the output's last dimension but one."""
    dims = info.output.axes_by_dim
    if len(dims) < 2 or len(dims[-2]) != 1:
        return None
    (position,) = dims[-2]
    axis = info.axes[position]
    return None if axis.reduce else axis


def _copy(
    sch: Schedule, block: BlockRV, outer: list[BlockAxis], pair: tuple[BlockAxis, BlockAxis], axes: list[BlockAxis],
    lanes: int,
) -> None:  # fmt: skip
    """Copy row by row of pixels, in parallel over the rest."""
    loops = dict(zip((a.position for a in axes), sch.get_loops(block)))
    above, v = pair
    around = [loops[a.position] for a in outer]
    sch.reorder(*around, loops[above.position], loops[v.position])
    if v.extent >= lanes > 1:
        _, lane = sch.split(loops[v.position], [None, lanes])
        sch.vectorize(lane)
    if around:
        sch.parallel(fuse_all(sch, around))
