"""decompose_padding: a constant everywhere first, then what is inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compiler.schedule.core.schedule import Schedule
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w


def padded(
    inside: Callable[[n.PrimExpr], Any], value: Callable[[Any, n.PrimExpr], Any], fill: float | None = 0.0
) -> PrimFunc:
    """P[i] = value(A, i) where inside(i), else `fill`, A[0] for None; D[i] = P[i] + P[i + 2]; blocks P, D."""
    a = te.placeholder((9,), name="A")
    p = te.compute((13,), lambda i: if_then_else(inside(i), value(a, i), a[0] if fill is None else fill), name="P")
    return create_prim_func([a, te.compute((11,), lambda i: p[i] + p[i + 2], name="D")])


def plain() -> PrimFunc:
    return padded(lambda i: ops.logical_and(i >= 2, i < 11), lambda a, i: a[i - 2] * 3.0, 1.5)


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_at_every_loop(at: int) -> None:
    func = w.conv()
    sch = Schedule(func)
    fill = sch.decompose_padding(sch.get_block("pad_temp"), sch.get_loops("pad_temp")[at])
    assert sch.get(fill).name_hint == "pad_temp_pad_const"
    assert sch.get(fill).reads == ()
    extents = [int(sch.get(f).extent) for f in sch.get_loops("pad_temp")]
    assert extents == [1, 2, 7 if at > 2 else 5, 7]
    w.check_everywhere(sch, func)


@pytest.mark.parametrize("factors", [[None, 4], [3, None], [None, 1], [1, None]])
@pytest.mark.parametrize("at", [0, 1])
def test_of_a_split_loop(factors: list[int | None], at: int) -> None:
    func = plain()
    sch = Schedule(func)
    loops = sch.split(sch.get_loops("P")[0], factors)
    sch.decompose_padding(sch.get_block("P"), loops[at])
    w.check_everywhere(sch, func)


def test_of_fused_loops() -> None:
    func = w.conv()
    sch = Schedule(func)
    fused = sch.fuse(*sch.get_loops("pad_temp"))
    sch.decompose_padding(sch.get_block("pad_temp"), fused)
    w.check_everywhere(sch, func)


def test_of_a_block_in_the_loops_of_its_reader() -> None:
    """Rows that several iterations need are filled and copied in each; in parallel ones, too."""
    func = w.conv()
    sch = Schedule(func)
    block, row = sch.get_block("pad_temp"), sch.get_loops("conv2d_nchw")[2]
    sch.compute_at(block, row)
    fill = sch.decompose_padding(block, sch.get_loops(block)[3])
    sch.vectorize(sch.split(sch.get_loops(fill)[-1], [None, 4])[1])
    sch.parallel(row)
    w.check_everywhere(sch, func)


@pytest.mark.parametrize(
    "inside",
    [
        lambda i: ops.logical_and(i > 1, ops.greater_equal(10, i)),
        lambda i: ops.logical_and(i > 1, 2 * i <= 21),
        lambda i: ops.logical_and(i - 2 >= 0, 11 - i > 0),
        lambda i: ops.logical_and(i * 3 >= 4, i < 11, i >= 2, i < 40),
    ],
)
def test_bounds_however_they_are_written(inside: Callable[[n.PrimExpr], Any]) -> None:
    func = padded(inside, lambda a, i: a[i - 2])
    sch = Schedule(func)
    sch.decompose_padding(sch.get_block("P"), sch.get_loops("P")[0])
    assert int(sch.get(sch.get_loops("P")[0]).extent) == 9
    assert "T.where" not in sch.func.script()
    w.check_everywhere(sch, func)


def test_a_condition_that_is_no_bound_stays() -> None:
    func = padded(lambda i: ops.logical_and(i < 11, i % 2 == 0), lambda a, i: a[i // 2])
    sch = Schedule(func)
    sch.decompose_padding(sch.get_block("P"), sch.get_loops("P")[0])
    assert int(sch.get(sch.get_loops("P")[0]).extent) == 11
    assert "if v_i_1 % 2 == 0:" in sch.func.script()
    w.check_everywhere(sch, func)


def test_what_reads_the_padding_does_not_move_to_where_only_the_rest_is_made() -> None:
    def steps(s: Schedule) -> None:
        loop = s.get_loops("P")[0]
        s.decompose_padding(s.get_block("P"), loop)
        s.reverse_compute_at(s.get_block("D"), loop)

    a = te.placeholder((9,), name="A")
    p = te.compute((13,), lambda i: if_then_else(ops.logical_and(i >= 2, i < 11), a[i - 2], 0.0), name="P")
    func = create_prim_func([a, te.compute((13,), lambda i: p[i] + 1.0, name="D")])
    w.check_refused(func, steps, "reverse_compute_at", "block 'P_pad_const' outside loop 'i' makes a part of 'P'")


def _whole(s: Schedule) -> None:
    s.decompose_padding(s.get_block("P"), s.get_loops("P")[0])


def _twice(s: Schedule) -> None:
    _whole(s)
    _whole(s)


REFUSED = [
    (w.chain, lambda s: s.decompose_padding("B", s.get_loops("B")[0]), "'B' is not one store of T.if_then"),
    (w.matmul, lambda s: s.decompose_padding("C", s.get_loops("C")[0]), "'C' is not one store of T.if_then"),
    (plain, _twice, "block 'P' is not one store of T.if_then_else(inside, value, constant)"),
    (plain, lambda s: s.decompose_padding(s.get_block("P"), s.get_loops("D")[0]), "loop 'i' is not around block 'P'"),
    (lambda: padded(lambda i: i > 20, lambda a, i: a[i - 21]), _whole, "no value of axis 'v_i' of block 'P' is inside"),
    (lambda: padded(lambda i: i < 9, lambda a, i: a[i], None), _whole, "'P' is not one store"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_decomposed(number: int) -> None:
    make, steps, rule = REFUSED[number]
    w.check_refused(make(), steps, "decompose_padding", rule)
