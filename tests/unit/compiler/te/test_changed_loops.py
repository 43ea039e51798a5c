"""Stages whose loops were changed before a cache, a group, another stage or a factor comes to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ScheduleError
from compiler.faces.te_schedule import CreateAttachPath, CreateReadGraph, InferBound, PostDFSOrder
from compiler.interp import interpreter as interp
from compiler.te import operation as te
from compiler.te.extern import extern
from compiler.te.operation import compute
from compiler.te.reduction import reduce_axis, sum
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import create_schedule
from compiler.te.tensor import placeholder
from compiler.te.tensor_intrin import decl_tensor_intrin
from compiler.tir import ops
from compiler.tir.intrin.intrin import call_packed


def run(schedule, args, *arrays) -> None:
    interp.run(schedule_to_func(schedule, args), *arrays)


@given(st.integers(1, 13), st.integers(1, 13), st.integers(1, 6), st.integers(1, 6), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_cache_has_the_loops_of_a_stage_as_dimensions(rows, cols, tile, part, swap, fuse) -> None:
    a = placeholder((rows, cols), name="A")
    k = reduce_axis((0, cols), "k")
    b = compute((rows, cols), lambda i, j: a[i, j] * 2, name="B")
    c = compute((rows,), lambda i: sum(b[i, k], axis=k), name="C")
    s = create_schedule(c.op)
    xo, yo, xi, yi = s[b].tile(*b.op.axis, tile, part)
    if swap:
        s[b].reorder(yo, xo, yi, xi)
    if fuse:
        s[b].fuse(*((yo, xo) if swap else (xo, yo)))
    cached = s.cache_write(b, "global")
    s[cached].compute_at(s[b], b.op.axis[0])
    s[c].split(c.op.axis[0], factor=tile)
    total = s.cache_write(c, "global")
    assert len(total.shape) == 2
    x, y = np.random.default_rng(0).standard_normal((rows, cols), "float32"), np.zeros(rows, "float32")
    run(s, [a, c], x, y)
    np.testing.assert_allclose(y, 2 * x.sum(1), rtol=1e-4, atol=1e-5)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.booleans())
@settings(max_examples=15, deadline=None)
def test_a_stage_stays_attached_where_its_loop_went(rows, cols, factor, fuse) -> None:
    a = placeholder((rows, cols), name="A")
    b = compute((rows, cols), lambda i, j: a[i, j] + 1, name="B")
    c = compute((rows, cols), lambda i, j: b[i, j] * 3, name="C")
    s = create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    outer, inner = s[c].split(c.op.axis[0], factor=factor)
    loop = s[c].fuse(outer, inner) if fuse else inner
    assert s[c].loop_made_of(c.op.axis[0]) is loop
    assert CreateAttachPath(s)[b.op][0] is loop
    assert InferBound(s)[b.op.axis[0]].extent.value == 1
    x, y = np.random.default_rng(1).standard_normal((rows, cols), "float32"), np.zeros((rows, cols), "float32")
    run(s, [a, c], x, y)
    np.testing.assert_allclose(y, (x + 1) * 3, rtol=1e-5)


def test_rfactor_keeps_the_axes_that_a_program_holds() -> None:
    n = te.size_var("n")
    k1, k2 = reduce_axis((0, n), "k1"), reduce_axis((0, n), "k2")
    a = placeholder((n, n, n), name="A")
    b = compute((n,), lambda i: sum(a[i, k1, k2], axis=[k1, k2]), name="B")
    s = create_schedule(b.op)
    ko, ki = s[b].split(k1, factor=4)
    s[b].split(b.op.axis[0], factor=8)
    partial = s.rfactor(b, ki)
    assert partial.op.reduce_axis[0] is k2
    assert partial.op.reduce_axis[1].var is ko.var
    x, y = np.random.default_rng(2).standard_normal((6, 6, 6), "float32"), np.zeros(6, "float32")
    run(s, [a, b, n], x, y, 6)
    np.testing.assert_allclose(y, x.sum((1, 2)), rtol=1e-4, atol=1e-5)


def test_groups_hold_groups_and_stages_that_are_in_one() -> None:
    a = placeholder((8, 8), name="A")
    b = compute((8, 8), lambda i, j: a[i, j] + 1, name="B")
    c = compute((8, 8), lambda i, j: b[i, j] + 1, name="C")
    d = compute((8, 8), lambda i, j: c[i, j] + 1, name="D")
    s = create_schedule(d.op)
    first = s.create_group(outputs=b, inputs=b, include_inputs=True)
    around = s.create_group(outputs=c, inputs=b, include_inputs=True)
    assert (s[b].group, s[c].group, first.group, around.group) == (first, around, around, None)
    around.compute_at(s[d], d.op.axis[0])
    ranges = InferBound(s)
    assert [ranges[t.op.axis[0]].extent.value for t in (b, c, d)] == [1, 1, 8]
    x, y = np.ones((8, 8), "float32"), np.zeros((8, 8), "float32")
    run(s, [a, d], x, y)
    np.testing.assert_array_equal(y, x + 3)


def test_the_graph_of_a_schedule() -> None:
    a = placeholder((4,), name="A")
    b = compute((4,), lambda i: a[i] + 1, name="B")
    c = compute((4,), lambda i: b[i] * b[i], name="C")
    graph = CreateReadGraph([c.op])
    assert graph[c.op] == [b]
    assert graph[b.op] == [a]
    assert PostDFSOrder([c.op], graph) == [a.op, b.op, c.op]


def test_an_intrinsic_takes_scalars_and_options_of_its_buffers() -> None:
    x, v, w = placeholder((16,), name="x"), te.size_var("v"), te.size_var("w")
    z = compute((16,), lambda i: x[i] * v + w, name="z")
    seen = []

    def make(ins, outs, scalars):
        seen.extend(scalars)
        return call_packed("f", ins[0].data, outs[0].data, *scalars)

    options = {"offset_factor": 1, "scope": "shared"}
    found = decl_tensor_intrin(z.op, make, scalar_params=[v, w], default_buffer_params=options)
    assert found.scalar_params == tuple(seen) == (v, w)
    assert [buffer.scope for buffer in found.buffers] == ["shared", "shared"]


def test_a_reduction_is_not_vectorized_and_an_unknown_extent_may_be_promised() -> None:
    n = te.size_var("n")
    a = placeholder((n,), name="A")
    k = reduce_axis((0, n), "k")
    total = compute((1,), lambda _: sum(a[k], axis=k), name="T")
    s = create_schedule(total.op)
    with pytest.raises(ScheduleError, match="'k' is reduced over"):
        s[total].vectorize(k)
    b = compute((n,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=4, disable_predication=True)
    func = schedule_to_func(s, [a, b, n])
    assert "T.where" not in func.script()


def test_an_extern_may_hand_its_inputs_to_a_function() -> None:
    a = placeholder((8,), name="A")
    b = compute((8,), lambda i: a[i] * 10, name="B")

    def make(ins, outs):
        return call_packed("add", ins[0].data, outs[0].data, outs[1].data, ops.const(8))

    made = extern([a.shape, a.shape], [a, b], make)
    assert [t.value_index for t in made] == [0, 1]
