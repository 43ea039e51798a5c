"""Which axis of a contraction plays which part.

One spatial axis runs along vectors (`v`), one along registers (`m`), such that operands are shared across each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.space.analysis import BlockAxis, BlockInfo

_LARGEST_WINDOW = 64  # products of a window whose loops are written out


@dataclass(frozen=True)
class Roles:
    """Which axis plays which part. `others` are the spatial axes left, outermost first."""

    v: BlockAxis
    m: BlockAxis | None
    others: tuple[BlockAxis, ...]
    vector_operand: int | None  # index into inputs of the operand read along v, shared across m
    scalar_operand: int | None  # the one read along m, shared across v


def assign_roles(info: BlockInfo) -> Roles | None:
    """The roles of a contraction's axes; None if no axis of the output is contiguous."""
    contiguous = [a for a in info.spatial if info.output.innermost == {a.position}]
    if not contiguous:
        return None
    v = contiguous[0]
    along_v = [i for i, op in enumerate(info.inputs) if v.position in op.axes]
    across_v = [i for i, op in enumerate(info.inputs) if v.position not in op.axes]

    def shares(axis: BlockAxis) -> bool:
        scalar = any(axis.position in info.inputs[i].axes for i in across_v)
        return scalar and any(axis.position not in info.inputs[i].axes for i in along_v)

    rows = [a for a in info.spatial if a is not v and a.extent > 1 and shares(a)]
    m = max(rows, key=lambda a: a.extent, default=None) or _window_rows(info, v)
    others = tuple(a for a in info.spatial if a is not v and a is not m)
    scalar = next((i for i in across_v if m is not None and m.position in info.inputs[i].axes), None)
    return Roles(v, m, others, along_v[0] if along_v else None, scalar)


def _window_rows(info: BlockInfo, v: BlockAxis) -> BlockAxis | None:
    """The axis whose neighbours read overlapping windows, as the rows of a depthwise convolution do.
    What one row of registers has loaded, the next one uses again."""
    reduced = {a.position for a in info.reduced if a.extent > 1}
    for axis in info.spatial:
        dims = [dim for op in info.inputs for dim in op.axes_by_dim if axis.position in dim]
        if axis is not v and axis.extent > 1 and any(dim & reduced for dim in dims):
            return axis
    return None


def window_axes(info: BlockInfo, roles: Roles) -> list[BlockAxis]:
    """Return the axes of a small window in which rows of a tile overlap: its columns, then its rows.
    A depthwise convolution has such a window. Unrolled whole, it loads each row of the image once for all rows of
    the window. None where rows of a tile share nothing or the window is large."""
    long = [a for a in info.reduced if a.extent > 1]
    if roles.m is None or len(long) != 2 or math.prod(a.extent for a in long) > _LARGEST_WINDOW:
        return []
    dims = [dim for op in info.inputs for dim in op.axes_by_dim]
    rows = [a for a in long if {roles.m.position, a.position} in dims]
    columns = [a for a in long if {roles.v.position, a.position} in dims]
    return [*columns, *rows] if len(rows) == len(columns) == 1 and rows != columns else []
