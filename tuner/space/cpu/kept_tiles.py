"""Sums kept in the order of tiles while blocks of a reduction are added.

    the output, row major           kept, for tiles of 2 columns
      a b c d                         a b e f, c d g h
      e f g h                →

A tile is loaded and stored for each block. In the output its rows are as far apart as the output's rows are long. If
that is a power of two, all of them compete for the same few lines of a near cache. A kept tile is contiguous.
"""

from __future__ import annotations

from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule


def keep_tiles(sch: Schedule, block: BlockRV, at: LoopRV, vectors: ExprRV, lanes: int, rank: int) -> None:
    """Keep what `block` sums under `at` in tiles of `vectors` × `lanes` columns.
    They are copied to the output of `rank` dimensions there. `block` has its output cached: the block after it
    copies."""
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
