"""Convolutions of small images with channels along vectors: filters are packed so, and each pixel goes to all lanes.

    for group of channels (parallel):            its filters stay in the second-level cache
      for y, x in tiles of pixels:
        C[y, x, f] += image[c, y + r, x + s] · panel[f // W, c, r, s, f % W]
        out[f, y, x] = C[y, x, f]                written across memory, once a tile

The 49 pixels of a network's last layers fill three vectors of 16 numbers and a sixteenth of a fourth, which takes as
long as a whole one. Channels come in whole vectors.
"""

from __future__ import annotations

import math
from dataclasses import replace

from compiler.schedule.core.schedule import Schedule
from tuner.space.analysis import BlockInfo
from tuner.space.cpu.contraction import Roles, assign_roles
from tuner.space.cpu.hardware import Hardware, has_masks
from tuner.space.cpu.panels import panel_dim

_MOST_FILLED = 0.9  # of vectors of pixels: what is written across memory takes some time, too
_LEAST_VECTORS = 2  # of channels


def leaves_vectors_empty(info: BlockInfo, roles: Roles, hardware: Hardware) -> bool:
    """Whether a convolution's pixels leave vectors empty that its channels fill. Only vectors with masks are written
    across memory by one instruction."""
    if not has_masks(hardware, info.output.buffer.dtype) or roles.m is None or roles.scalar_operand is None:
        return False
    dims = info.output.axes_by_dim
    plain = len(dims) == 4 and all(len(dim) == 1 for dim in dims) and len(info.inputs) == 2
    if not plain or dims[1] != {roles.m.position} or dims[3] != {roles.v.position}:
        return False
    pixels = math.prod(info.axes[position].extent for dim in dims[2:] for position in dim)
    filled = pixels / (-(-pixels // hardware.lanes) * hardware.lanes)
    filters = info.inputs[roles.scalar_operand]
    whole = roles.m.extent % hardware.lanes == 0 and roles.m.extent >= _LEAST_VECTORS * hardware.lanes
    alone = not {position for dim in dims[2:] for position in dim} & filters.axes
    return filled < _MOST_FILLED and whole and alone and panel_dim(filters, roles.m.position) is not None


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
