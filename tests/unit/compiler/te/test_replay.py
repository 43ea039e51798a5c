"""Replaying te schedules: arguments, what reaches the loops, and errors that name the stage."""

import numpy as np
import pytest

from compiler.errors import IRError, ScheduleError
from compiler.interp import interpreter as interp
from compiler.ir.visit import walk
from compiler.te import operation as te
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n


def matmul(m: int = 16, n_: int = 16, k: int = 16) -> tuple[Schedule, Tensor, Tensor, Tensor]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n_), name="B")
    kk = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n_), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="C")
    return create_schedule(c.op), a, b, c


def chain() -> tuple[Schedule, Tensor, Tensor, Tensor]:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1, name="B")
    c = te.compute((10,), lambda i: b[i] * 2, name="C")
    return create_schedule(c.op), a, b, c


def loops(func: n.PrimFunc) -> list[tuple[str, str]]:
    return [(f.loop_var.name, f.kind.value) for f in walk(func.body) if isinstance(f, n.For)]


def blocks(func: n.PrimFunc) -> dict[str, n.Block]:
    return {b.name_hint: b for b in walk(func.body) if isinstance(b, n.Block)}


def test_loops_are_named_after_axes_and_marked() -> None:
    s, a, b, c = matmul()
    io, ii = s[c].split(c.op.axis[0], factor=4)
    s[c].parallel(io)
    s[c].unroll(ii)
    func = schedule_to_func(s, [a, b, c], name="f")
    assert func.attrs["global_symbol"] == "f"
    assert loops(func) == [("i_outer", "parallel"), ("i_inner", "unroll"), ("j", "serial"), ("k", "serial")]
    assert list(blocks(func)) == ["root", "C_init", "C_update"]


def test_marks_apply_to_init_and_update() -> None:
    s, a, b, c = matmul()
    (i, j), (k,) = c.op.axis, c.op.reduce_axis
    s[c].reorder(i, k, j)
    s[c].vectorize(j)
    s[c].pragma(j, "hint", 3)
    func = schedule_to_func(s, [a, b, c])
    marked = [f for f in walk(func.body) if isinstance(f, n.For) and f.annotations]
    assert loops(func) == [("i", "serial"), ("j", "vectorized"), ("k", "serial"), ("j", "vectorized")]
    assert [f.annotations for f in marked] == [{"pragma_hint": 3}] * 2


def test_an_unused_argument_and_a_part_of_the_schedule() -> None:
    s, a, b, _c = chain()
    spare = te.placeholder((3,), name="spare")
    func = schedule_to_func(s, [a, spare, b])
    assert [func.buffer_map[p].name for p in func.params] == ["A", "spare", "B"]
    assert list(blocks(func)) == ["root", "B"]


def test_tensors_from_before_a_rewrite_are_arguments() -> None:
    s, a, b, c = matmul()
    s.cache_read(a, "local", [c])
    s.cache_write(c, "local")
    func = schedule_to_func(s, [a, b, c])
    assert list(blocks(func)) == ["root", "A_local", "C_local_init", "C_local_update", "C"]
    assert {x.name: x.scope for x in blocks(func)["root"].alloc_buffers} == {"A_local": "local", "C_local": "local"}


def test_chosen_buffers_survive_a_rewrite() -> None:
    s, a, b, c = matmul()
    s.cache_write(c, "local")
    buffer = n.decl_buffer((16, 16), name="chosen")
    func = schedule_to_func(s, [a, b, c], binds={c: buffer})
    assert list(func.buffer_map.values())[2] is buffer


def test_symbolic_sizes() -> None:
    size = te.size_var("n")
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b.op)
    outer, _inner = s[b].split(b.op.axis[0], factor=4)
    s[b].parallel(outer)
    func = schedule_to_func(s, [a, b])
    for count in (1, 4, 11):
        x, y = np.arange(count, dtype="float32"), np.zeros(count, "float32")
        interp.run(func, x, y)
        np.testing.assert_array_equal(y, x + 1)


def test_a_loop_of_data_and_reduction_keeps_its_init_inside() -> None:
    s, a, b, c = matmul(3, 4, 5)
    (_i, j), (k,) = c.op.axis, c.op.reduce_axis
    s[c].fuse(j, k)
    func = schedule_to_func(s, [a, b, c])
    assert blocks(func)["C"].init is not None
    rng = np.random.default_rng(0)
    x, y = rng.random((3, 5), "float32"), rng.random((5, 4), "float32")
    out = np.zeros((3, 4), "float32")
    interp.run(func, x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5)


def test_a_loop_made_of_nothing() -> None:
    s, a, b, c = chain()
    s[b].compute_at(s[c], s[c].fuse())
    func = schedule_to_func(s, [a, c])
    assert loops(func) == [("singleton", "serial"), ("i", "serial"), ("i", "serial")]


def test_double_buffer_is_noted_on_the_block() -> None:
    s, a, b, c = chain()
    s[b].double_buffer()
    assert blocks(schedule_to_func(s, [a, c]))["B"].annotations == {"double_buffer_scope": 0}


# ----------------------------------------------------------------------------------- errors


def test_engine_errors_name_the_stage() -> None:
    s, a, b, c = matmul()
    s[c].parallel(c.op.reduce_axis[0])
    with pytest.raises(ScheduleError, match=r"stage 'C'.*'k' cannot be parallel"):
        schedule_to_func(s, [a, b, c])


def test_attaching_to_an_inlined_stage() -> None:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1, name="B")
    c = te.compute((10,), lambda i: b[i] * 2, name="C")
    d = te.compute((10,), lambda i: c[i] - 1, name="D")
    s = create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].compute_inline()
    with pytest.raises(ScheduleError, match=r"stage 'C' has no loops: it is inlined"):
        schedule_to_func(s, [a, d])


def test_attaching_to_a_producer() -> None:
    s, a, b, c = chain()
    s[c].is_output = False
    s[c].compute_at(s[b], b.op.axis[0])
    with pytest.raises(ScheduleError, match=r"stage 'B' does not use 'C'"):
        schedule_to_func(s, [a, c])


def test_a_mark_on_a_loop_split_afterwards() -> None:
    s, a, b, c = chain()
    s[c].vectorize(c.op.axis[0])
    s[c].split(c.op.axis[0], factor=2)
    with pytest.raises(ScheduleError, match="axis 'i' was given a kind and then split or fused away"):
        schedule_to_func(s, [a, c])
    assert b.name == "B"


def test_an_argument_that_is_computed_elsewhere() -> None:
    s, a, _b, c = chain()
    other = te.compute((10,), lambda i: a[i], name="other")
    with pytest.raises(ScheduleError, match="'other' is not part of this schedule"):
        schedule_to_func(s, [a, c, other])
    with pytest.raises(IRError, match="'A' is read but is not among the arguments"):
        schedule_to_func(s, [c])
