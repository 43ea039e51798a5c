"""Convolutions of small images with channels along vectors.

Filters are packed that way, and each pixel goes to all lanes.

    for group of channels (parallel):            its filters stay in the second-level cache
      for y, x in tiles of pixels:
        C[y, x, f] += image[c, y + r, x + s] · panel[f // W, c, r, s, f % W]
        out[f, y, x] = C[y, x, f]                transposed in registers, once a tile

The 49 pixels of a network's last layers fill three vectors of 16 numbers and a sixteenth of a fourth, which takes as
long as a whole one. Channels come in whole vectors. A vector of pixels of an image with a stride takes two loads and
a shuffle. One pixel for all lanes costs the same for any image.
"""

from __future__ import annotations

import math
from dataclasses import replace

from compiler.schedule.core.schedule import Schedule
from tuner.space.analysis import BlockInfo
from tuner.space.cpu.hardware import Hardware, has_masks
from tuner.space.cpu.panels import panel_dim
from tuner.space.cpu.pixels import has_gaps
from tuner.space.cpu.roles import Roles, assign_roles

_ACROSS = 14  # products of a vector that take as long as to transpose a tile's results and write them in parts
_APART = 1.3  # what pixels that lie apart take of what neighbours take, where windows overlap
_LEAST_VECTORS = 2  # of channels


def channels_fill_more(info: BlockInfo, roles: Roles, hardware: Hardware) -> bool:
    """Whether channels fill vectors of a convolution better than its pixels.
    Pixels leave lanes empty, or lie apart in the image. Tiles of few pixels are written by vectors with masks."""
    if not has_masks(hardware, info.output.buffer.dtype) or roles.m is None or roles.scalar_operand is None:
        return False
    dims = info.output.axes_by_dim
    plain = len(dims) == 4 and all(len(dim) == 1 for dim in dims) and len(info.inputs) == 2
    if not plain or dims[1] != {roles.m.position} or dims[3] != {roles.v.position}:
        return False
    filters = info.inputs[roles.scalar_operand]
    vectors = -(-roles.m.extent // hardware.lanes)
    alone = not {position for dim in dims[2:] for position in dim} & filters.axes
    if vectors < _LEAST_VECTORS or not alone or panel_dim(filters, roles.m.position) is None:
        return False
    pixels = math.prod(info.axes[position].extent for dim in dims[2:] for position in dim)
    filled = pixels / (-(-pixels // hardware.lanes) * hardware.lanes)
    better = roles.m.extent / (vectors * hardware.lanes) / filled
    windows = has_gaps(info, roles) and len([a for a in info.reduced if a.extent > 1]) > 1
    depth = math.prod(a.extent for a in info.reduced)
    return (_APART if windows else 1.0) * better > 1 + _ACROSS / depth


def channels_last(sch: Schedule, name: str) -> None:
    """Let the block `name` sum into a buffer of its own that has channels last."""
    block = sch.get_block(name)
    sch.reindex(block, ("write", 0))
    sch.transform_layout(block, ("write", 0), "lambda n, f, y, x: (n, y, x, f)")


def channel_roles(info: BlockInfo) -> Roles | None:
    """The roles of its axes then: rows are the pixels of an image's row."""
    roles = assign_roles(info)
    if roles is None:
        return None
    *others, last = (a for a in info.spatial if a is not roles.v)
    return replace(roles, m=last, others=tuple(others))
