"""Doubled buffers: filled an iteration ahead, with the same result; left alone where nothing can be."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.driver.pipeline import lower_func, stages
from compiler.errors import LoweringError, ScheduleError
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import Schedule
from compiler.te import operation as te
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import create_schedule
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w


def doubled(func: PrimFunc) -> str:
    """The text right after the pass."""
    return next(made for step, made in stages(func) if step.title == "InjectDoubleBuffer").script()


def statements(text: str) -> list[str]:
    """The lines of a function's body, less indented."""
    return [line[4:] for line in text.splitlines() if not line.lstrip().startswith(("T.func_attr", "def", "@"))]


def two_copies(m: int = 13, n: int = 11, k: int = 10) -> Schedule:
    """A product of tiles whose inputs are copied to near memory, doubled."""
    s = Schedule(w.matmul(m, n, k))
    i, j, r = s.get_loops("C")
    (r0, r1), (i0, i1) = s.split(r, [None, 4]), s.split(i, [None, 4])
    s.reorder(i0, r0, i1, j, r1)
    for index in (0, 1):
        copy = s.cache_read("C", index, "local")
        s.compute_at(copy, r0)
        s.annotate(copy, "double_buffer_scope", 0)
    return s


def test_the_text() -> None:
    s = Schedule(w.chain(10, 7))
    s.compute_inline("B")
    i, _ = s.get_loops("D")
    s.compute_at("C", i)
    s.annotate("C", "double_buffer_scope", 0)
    assert statements(doubled(s.func)) == [
        'C = T.allocate([2, 1, 7], "float32", "global")',
        'C_1 = T.Buffer((2, 1, 7), "float32", data=C)',
        "for ax1 in range(7):",
        "    C_1[0, 0, ax1] = A[0, ax1] * 2.0 + 1.0",
        "for i in range(10):",
        "    if i + 1 < 10:",
        "        for ax1_1 in range(7):",
        "            C_1[(i + 1) % 2, 0, ax1_1] = A[i + 1, ax1_1] * 2.0 + 1.0",
        "    for j in range(7):",
        "        D[i, j] = C_1[i % 2, 0, j] * C_1[i % 2, 0, j]",
    ]


@pytest.mark.parametrize("shape", [(13, 11, 10), (4, 3, 4), (8, 5, 1)])
def test_two_copies_are_filled_ahead(shape: tuple[int, int, int]) -> None:
    s = two_copies(*shape)
    assert "T.allocate([2, 4, " in doubled(s.func)
    w.check_everywhere(s, w.matmul(*shape))


def test_loops_that_are_vectors_and_parallel() -> None:
    s = two_copies()
    s.parallel(s.get_loops("C")[0])
    for copy in ("A_local", "B_local"):
        s.vectorize(s.get_loops(copy)[-1])
    w.check_everywhere(s, w.matmul())


def test_rows_set_apart_and_doubled() -> None:
    s = two_copies()
    s.storage_align("B_local", 0, 0, 8, 1)
    assert "strides=(68, 17, 1)" in doubled(s.func)
    w.check_everywhere(s, w.matmul())


def test_a_reduction_is_done_ahead_with_its_init() -> None:
    s = Schedule(w.row_scale())
    s.compute_at("S", s.get_loops("D")[0])
    s.annotate("S", "double_buffer_scope", 0)
    assert "% 2" in doubled(s.func)
    w.check_everywhere(s, w.row_scale())


def test_a_loop_of_unknown_extent() -> None:
    n = te.var("n")
    a = te.placeholder((n, 5), name="A")
    b = te.compute((n, 5), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, 5), lambda i, j: b[i, j] * 2.0, name="C")
    s = create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].double_buffer()
    func = schedule_to_func(s, [a, c])
    assert "% 2" in doubled(func)
    for rows in (0, 1, 6):
        x, out = np.random.rand(rows, 5).astype("float32"), np.zeros((rows, 5), "float32")
        run(lower_func(func), x, out)
        np.testing.assert_allclose(out, (x + 1) * 2, rtol=1e-6)


def test_te_double_buffer_runs() -> None:
    a, b = te.placeholder((21, 18), name="A"), te.placeholder((18, 14), name="B")
    k = te.reduce_axis((0, 18), name="k")
    c = te.compute((21, 14), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = create_schedule(c.op)
    near = s.cache_read(b, "local", [c])
    ko, ki = s[c].split(k, factor=4)
    i, j = c.op.axis
    s[c].reorder(i, ko, j, ki)
    s[near].compute_at(s[c], ko)
    s[near].double_buffer()
    func = schedule_to_func(s, [a, b, c])
    assert "B_local_1[(k_outer + 1) % 2" in doubled(func)
    x, y = np.random.rand(21, 18).astype("float32"), np.random.rand(18, 14).astype("float32")
    out = array(np.full((21, 14), np.nan, "float32"))
    build(func, target="llvm")(array(x), array(y), out)
    np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-4)


def in_parallel() -> tuple[PrimFunc, Schedule]:
    s = Schedule(w.chain())
    i, _ = s.get_loops("D")
    s.compute_at("C", i)
    s.parallel(i)
    return w.chain(), s


def with_no_loop() -> tuple[PrimFunc, Schedule]:
    return w.chain(), Schedule(w.chain())


def with_another_in_its_way() -> tuple[PrimFunc, Schedule]:
    """The data that C reads is made in the same iteration."""
    s = Schedule(w.chain())
    i, _ = s.get_loops("D")
    s.compute_at("C", i)
    s.compute_at("B", i)
    return w.chain(), s


@pytest.mark.parametrize("make", [in_parallel, with_no_loop, with_another_in_its_way])
def test_where_nothing_can_be_fetched_ahead_the_buffer_stays(make) -> None:
    func, s = make()
    s.annotate("C", "double_buffer_scope", 0)
    assert "% 2" not in doubled(s.func)
    w.check_everywhere(s, func)


@pytest.mark.parametrize("position", [1, -1, "all"])
def test_a_buffer_that_the_block_does_not_write(position: object) -> None:
    s = Schedule(w.chain())
    s.annotate("B", "double_buffer_scope", position)
    with pytest.raises(LoweringError, match="double_buffer_scope of block 'B' is") as caught:
        lower_func(s.func)
    assert caught.value.hint == "it writes 1, counted from 0"


def test_an_input_is_not_doubled() -> None:
    a = te.placeholder((4,), name="A")
    c = te.compute((4,), lambda i: a[i] + 1.0, name="C")
    with pytest.raises(ScheduleError, match="double_buffer: stage 'A' is an input"):
        create_schedule(c.op)[a].double_buffer()
