"""How a CPU computes each kind of operator: the parts of the schedules in `x86`.

Elementwise work is cut into chunks for threads, and vectorised. A sum along memory is kept in several vectors, so
that one addition does not wait for the one before; they are added up at the end. A sum across memory is kept for a
block of neighbours at a time, which stays in the first-level cache.
"""

from __future__ import annotations

from compiler.dtype import parse_dtype
from compiler.ir.visit import walk
from compiler.target.target import Target
from compiler.te.schedule.schedule import Schedule
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from compiler.tir.nodes import IterVar, ProducerLoad
from compiler.topi.schedules.scheduling import computed, extent, lanes, reduces_along_memory, reduces_rows

CHUNK = 1 << 14  # elements that a thread takes at a time: enough to be worth handing over, and fits the first caches
ACCUMULATORS = 8  # vectors of partial sums: an addition takes 4 cycles and two can start in each
STREAMED = 1 << 19  # elements that do not stay in a cache near the core
LARGE = 1 << 25  # bytes of a result that no cache keeps for its reader
BLOCK = 1 << 12  # neighbouring sums kept at a time when summing across memory: half of a first-level cache
ROWS = 4  # rows added to them at a time
STEPS = 4  # vectors of a row that are worked on at a time: one exponential need not wait for the one before
PARTS = 32  # of one sum, at most: more have to be added up again
TILE = 4  # rows of sums kept in registers at a time in a product


def elementwise(schedule: Schedule, tensor: Tensor, target: Target) -> None:
    """Vectorise along the last dimension, and share chunks among threads."""
    stage = schedule[tensor]
    axes, everything = list(stage.op.axis), extent(stage.op.axis)
    if not axes:
        return
    size = extent(axes[-1:])
    if len(axes) > 1 and _in_order(stage.op):
        axes, size = [stage.fuse(*axes)], everything
    outer, last = axes[:-1], axes[-1]
    rows = 1
    if size is None or size > CHUNK:
        chunk, last = stage.split(last, factor=CHUNK)
        outer.append(chunk)
    else:
        rows = max(1, CHUNK // max(1, size))
    vectors = _vectorise(stage, last, size, STEPS * lanes(target, tensor.dtype))
    if stage.is_output:
        _past_caches(stage, vectors, tensor.dtype, everything)
    if outer and _worth_sharing(everything):
        share(stage, outer, rows)


def share(stage: Stage, axes: list[IterVar], rows: int) -> IterVar:
    """Run `axes`, fused, in parallel, up to `rows` iterations at a time.
    Returns the loop of one iteration."""
    known = extent(axes) if all(axis.dom is not None for axis in axes) else None
    if known is not None:  # equal shares ask no questions
        rows = max(part for part in range(1, rows + 1) if known % part == 0)
    fused = stage.fuse(*axes) if len(axes) > 1 else axes[0]
    if rows == 1:
        stage.parallel(fused)
        return fused
    task, row = stage.split(fused, factor=rows)
    stage.parallel(task)
    return row


def reduction(schedule: Schedule, tensor: Tensor, target: Target) -> None:
    """Schedule one reduction, computed in full: along memory or across it.
    It is parallel over results or over what is summed."""
    op = schedule[tensor].op
    assert isinstance(op, ComputeOp)
    results, work = extent(op.axis), extent(op.reduce_axis)
    if op.num_outputs > 1:
        if op.axis and (results is None or work is None or _worth_sharing(results * work)):
            share(schedule[tensor], list(op.axis), 1)
        return
    along = reduces_along_memory(op)
    few = results is not None and results < (4 if along else 8 * BLOCK)
    if results is not None and work is not None and few and results * work >= 4 * CHUNK:
        tensor = _share_the_sum(schedule, tensor, results * work)
    if along:
        along_memory(schedule, tensor, target)
    else:
        across_memory(schedule, tensor, target)


def _share_the_sum(schedule: Schedule, tensor: Tensor, everything: int) -> Tensor:
    """Sum parts, then the parts.
    Returns the tensor of the parts, the first dimension of which is which part."""
    stage = schedule[tensor]
    sizes = [(extent([axis]) or 1, axis) for axis in stage.op.reduce_axis]
    size, axis = next((found for found in sizes if found[0] >= 16), max(sizes, key=lambda found: found[0]))
    part, _ = stage.split(axis, factor=max(1, 4 * CHUNK * size // everything, size // PARTS))
    parts: Tensor = schedule.rfactor(tensor, part)
    return parts


def along_memory(
    schedule: Schedule, tensor: Tensor, target: Target, where: tuple[Stage, IterVar] | None = None
) -> Stage | None:
    """Keep each sum in several vectors until its end, and then in one.
    `where` is the loop to compute at; without one the results are shared among threads. Returns the stage of the
    several vectors, if there are any."""
    stage = schedule[tensor]
    size, width = extent(stage.op.reduce_axis[-1:]), lanes(target, tensor.dtype)
    work = extent([*stage.op.axis, *stage.op.reduce_axis])
    rows = max(1, CHUNK // max(1, extent(stage.op.reduce_axis) or CHUNK))
    partials: list[Tensor] = []
    if width > 1 and (size is None or size >= width):
        vectors = ACCUMULATORS
        while vectors > 1 and size is not None and size < 2 * vectors * width:
            vectors //= 2
        for lanes_kept in dict.fromkeys((width * vectors, width)):  # several vectors, then one
            _, lane = stage.split(stage.op.reduce_axis[-1], factor=lanes_kept)
            partials.append(schedule.rfactor(tensor, lane))
    if where is None and stage.op.axis and _worth_sharing(work):
        where = stage, share(stage, list(stage.op.axis), rows)
    elif where is None:
        where = (stage, stage.op.axis[-1]) if stage.op.axis else None
    else:
        stage.compute_at(*where)
    for partial in partials:
        sums: Stage = schedule[partial]
        lane_axis, rest = sums.op.axis[0], sums.op.axis[1:]
        sums.reorder(*rest, *sums.op.reduce_axis, lane_axis)
        sums.vectorize(lane_axis)
        if where is not None:
            sums.compute_at(*where)
    return schedule[partials[0]] if partials else None


def across_memory(schedule: Schedule, tensor: Tensor, target: Target) -> None:
    """Keep the sums of a block of neighbours while going through their terms."""
    stage = schedule[tensor]
    op = stage.op
    if not op.axis:
        return
    outer, last = list(op.axis[:-1]), op.axis[-1]
    size, width = extent([last]), lanes(target, tensor.dtype)
    if size is None or size > BLOCK:
        block, last = stage.split(last, factor=BLOCK)
        outer.append(block)
    inner = [last]
    if size is None or size >= width:
        inner = list(stage.split(last, factor=width))
        stage.vectorize(inner[-1])
    sums = list(op.reduce_axis)
    height = extent(sums[-1:])
    if height is not None and height % ROWS == 0 and len(inner) > 1:
        sums[-1], row = stage.split(sums[-1], factor=ROWS)
        inner.insert(1, row)
        stage.unroll(row)
    stage.reorder(*outer, *sums, *inner)
    if outer and _worth_sharing(extent([*op.axis, *op.reduce_axis])):
        share(stage, outer, 1)


def rows(schedule: Schedule, tensor: Tensor, target: Target) -> None:
    """Compute a row at a time.
    The inputs of a row (its sums, its exponentials) are computed row by row. Thus a row is read once from memory,
    and then from the cache. Other tensors are computed one by one."""
    stage = schedule[tensor]
    producers = [op for op in computed(schedule) if op is not stage.op]
    sums = [op for op in producers if op.reduction is not None]
    kept = len(sums[0].axis) if sums else 0
    if not kept or not all(len(op.axis) == kept and reduces_rows(op) for op in sums):
        tensors(schedule, target)
        return
    axes = list(stage.op.axis)
    size = extent(axes[kept:])
    last = stage.fuse(*axes[kept:]) if len(axes) > kept + 1 else axes[kept]
    vectors = _vectorise(stage, last, size, STEPS * lanes(target, tensor.dtype))
    past = _past_caches(stage, vectors, tensor.dtype, extent(axes))
    if _worth_sharing(extent(axes)):
        row = share(stage, axes[:kept], max(1, CHUNK // max(1, size or CHUNK)))
    else:
        row = axes[kept - 1]
    streamed = (everything := extent(axes)) is None or everything >= STREAMED
    sums_stage: Stage | None = None
    for op in producers:
        result = op.output(0)
        if op.reduction is not None:
            sums_stage = along_memory(schedule, result, target, (stage, row)) or sums_stage
        else:
            schedule[result].compute_at(stage, row)
            _vectorise(schedule[result], op.axis[-1], extent(op.axis[-1:]), STEPS * lanes(target, result.dtype))
            if streamed:
                _fetch_rows(schedule[result], op, kept, None if past else tensor)
    if streamed and sums_stage is not None and all(op.reduction is not None for op in producers):
        _fetch_next_row(sums_stage, kept)


def _fetch_next_row(sums: Stage, kept: int) -> None:
    """Prefetch the next row while the last sum of a row is taken."""
    op = sums.op
    assert isinstance(op, ComputeOp)
    lane, *rest = op.axis
    if not rest:
        return
    sums.reorder(*rest[:-1], *op.reduce_axis, rest[-1], lane)
    for tensor in op.input_tensors:
        if isinstance(tensor.op, PlaceholderOp) and len(tensor.shape) == kept + 1:
            sums.prefetch(tensor, rest[-1], 1)


def _fetch_rows(stage: Stage, op: ComputeOp, kept: int, written: Tensor | None) -> None:
    """Prefetch the next row while one is computed, and the row of the result that is written soon.
    The result's row is only fetched if it goes through the caches. The loops over it prefetch piece by piece."""
    row, *pieces = list(stage.leaf_iter_vars)[kept - 1 :]
    if len(pieces) < 2:
        return
    stage.reorder(*pieces[:-1], row, pieces[-1])
    for tensor in op.input_tensors:
        if isinstance(tensor.op, PlaceholderOp) and len(tensor.shape) == len(op.axis):
            stage.prefetch(tensor, row, 1)
    if written is not None and len(written.shape) == len(op.axis):
        stage.prefetch(written, row, 0)


def product(schedule: Schedule, tensor: Tensor, target: Target) -> None:
    """Schedule a sum of products whose neighbours are neighbours in memory, such as a convolution.
    A few rows of a vector of sums stay in registers while all their terms are read."""
    op = schedule[tensor].op
    assert isinstance(op, ComputeOp)
    width = lanes(target, tensor.dtype)
    size = extent(op.axis[-1:])
    if reduces_along_memory(op) or len(op.axis) < 2 or (size is not None and size < width):
        reduction(schedule, tensor, target)
        return
    cached: Tensor = schedule.cache_write(tensor, "local")
    stage, sums = schedule[tensor], schedule[cached]
    axes = list(stage.op.axis)
    tiled = 1 if op.tag.endswith("nchw") else len(axes) - 2  # in NCHW all channels read the same pixels
    row, rest = stage.split(axes[tiled], factor=TILE)
    column, vector = stage.split(axes[-1], factor=width)
    outer = [*axes[:tiled], row, *axes[tiled + 1 : -1], column]
    stage.reorder(*outer, rest, vector)
    stage.vectorize(vector)
    if _worth_sharing(extent([*op.axis, *op.reduce_axis])):
        share(stage, outer[:-1], 1)
    sums.compute_at(stage, column)
    data = list(sums.op.axis)
    sums.reorder(*data[:tiled], *data[tiled + 1 : -1], *sums.op.reduce_axis, data[tiled], data[-1])
    sums.unroll(data[tiled])
    sums.vectorize(data[-1])


def tensors(schedule: Schedule, target: Target) -> None:
    """Every operation in full, one after another."""
    for op in computed(schedule):
        if op.reduction is None:
            elementwise(schedule, op.output(0), target)
        else:
            reduction(schedule, op.output(0), target)


def _in_order(op: Operation) -> bool:
    """Whether the result and all inputs have the same indices, so that all is one long row."""
    order = [axis.var for axis in op.axis]
    body = op.body if isinstance(op, ComputeOp) else ()
    loads = [node for expr in body for node in walk(expr) if isinstance(node, ProducerLoad)]
    return all(
        len(load.indices) == len(order) and all(i is v for i, v in zip(load.indices, order)) for load in loads
    )


def _vectorise(stage: Stage, axis: IterVar, size: int | None, width: int) -> IterVar | None:
    """Vectorise `axis` by `width`, or the largest half, quarter, ...
    of it that fits in `size`. Returns the loop over the vectors, if there are any."""
    while width > 1 and size is not None and size < width:
        width //= 2
    if width == 1:
        return None
    vectors, vector = stage.split(axis, factor=width)
    stage.vectorize(vector)
    return vectors


def _past_caches(stage: Stage, vectors: IterVar | None, dtype: str, size: int | None) -> bool:
    """Whether a result of `size` elements is so large that its vectors should bypass the caches.
    Its lines then need not be read before they are written, and no reader would find them in a cache."""
    if vectors is None or size is None or size * parse_dtype(dtype).bits < 8 * LARGE:
        return False
    stage.pragma(vectors, "nontemporal", 1)
    return True


def _worth_sharing(work: int | None) -> bool:
    return work is None or work >= 2 * CHUNK
