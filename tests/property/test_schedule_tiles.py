"""The schedules a tuner makes, with random tile sizes on random shapes: register tiles, packed panels, an epilogue in
the tile, padding where it is used. Each runs as it is and lowered, and replays with other decisions."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.pipeline import lower_func
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule, apply_trace
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w

CASES = 24


def _pick(s: Schedule, *candidates: int) -> ExprRV:
    return s.sample_categorical(candidates, [1] * len(candidates))


def _vectors(s: Schedule, block: BlockRV, depth: int) -> None:
    """The loops of a copy from `depth` on unrolled, the last in vectors of 4."""
    loops = s.get_loops(block)
    outer, lane = s.split(loops[-1], [None, 4])
    s.vectorize(lane)
    for loop in (*loops[depth:-1], outer):
        s.unroll(loop)


def _register_tile(
    s: Schedule, block: BlockRV, writer: BlockRV, rows: LoopRV, lanes: LoopRV, reduced: list[LoopRV], pack: bool
) -> None:
    v_outer, v_panel, v_tile, v_lane = s.split(lanes, [None, _pick(s, 1, 2, 3), _pick(s, 1, 2), 4])
    m_outer, m_tile = s.split(rows, [None, _pick(s, 1, 2, 3, 5)])
    *rest, last = reduced
    r_outer, r_inner = s.split(last, [None, _pick(s, 1, 2, 3)])
    s.reorder(v_outer, m_outer, v_panel, *rest, r_outer, r_inner, m_tile, v_tile, v_lane)
    s.reverse_compute_at(writer, v_panel, preserve_unit_loops=True)
    if pack:
        packed = s.cache_read(block, 1, "global")
        s.compute_at(packed, v_outer, preserve_unit_loops=True)
        s.vectorize(s.split(s.get_loops(packed)[-1], [None, 4])[1])
        s.transform_layout(packed, ("write", 0), lambda *i: (*i[:-1], i[-1] // 4, i[-1] % 4))
    s.parallel(v_outer)
    init = s.decompose_reduction(block, rest[0] if rest else r_outer)
    for loop in (r_inner, m_tile, v_tile):
        s.unroll(loop)
    s.vectorize(v_lane)
    s.vectorize(s.get_loops(init)[-1])
    _vectors(s, writer, depth=len(s.get_loops(writer)) - 2)


def _matmul(rng: np.random.Generator, s: Schedule) -> None:
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    _register_tile(s, block, s.cache_write(block, 0, "local"), i, j, [k], bool(rng.integers(2)))


def _matmul_relu(rng: np.random.Generator, s: Schedule) -> None:
    block = s.get_block("C")
    s.set_scope(block, 0, "local")
    i, j, k = s.get_loops(block)
    _register_tile(s, block, s.get_block("D"), i, j, [k], bool(rng.integers(2)))


def _conv(rng: np.random.Generator, s: Schedule) -> None:
    block, pad = s.get_block("conv2d_nchw"), s.get_block("pad_temp")
    _, ff, yy, xx, *reduced = s.get_loops(block)
    y_outer, y_inner = s.split(yy, [None, _pick(s, 1, 2, 3)])
    s.reorder(y_outer, y_inner, ff, xx)
    writer = s.cache_write(block, 0, "local")
    _register_tile(s, block, writer, ff, xx, reduced, pack=False)
    match int(rng.integers(3)):
        case 0:
            s.compute_inline(pad)
        case 1:
            s.compute_at(pad, y_outer, preserve_unit_loops=True)
        case _:
            s.vectorize(s.split(s.get_loops(pad)[-1], [None, 4])[1])


def _workload(name: str, rng: np.random.Generator) -> PrimFunc:
    def size(most: int) -> int:
        return int(rng.integers(1, most))

    if name == "conv":
        return w.conv(size(4), size(8), size(14), size(7), size(3))
    return (w.matmul if name == "matmul" else w.matmul_relu)(size(20), size(40), size(12))


_STEPS = {"matmul": _matmul, "matmul_relu": _matmul_relu, "conv": _conv}


@pytest.mark.parametrize("name", _STEPS)
@pytest.mark.parametrize("seed", range(CASES))
def test_tiles_keep_the_meaning_at_every_size(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    func = _workload(name, rng)
    s = Schedule(func, seed=seed)
    _STEPS[name](rng, s)
    other = apply_trace(func, s.trace.with_decisions([None] * len(s.trace.decisions)), seed=seed + 1)
    for scheduled in (s, other):
        w.check_same(scheduled, func)
        w.check_same(lower_func(scheduled.func), func)
