"""Which accesses are certain to fall outside their buffer, and which are left alone."""

import pytest

from compiler.driver.pipeline import steps
from compiler.lower.blocks.check_bounds import AccessOutOfBounds, check_bounds
from compiler.te import operation as te
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import create_schedule
from compiler.tir import nodes as n
from compiler.tir import ops

SIZE = 16
A = n.decl_buffer((SIZE,), "float32", "A")
OUT = n.decl_buffer((64,), "float32", "OUT")


def loop(value, extent=16, condition=None) -> n.PrimFunc:
    """for i in extent: [if condition(i):] OUT[i] = value(i)."""
    i, size = n.Var("i"), n.Var("size")
    stmt: n.Stmt = n.BufferStore(OUT, value(i), (i,))
    if condition is not None:
        stmt = n.IfThenElse(condition(i), stmt)
    params = n.Var("a", "handle"), n.Var("out", "handle")
    body = n.For(i, ops.const(0), size if extent is None else ops.const(extent), n.ForKind.SERIAL, stmt)
    return n.PrimFunc((*params, size), body, None, dict(zip(params, (A, OUT))))


@pytest.mark.parametrize(
    ("func", "reached"),
    [
        (loop(lambda i: A[i + 1]), (1, 16)),
        (loop(lambda i: A[i - 1]), (-1, 14)),
        (loop(lambda i: A[15 - i * 2]), (-15, 15)),
        (loop(lambda i: A[ops.const(16)]), (16, 16)),
        (loop(lambda i: A[i], 20, lambda i: i < 18), (0, 17)),
        (loop(lambda i: A[i], 20, lambda i: ops.logical_and(i >= 3, 2 * i < 36)), (3, 17)),
        (loop(lambda i: te.if_then_else(i < 17, A[i], 0.0), 20), (0, 16)),
        (loop(lambda i: te.if_then_else(i >= 16, 0.0, A[i - 1]), 20), (-1, 14)),
    ],
)
def test_refused(func: n.PrimFunc, reached: tuple[int, int]) -> None:
    with pytest.raises(AccessOutOfBounds, match="index 0 of buffer 'A'") as error:
        check_bounds(func)
    assert (error.value.detail["low"], error.value.detail["high"]) == reached


def test_lowering_of_blocks_begins_with_it() -> None:
    assert [step.title for step in steps()][:2] == ["LowerWarpProducts", "CheckBounds"]


@pytest.mark.parametrize(
    "func",
    [
        loop(lambda i: A[i]),
        loop(lambda i: A[15 - i]),
        loop(lambda i: A[i], 20, lambda i: i < 16),
        loop(lambda i: te.if_then_else(i > 0, A[i - 1], 0.0)),
        loop(lambda i: te.if_then_else(i >= 16, 0.0, A[i]), 20),
        loop(lambda i: te.if_then_else(OUT[i] > 0.0, A[i + 1], 0.0)),  # whether it runs is not known
        loop(lambda i: A[i + 1], 20, lambda i: ops.floormod(i, 7).equal(0)),
        loop(lambda i: A[i + 1], None),  # how often it runs is not known
        loop(lambda i: A[i + 100], 0),  # never runs
        loop(lambda i: A[ops.floormod(i + 20, 16)]),
    ],
)
def test_left_alone(func: n.PrimFunc) -> None:
    assert check_bounds(func) is func


def test_a_store_and_a_scheduled_block() -> None:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i], name="B")
    s = create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=5)
    assert check_bounds(schedule_to_func(s, [a, b]))
    i = n.Var("i")
    store = n.For(i, ops.const(0), ops.const(65), n.ForKind.SERIAL, n.BufferStore(OUT, ops.const(0.0), (i,)))
    param = n.Var("out", "handle")
    with pytest.raises(AccessOutOfBounds, match="'OUT', i, runs from 0 to 64, outside the buffer's 64 elements"):
        check_bounds(n.PrimFunc((param,), store, None, {param: OUT}))
