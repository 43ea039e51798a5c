"""storage_align: rows of a buffer set apart."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.pipeline import lower_func
from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule
from tests.kit.compiler.schedules import workloads as w


@pytest.mark.parametrize(("axis", "factor", "offset"), [(0, 8, 0), (-2, 8, 3), (1, 4, 1), (0, 32, 31)])
def test_rows_set_apart_compute_the_same(axis: int, factor: int, offset: int) -> None:
    func = w.chain(10, 7)
    sch = Schedule(func)
    sch.storage_align(sch.get_block("B"), 0, axis, factor, offset)
    wanted = w.outputs(func)
    for result in (w.outputs(sch.func), w.outputs(lower_func(sch.func)), w.native_outputs(sch.func)):
        np.testing.assert_allclose(result, wanted, rtol=1e-5)


def test_the_last_wish_counts() -> None:
    sch = Schedule(w.chain(10, 7))
    block = sch.get_block("B")
    sch.storage_align(block, 0, 0, 4, 1)
    sch.storage_align(block, 0, -2, 8, 3)
    assert sch.get(block).annotations["buffer_dim_align"] == ((0, 0, 8, 3),)
    assert "i * 11 + j" in lower_func(sch.func).script()  # 11: the least multiple of 8, plus 3, that holds 7


def test_a_tile_that_shrank_is_aligned() -> None:
    func = w.matmul(13, 11, 10)
    sch = Schedule(func)
    block = sch.get_block("C")
    copy = sch.cache_read(block, 1, "global")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i, k, j1)
    sch.compute_at(copy, j0)
    sch.storage_align(copy, 0, 0, 8, 5)
    for result in (w.outputs(lower_func(sch.func)), w.native_outputs(sch.func)):
        np.testing.assert_allclose(result, w.outputs(func), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("block", "arguments", "rule"),
    [
        ("D", (0, 0, 8, 0), "buffer 'D' is an argument of the function"),
        ("B", (1, 0, 8, 0), "block 'B' writes 1 buffers, it has no number 1"),
        ("B", (0, 2, 8, 0), "buffer 'B' has 2 dimensions, there is no axis 2"),
        ("B", (0, -3, 8, 0), "there is no axis -3"),
        ("B", (0, 0, 0, 0), "the factor must be positive, got 0"),
        ("B", (0, 0, 8, 8), "the offset must be from 0 to 7"),
    ],
)
def test_illegal(block: str, arguments: tuple[int, int, int, int], rule: str) -> None:
    sch = Schedule(w.chain())
    before = sch.func
    with pytest.raises(ScheduleError, match=rf"(?s)storage_align: .*{rule}.*\n.*for .*<--"):
        sch.storage_align(sch.get_block(block), *arguments)
    assert sch.func is before
