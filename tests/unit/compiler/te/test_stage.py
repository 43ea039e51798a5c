"""A stage's records, and the mistakes it refuses at once."""

import pytest

from compiler.errors import ScheduleError
from compiler.te import operation as te
from compiler.te.schedule.relations import AttachType, Fuse, Split
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.schedule.stage import ScheduleArgumentError
from compiler.te.tensor import Tensor
from compiler.tir.nodes import IterType


def matmul(m: int = 16, n: int = 16, k: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    kk = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="C")
    return a, b, c


def names(axes) -> list[str]:
    return [axis.var.name for axis in axes]


def chain() -> tuple[Tensor, Tensor, Tensor, Schedule]:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    return a, b, c, create_schedule(c.op)


def test_a_new_schedule_has_a_stage_for_every_operation() -> None:
    a, b, c = matmul()
    s = create_schedule([c.op])
    assert [stage.op for stage in s.stages] == [a.op, b.op, c.op]
    assert s.outputs == (c.op,)
    stage = s[c]
    assert s[c.op] is stage
    assert (stage.op, stage.origin_op) == (c.op, c.op)
    assert stage.leaf_iter_vars == [*c.op.axis, *c.op.reduce_axis] == stage.all_iter_vars
    assert (stage.attach_type, stage.attach_stage, stage.attach_ivar) == (AttachType.GROUP_ROOT, None, None)
    assert (stage.is_output, stage.scope, stage.group, stage.store_predicate) == (True, "", None, None)
    assert not s[a].is_output
    assert len(stage.iter_var_attrs) == len(stage.relations) == 0


def test_create_schedule_takes_operations_and_tensors() -> None:
    _, _, c = matmul()
    assert create_schedule(c).outputs == create_schedule([c.op]).outputs == (c.op,)
    with pytest.raises(ScheduleError, match="takes operations, got int"):
        create_schedule([3])


def test_split_names_types_and_relation() -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    i, _j = c.op.axis
    (k,) = c.op.reduce_axis
    outer, inner = stage.split(i, factor=4)
    ko, _ki = stage.split(k, nparts=3)
    assert names((outer, inner)) == ["i.outer", "i.inner"]
    assert outer.dom is None
    assert inner.dom is None
    assert ko.iter_type is IterType.COMM_REDUCE
    assert names(stage.leaf_iter_vars) == ["i.outer", "i.inner", "j", "k.outer", "k.inner"]
    assert names(stage.all_iter_vars) == ["i", "j", "k", "i.outer", "i.inner", "k.outer", "k.inner"]
    first, second = stage.relations
    assert isinstance(first, Split)
    assert (first.parent, first.factor.value, first.nparts) == (i, 4, None)
    assert (second.factor, second.nparts.value) == (None, 3)


def test_tile_and_fuse() -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    xo, yo, xi, yi = stage.tile(*c.op.axis, 4, 8)
    assert stage.leaf_iter_vars == [xo, yo, xi, yi, *c.op.reduce_axis]
    fused = stage.fuse(xi, yi)
    assert fused.var.name == "i.inner.j.inner.fused"
    assert stage.leaf_iter_vars == [xo, yo, fused, *c.op.reduce_axis]
    assert isinstance(stage.relations[-1], Fuse)
    with_k = stage.fuse(fused, c.op.reduce_axis[0])
    assert with_k.iter_type is IterType.COMM_REDUCE


def test_fuse_of_three_and_of_none() -> None:
    a = te.placeholder((2, 3, 4), name="A")
    b = te.compute((2, 3, 4), lambda i, j, k: a[i, j, k], name="B")
    stage = create_schedule(b.op)[b]
    assert stage.fuse(*b.op.axis).var.name == "i.j.fused.k.fused"
    single = stage.fuse()
    assert stage.leaf_iter_vars[0] is single


def test_reorder_keeps_the_places() -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    (i, j), (k,) = c.op.axis, c.op.reduce_axis
    stage.reorder(k, i)
    assert stage.leaf_iter_vars == [k, j, i]
    stage.reorder()
    stage.reorder(j)
    assert stage.leaf_iter_vars == [k, j, i]


def test_what_loops_become_is_recorded() -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    i, j = c.op.axis
    io, ii = stage.split(i, 4)
    stage.parallel(io)
    stage.unroll(ii)
    stage.vectorize(j)
    stage.pragma(ii, "unroll_explicit", 1)
    stage.bind(c.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    kinds = {axis.var.name: attr.iter_type for axis, attr in stage.iter_var_attrs.items()}
    assert kinds == {
        "i.outer": IterType.PARALLELIZED,
        "i.inner": IterType.UNROLLED,
        "j": IterType.VECTORIZED,
        "k": IterType.DATA_PAR,
    }
    assert stage.iter_var_attrs[ii].pragma_keys[0].value == "unroll_explicit"
    assert stage.iter_var_attrs[c.op.reduce_axis[0]].bind_thread.thread_tag == "threadIdx.x"


def test_attaching() -> None:
    _a, b, c, s = chain()
    s[b].compute_at(s[c], c.op.axis[0])
    assert s[b].attach_type is AttachType.SCOPE
    assert (s[b].attach_stage, s[b].attach_ivar) == (s[c], c.op.axis[0])
    s[b].compute_inline()
    assert (s[b].attach_type, s[b].attach_stage) == (AttachType.INLINE, None)
    s[b].compute_root()
    assert s[b].attach_type is AttachType.GROUP_ROOT


def test_cache_read_rewrites_readers_and_what_reads_them() -> None:
    a, b, c, s = chain()
    a_local = s.cache_read(a, "local", [b])
    assert a_local.name == "A.local"
    assert s[a_local].scope == "local"
    assert [stage.name for stage in s.stages] == ["A", "A.local", "B", "C"]
    assert s[b].op.input_tensors == (a_local,)
    assert s[b].origin_op is b.op
    assert s[b].op is not b.op
    assert s[c].op.input_tensors == (s.current(b),)
    assert s[c].op.axis == c.op.axis
    assert s.outputs == (s[c].op,)


def test_cache_write_moves_the_computation() -> None:
    _a, _b, c = matmul()
    s = create_schedule(c.op)
    cached = s.cache_write(c, "local")
    assert cached.name == "C.local"
    assert [stage.name for stage in s.stages] == ["A", "B", "C.local", "C"]
    assert names(cached.op.axis) == ["i.c", "j.c"]
    assert cached.op.reduce_axis == c.op.reduce_axis
    assert s[c].op.reduce_axis == ()
    assert s[c].op.axis == c.op.axis
    assert s[c].leaf_iter_vars == list(c.op.axis)
    assert s[c].op.input_tensors == (cached,)
    assert s[c].is_output
    assert not s[cached].is_output


def test_caches_on_the_stage() -> None:
    a, _b, c = matmul()
    s = create_schedule(c.op)
    a_shared = s[c].cache_read(a, "shared")
    assert s[c].op.input_tensors[0] is a_shared
    cached = s[c].cache_write("local")
    assert s[cached].scope == "local"
    assert a_shared in s[cached].op.input_tensors


def test_cache_after_cache_keeps_names_current() -> None:
    a, b, c = matmul()
    s = create_schedule(c.op)
    cached = s.cache_write(c, "global")
    s.cache_read(a, "global", [cached])
    assert [t.name for t in s[cached].op.input_tensors] == ["A.global", "B"]
    assert s[c].op.input_tensors == (s.current(cached),)
    assert s[b].op is b.op


def test_rfactor_makes_two_reductions() -> None:
    a = te.placeholder((8, 20), name="A")
    k = te.reduce_axis((0, 20), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b.op)
    _ko, ki = s[b].split(k, factor=6)
    partial = s.rfactor(b, ki)
    assert partial.name == "B.rf"
    assert names(partial.op.axis) == ["k.inner", "i"]
    assert names(partial.op.reduce_axis) == ["k.outer"]
    assert names(s[b].op.reduce_axis) == ["k.inner.v"]
    assert s[b].leaf_iter_vars == [*b.op.axis, *s[b].op.reduce_axis]


# ----------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("arguments", [{}, {"factor": 2, "nparts": 2}, {"factor": 0}, {"nparts": 1.5}])
def test_split_takes_exactly_one_positive_part(arguments: dict[str, float]) -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    with pytest.raises(ValueError, match="split"):
        stage.split(c.op.axis[0], **arguments)
    with pytest.raises(ScheduleArgumentError):
        stage.split(c.op.axis[0], **arguments)
    assert stage.relations == []


def test_an_axis_that_is_no_leaf_is_named_with_the_leaves() -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    i, j = c.op.axis
    stage.split(i, factor=4)
    for call in (
        lambda: stage.split(i, factor=2),
        lambda: stage.fuse(i, j),
        lambda: stage.reorder(j, i),
        lambda: stage.vectorize(i),
        lambda: stage.parallel(i),
        lambda: stage.unroll(i),
        lambda: stage.pragma(i, "x"),
        lambda: stage.bind(i, "threadIdx.x"),
    ):
        with pytest.raises(ScheduleError, match=r"'i' is no longer a loop.*stage 'C'") as error:
            call()
        assert "i.outer, i.inner, j, k" in error.value.hint


def test_an_axis_of_another_stage_is_refused() -> None:
    _a, b, c, s = chain()
    with pytest.raises(ScheduleError, match="belongs to another stage"):
        s[c].split(b.op.axis[0], factor=2)
    with pytest.raises(ScheduleError, match="belongs to another stage"):
        s[b].compute_at(s[c], b.op.axis[0])


def test_a_repeated_axis_is_refused() -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    i, j = c.op.axis
    with pytest.raises(ScheduleError, match="reorder: axis 'i' of stage 'C' is given twice"):
        stage.reorder(i, j, i)
    with pytest.raises(ScheduleError, match="fuse"):
        stage.fuse(i, i)


def test_fusing_loops_that_are_not_adjacent_is_refused() -> None:
    _, _, c = matmul()
    stage = create_schedule(c.op)[c]
    with pytest.raises(ScheduleError, match="not right inside"):
        stage.fuse(c.op.axis[0], c.op.reduce_axis[0])


def test_illegal_places_are_refused() -> None:
    a, _b, c = matmul()
    s = create_schedule(c.op)
    with pytest.raises(ScheduleError, match="'C' is a reduction"):
        s[c].compute_inline()
    with pytest.raises(ScheduleError, match="'A' is an input"):
        s[a].compute_inline()
    with pytest.raises(ScheduleError, match="computed at itself"):
        s[c].compute_at(s[c], c.op.axis[0])
    _a, _b, last, s = chain()
    with pytest.raises(ScheduleError, match="is an output"):
        s[last].compute_inline()


def test_caches_refuse_what_makes_no_sense() -> None:
    a, _b, c, s = chain()
    with pytest.raises(ScheduleError, match="'C' does not read 'A'"):
        s.cache_read(a, "local", [c])
    with pytest.raises(ScheduleError, match="'A' is an input"):
        s.cache_write(a, "local")


def test_a_tensor_of_another_computation_is_refused() -> None:
    _, _, c = matmul()
    other = te.placeholder((3,), name="other")
    with pytest.raises(ScheduleError, match="'other' is not part of this schedule") as error:
        create_schedule(c.op)[other]
    assert "A, B, C" in error.value.hint


def test_rfactor_refuses_data_axes() -> None:
    _, _, c = matmul()
    s = create_schedule(c.op)
    with pytest.raises(ScheduleError, match="'i' of stage 'C' is not reduced over"):
        s.rfactor(c, c.op.axis[0])
    s[c].reorder(c.op.reduce_axis[0], c.op.axis[1])
    fused = s[c].fuse(c.op.reduce_axis[0], c.op.axis[1])
    with pytest.raises(ScheduleError, match="runs over data and over a reduction"):
        s.rfactor(c, fused)
    with pytest.raises(ScheduleError, match="runs over data and over a reduction"):
        s.cache_write(c, "local")
