"""Where a stage's memory lives, when it stores, groups, intrinsics: what is recorded, and the mistakes refused."""

import re

import numpy as np
import pytest

from compiler.driver.build import lower
from compiler.errors import CompileError, IRError, ScheduleError
from compiler.interp import interpreter as interp
from compiler.te import operation as te
from compiler.te.operation import compute
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import create_schedule
from compiler.te.schedule.stage import ScheduleArgumentError
from compiler.te.tensor import placeholder
from compiler.te.tensor_intrin import decl_tensor_intrin
from compiler.tir import ir_builder
from compiler.tir.nodes import ForKind, IterType, decl_buffer
from tests.kit.compiler.schedules.te import matmul
from tests.kit.compiler.schedules.te_primitives import gemm, rows


def here(error: pytest.ExceptionInfo) -> bool:
    """Whether the message names a line of this file."""
    return re.search(rf"\({re.escape(__file__)}:\d+\)", str(error.value)) is not None


# ------------------------------------------------------------------------ what the leaves say


def test_the_attributes_of_leaves_tell_what_became_of_them() -> None:
    s, _a, _b, c = matmul()
    stage, other = s[c], create_schedule(c.op)[c]
    (i, j), (k,) = c.op.axis, c.op.reduce_axis
    io, ii = stage.split(i, factor=4)
    stage.parallel(io)
    stage.bind(ii, te.thread_axis("threadIdx.x"))
    stage.vectorize(j)
    shown = {v.var.name: (v.for_type, v.thread_tag, v.iter_type) for v in stage.leaf_iter_vars}
    assert shown == {
        "i.outer": (ForKind.PARALLEL, "", IterType.DATA_PAR),
        "i.inner": (ForKind.THREAD_BINDING, "threadIdx.x", IterType.DATA_PAR),
        "j": (ForKind.VECTORIZED, "", IterType.DATA_PAR),
        "k": (ForKind.SERIAL, "", IterType.COMM_REDUCE),
    }
    assert [v.dom is None for v in stage.leaf_iter_vars] == [True, True, False, False]
    assert (stage.leaf_iter_vars[2].dom.min.value, stage.leaf_iter_vars[2].dom.extent.value) == (0, 29)
    assert list(stage.leaf_var_map) == [io.var, ii.var, j.var, k.var]
    # the axis is the operation's: another schedule of it knows nothing of that
    assert [v.for_type for v in other.leaf_iter_vars] == [ForKind.SERIAL] * 3


def test_a_shown_leaf_is_the_axis_wherever_one_is_given() -> None:
    s, _a, _b, c = matmul()
    i, j = c.op.axis
    s[c].vectorize(j)
    shown = s[c].leaf_iter_vars[1]
    assert shown is not j
    assert shown == j
    assert {j: "found"}[shown] == "found"
    outer, inner = s[c].split(shown, factor=4)
    assert s[c].leaves[:3] == [i, outer, inner]
    assert s[c].relations[0].parent is j


def test_predicates_and_intrinsics_show_on_the_stage() -> None:
    s, _a, _b, c = matmul(12, 8, 10)
    assert (s[c].store_pred, s[c].compute_pred, s[c].is_specialized) == (None, None, False)
    _xo, _yo, xi, _yi = s[c].tile(*c.op.axis, 4, 4)
    s[c].tensorize(xi, gemm(4, 4, 10))
    predicate = c.op.axis[0].var < 4
    s[c].set_store_predicate(predicate)
    assert s[c].is_specialized
    assert s[c].store_pred is s[c].store_predicate is s[c].compute_pred is predicate


# ---------------------------------------------------------------------------------- storage


def test_store_at_keeps_memory_for_the_outer_loop() -> None:
    s, (a, b, c) = rows()
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], inner)
    assert "allocate([18]" in lower(s, [a, c], simple_mode=True).script()
    s[b].store_at(s[c], outer)
    assert (s[b].store_stage, s[b].store_ivar) == (s[c], outer)
    assert "allocate([144]" in lower(s, [a, c], simple_mode=True).script()


def test_store_at_must_be_around_every_use() -> None:
    s, (a, b, c) = rows()
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], outer)
    s[b].store_at(s[c], inner)
    rule = "stage 'B': store_at: block 'B', outside loop 'i.inner', uses 'B'"
    with pytest.raises(ScheduleError, match=rule) as error:
        schedule_to_func(s, [a, c])
    assert here(error)
    assert re.search(r"for i.inner in 8: +<--", str(error.value))


def test_an_output_owns_no_memory() -> None:
    s, (_a, _b, c) = rows()
    with pytest.raises(ScheduleError, match="store_at: stage 'C' is an output"):
        s[c].store_at(s[c], c.op.axis[0])
    with pytest.raises(ScheduleError, match="storage_align: stage 'C' is an output"):
        s[c].storage_align(c.op.axis[0], 8, 0)


@pytest.mark.parametrize(("factor", "offset"), [(0, 0), (8, 8), (8, -1), ("x", 0)])
def test_storage_align_refuses_what_is_no_alignment(factor: object, offset: int) -> None:
    s, (_a, b, _c) = rows()
    with pytest.raises((ScheduleArgumentError, IRError), match=r"storage_align|integer|str"):
        s[b].storage_align(b.op.axis[0], factor, offset)


def test_storage_align_takes_data_axes() -> None:
    s, _a, _b, c = matmul()
    cached = s.cache_write(c, "local")
    with pytest.raises(ScheduleError, match=r"axis 'k' is no data axis of stage 'C.local'") as error:
        s[cached].storage_align(s[cached].op.reduce_axis[0], 8, 0)
    assert error.value.hint == "its data axes are i.c, j.c"


def test_an_operation_of_several_outputs_is_not_inlined() -> None:
    a = te.placeholder((4,), name="A")
    low, high = te.compute((4,), lambda i: (a[i] - 1, a[i] + 1), name="B")
    c = te.compute((4,), lambda i: low[i] * high[i], name="C")
    s = create_schedule(c.op)
    with pytest.raises(ScheduleError, match="compute_inline: stage 'B' has 2 outputs"):
        s[low].compute_inline()


def test_a_stage_at_the_root_does_not_roll() -> None:
    s, (a, b, c) = rows()
    s[b].rolling_buffer()
    with pytest.raises(ScheduleError, match="stage 'B': rolling_buffer: ") as error:
        schedule_to_func(s, [a, c])
    assert "test_stage_more.py:" in error.value.message
    assert "compute_at" in error.value.hint


# ------------------------------------------------------------------------------ predicates


def test_a_predicate_is_a_condition_over_loops_that_are_there() -> None:
    s, (a, b, c) = rows()
    with pytest.raises(ScheduleError, match="the predicate is int32"):
        s[b].set_store_predicate(b.op.axis[0].var)
    s[b].set_store_predicate(te.thread_axis("threadIdx.x").var.equal(0))
    with pytest.raises(ScheduleError, match=r"speaks of 'threadIdx.x', over which no loop") as error:
        schedule_to_func(s, [a, c])
    assert here(error)


def test_one_thread_of_several_stores() -> None:
    s, (a, b, c) = rows()
    thread = te.thread_axis((0, 4), "threadIdx.x")
    s[b].env_threads(thread)
    s[b].set_store_predicate(thread.var.equal(3))
    func = schedule_to_func(s, [a, c])
    text = func.script()
    assert 'T.thread_binding(4, thread="threadIdx.x")' in text
    assert "T.where(threadIdx_x == 3)" in text
    x = np.random.default_rng(0).random((21, 18), dtype="float32")
    out = np.zeros_like(x)
    interp.run(func, x, out)
    np.testing.assert_allclose(out, (x + 1) * 2)


def test_a_predicate_speaks_of_threads_that_loops_are_bound_to() -> None:
    s, (a, b, c) = rows()
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(b.op.axis[0], thread)
    s[b].set_store_predicate(thread.var < 21)
    assert "T.where(i < 21)" in schedule_to_func(s, [a, c]).script()


def test_env_threads_need_domains_and_no_second_binding() -> None:
    s, (a, b, c) = rows()
    with pytest.raises(ScheduleError, match=r"env_threads: 'threadIdx.x' is no thread axis with a domain"):
        s[b].env_threads([te.thread_axis("threadIdx.x")])
    s[b].env_threads([te.thread_axis((0, 4), "threadIdx.x")])
    s[b].bind(b.op.axis[0], "threadIdx.x")
    with pytest.raises(ScheduleError, match=r"env_threads: a loop in it is bound to threadIdx.x already"):
        schedule_to_func(s, [a, c])
    s, (a, b, c) = rows()
    s[b].env_threads([te.thread_axis((0, 4), "threadIdx.x")])
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(ScheduleError, match="computed in the loops of another"):
        schedule_to_func(s, [a, c])


# -------------------------------------------------------------------------------- prefetch


def test_prefetch_refuses_what_is_not_read_and_negative_distances() -> None:
    s, (a, b, c) = rows()
    with pytest.raises(ValueError, match="at least 0, got -1"):
        s[c].prefetch(b, c.op.axis[0], -1)
    other = placeholder((5,), name="V")
    d = compute(c.shape, lambda i, j: c[i, j] + other[0], name="D")
    s = create_schedule(d.op)
    s[c].prefetch(other, c.op.axis[0], 1)
    with pytest.raises(ScheduleError, match="prefetch: nothing in loop 'i' reads 'V'") as error:
        schedule_to_func(s, [a, other, d])
    assert here(error)


def test_prefetch_of_what_is_written_soon() -> None:
    s, (a, b, c) = rows()
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].prefetch(c, b.op.axis[0], 0)
    text = schedule_to_func(s, [a, c]).script()
    assert "T.prefetch(C[i, p1 * 16], 1, 3, 1)" in text


def test_prefetch_fetches_a_line_once_and_nothing_outside() -> None:
    s, (a, b, c) = rows()
    s[c].prefetch(b, c.op.axis[0], 1)
    text = schedule_to_func(s, [a, c]).script()
    assert "for p1 in range(2):" in text  # 18 floats are two lines
    assert "T.prefetch(B[i_1 + 1, p1 * 16], 0, 3, 1)" in text
    assert "if i_1 + 1 < 21:" in text


# ---------------------------------------------------------------------------------- groups


def test_a_group_holds_what_lies_between() -> None:
    s, (_a, b, c, d) = rows(3)
    group = s.create_group(outputs=[c, d], inputs=[b])
    assert (s[b].group, s[c].group, s[d].group) == (None, group, group)
    inner = s.create_group(outputs=c, inputs=c, include_inputs=True)
    assert (s[c].group, inner.group, s[d].group) == (inner, group, group)
    assert s.groups == [group, inner]
    assert s[s.cache_write(c, "local")].group is inner


def test_groups_refuse_what_makes_no_sense() -> None:
    s, (a, b, c, _d) = rows(3)
    with pytest.raises(ScheduleError, match="nothing lies between"):
        s.create_group(outputs=b, inputs=c)
    group = s.create_group(outputs=b, inputs=a)
    with pytest.raises(ScheduleError, match="compute_inline: stage 'group0' is not made of loops"):
        group.compute_inline()
    with pytest.raises(ScheduleError, match="split: axis 'i' belongs to another stage"):
        group.split(b.op.axis[0], factor=2)
    other, _ = rows()
    with pytest.raises(ScheduleError, match="stage of its own schedule"):
        group.compute_at(other[other.stages[-1].op], c.op.axis[0])


# -------------------------------------------------------------------------------- tensorize


def test_an_intrinsic_must_fit_and_says_why_not() -> None:
    s, a, b, c = matmul(12, 8, 10)
    xo, yo, xi, yi = s[c].tile(*c.op.axis, 4, 4)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=5)
    s[c].reorder(xo, yo, ko, xi, yi, ki)
    for intrin, why in (
        (gemm(4, 4, 5, halves=False), "it has no reduce_update"),
        (gemm(4, 2, 5), "the loops run over 4 elements, its axis 'v_j' over 2"),
        (gemm(4, 4, 10), "the loops run over 5 elements, its axis 'v_k' over 10"),
    ):
        s[c].tensorize(xi, intrin)
        with pytest.raises(ScheduleError, match=f"stage 'C': tensorize: 'gemm' does not fit here: .*{why}") as error:
            schedule_to_func(s, [a, b, c])
        assert here(error)
        assert "<--" in str(error.value)
    s[c].tensorize(ki, gemm(4, 4, 5))
    with pytest.raises(ScheduleError, match="tensorize"):
        schedule_to_func(s, [a, b, c])


@pytest.mark.parametrize("given", [5, "dot", None])
def test_what_is_no_intrinsic_is_refused_at_once(given: object) -> None:
    s, (_a, b, _c) = rows()
    with pytest.raises(ValueError, match="needs an intrinsic made by te") as caught:
        s[b].tensorize(b.op.axis[1], given)
    assert repr(given) in str(caught.value)
    assert "test_stage_more.py:" in str(caught.value)


def test_a_tile_over_the_edge_is_not_tensorized() -> None:
    s, a, b, c = matmul(13, 8, 10)
    _xo, _yo, xi, _yi = s[c].tile(*c.op.axis, 4, 4)
    s[c].tensorize(xi, gemm(4, 4, 10))
    with pytest.raises(ScheduleError, match="the tile hangs over the edge") as error:
        schedule_to_func(s, [a, b, c])
    assert error.value.hint == "split by factors that divide the extents"


def test_another_computation_is_not_tensorized() -> None:
    a, b = te.placeholder((4, 5), name="A"), te.placeholder((6, 5), name="B")
    k = te.reduce_axis((0, 5), name="k")
    for body, why in (
        (lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), "'B' is read in another order than 'b'"),
        (lambda i, j: te.sum(a[i, k] + b[j, k], axis=k), "read in another order|computes something else"),
        (lambda i, j: te.max(a[i, k] * b[j, k], axis=k), "read in another order|computes something else"),
    ):
        c = te.compute((4, 6), body, name="C")
        s = create_schedule(c.op)
        s[c].tensorize(c.op.axis[0], gemm(4, 6, 5))
        with pytest.raises(ScheduleError, match=why):
            schedule_to_func(s, [a, b, c])


def test_declaring_an_intrinsic_checks_what_it_is_given() -> None:
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] + 1, name="b")
    with pytest.raises(IRError, match=r"must compute what a te.compute does, got PlaceholderOp") as error:
        decl_tensor_intrin(a.op, lambda ins, outs: None)
    assert here(error)
    with pytest.raises(IRError, match="must return a statement"):
        decl_tensor_intrin(b.op, lambda ins, outs: None)
    with pytest.raises(IRError, match="returned str, not a statement"):
        decl_tensor_intrin(b.op, lambda ins, outs: "nothing")
    wrong = ir_builder.create().get()
    with pytest.raises(IRError, match="does not fit tensor"):
        decl_tensor_intrin(b.op, lambda ins, outs: wrong, binds={a: decl_buffer((4,), "int8")})


# --------------------------------------------------------------------- errors at the user's line


def test_illegal_calls_name_the_line_and_show_the_loops() -> None:
    s, _a, _b, c = matmul(16, 16, 16)
    s[c].split(c.op.axis[0], factor=4)
    with pytest.raises(ScheduleError) as error:
        s[c].vectorize(c.op.axis[0])
    assert here(error)
    lines = error.value.message.splitlines()
    assert lines[1:] == [
        "    for i.outer in 4:",
        "      for i.inner in 4:",
        "        for j in 16:",
        "          for k in 16:",
        "            block C",
    ]
    with pytest.raises(ScheduleError, match=r"for k in 16:  *<--"):
        s[c].fuse(s[c].leaf_iter_vars[0], c.op.reduce_axis[0])


def test_an_illegal_step_found_when_lowering_names_the_line_that_asked() -> None:
    s, a, b, c = matmul(16, 16, 16)
    s[c].parallel(c.op.reduce_axis[0])
    line = test_an_illegal_step_found_when_lowering_names_the_line_that_asked.__code__.co_firstlineno + 2
    with pytest.raises(CompileError, match=r"stage 'C': parallel: .*reduction axis") as error:
        lower(s, [a, b, c])
    assert f"({__file__}:{line})" in str(error.value)
