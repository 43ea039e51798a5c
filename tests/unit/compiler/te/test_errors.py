"""Bad definitions are refused at the user's line, in words about what the user wrote."""

import re

import pytest

from compiler.errors import IRError, ScheduleError
from compiler.lower.blocks.check_bounds import AccessOutOfBounds
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.te.scan import scan
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import create_schedule

A = te.placeholder((4, 8), name="A")
B = te.placeholder((8,), "int32", name="B")
K, OTHER = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 4), "other")
PAIR = te.comm_reducer(lambda x, y: (x[0] + y[0],), lambda s, t: (te.const(0, s), te.const(0, t)), name="pair")


def element(function, shape=(4,)):
    return lambda: te.compute(shape, function, name="X")


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (element(lambda i: A[i, 0] + "x"), "in te.compute 'X': no arithmetic between float32 and handle"),
        (element(lambda i: A[i, 0, 0]), "tensor 'A' has 2 dimensions, indexed with 3"),
        (element(lambda i: A[i]), "tensor 'A' has 2 dimensions, indexed with 1"),
        (element(lambda i: A[i * 1.0, 0]), "index 0 of tensor 'A' must be an integer, got float32"),
        (element(lambda i: 1.0 if A[i, 0] > 0 else 2.0), "a symbolic expression has no truth value"),
        (
            element(lambda i: te.if_then_else(A[i, 0], 1.0, 2.0)),
            "if_then_else needs a condition of bool, got A[i, 0] of float32",
        ),
        (element(lambda i: B[i] / 2), "'/' on integers is ambiguous"),
        (element(lambda i: A + i), "in te.compute"),
        (element(lambda i: None), "the function returned nothing"),
        (element(lambda i, j: A[i, j]), "has 1 dimensions but its function takes 2 arguments"),
        (element(lambda i: 1, shape=(-4,)), "negative dimension -4"),
        (element(lambda i: te.sum(A[i, K], axis=[K, K])), "sum is given axis 'k' twice"),
        (element(lambda i: te.sum(A[i, K], axis=K, where=A[i, K])), "sum: where is float32, not a condition"),
        (element(lambda i: te.sum(A[i, K], axis=K, init=(1, 2))), "sum of 1 values got 2 initial values"),
        (element(lambda i: te.sum(A[i, K], axis=K) + 1), "a reduction inside another expression"),
        (element(lambda i: (te.sum(A[i, K], axis=K), A[i, 0])), "are not the same reduction"),
        (element(lambda i: PAIR((A[i, K], A[i, K]), axis=K)), "pair of 2 values returns 1 values and 2 units"),
        (element(lambda i: PAIR(A[i, K], axis=K)), "pair cannot reduce 1 values together"),
        (lambda: te.reduce_axis(5), "needs a domain"),
        (lambda: te.placeholder((4,), "float33"), "unknown dtype 'float33'"),
        (lambda: scan(A, A, A, name="cell"), "te.scan 'cell': its init 'A' is not made by te.compute"),
        (lambda: create_prim_func([A, te.compute((4,), lambda i: A[i, K], name="X")]), "uses the variable 'k'"),
        (
            lambda: create_prim_func([A, te.compute((4,), lambda i: te.sum(A[OTHER, K], axis=K), name="X")]),
            "'X' uses the variable 'other', which is none of its axes",
        ),
    ],
)
def test_a_bad_definition_names_the_line(define, message: str) -> None:
    with pytest.raises(IRError, match=re.escape(message)) as error:
        define()
    assert re.search(rf"\({re.escape(__file__)}:\d+\)", str(error.value))


def test_an_index_certain_to_leave_its_tensor_is_refused_at_its_line() -> None:
    wide = te.compute((4, 8), lambda i, j: A[i, j + 1], name="shifted")
    with pytest.raises(AccessOutOfBounds) as error:
        create_prim_func([A, wide])
    assert "index 1 of buffer 'A' in block 'shifted', v_j + 1, runs from 1 to 8, outside the buffer's 8" in str(
        error.value
    )
    line = test_an_index_certain_to_leave_its_tensor_is_refused_at_its_line.__code__.co_firstlineno + 1
    assert f"({__file__}:{line})" in str(error.value)


def test_loops_go_by_the_names_of_their_axes() -> None:
    a = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b.op)
    s[b].split(b.op.axis[0], 2)
    s[b].parallel(s[b].split(k, 4)[1])
    with pytest.raises(ScheduleError) as caught:
        schedule_to_func(s, [a, b])
    text = caught.value.message
    assert "stage 'B': parallel: loop 'k.inner' cannot be" in text
    assert [line.split(" in ")[0].strip() for line in text.splitlines() if " in " in line and "for" in line][-2:] == [
        "for k.outer",
        "for k.inner",
    ]
    assert "for i.outer in 4:" in text
    assert "k_1" not in text
