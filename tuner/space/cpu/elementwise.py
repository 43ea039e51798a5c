"""How blocks without a reduction are scheduled: inlined, or spread over threads and vectorised."""

from __future__ import annotations

import math
from collections.abc import Collection

from compiler.ir.visit import walk
from compiler.lower.loops.vectorize import TRANSPOSE
from compiler.schedule.core.schedule import BlockRV, Schedule
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from tuner.space.analysis import BlockAccess, BlockInfo, blocks_of, consumers
from tuner.space.loops import fuse_all

_FEW_LANES = 4  # fewer are no vector
_LEAST_IMAGES = 16  # that threads share
_SMALL = 4096  # elements below which threads cost more than they save


def inline_chains(sch: Schedule, kept: Collection[str] = ()) -> None:
    """Inline every unconditional injective block that only injective blocks read, but those `kept`.

    A conditional one (padding) stays: evaluated once an element, its branch is cheap; inside a tile it is not.
    """
    changed = True
    while changed:
        changed = False
        blocks = blocks_of(sch.func)
        outputs = set(sch.func.buffer_map.values())
        for info in blocks:
            users = consumers(info, blocks)
            free = info.injective and not info.conditional and info.output.buffer not in outputs
            if free and info.name not in kept and users and all(u.injective for u in users):
                sch.compute_inline(sch.get_block(info.name))
                changed = True
                break


def spread(sch: Schedule, info: BlockInfo, lanes: int) -> None:
    """Outer loops fused and parallel, the innermost axis in vectors of `lanes`."""
    block = sch.get_block(info.name)
    loops = sch.get_loops(block)
    elements = 1
    for axis in info.axes:
        elements *= axis.extent
    last = info.axes[-1]
    inner_is_contiguous = last.position in info.output.innermost
    extent, width = last.extent, even_lanes(last.extent, lanes)
    if extent % lanes and _images_are_rows(info):
        extent, width = extent * info.axes[-2].extent, lanes
        loops = [*loops[:-2], sch.fuse(loops[-2], loops[-1])]
    if inner_is_contiguous and extent >= lanes > 1 and not reads_by_data(sch, block):
        outer, inner = sch.split(loops[-1], [None, width])
        sch.vectorize(inner)
        loops = [*loops[:-1], outer]
    if elements >= _SMALL and len(loops) >= 1:
        keep = 1 if len(loops) > 1 else 0  # leave the row loop whole: its address arithmetic stays simple
        fused = fuse_all(sch, loops[: len(loops) - keep])
        sch.parallel(fused)


def _images_are_rows(info: BlockInfo) -> bool:
    """Whether rows of an image follow each other in memory, in everything that a block reads and writes.
    Then an image is one row, whose vectors are full. There are enough images for threads to share."""
    if info.conditional or len(info.axes) < 3 or math.prod(a.extent for a in info.axes[:-2]) < _LEAST_IMAGES:
        return False
    *_, down, along = info.axes

    def is_whole(access: BlockAccess) -> bool:
        if not {down.position, along.position} & access.axes:
            return True
        dims, sizes = access.axes_by_dim, [as_int(size) for size in access.buffer.shape[-2:]]
        ends = len(dims) >= 2 and dims[-2:] == (frozenset({down.position}), frozenset({along.position}))
        elsewhere = frozenset().union(*dims[:-2]) & {down.position, along.position}
        return access.straight and ends and not elsewhere and sizes == [down.extent, along.extent]

    return all(is_whole(access) for access in (info.output, *info.inputs))


def even_lanes(extent: int, lanes: int) -> int:
    """Return `lanes`, or the half or quarter of them that divides `extent`.
    No vector then has a condition."""
    parts = (lanes, lanes // 2, lanes // 4)
    return next((part for part in parts if part >= _FEW_LANES and extent % part == 0), lanes)


def reads_by_data(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block reads at places that a tensor holds, as taking rows does.

    A vector would be gathered lane by lane. A plain loop is a copy, which the code generator vectorises.
    """
    loads = [node for node in walk(sch.get(block).body) if isinstance(node, n.BufferLoad)]
    return any(isinstance(part, n.BufferLoad) for load in loads for index in load.indices for part in walk(index))


def sum_in_registers(sch: Schedule, block: BlockRV, epilogue: str | None) -> BlockRV:
    """Keep the sums of `block` in registers, and return the block that writes them.
    It is the block `epilogue` where there is one."""
    if epilogue is None:
        return sch.cache_write(block, 0, "local")
    writer = sch.get_block(epilogue)
    sch.set_scope(block, 0, "local")
    return writer


def vectorize_tail(sch: Schedule, block: BlockRV, lanes: int, depth: int) -> None:
    """The copy loops below `depth` unrolled, the innermost one in vectors."""
    loops = sch.get_loops(block)[depth:]
    if not loops:
        return
    outer, inner = sch.split(loops[-1], [None, lanes])
    sch.vectorize(inner)
    for loop in [*loops[:-1], outer]:
        sch.unroll(loop)


def whole_tail(sch: Schedule, block: BlockRV, depth: int) -> None:
    """Unroll the copy loops below `depth`, the innermost one as one vector.
    It may be longer than those of the machine: several vectors of integers are narrowed to one of bytes then."""
    *around, last = sch.get_loops(block)[depth:]
    sch.vectorize(last)
    for loop in around:
        sch.unroll(loop)


def transposed_tail(sch: Schedule, block: BlockRV, lanes: int, depth: int) -> None:
    """Unroll the loops below `depth` of a block that writes across what it reads.
    Vectors are the written rows. Groups of channels are read in turns: columns of what is transposed in registers."""
    *around, f, y, x = sch.get_loops(block)[depth:]
    group, channel = sch.split(f, [None, lanes])
    sch.reorder(*around, y, group, channel, x)
    sch.vectorize(x)
    for loop in (*around, y, group, channel):
        sch.unroll(loop)
    for loop in (channel, x):
        sch.annotate(loop, TRANSPOSE, 1)
