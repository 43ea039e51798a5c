"""loop_partition, merge, and split without a predicate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import LoopRV, Schedule
from compiler.script.entry import from_source
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, PrimFunc, Var
from tests.kit.compiler.schedules import workloads as w


def doubled() -> PrimFunc:
    """B = A * 2 on as many elements as are given; block B."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    return create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0, name="B")])


def first(s: Schedule, *blocks: str) -> list[LoopRV]:
    return [s.get_loops(block)[0] for block in blocks]


def test_a_promise_leaves_the_predicate_out() -> None:
    func = doubled()
    s = Schedule(func)
    s.split(*first(s, "B"), [None, 4], disable_predication=True)
    assert "T.where" not in s.func.script()
    a, b = np.arange(12, dtype="float32"), np.full(12, np.nan, "float32")
    run(s.func, a, b)
    np.testing.assert_array_equal(b, a * 2)
    assert "disable_predication=True" in s.trace.to_python()


def test_a_broken_promise_is_refused() -> None:
    w.check_refused(
        w.matmul(), lambda s: s.split(s.get_loops("C")[0], [None, 4], disable_predication=True), "split",
        "would run past the 13 iterations of loop 'i'",
    )  # fmt: skip


def test_an_option_left_alone_is_not_in_the_trace() -> None:
    s = Schedule(w.matmul())
    s.split(*first(s, "C"), [None, 4])
    assert "disable_predication" not in s.trace.to_json()


@pytest.mark.parametrize(
    ("factors", "extents"),
    [([2, None], [2, 8]), ([None, 2, 3], [5, 2, 3]), ([2, 3], [2, 3, 5]), ([1], [1, 9]), ([9], [9, 1])],
)
def test_parts_cover_the_loop_once(factors: list[int | None], extents: list[int]) -> None:
    s = Schedule(w.chain())
    parts = s.loop_partition(*first(s, "C"), factors)
    assert [int(s.get(part).extent) for part in parts] == extents
    w.check_everywhere(s, w.chain())


def test_the_parts_are_scheduled_on() -> None:
    s = Schedule(w.matmul_relu())
    s.compute_at("C", s.get_loops("D")[0])
    body, rest = s.loop_partition(s.get_loops("D")[0], [12])
    outer, _ = s.split(body, [None, 4])
    s.parallel(outer)
    s.unroll(rest)
    s.vectorize(s.get_loops("D_i0")[-1])
    w.check_everywhere(s, w.matmul_relu())


def _tail(s: Schedule) -> object:
    return s.loop_partition(s.get_loops("C")[2], [4])


def _parallel(s: Schedule) -> object:
    s.parallel(*first(s, "C"))
    return s.loop_partition(*first(s, "C"), [4])


@pytest.mark.parametrize(
    ("steps", "rule"),
    [
        (lambda s: s.loop_partition(*first(s, "C"), [8, 8]), "leave nothing of the 13 iterations of loop 'i'"),
        (lambda s: s.loop_partition(*first(s, "C"), [5, 8]), "leave nothing"),
        (lambda s: s.loop_partition(*first(s, "C"), [None, None]), "at most one None"),
        (lambda s: s.loop_partition(*first(s, "C"), []), "at least one of them"),
        (lambda s: s.loop_partition(*first(s, "C"), [0, None]), "must be positive"),
        (_tail, "begin the reduction of block 'C' anew"),
        (_parallel, "loop 'i' is parallel and cannot be partitioned any more"),
    ],
)
def test_partitions_that_are_refused(steps, rule: str) -> None:
    w.check_refused(w.matmul(), steps, "loop_partition", rule)


def test_a_loop_of_unknown_extent_is_not_parted() -> None:
    w.check_refused(
        doubled(), lambda s: s.loop_partition(*first(s, "B"), [4]), "loop_partition", "no constant extent to part"
    )


def test_merged_loops_can_be_scheduled_on() -> None:
    s = Schedule(w.chain())
    merged = s.merge(*(s.get_loops(name)[1] for name in "BCD"))
    inner, _ = s.split(merged, [None, 2])
    s.parallel(s.get_loops("B")[0])
    assert s.get(inner).loop_var.name == "j_m_0"
    w.check_everywhere(s, w.chain())


def read_at(place: Callable[[Var], PrimExpr]) -> Callable[[], PrimFunc]:
    """B = A * 2; C[i] = B[place(i)]; blocks B, C."""

    def make() -> PrimFunc:
        a = te.placeholder((9,), name="A")
        b = te.compute((9,), lambda i: a[i] * 2.0, name="B")
        return create_prim_func([a, te.compute((9,), lambda i: b[place(i)], name="C")])

    return make


def _both(s: Schedule) -> object:
    return s.merge(*first(s, "B", "C"))


def _inside(s: Schedule) -> object:
    i, j = s.get_loops("B")
    return s.merge(i, j)


def _other_depth(s: Schedule) -> object:
    return s.merge(s.get_loops("B")[0], s.get_loops("C")[1])


def _vectors(s: Schedule) -> object:
    s.vectorize(s.get_loops("B")[1])
    return s.merge(s.get_loops("B")[1], s.get_loops("C")[1])


@pytest.mark.parametrize(
    ("make", "steps", "rule"),
    [
        (read_at(lambda i: 8 - i), _both, "blocks 'B' and 'C' meet in 'B' in different iterations"),
        (read_at(lambda i: ops.maximum(i - 1, 0)), _both, "meet in 'B' in different iterations"),
        (read_at(lambda i: ops.minimum(i + 1, 8)), _both, "meet in 'B' in different iterations"),
        (w.stencils, lambda s: s.merge(*first(s, "C", "D")), "loop 'i' runs 9 times, loop 'i' 10 times"),
        (w.chain, lambda s: s.merge(*first(s, "B", "D")), "one right after another"),
        (w.chain, lambda s: s.merge(*first(s, "C", "B")), "in this order"),
        (w.chain, lambda s: s.merge(*first(s, "B")), "two loops or more"),
        (w.chain, lambda s: s.merge(*first(s, "B") * 2), "given twice"),
        (w.chain, _inside, "stands inside another"),
        (w.chain, _other_depth, "is the 2. of its nest"),
        (w.chain, _vectors, "loop 'j' is vectorized and cannot be merged any more"),
    ],
)  # fmt: skip
def test_merges_that_are_refused(make, steps, rule: str) -> None:
    if rule.startswith("two loops"):
        with pytest.raises(Exception, match="merge: it takes two loops or more"):
            steps(Schedule(make()))
    else:
        w.check_refused(make(), steps, "merge", rule)


def test_what_is_still_to_be_read_is_not_written() -> None:
    """B[i] reads A[8 - i], then A is written: merged, A would change under the readers."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((9,))):
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[8 - vi]
    for i in range(9):
        with T.block("U"):
            vi = T.axis.spatial(9, i)
            A[vi] = 1.0
""")
    w.check_refused(func, lambda s: s.merge(*first(s, "B", "U")), "merge", "blocks 'B' and 'U' meet in 'A'")
