"""Random schedules of small functions: whatever the engine accepts computes what the function did.

Each case draws steps at random; illegal ones are refused and must leave the schedule as it was. The result is run as
machine code, and by the interpreter, where temporaries start as NaN and every access is checked: as it is, with
parallel and vectorised loops running backwards, and lowered, where a temporary lives no longer than it must.
FUZZ_CASES sets how many cases there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from compiler.driver.pipeline import lower_func
from compiler.errors import LoweringError, ScheduleError
from compiler.lower.loops.inject_prefetch import SOFTWARE_PREFETCH, WHOLE_LOOP
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.expr import rebind
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, PrimFunc
from tests.kit.compiler import tensor_intrins
from tests.kit.compiler.schedules import workloads as w
from tests.kit.fuzzing import cases

CASES, CHUNK = cases(80), 20

Rng = np.random.Generator
Move = Callable[[Schedule, Rng], object]


def _size(rng: Rng, most: int = 13) -> int:
    return int(rng.integers(1, most + 1))


WORKLOADS: list[Callable[[Rng], PrimFunc]] = [
    lambda r: w.matmul(_size(r), _size(r), _size(r, 7)),
    lambda r: w.matmul_relu(_size(r), _size(r), _size(r, 7)),
    lambda r: w.conv(_size(r, 3), _size(r, 6), _size(r, 7), _size(r, 3), _size(r, 2)),
    lambda r: w.chain(_size(r), _size(r)),
    lambda r: w.blur(_size(r), _size(r, 4)),
    lambda r: w.row_sum(_size(r), _size(r)),
    lambda r: w.row_scale(_size(r), _size(r)),
    lambda r: w.row_scale_plus(_size(r), _size(r)),
    lambda r: w.stencils(_size(r)),
    lambda r: w.softmax(_size(r, 6), _size(r)),
    lambda r: w.in_place(_size(r), _size(r)),
    lambda r: w.gathered(_size(r), _size(r)),
]


# --------------------------------------------------------------------------------- random steps


def _block(sch: Schedule, rng: Rng) -> BlockRV:
    names = [p[-1].block.name_hint for p in tree.block_paths(sch.func.body)[1:]]
    return sch.get_block(names[int(rng.integers(len(names)))])


def _loops(sch: Schedule, rng: Rng) -> list[LoopRV]:
    return sch.get_loops(_block(sch, rng))


def _loop(sch: Schedule, rng: Rng) -> LoopRV:
    loops = _loops(sch, rng)
    if not loops:
        raise ScheduleError("no loop")
    return loops[int(rng.integers(len(loops)))]


def _split(sch: Schedule, rng: Rng) -> None:
    loop = _loop(sch, rng)
    factors: list[int | None] = [int(f) for f in rng.integers(1, 6, size=int(rng.integers(1, 4)))]
    factors.insert(int(rng.integers(len(factors) + 1)), None)
    sch.split(loop, factors, preserve_unit_iters=bool(rng.integers(2)))


def _sampled_split(sch: Schedule, rng: Rng) -> None:
    loop = _loop(sch, rng)
    sample = sch.sample_tile if rng.integers(2) else sch.sample_perfect_tile
    sch.split(loop, sample(loop, int(rng.integers(1, 4)), 8))


def _fuse(sch: Schedule, rng: Rng) -> None:
    loops = _loops(sch, rng)
    start = int(rng.integers(len(loops) + 1))
    sch.fuse(*loops[start : start + int(rng.integers(2, 4))], preserve_unit_iters=bool(rng.integers(2)))


def _reorder(sch: Schedule, rng: Rng) -> None:
    loops = _loops(sch, rng)
    sch.reorder(*(loops[i] for i in rng.permutation(len(loops))[: int(rng.integers(1, 6))]))


def _at(sch: Schedule, rng: Rng) -> None:
    unit, index = bool(rng.integers(2)), int(rng.choice([-1, -1, -2, 0, 1]))
    sch.compute_at(_block(sch, rng), _loop(sch, rng), preserve_unit_loops=unit, index=index)


def _reverse_at(sch: Schedule, rng: Rng) -> None:
    unit, index = bool(rng.integers(2)), int(rng.choice([-1, -1, -2, 0, 1]))
    sch.reverse_compute_at(_block(sch, rng), _loop(sch, rng), preserve_unit_loops=unit, index=index)


def _cache_at(sch: Schedule, rng: Rng) -> None:
    """The way a tile is kept in registers or a panel is packed."""
    block, loop = _block(sch, rng), _loop(sch, rng)
    if rng.integers(2):
        sch.reverse_compute_at(sch.cache_write(block, 0, "local"), loop)
    else:
        sch.compute_at(sch.cache_read(block, int(rng.integers(2)), "global"), loop)


def _layout(sch: Schedule, rng: Rng) -> None:
    """Dimensions in another order, one of them in two."""
    block = _block(sch, rng)
    rank = len(sch.get(block).writes[0].buffer.shape)
    order = [int(d) for d in rng.permutation(rank)]
    tile = int(rng.integers(1, 5))

    def index_map(*index: n.Var) -> list[n.PrimExpr]:
        first, *rest = (index[d] for d in order)
        return [*rest, first // tile, first % tile]

    chosen = index_map if rank else "lambda: 0"
    sch.transform_layout(block, ("write", 0), chosen, [None, None, 0, float("-inf")][int(rng.integers(4))])


def _block_layout(sch: Schedule, rng: Rng) -> None:
    """Axes in another order, one of them in two, or two in one."""
    block = _block(sch, rng)
    axes, tile = sch.get(block).iter_vars, int(rng.integers(1, 5))
    rank = len(axes)
    order = [int(d) for d in rng.permutation(rank)]
    if rank > 1 and rng.integers(2):
        first, second, *rest = order
        inner = int(axes[second].dom.extent)
        sch.transform_block_layout(block, lambda *v: [*(v[d] for d in rest), v[first] * inner + v[second]])
    elif rank:
        first, *rest = order
        sch.transform_block_layout(block, lambda *v: [v[first] // tile, *(v[d] for d in rest), v[first] % tile])


def _reindex_cache(sch: Schedule, rng: Rng) -> None:
    """Some axes in another order, one of them in two."""
    block = _block(sch, rng)
    axes, reading, tile = sch.get(block).iter_vars, bool(rng.integers(2)), int(rng.integers(1, 5))
    kept = [d for d, iv in enumerate(axes) if rng.integers(4) and (reading or iv.iter_type is IterType.DATA_PAR)]
    first, *rest = [int(d) for d in rng.permutation(kept)] or [0]

    def index_map(*v: n.Var) -> list[n.PrimExpr]:
        return [*(v[d] for d in rest), v[first] // tile, v[first] % tile] if axes else [ops.const(0)]

    method = sch.reindex_cache_read if reading else sch.reindex_cache_write
    method(block, int(rng.integers(2)) if reading else 0, "global", index_map)


def _rolling(sch: Schedule, rng: Rng) -> None:
    """A block in a loop of what reads it, and only what is new computed there."""
    block, loop = _block(sch, rng), _loop(sch, rng)
    try:
        sch.compute_at(block, loop)
    finally:
        sch.rolling_buffer(block, 0)


def _pad_einsum(sch: Schedule, rng: Rng) -> None:
    block = _block(sch, rng)
    sch.pad_einsum(block, [int(f) for f in rng.integers(1, 6, size=len(sch.get(block).iter_vars))])


def _decompose_padding(sch: Schedule, rng: Rng) -> None:
    """Decompose the first block that pads, if there is one."""
    blocks = [p[-1].block for p in tree.block_paths(sch.func.body)]
    padding = [b.name_hint for b in blocks if isinstance(b.body, n.BufferStore) and isinstance(b.body.value, n.Call)]
    block = sch.get_block(next(iter(padding), "none"))
    loops = sch.get_loops(block)
    if loops:
        sch.decompose_padding(block, loops[int(rng.integers(len(loops)))])


def _blockize(sch: Schedule, rng: Rng) -> None:
    if rng.integers(2):
        sch.blockize(_loop(sch, rng), preserve_unit_iters=bool(rng.integers(2)))
    else:
        sch.blockize([_block(sch, rng) for _ in range(int(rng.integers(1, 3)))])


def _tensorize(sch: Schedule, rng: Rng) -> None:
    """A tile of a product, if block C is one still."""
    loops = sch.get_loops(sch.get_block("C"))
    if len(loops) != 3:
        raise ScheduleError("no product")
    sizes = [int(size) for size in rng.integers(1, 4, size=3)]
    pairs = [sch.split(loop, [None, size]) for loop, size in zip(loops, sizes)]
    sch.reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    sch.tensorize(pairs[0][1], tensor_intrins.register_matmul(*sizes))


def _align(sch: Schedule, rng: Rng) -> None:
    factor = int(rng.integers(1, 9))
    sch.storage_align(_block(sch, rng), 0, int(rng.integers(-2, 2)), factor, int(rng.integers(factor)))


def _sampled_at(sch: Schedule, rng: Rng) -> None:
    block = _block(sch, rng)
    sch.compute_at(block, sch.sample_compute_location(block))


def _partition(sch: Schedule, rng: Rng) -> None:
    """A loop in two parts or three, of which one takes what is left."""
    factors: list[int | None] = [int(f) for f in rng.integers(1, 5, size=int(rng.integers(1, 3)))]
    if rng.integers(2):
        factors.insert(int(rng.integers(len(factors) + 1)), None)
    sch.loop_partition(_loop(sch, rng), factors, preserve_unit_iters=bool(rng.integers(2)))


def _merge(sch: Schedule, rng: Rng) -> None:
    """Loops of a block and the next ones, where any number of those they share may remain outside."""
    names = [p[-1].block.name_hint for p in tree.block_paths(sch.func.body)[1:]]
    start = int(rng.integers(len(names)))
    nests = [sch.get_loops(sch.get_block(name)) for name in names[start : start + int(rng.integers(2, 4))]]
    if not all(nests):
        raise ScheduleError("no loop")
    depth = int(rng.integers(min(map(len, nests))))
    sch.merge(*(loops[depth] for loops in nests))


def _axes(sch: Schedule, rng: Rng) -> None:
    block = _block(sch, rng)
    sch.reorder_block_iter_var(block, [int(p) for p in rng.permutation(len(sch.get(block).iter_vars))])


MOVES: dict[str, tuple[int, Move]] = {
    "split": (6, _split),
    "sample": (2, _sampled_split),
    "fuse": (3, _fuse),
    "reorder": (5, _reorder),
    "add_unit_loop": (1, lambda s, r: s.add_unit_loop(_block(s, r))),
    "parallel": (1, lambda s, r: s.parallel(_loop(s, r))),
    "vectorize": (1, lambda s, r: s.vectorize(_loop(s, r))),
    "unroll": (1, lambda s, r: s.unroll(_loop(s, r))),
    "compute_at": (5, _at),
    "reverse_compute_at": (5, _reverse_at),
    "cache_at": (4, _cache_at),
    "compute_inline": (1, lambda s, r: s.compute_inline(_block(s, r))),
    "reverse_compute_inline": (1, lambda s, r: s.reverse_compute_inline(_block(s, r))),
    "cache_read": (2, lambda s, r: s.cache_read(_block(s, r), int(r.integers(3)), "shared")),
    "cache_write": (2, lambda s, r: s.cache_write(_block(s, r), 0, "local")),
    "decompose_reduction": (2, lambda s, r: s.decompose_reduction(_block(s, r), _loop(s, r))),
    "rfactor": (2, lambda s, r: s.rfactor(_loop(s, r), int(r.integers(-1, 2)))),
    "transform_layout": (2, _layout),
    "transform_block_layout": (2, _block_layout),
    "pad_einsum": (2, _pad_einsum),
    "rolling_buffer": (6, _rolling),
    "reindex_cache": (2, _reindex_cache),
    "cache_inplace": (3, lambda s, r: s.cache_inplace(_block(s, r), int(r.integers(2)), "local")),
    "cache_index": (1, lambda s, r: s.cache_index(_block(s, r), "global", int(r.integers(3)))),
    "unsafe_set_dtype": (1, lambda s, r: s.unsafe_set_dtype(_block(s, r), 0, "float64")),
    "decompose_padding": (3, _decompose_padding),
    "blockize": (2, _blockize),
    "tensorize": (6, _tensorize),
    "reindex": (2, lambda s, r: s.reindex(_block(s, r), (str(r.choice(["read", "write"])), int(r.integers(2))))),
    "sample_compute_location": (2, _sampled_at),
    "reorder_block_iter_var": (1, _axes),
    "loop_partition": (3, _partition),
    "merge": (8, _merge),
    "enter_postproc": (1, lambda s, r: s.enter_postproc()),
    "storage_align": (2, _align),
    "set_scope": (1, lambda s, r: s.set_scope(_block(s, r), 0, "local")),
}
_WEIGHTS = np.array([weight for weight, _ in MOVES.values()], dtype=float)


_MOST_POINTS = 50_000


def _points(func: PrimFunc) -> int:
    """Iterations of the innermost blocks, those of a false predicate counted too."""
    paths = tree.block_paths(func.body)
    loops = ([ops.as_int(node.extent) or 1 for node in path if isinstance(node, n.For)] for path in paths)
    return sum(map(math.prod, loops))


def random_schedule(seed: int, counts: Counter[str]) -> tuple[PrimFunc, Schedule]:
    rng = np.random.default_rng(seed)
    func = WORKLOADS[int(rng.integers(len(WORKLOADS)))](rng)
    sch = Schedule(func, seed=seed)
    for _ in range(int(rng.integers(2, 18))):
        if _points(sch.func) > _MOST_POINTS:
            break  # splits that divide nothing multiply the iterations: right, but never done
        name = str(rng.choice(list(MOVES), p=_WEIGHTS / _WEIGHTS.sum()))
        try:
            MOVES[name][1](sch, rng)
            counts[name] += 1
        except ScheduleError:
            pass
    _ask_ahead(sch, rng, counts)
    return func, sch


def _ask_ahead(sch: Schedule, rng: Rng, counts: Counter[str]) -> None:
    """One loop in four schedules asks memory ahead, if it may: not one of vectors, or of too much in an iteration."""
    if rng.integers(4):
        return
    try:
        loop = _loop(sch, rng)
        sch.annotate(loop, SOFTWARE_PREFETCH, int(rng.integers(1, 5)) if rng.integers(3) else WHOLE_LOOP)
    except ScheduleError:
        return
    try:
        lower_func(sch.func)
    except LoweringError:
        sch.unannotate(loop, SOFTWARE_PREFETCH)
    else:
        counts[SOFTWARE_PREFETCH] += 1


# ---------------------------------------------------------------------------------- the checks


def backwards(func: PrimFunc) -> PrimFunc:
    """`func` with its parallel and vectorised loops running from the last iteration to the first."""

    def turn(stmt: n.Stmt) -> n.Stmt:
        if isinstance(stmt, n.For):
            body = turn(stmt.body)
            if stmt.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
                last = ops.sub(stmt.extent, 1)
                body = rebind(body, {stmt.loop_var: ops.sub(last, stmt.loop_var)})
            return tree.with_body(stmt, body)
        if isinstance(stmt, n.SeqStmt):
            return n.SeqStmt(tuple(map(turn, stmt.seq)))
        return stmt

    root = func.body
    assert isinstance(root, n.BlockRealize)
    return func.with_body(tree.with_block(root, tree.with_block_body(root.block, turn(root.block.body))))


def check(seed: int, counts: Counter[str]) -> None:
    func, sch = random_schedule(seed, counts)
    try:
        wanted = w.outputs(func)
        for version in (sch.func, backwards(sch.func), lower_func(sch.func)):
            np.testing.assert_allclose(w.outputs(version), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(w.native_outputs(sch.func), wanted, rtol=1e-4, atol=1e-5)
        again = apply_trace(func, Trace.from_json(sch.trace.to_json()))
        assert again.func.script() == sch.func.script()
    except Exception as error:
        error.add_note(f"seed {seed}:\n{sch.trace.to_python()}\n{sch.func.script()}")
        raise


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_random_schedules_keep_the_meaning(start: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(start, start + CHUNK):
        check(seed, counts)
    assert sum(counts.values()) > CHUNK  # or the steps drawn are all refused
