"""Sketches of contractions for GPUs.

Tiles in shared memory, a tile of results in each thread's registers.

    for block of results:                     blockIdx
      thread's tile = 0                       threadIdx; rows × columns registers
      for k in steps of `depth`:
        fill A[depth, tile m], B[depth, tile n] in shared memory, all threads together
        thread's tile += A's column · B's row, `depth` times, unrolled
      write the thread's tile, with what is computed of it element by element

V. Volkov, J. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC 2008.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockInfo, blocks_of
from tuner.space.gpu.elementwise import bind_results
from tuner.space.gpu.hardware import MAX_GRID_YZ, Chip
from tuner.space.gpu.judge import TileJudge
from tuner.space.gpu.product import Blocks, Operand, Product, as_product, canonical, output_map
from tuner.space.loops import fuse_all
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch

_THREADS_M = (4, 8, 16, 32)
_THREADS_N = (8, 16, 32)
_ROWS = (1, 2, 4, 8)
_COLUMNS = (1, 2, 4, 8)
_DEPTHS = (4, 8, 16, 32)
_PARTS = (2, 4, 8, 16, 32)  # of a sum, for split-K
_FETCH_BYTES = 16
_SUMMING = 128  # threads of a block that adds parts up
_MOST_LANES = 4  # the least that a tile is wide
_FEW_TILES = 256  # of 64 x 64 results: below that, parts of the sums make up for blocks that are not there
_LONG = 1024  # sums worth cutting in parts


@dataclass(frozen=True, slots=True)
class TileShape:
    """The structure of one sketch.
    `parts`: the sum is cut, and a kernel adds the parts up (split-K). `double`: shared memory holds two steps, so
    that the next one arrives while one is used."""

    parts: bool = False
    double: bool = False

    @property
    def name(self) -> str:
        return "tiles" + ("+parts" if self.parts else "") + ("+double" if self.double else "")


def tile_sketches(func: PrimFunc, info: BlockInfo, epilogue: str | None, chip: Chip) -> list[Sketch]:
    """Return the sketches of the contraction `info`.
    There are none where it is no product of two operands, or one of more batches or rows than blocks can be started
    for."""
    product = as_product(info)
    if product is None:
        return []
    batch, rows, columns, depth = product.sizes
    if batch > MAX_GRID_YZ or rows > MAX_GRID_YZ * _THREADS_M[-1] * _ROWS[-1]:
        return []
    shapes = [TileShape(), TileShape(double=True)]
    if depth >= _LONG and batch * -(-rows // 64) * -(-columns // 64) < _FEW_TILES:
        shapes.append(TileShape(parts=True))
    made = [_sketch(func, product, epilogue, shape, chip) for shape in shapes]
    return [sketch for sketch in made if sketch is not None]


def _sketch(func: PrimFunc, product: Product, epilogue: str | None, shape: TileShape, chip: Chip) -> Sketch | None:
    sch = Schedule(func)
    recorder = Recorder(sch)
    try:
        blocks = canonical(sch, product)
        if blocks is None:
            return None
        _inline_producers(sch, blocks)
        _tile(sch, recorder, product, blocks, epilogue, shape)
        _bind_rest(sch)
    except ScheduleError:
        return None
    operand = parse_dtype(product.left.access.buffer.dtype).bytes
    judge = TileJudge(product.sizes, operand, shape.double, shape.parts, chip)
    return Sketch(shape.name, sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _inline_producers(sch: Schedule, blocks: Blocks) -> None:
    """Compute what makes an operand (padding, a cast) where the operand is read."""
    outputs = set(sch.func.buffer_map.values())
    for copy in (blocks.left, blocks.right):
        while True:
            makers = [p for p in sch.get_producers(copy) if not sch.get(p).init]
            inner = [p for p in makers if sch.get(p).writes[0].buffer not in outputs and _is_elementwise(sch, p)]
            if not inner:
                break
            sch.compute_inline(inner[0])


def _is_elementwise(sch: Schedule, block: BlockRV) -> bool:
    name = sch.get(block).name_hint
    return any(info.name == name and info.injective for info in blocks_of(sch.func))


def _tile(
    sch: Schedule, recorder: Recorder, product: Product, blocks: Blocks, epilogue: str | None, shape: TileShape
) -> None:
    _, rows, columns, depth = product.sizes
    ty = recorder.choose("ty", _up_to(_THREADS_M, rows)).rv
    tx = recorder.choose("tx", _up_to(_THREADS_N, columns)).rv
    own_rows = recorder.choose("rows", _up_to(_ROWS, rows)).rv
    own_columns = recorder.choose("columns", _up_to(_COLUMNS, columns)).rv
    step = recorder.choose("depth", _up_to(_DEPTHS, depth)).rv
    block, result = blocks.product, blocks.result
    if epilogue is not None:
        sch.compute_inline(result)
        result = sch.get_block(epilogue)
        sch.transform_block_layout(result, output_map(product))
    if shape.parts:
        block, result = _cut(sch, recorder, block, result, depth)
    else:
        sch.set_scope(block, 0, "local")
    *outer, m, n, k = sch.get_loops(block)
    m_block, m_thread, m_own = sch.split(m, [None, ty, own_rows])
    n_block, n_thread, n_own = sch.split(n, [None, tx, own_columns])
    k_step, k_in = sch.split(k, [None, step])
    sch.reorder(*outer, m_block, n_block, m_thread, n_thread, k_step, k_in, m_own, n_own)
    if outer:
        sch.bind(fuse_all(sch, outer), "blockIdx.z")
    sch.bind(m_block, "blockIdx.y")
    sch.bind(n_block, "blockIdx.x")
    sch.bind(m_thread, "threadIdx.y")
    sch.bind(n_thread, "threadIdx.x")
    sch.reverse_compute_at(result, n_thread, preserve_unit_loops=True)
    for operand, copy in ((product.left, blocks.left), (product.right, blocks.right)):
        _fetch(sch, block, operand, copy, k_step, (ty, tx), shape.double)
    init = sch.decompose_reduction(block, k_step)
    for loop in (k_in, m_own, n_own, *sch.get_loops(init)[-2:]):
        sch.unroll(loop)
    _write(sch, result)


def _cut(sch: Schedule, recorder: Recorder, total: BlockRV, result: BlockRV, depth: int) -> tuple[BlockRV, BlockRV]:
    """Sum in parts.
    Returns the block of the parts and what writes them to memory; a kernel of its own adds them up."""
    parts = recorder.choose("parts", tuple(p for p in _PARTS if p <= max(2, depth // 64))).rv
    outer, _ = sch.split(sch.get_loops(total)[-1], [parts, None])
    part = sch.rfactor(outer, 0, factor_first=False)
    sch.set_scope(total, 0, "local")
    *spatial, which = sch.get_loops(total)
    results = sch.fuse(*spatial)
    blocks, thread = sch.split(results, [None, _SUMMING])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.unroll(which)
    sch.reverse_compute_at(result, thread, preserve_unit_loops=True)
    *around, which, k = sch.get_loops(part)
    sch.reorder(which, *around, k)
    return part, sch.cache_write(part, 0, "local")


def _fetch(
    sch: Schedule, block: BlockRV, operand: Operand, copy: BlockRV, at: LoopRV, threads: tuple[ExprRV, ExprRV],
    double: bool,
) -> None:  # fmt: skip
    """All threads of the block copy a tile of an operand to shared memory, neighbours taking neighbours."""
    made = sch.get(copy).writes[0].buffer
    shared = sch.cache_read(block, sch.read_index(block, made.name), "shared")
    sch.compute_inline(copy)
    sch.compute_at(shared, at, preserve_unit_loops=True)
    k, own = sch.get_loops(shared)[-2:]
    width = min(_MOST_LANES, _FETCH_BYTES // parse_dtype(made.dtype).bytes) if operand.plain else 1
    if operand.along == "k":  # it is stored across: rows of shared memory start in different banks
        sch.reorder(own, k)
        sch.storage_align(shared, 0, -2, 32, 4)
        fused = sch.fuse(own, k)
    else:
        fused = sch.fuse(k, own)
    _, y, x, lane = sch.split(fused, [None, *threads, width])
    sch.vectorize(lane)
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    if double:
        sch.annotate(shared, "double_buffer_scope", 0)


def _write(sch: Schedule, result: BlockRV) -> None:
    """Each thread's results, in vectors along the rows."""
    *_, row, column = sch.get_loops(result)
    sch.unroll(row)
    sch.vectorize(column)


def _bind_rest(sch: Schedule) -> None:
    """Make each remaining block a kernel of its own, with a thread for each result."""
    for info in blocks_of(sch.func):
        bind_results(sch, sch.get_block(info.name), info)


def _up_to(values: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Those of `values` that are no more than `most`, and the least."""
    return tuple(v for v in values if v <= max(values[0], most))
