"""te.scan: what it refuses, what a schedule may do with it, what its stage and operation hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.errors import IRError, ScheduleError
from compiler.lower.blocks.check_bounds import AccessOutOfBounds
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.te.scan import scan
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import Tensor
from compiler.tir.nodes import IterType
from tests.kit.compiler.schedules import te_scans

X = te.placeholder((6, 4), name="X")
STATE = te.placeholder((6, 4), name="state")
FIRST = te.compute((1, 4), lambda t, i: X[0, i], name="first")


def _step(fcompute: Callable[..., object], shape: tuple[int, ...] = (6, 4)) -> Tensor:
    step = te.compute(shape, fcompute, name="step")
    assert isinstance(step, Tensor)
    return step


STEP = _step(lambda t, i: STATE[t - 1, i] + X[t, i])


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: scan(X, STEP, STATE), "its init 'X' is not made by te.compute"),
        (lambda: scan(FIRST, STEP, STEP), "its state 'step' is no te.placeholder"),
        (lambda: scan(FIRST, [STEP, STEP], [STATE, STATE]), "1 inits, 2 updates, 2 states"),
        (lambda: scan([FIRST, FIRST], [STEP, STEP], [STATE, STATE]), "an init, an update and a placeholder of its own"),
        (lambda: scan(FIRST, _step(lambda t, i: STATE[t - 1, i], (5, 4)), STATE), "its update has shape (5, 4)"),
        (lambda: scan(FIRST, _step(lambda t, i: STATE[t - 1, i] > 0), STATE), "its update is bool, its state float32"),
        (lambda: scan(FIRST, _step(lambda t, i: STATE[t, i]), STATE), "its update 'step' reads row t of 'state'"),
        (lambda: scan(_step(lambda t, i: STATE[t, i], (1, 4)), STEP, STATE), "reads the state it is to begin"),
        (lambda: scan(FIRST, 1.0, STATE), "takes tensors, got float"),
    ],
)
def test_recurrences_that_are_refused(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(IRError, match=r"te\.scan 'scan'") as refused:
        make()
    assert rule in str(refused.value)
    assert "test_scan.py" in str(refused.value)


def test_a_row_before_the_first_is_out_of_bounds() -> None:
    sums = scan(FIRST, _step(lambda t, i: STATE[t - 2, i]), STATE)
    with pytest.raises(AccessOutOfBounds, match=r"index 0 of buffer 'scan' in block 'step'"):
        create_prim_func([X, sums])


def test_what_is_inside_a_scan_is_read_through_its_result() -> None:
    sums = scan(FIRST, STEP, STATE)
    peeked = te.compute((6, 4), lambda i, j: STEP[i, j] + sums[i, j], name="peeked")
    with pytest.raises(IRError, match=r"'peeked' reads 'step', which is computed row by row inside te.scan 'scan'"):
        create_prim_func([X, peeked])
    with pytest.raises(IRError, match=r"tensor 'state' is a part of te.scan 'scan' and no argument"):
        create_prim_func([X, STATE, sums])


def _loop(made: dict[str, Tensor]) -> object:
    return made["sums"].op.axis[0]


@pytest.mark.parametrize(
    ("steps", "primitive"),
    [
        (lambda s, made: s[made["sums"]].parallel(_loop(made)), "parallel"),
        (lambda s, made: s[made["sums"]].split(_loop(made), 2), "split"),
        (lambda s, made: s[made["sums"]].vectorize(made["sums"].op.spatial_axis_[0]), "vectorize"),
        (lambda s, made: s[made["sums"]].set_scope("local"), "set_scope"),
        (lambda s, made: s[made["update"]].set_scope("local"), "set_scope"),
        (lambda s, made: s[made["update"]].compute_inline(), "compute_inline"),
        (lambda s, made: s[made["init"]].compute_at(s[made["sums"]], _loop(made)), "compute_at"),
        (lambda s, made: s[made["update"]].double_buffer(), "double_buffer"),
    ],
)
def test_the_rows_keep_their_order_and_their_place(
    steps: Callable[[Schedule, dict[str, Tensor]], None], primitive: str
) -> None:
    made = te_scans.running_sums()
    schedule = create_schedule(made["sums"].op)

    def carry_out() -> None:
        steps(schedule, made)
        schedule_to_func(schedule, [made["x"], made["sums"]])

    with pytest.raises(ScheduleError, match=primitive):
        carry_out()


def test_the_stage_has_the_loop_over_the_rows() -> None:
    made = te_scans.running_sums(9, 13)
    op = made["sums"].op
    stage = create_schedule(op)[op]
    assert [axis.var.name for axis in stage.leaf_iter_vars] == ["sums.idx"]
    assert stage.leaf_iter_vars[0].iter_type is IterType.ORDERED
    assert [str(axis.dom.extent) for axis in op.spatial_axis_] == ["13"]
    assert stage.all_iter_vars == [op.scan_axis, *op.spatial_axis_]
    assert list(op.input_tensors) == [made["init"], made["update"]]


def test_a_cached_update_is_the_scans_update() -> None:
    made = te_scans.running_sums()
    schedule = create_schedule(made["sums"].op)
    cache = schedule.cache_write(made["update"], "local")
    schedule[cache].compute_at(schedule[made["update"]], schedule[made["update"]].op.axis[1])
    text = schedule_to_func(schedule, [made["x"], made["sums"]]).script()
    assert "update_local" in text
    assert 'scope="local"' in text
