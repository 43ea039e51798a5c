"""rolling_buffer: a circular buffer of what neighbouring iterations share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.driver.pipeline import lower_func
from compiler.schedule.core.schedule import Schedule
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w

Steps = Callable[[Schedule], object]


def _window(n: int = 8, m: int = 7) -> PrimFunc:
    """B = A * 2; C[i, j] = sum of B[i : i + 3, j : j + 3]; blocks B, C."""
    a = te.placeholder((n + 2, m + 2), name="A")
    b = te.compute((n + 2, m + 2), lambda i, j: a[i, j] * 2.0, name="B")
    r, q = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 3), name="q")
    return create_prim_func([a, te.compute((n, m), lambda i, j: te.sum(b[i + r, j + q], axis=[r, q]), name="C")])


def _pooled(n: int = 9) -> PrimFunc:
    """Two windows after one another, the first a reduction; blocks B, C."""
    a = te.placeholder((n + 4,), name="A")
    r, q = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 3), name="q")
    b = te.compute((n + 2,), lambda i: te.max(a[i + r], axis=r), name="B")
    return create_prim_func([a, te.compute((n,), lambda i: te.sum(b[i + q], axis=q), name="C")])


def check(sch: Schedule, func: PrimFunc, sizes: list[int]) -> None:
    buffer = sch.get(sch.get_block("B")).writes[0].buffer
    assert [int(d) for d in buffer.shape] == sizes
    w.check_everywhere(sch, func)
    np.testing.assert_allclose(w.outputs(lower_func(sch.func)), w.outputs(func), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [2, 3, 7, 11])
@pytest.mark.parametrize("window", [2, 3, 5])
def test_a_window_along_one_loop(n: int, window: int) -> None:
    func = w.blur(n, window)
    sch = Schedule(func)
    sch.compute_at(sch.get_block("B"), sch.get_loops("C")[0])
    sch.rolling_buffer(sch.get_block("B"), 0)
    check(sch, func, [window])


@pytest.mark.parametrize("n", [10, 12, 13])
@pytest.mark.parametrize("tile", [2, 4, 5])
def test_tiles_that_need_not_divide(n: int, tile: int) -> None:
    func = w.blur(n)
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, tile])
    sch.compute_at(sch.get_block("B"), outer)
    sch.rolling_buffer(sch.get_block("B"), "B")
    check(sch, func, [tile + 2])


def test_rows_of_a_picture() -> None:
    func = _window()
    sch = Schedule(func)
    block = sch.get_block("B")
    sch.compute_at(block, sch.get_loops("C")[0])
    sch.rolling_buffer(block, 0)
    sch.vectorize(sch.split(sch.get_loops(block)[-1], [None, 4])[1])
    check(sch, func, [3, 9])


def test_tiles_of_a_picture() -> None:
    """The rows roll; the columns that tiles share are computed in each."""
    func = _window(10, 9)
    sch = Schedule(func)
    block, target = sch.get_block("B"), sch.get_block("C")
    i, j, r, q = sch.get_loops(target)
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1, r, q)
    sch.compute_at(block, j0)
    sch.rolling_buffer(block, 0)
    sch.decompose_reduction(target, r)
    check(sch, func, [6, 11])


def test_a_reduction_rolls() -> None:
    func = _pooled()
    sch = Schedule(func)
    block = sch.get_block("B")
    sch.compute_at(block, sch.get_loops("C")[0])
    sch.rolling_buffer(block, 0)
    sch.decompose_reduction(block, sch.get_loops(block)[-1])
    check_init = sch.get(sch.get_block("B_init")).writes[0].buffer
    assert int(check_init.shape[0]) == 3
    w.check_everywhere(sch, func)


def test_inside_a_parallel_loop_each_thread_has_its_own() -> None:
    a = te.placeholder((6, 12), name="A")
    b = te.compute((6, 12), lambda k, i: a[k, i] + 1.0, name="B")
    func = create_prim_func([a, te.compute((6, 10), lambda k, i: b[k, i] * b[k, i + 2], name="C")])
    sch = Schedule(func)
    k, i = sch.get_loops("C")
    sch.compute_at(sch.get_block("B"), i)
    sch.rolling_buffer(sch.get_block("B"), 0)
    sch.parallel(k)
    check(sch, func, [6, 3])


def _rolled(then: Steps) -> Steps:
    def steps(s: Schedule) -> None:
        s.compute_at(s.get_block("B"), s.get_loops("C")[0])
        s.rolling_buffer(s.get_block("B"), 0)
        then(s)

    return steps


def _at(position: int, kind: str = "") -> Steps:
    """compute_at a loop of C, which runs in `kind`, and roll."""

    def steps(s: Schedule) -> None:
        loop = s.get_loops("C")[position]
        s.compute_at(s.get_block("B"), loop)
        if kind:
            getattr(s, kind)(loop)
        s.rolling_buffer(s.get_block("B"), 0)

    return steps


def _one_row(s: Schedule) -> None:
    s.compute_at(s.get_block("C"), s.get_loops("D")[0])
    s.rolling_buffer(s.get_block("C"), 0)


REFUSED = [
    (w.blur, lambda s: s.rolling_buffer(s.get_block("B"), 0), "no loop around block 'B' and all readers of 'B' needs"),
    (w.blur, lambda s: s.rolling_buffer(s.get_block("C"), 0), "buffer 'C' is an argument of the function"),
    (w.blur, lambda s: s.rolling_buffer(s.get_block("B"), 2), "writes 1 buffers, it has no number 2"),
    (w.blur, _at(0, "parallel"), "loop 'i' is parallel: its iterations have no order"),
    (w.chain, _one_row, "no loop around block 'C' and all readers of 'C' needs"),
    (w.blur, _rolled(lambda s: s.rolling_buffer(s.get_block("B"), 0)), "skips elements of 'B'"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_does_not_roll(number: int) -> None:
    make, steps, rule = REFUSED[number]
    w.check_refused(make(), steps, "rolling_buffer", rule)


AFTERWARDS = [
    ("parallel", lambda s: s.parallel(s.get_loops("C")[0]), "axis 'v_i' of block 'B' is ordered"),
    ("vectorize", lambda s: s.vectorize(s.get_loops("B")[1]), "axis 'v_i' of block 'B' is ordered"),
    ("compute_at", lambda s: s.compute_at(s.get_block("C"), s.get_loops("D")[0]), "needs the iterations along"),
    ("blockize", lambda s: s.blockize(s.get_loops("B")[1]), "block 'B' needs the iterations along axis 'v_i'"),
]


@pytest.mark.parametrize("number", range(len(AFTERWARDS)))
def test_what_rolls_keeps_its_order_and_place(number: int) -> None:
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((10,), lambda i: b[i] * b[i + 2], name="C")
    func = create_prim_func([a, te.compute((10,), lambda i: c[i] * 2.0, name="D")])
    primitive, then, rule = AFTERWARDS[number]
    w.check_refused(func, _rolled(then), primitive, rule)
