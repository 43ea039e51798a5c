"""How operators become kernels: the loops, threads and shared memory in `topi.cuda`'s schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.ir.visit import walk
from compiler.target.target import Target
from compiler.te.operation import thread_axis
from compiler.te.schedule.schedule import Schedule
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import ComputeOp, Tensor
from compiler.tir.nodes import IterVar, ProducerLoad
from compiler.topi.schedules.scheduling import computed, extent, mentions, reduces_along_memory

THREADS = 1024  # of one block, unless the target's max_num_threads says otherwise
VECTOR_BYTES = 16  # of one load or store
FEW = 32  # results; to reduce into as few takes all the threads that there can be


def bind_elements(stage: Stage, axes: Sequence[IterVar], target: Target) -> None:
    """Bind a thread to an element, or to four.
    Four (16 bytes of them) where they divide evenly and there is work for many blocks."""
    threads = int(target.get("max_num_threads", THREADS))
    size, lanes = extent(axes), lanes_of(stage.op.output(0))
    fused = stage.fuse(*axes)
    wide = min(256, threads)
    if size is not None and lanes > 1 and size % lanes == 0 and size >= wide * lanes * FEW:
        outer, inner = stage.split(fused, factor=lanes)
        stage.vectorize(inner)
        fused, threads = outer, wide
    block, thread = stage.split(fused, factor=threads)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))


def lanes_of(tensor: Tensor) -> int:
    """How many elements of a tensor one access takes."""
    return max(1, VECTOR_BYTES * 8 // max(8, parse_dtype(tensor.dtype).bits))


def elementwise(schedule: Schedule, op: ComputeOp, target: Target) -> None:
    """A kernel of its own for an operation that is no reduction."""
    stage = schedule[op]
    bind_elements(stage, list(op.axis) or [stage.fuse()], target)


def each_result(schedule: Schedule, op: ComputeOp, target: Target) -> None:
    """A thread for each result of a reduction, which it sums alone."""
    stage = schedule[op]
    stage.reorder(*op.axis, *op.reduce_axis)
    bind_innermost(stage, list(op.axis), min(256, int(target.get("max_num_threads", THREADS))))


def bind_innermost(stage: Stage, axes: Sequence[IterVar], threads: int) -> None:
    """Threads along the last axis, and along the one before it where that is short; blocks over the rest.

    Axes are split before they are fused, so that each thread's results are plain to see.
    """
    *outer, last = axes
    width = min(threads, extent([last]) or threads)
    rest, x = stage.split(last, factor=width)
    blocks = [*outer, rest]
    inner = [x]
    if outer and (height := min(threads // width, extent([outer[-1]]) or 1)) > 1:
        above, y = stage.split(outer[-1], factor=height)
        stage.bind(y, thread_axis("threadIdx.y"))
        blocks, inner = [*outer[:-1], above, rest], [y, x]
    stage.reorder(*blocks, *inner)
    stage.bind(stage.fuse(*blocks) if len(blocks) > 1 else blocks[0], thread_axis("blockIdx.x"))
    stage.bind(x, thread_axis("threadIdx.x"))


def _one_result(stage: Stage, op: ComputeOp, target: Target) -> None:
    """A reduction to a number: one block."""
    _bind_reduced(stage, op, cooperating(op.reduce_axis, target, many=False))
    stage.bind(stage.fuse(), thread_axis("blockIdx.x"))


def cooperating(axes: Sequence[IterVar], target: Target, many: bool) -> int:
    """How many threads reduce together: whole warps, but no more than there is work for."""
    most = int(target.get("max_num_threads", THREADS))
    size = extent(axes) or most
    wanted = 1 << max(0, math.ceil(math.log2(max(1, size))))
    return max(1, min(wanted, 256 if many else most, most))


def reduction(schedule: Schedule, op: ComputeOp, target: Target) -> None:
    """Bind a block to each result if neighbours in memory belong to one result.
    Otherwise bind a thread to each; neighbouring threads then read neighbours."""
    stage = schedule[op]
    alone = op.reduction is not None and len(op.reduction.source) > 1  # threads do not combine pairs such as argmax's
    if not op.axis and alone:
        stage.bind(stage.fuse(), thread_axis("blockIdx.x"))
    elif not op.axis:
        _one_result(stage, op, target)
    elif reduces_along_memory(op) and not alone:
        results = extent(op.axis)
        block = stage.fuse(*op.axis)
        threads = cooperating(op.reduce_axis, target, many=results is None or results > FEW)
        stage.bind(block, thread_axis("blockIdx.x"))
        _bind_reduced(stage, op, threads)
    else:
        each_result(schedule, op, target)


def _bind_reduced(stage: Stage, op: ComputeOp, threads: int) -> None:
    _, inner = stage.split(stage.fuse(*op.reduce_axis), factor=threads)
    stage.bind(inner, thread_axis("threadIdx.x"))


def rows(schedule: Schedule, out: Tensor, target: Target) -> bool:
    """Schedule operators that normalise the last dimension.
    Each block has a row, with sums and maxima in shared memory. False, with nothing done, for reductions of another
    shape."""
    ops = computed(schedule)
    reduced = [op for op in ops if op.reduction is not None]
    main = out.op
    if not isinstance(main, ComputeOp) or main.reduce_axis or len(main.axis) < 2:
        return False
    if any(len(op.axis) != len(main.axis) - 1 or not reduces_along_memory(op) for op in reduced):
        return False
    stage = schedule[main]
    *outer, last = main.axis
    row = stage.fuse(*outer)
    threads = cooperating([last], target, many=True)
    _, lane = stage.split(last, factor=threads)
    stage.bind(row, thread_axis("blockIdx.x"))
    stage.bind(lane, thread_axis("threadIdx.x"))
    for op in reversed(reduced):
        schedule[op].compute_at(stage, row)
        _bind_reduced(schedule[op], op, threads)
    return True


# -------------------------------------------------------------------------------- matrix products


@dataclass(frozen=True, slots=True)
class Tile:
    """A block's tile of a matrix product: `m` x `n` results, `k` summed at a time.
    A thread has `rows` x `columns` of them."""

    m: int
    n: int
    k: int
    rows: int
    columns: int

    @property
    def threads(self) -> tuple[int, int]:
        return self.m // self.rows, self.n // self.columns


LARGE = Tile(128, 128, 8, 8, 8)
MEDIUM = Tile(64, 64, 16, 4, 4)
SMALL = Tile(32, 32, 16, 2, 2)
_ENOUGH_BLOCKS = 128  # about as many as a GPU has multiprocessors


def tile_for(m: int | None, n: int | None, batch: int) -> Tile:
    """The largest tile with which all multiprocessors have a block."""
    if m is None or n is None:
        return MEDIUM
    for tile in (LARGE, MEDIUM):
        if batch * math.ceil(m / tile.m) * math.ceil(n / tile.n) >= _ENOUGH_BLOCKS:
            return tile
    return SMALL


def product(schedule: Schedule, op: ComputeOp, out: ComputeOp, target: Target) -> None:
    """Schedule a matrix product `op`, its last two dimensions rows and columns.
    Tiles of both inputs lie in shared memory, a tile of the result in each thread's registers. `out` is `op` or what
    is computed of its results, element by element."""
    sizes = [extent([axis]) for axis in op.axis]
    batch = math.prod(size or 1 for size in sizes[:-2])
    tile = tile_for(sizes[-2], sizes[-1], batch)
    if out is op:
        total = schedule.cache_write(op.output(0), "local")
        stage, inner = schedule[op.output(0)], schedule[total]
    else:
        schedule[op].set_scope("local")
        stage, inner = schedule[out], schedule[op]
    axes = list(stage.op.axis)
    *outer, i, j = axes
    bi, rest_i = stage.split(i, factor=tile.m)
    bj, rest_j = stage.split(j, factor=tile.n)
    ti, ii = stage.split(rest_i, factor=tile.rows)
    tj, jj = stage.split(rest_j, factor=tile.columns)
    stage.reorder(*outer, bi, bj, ti, tj, ii, jj)
    if outer:
        stage.bind(stage.fuse(*outer) if len(outer) > 1 else outer[0], thread_axis("blockIdx.z"))
    stage.bind(bi, thread_axis("blockIdx.y"))
    stage.bind(bj, thread_axis("blockIdx.x"))
    stage.bind(ti, thread_axis("threadIdx.y"))
    stage.bind(tj, thread_axis("threadIdx.x"))
    inner.compute_at(stage, tj)
    k = inner.op.reduce_axis[0] if len(inner.op.reduce_axis) == 1 else inner.fuse(*inner.op.reduce_axis)
    ko, ki = inner.split(k, factor=tile.k)
    inner.reorder(ko, ki, *inner.op.axis)
    inner.unroll(ki)
    for source in dict.fromkeys(inner.op.input_tensors):
        if isinstance(source.op, ComputeOp):
            schedule[source].compute_inline()
    whole = _divides(tile, sizes[-2], sizes[-1], extent(inner.op.reduce_axis))
    for source in dict.fromkeys(inner.op.input_tensors):
        shared = schedule[schedule.cache_read(source, "shared", [inner.op])]
        shared.compute_at(inner, ko)
        fetch(shared, tile, lanes_of(source) if whole else 1)


def _divides(tile: Tile, m: int | None, n: int | None, k: int | None) -> bool:
    """Whether a product is made of whole tiles."""
    return all(size is not None and size % part == 0 for size, part in ((m, tile.m), (n, tile.n), (k, tile.k)))


def fetch(stage: Stage, tile: Tile, lanes: int) -> None:
    """All threads of a block fill a piece of shared memory together, neighbours taking neighbours.
    Each takes up to `lanes` elements at once, as far as there are as many for each thread."""
    rows, columns = tile.threads
    each = min(tile.m, tile.n) * tile.k // (rows * columns)
    while lanes > 1 and (each % lanes or tile.k % lanes):
        lanes //= 2
    fused = stage.fuse(*stage.op.axis)
    if lanes > 1:
        fused, vector = stage.split(fused, factor=lanes)
        stage.vectorize(vector)
    rest, tx = stage.split(fused, factor=columns)
    _, ty = stage.split(rest, factor=rows)
    stage.bind(ty, thread_axis("threadIdx.y"))
    stage.bind(tx, thread_axis("threadIdx.x"))


def is_product(op: ComputeOp) -> bool:
    """Whether `op` is a sum of products of two tensors, one moving with its rows and one with its columns."""
    if len(op.axis) < 2 or len(op.reduce_axis) != 1 or len(op.input_tensors) != 2 or op.reduction is None:
        return False
    row, column = op.axis[-2].var, op.axis[-1].var
    moving = [(mentions(load.indices, row), mentions(load.indices, column)) for load in _loads(op)]
    return len(moving) == 2 and sorted(moving) == [(False, True), (True, False)]


def _loads(op: ComputeOp) -> list[ProducerLoad]:
    assert op.reduction is not None
    return [load for source in op.reduction.source for load in walk(source) if isinstance(load, ProducerLoad)]
