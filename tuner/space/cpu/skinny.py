"""Products of a few rows by a large matrix.

Each element of the matrix is used for those rows only, so it has to come from memory about as fast as it is used.

    for panel of columns, in parallel:
      for k, 4 or 8 rows of B at a time, each read straight on:
        [copy A[:, k], tile by tile]                               stream+keep
        for tile in panel: sums[tile] += A[:, k] · B[k, tile]      stream: the sums are C itself
      [copy the sums to C]                                         stream+keep

A register tile that runs down the columns of such a matrix meets another page in each row. Rows a power of two apart
share one set of the cache. If a tile reads more of them than a set has ways, the rest of every line is gone before
the next tile wants it. A few rows at a time are as many sequential streams, which the hardware reads ahead. The rows
of C and of A lie as far apart, and want the lines of the same set. Kept in the order of tiles they don't.
"""

from __future__ import annotations

import math
from dataclasses import replace

from compiler.dtype import parse_dtype
from compiler.lower.blocks.split_preproc import layout_free
from compiler.tir.nodes import PrimFunc
from compiler.tir.ops import as_int
from tuner.space.analysis import BlockAccess, BlockInfo
from tuner.space.cpu.contraction_sizes import ContractionShape, depths
from tuner.space.cpu.roles import Roles

_MOST_ROWS = 32  # of results: of more, the arithmetic takes so long that memory matters less
_LARGE = 8 << 20  # bytes of an operand that no near cache keeps from one call to the next
_STREAMS = (4, 8)  # rows read at a time: first-level caches have 8 ways and more
_KEEP_FROM = 2  # rows of results for which an order of their own can pay
_ALONE_UP_TO = 4  # rows of results: of more, the output's own order was never faster


def skinny_shapes(func: PrimFunc, info: BlockInfo, roles: Roles) -> list[ContractionShape]:
    """The shapes of a float32 product of few rows by a large matrix that lies along the vectors.
    None where the block is no such product, no block of rows divides its sum, or the matrix can be packed ahead of
    all calls."""
    operand = None if roles.vector_operand is None else info.inputs[roles.vector_operand]
    rows = 1 if roles.m is None else roles.m.extent
    if operand is None or rows > _MOST_ROWS or not _is_matrix(info, roles, operand):
        return []
    if operand.buffer in layout_free(func):
        return []
    size = math.prod(as_int(extent) or 1 for extent in operand.buffer.shape) * parse_dtype(operand.buffer.dtype).bytes
    if size < _LARGE:
        return []
    streams = [d for d in _STREAMS if d in depths(info)]
    if not streams:
        return []
    plain = ContractionShape(rows_outer=False, pack=False, deep=True, streams=(max(streams),))
    offered = [plain] if rows <= _ALONE_UP_TO else []
    return [*offered, replace(plain, kept=True)] if rows >= _KEEP_FROM else offered


def _is_matrix(info: BlockInfo, roles: Roles, operand: BlockAccess) -> bool:
    """Whether the operand is a matrix of float32, its rows along the reduction.
    All else has one iteration."""
    plain = all(i.buffer.dtype == "float32" for i in (info.output, *info.inputs))
    alone = all(axis.extent == 1 for axis in roles.others)
    along = [frozenset({a.position}) for a in (*info.reduced, roles.v)]
    return plain and alone and info.contraction and len(info.inputs) == 2 and list(operand.axes_by_dim) == along
