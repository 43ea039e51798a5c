"""Convolution as a matrix product: the pixels of an image in one row (im2col).

    out[f, y, x] += data[c, y + r, x + s] * w[f, c, r, s]

    →   columns[c, r, s, p] = data[c, p // W + r, p % W + s]       for all pixels p = y * W + x
        flat[f, p] += columns[c, r, s, p] * w[f, c, r, s]
        out[f, y, x] = flat[f, y * W + x]

Rows of pixels that are no multiple of a vector, such as the 7 and 14 of a network's last layers, leave vectors half
empty; all pixels together fill them. K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural
Networks for Document Processing", 2006.
"""

from __future__ import annotations

import math

from compiler.errors import ScheduleError
from compiler.schedule.schedule import BlockRV, Schedule
from tuner.space.analysis import Access, Axis, BlockInfo
from tuner.space.contraction import Roles
from tuner.space.loops import fuse_all

STREAMS = 64  # lines of memory in a first-level TLB: rows of an unpacked operand that one tile goes through


def has_pixels(info: BlockInfo, roles: Roles, lanes: int) -> bool:
    """Whether `v` has a neighbour to be joined with, and does not fill its vectors alone or is read with gaps that
    cost something."""
    above = row_above(info, roles)
    if above is None or roles.m is None or roles.vector_operand is None:
        return False
    operand, scalar = info.inputs[roles.vector_operand], roles.scalar_operand
    both = {above.position, roles.v.position} <= operand.axes
    apart = scalar is not None and not {above.position, roles.v.position} & info.inputs[scalar].axes
    if not both or not apart or above.extent < 2 or len(info.inputs) != 2:
        return False
    return roles.v.extent % lanes != 0 or (has_gaps(info, roles) and not _reads_few_rows(info, operand, roles))


def has_gaps(info: BlockInfo, roles: Roles) -> bool:
    """Whether neighbours along `v` are no neighbours in memory, as in a convolution with strides."""
    return roles.vector_operand is not None and dict(info.inputs[roles.vector_operand].steps).get(roles.v.position) != 1


def _reads_few_rows(info: BlockInfo, operand: Access, roles: Roles) -> bool:
    """Whether a tile reads every second element of few rows, as those of three channels are: two vectors and a shuffle
    take no longer than a copy, and the rows stay near."""
    rows = math.prod(a.extent for a in info.reduced if a.position not in operand.innermost)
    return dict(operand.steps).get(roles.v.position) == 2 and rows <= STREAMS


def flatten(sch: Schedule, info: BlockInfo, roles: Roles, lanes: int) -> str | None:
    """Make one axis of `v` and its neighbour; returns the block that makes the columns, None if that is not legal."""
    above = row_above(info, roles)
    assert above is not None
    assert roles.vector_operand is not None
    operand = info.inputs[roles.vector_operand]
    block = sch.get_block(info.name)
    try:
        columns = sch.reindex(block, ("read", sch.read_index(block, operand.buffer.name)))
        result = sch.reindex(block, ("write", 0))
        read = [a for a in info.axes if a.position in operand.axes]
        read_at = sch.read_index(block, sch.get(columns).writes[0].buffer.name)
        pair = above, roles.v
        sch.transform_layout(block, ("read", read_at), _joined(read, pair, last=True))
        sch.transform_layout(block, ("write", 0), _joined(list(info.spatial), pair, last=False))
        sch.transform_block_layout(block, _joined(list(info.axes), pair, last=False))
    except ScheduleError:
        return None
    _copy(sch, columns, [a for a in read if a not in pair], pair, read, lanes)
    _copy(sch, result, [a for a in info.spatial if a not in pair], pair, list(info.spatial), lanes)
    return sch.get(columns).name_hint


def row_above(info: BlockInfo, roles: Roles) -> Axis | None:
    """The axis that indexes the output's last dimension but one."""
    dims = info.output.axes_by_dim
    if len(dims) < 2 or len(dims[-2]) != 1:
        return None
    (position,) = dims[-2]
    axis = info.axes[position]
    return None if axis.reduce else axis


def _joined(axes: list[Axis], pair: tuple[Axis, Axis], last: bool) -> str:
    """The map of `axes` that makes one index of the pair: the last one, or in its second's place."""
    above, v = pair
    names = {a.position: f"a{a.position}" for a in axes}
    one = f"{names[above.position]} * {v.extent} + {names[v.position]}"
    rest = [one if a is v else names[a.position] for a in axes if a is not above and not (last and a is v)]
    return f"lambda {', '.join(names.values())}: ({', '.join([*rest, one] if last else rest)},)"


def _copy(
    sch: Schedule, block: BlockRV, outer: list[Axis], pair: tuple[Axis, Axis], axes: list[Axis], lanes: int
) -> None:
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
