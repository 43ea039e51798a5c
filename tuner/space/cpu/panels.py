"""Packing an operand into panels: copies laid out in the order in which a register tile reads them.

    A, row major                    its panels, for tiles of 2 rows
      a b c d                         a e b f c g d h
      e f g h                →        i m j n k o l p
      i j k l
      m n o p

The innermost loop then reads memory sequentially, whatever the operand's own layout (K. Goto, R. van de Geijn,
"Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arith.affine import as_affine
from compiler.dtype import parse_dtype
from compiler.lower.blocks.split_preproc import PREPROC
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule
from compiler.tir.nodes import PrimExpr
from compiler.tir.ops import add, const, mul
from tuner.space.analysis import BlockAccess
from tuner.space.loops import fuse_all

_LINE = 64  # bytes of the cache


@dataclass(frozen=True)
class Panel:
    """An operand and how its panels are made: `dim` is cut in tiles of `size` × `lanes` elements.
    `made_by` names the block that makes the operand here (one that pads it); without one the operand is copied.
    So many rows are made `together`, of numbers that hold one of each."""

    access: BlockAccess
    dim: int
    size: ExprRV
    lanes: int
    made_by: str | None = None
    together: int = 1


def panel_dim(access: BlockAccess, axis: int) -> int | None:
    """The dimension that `axis`, and nothing else, is the index of; None when there is no such dimension."""
    found = [d for d, axes in enumerate(access.axes_by_dim) if axis in axes]
    return found[0] if len(found) == 1 and access.axes_by_dim[found[0]] == {axis} else None


def pack(
    sch: Schedule, block: BlockRV, panel: Panel, at: LoopRV | None, ahead: bool = False, narrow: bool = False
) -> None:
    """Fill the panels that `block` reads under `at`, there.
    Without `at` fill all of them first, and with `ahead` once for all calls. `narrow` panels hold the operand's
    numbers, not the widened ones."""
    copy = _copying(sch, block, panel)
    if not narrow:
        widen(sch, copy, panel.access)
    if ahead:
        ahead_of_time(sch, copy)
    if at is not None:
        sch.compute_at(copy, at, preserve_unit_loops=True)
    rank = len(panel.access.axes_by_dim)
    loops = sch.get_loops(copy)[-rank:]
    others = [loop for d, loop in enumerate(loops) if d != panel.dim]
    if panel.dim == rank - 1 and panel.lanes > 1:
        tile, vector, lane = sch.split(loops[panel.dim], [None, panel.size, panel.lanes])
        if panel.together > 1:
            *others, along = others
            *both, row = sch.split(along, [None, panel.together])
            others = [*others, *both, row]
            sch.unroll(row)
        if at is not None and _fills_lines(panel) and _reads_straight(sch, copy):
            sch.reorder(*others, tile, vector, lane)
        else:
            sch.reorder(tile, *others, vector, lane)
        sch.unroll(vector)
        sch.vectorize(lane)
    else:
        tile, *inner = sch.split(loops[panel.dim], [None, panel.size, panel.lanes])
        if panel.lanes > 1 and _reads_straight(sch, copy):  # a line at a time: so many rows of them may crowd a cache
            *others, along = others
            step, one = sch.split(along, [None, _LINE // parse_dtype(panel.access.buffer.dtype).bytes])
            sch.reorder(tile, *others, step, *inner, one)
            sch.unroll(one)
        else:
            sch.reorder(tile, *others, *inner)
            for loop in inner:
                sch.unroll(loop)
    if at is None:
        sch.parallel(tile)
    index = ", ".join(f"i{d}" for d in range(rank))
    moved, width = f"i{panel.dim}", f"(t * {panel.lanes})"
    rest = "".join(f"i{d}, " for d in range(rank) if d != panel.dim)
    layout = f"lambda {index}, t: ({moved} // {width}, {rest}{moved} % {width})"
    sch.transform_layout(copy, ("write", 0), layout, sizes=[panel.size])


def ahead_of_time(sch: Schedule, copy: BlockRV) -> None:
    """Note that a copy of a layout-free buffer can be made once, ahead of all calls."""
    sch.annotate(copy, PREPROC, True)


def widen(sch: Schedule, copy: BlockRV, access: BlockAccess) -> None:
    """Let a copy of narrow numbers hold widened ones. They are converted once, not for each product."""
    if access.used_as is not None:
        sch.unsafe_set_dtype(copy, 0, access.used_as)


def widened_copy(sch: Schedule, block: BlockRV, operand: BlockAccess, dtype: str, lanes: int) -> BlockRV:
    """Let `block` read a copy of an operand in its own layout, in `dtype`.
    All threads make it. Return the copying block."""
    copy = sch.cache_read(block, sch.read_index(block, operand.buffer.name), "global")
    sch.unsafe_set_dtype(copy, 0, dtype)
    *outer, last = sch.get_loops(copy)
    _, lane = sch.split(last, [None, lanes])
    sch.vectorize(lane)
    sch.parallel(fuse_all(sch, outer))
    return copy


def copy_region(sch: Schedule, block: BlockRV, access: BlockAccess, at: LoopRV, lanes: int) -> None:
    """Copy the part of an operand that `block` reads under `at` into a buffer of its own, in vectors."""
    packed = sch.cache_read(block, sch.read_index(block, access.buffer.name), "global")
    widen(sch, packed, access)
    copy_at(sch, packed, at, lanes)


def copy_at(sch: Schedule, copy: BlockRV, at: LoopRV, lanes: int) -> None:
    """Move a block that copies to where its copy is read under `at`, in vectors."""
    sch.compute_at(copy, at, preserve_unit_loops=True)
    _, lane = sch.split(sch.get_loops(copy)[-1], [None, lanes])
    sch.vectorize(lane)


def _fills_lines(panel: Panel) -> bool:
    """Whether a vector of the copy is a whole cache line.
    Each line is then written once, by one store, even if all tiles of a panel are written in turns. Meanwhile a row
    of the source is read sequentially: prefetchers see it, and its page is looked up once."""
    dtype = panel.access.used_as or panel.access.buffer.dtype
    return panel.lanes * parse_dtype(dtype).bytes >= _LINE


def _reads_straight(sch: Schedule, copy: BlockRV) -> bool:
    """Whether neighbours of the copy are also neighbours in the source.
    The pixels of an image read in order are such. Others are gathered, by an index that is computed once a tile."""
    block = sch.get(copy)
    if len(block.reads) != 1:
        return False
    [read], last = block.reads, block.iter_vars[-1].var
    place: PrimExpr = const(0)
    for size, dim in zip(read.buffer.shape, read.region):
        place = add(mul(place, size), dim.min)
    found = as_affine(place, (last,))
    return found is not None and found[0] == (1,)


def _copying(sch: Schedule, block: BlockRV, panel: Panel) -> BlockRV:
    if panel.made_by is not None:
        return sch.get_block(panel.made_by)
    return sch.cache_read(block, sch.read_index(block, panel.access.buffer.name), "global")
