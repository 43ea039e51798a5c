"""Blocks that are moved: they run the part of their domains that they ran, and read what they read."""

from __future__ import annotations

import pytest

from compiler.schedule.core.schedule import Schedule
from compiler.script.entry import from_source
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w


def windows(rows: int, count: int, step: int, window: int) -> PrimFunc:
    """C[i, r] = 2 * A[i * step + r] + 1: windows on the rows of B, of which some may be in none; blocks B, C."""
    a = te.placeholder((rows,), name="A")
    b = te.compute((rows,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((count, window), lambda i, r: b[i * step + r] + 1.0, name="C")
    return create_prim_func([a, c])


@pytest.mark.parametrize("shape", [(6, 1, 5, 5), (11, 2, 5, 5), (12, 2, 5, 5), (13, 3, 4, 4)])
def test_a_block_of_the_rows_left_is_moved_again(shape: tuple[int, int, int, int]) -> None:
    func = windows(*shape)
    sch = Schedule(func)
    i, r = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("B"), i)
    tile = sch.blockize(sch.get_loops(sch.get_block("B"))[1])
    sch.compute_at(tile, r)
    w.check_everywhere(sch, func)


def test_a_block_of_tiles_ends_where_the_loops_did() -> None:
    sch = Schedule(windows(11, 2, 5, 5))
    i, _ = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("B"), i)
    tile = sch.blockize(sch.get_loops(sch.get_block("B"))[1])
    assert "T.axis.spatial(2, i)" in sch.func.script()  # not 3: the third tile would end at row 15 of 11
    assert [str(iv.dom.extent) for iv in sch.get(tile).iter_vars] == ["2"]


PART_OF_A_SUM = """
@T.prim_func
def main(A: T.Buffer((5,)), W: T.Buffer((10,)), C: T.Buffer((5,))):
    B = T.alloc_buffer((5,))
    for i in range(5):
        with T.block("B"):
            v = T.axis.spatial(5, i)
            B[v] = A[v] * T.float32(2)
    for j, k in T.grid(5, 3):
        with T.block("C"):
            v = T.axis.spatial(5, j)
            r = T.axis.reduce(10, {place})
            with T.init():
                C[v] = T.float32(0)
            C[v] = C[v] + B[v] * W[r]
"""


@pytest.mark.parametrize("place", ["k", "k * 2"])
def test_a_sum_over_a_part_remains_one_when_it_moves(place: str) -> None:
    func = from_source(PART_OF_A_SUM.format(place=place))
    assert isinstance(func, PrimFunc)

    def move(sch: Schedule) -> None:
        sch.reverse_compute_at(sch.get_block("C"), sch.get_loops(sch.get_block("B"))[0])

    if place == "k":
        sch = Schedule(func)
        move(sch)
        w.check_everywhere(sch, func)
    else:
        w.check_refused(func, move, "reverse_compute_at", "skip iterations of its reduction over axis 'r'")


OVERWRITTEN = """
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    X = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("X"):
            v = T.axis.spatial(8, i)
            X[v] = A[v]
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = X[v] * T.float32(2)
    for i in range(8):
        with T.block("W"):
            v = T.axis.spatial(8, i)
            X[v] = T.float32(100)
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = X[v] + B[v]
"""


@pytest.mark.parametrize("primitive", ["compute_at", "compute_inline"])
def test_what_a_block_reads_may_not_have_changed_where_it_moves(primitive: str) -> None:
    func = from_source(OVERWRITTEN)
    assert isinstance(func, PrimFunc)

    def move(sch: Schedule) -> None:
        if primitive == "compute_at":
            sch.compute_at(sch.get_block("B"), sch.get_loops(sch.get_block("C"))[0])
        else:
            sch.compute_inline(sch.get_block("B"))

    w.check_refused(func, move, primitive, "block 'W' writes 'X', which block 'B' reads before it")


READ_BEFORE = """
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = C[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + T.float32(1)
"""


def test_what_was_read_before_is_not_written_earlier() -> None:
    func = from_source(READ_BEFORE)
    assert isinstance(func, PrimFunc)
    w.check_refused(
        func,
        lambda sch: sch.reverse_compute_inline(sch.get_block("C")),
        "reverse_compute_inline",
        "block 'C' writes what is read after block 'B'",
    )


def test_an_init_is_not_put_before_another_block_that_writes_there() -> None:
    func = w.row_scale(4, 6)
    sch = Schedule(func)
    _, j = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("S"), j)
    sch.loop_partition(j, [1, 1])
    w.check_refused(
        sch.func,
        lambda s: s.decompose_reduction(s.get_block("S_j1"), s.get_loops(s.get_block("S_j1"))[0]),
        "decompose_reduction",
        "block 'S_j0' in the loop uses what block 'S_j1' writes",
    )
