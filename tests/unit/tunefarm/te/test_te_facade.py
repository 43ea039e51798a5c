"""Programs for TVM rely on the shape of what `te` returns."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te

A = te.placeholder((4,), name="A")


@pytest.mark.parametrize("several", [lambda i: (A[i], A[i] + 1.0), lambda i: [A[i], A[i] + 1.0]])
def test_several_results_are_a_tuple(several: object) -> None:
    made = te.compute((4,), several, name="C")
    assert isinstance(made, tuple)
    assert [tensor.value_index for tensor in made] == [0, 1]


def test_one_result_in_a_list_is_a_tensor() -> None:
    assert te.compute((4,), lambda i: [A[i]], name="C").shape[0] == 4


def test_a_sum_over_no_axis_is_the_value() -> None:
    C = te.compute((4,), lambda i: te.sum(A[i], axis=[]), name="C")
    assert isinstance(C.op.body[0], te.Reduce)
    out = tvm.nd.array(np.zeros(4, "float32"))
    for made in (tvm.build(te.create_schedule(C.op), [A, C], "llvm"), tvm.build(te.create_prim_func([A, C]))):
        made(tvm.nd.array(np.arange(4, dtype="float32")), out)
        np.testing.assert_array_equal(out.numpy(), np.arange(4))


def test_the_sizes_of_a_split_are_constants() -> None:
    C = te.compute((4,), lambda i: A[i], name="C")
    stage = te.create_schedule(C.op)[C]
    _, inner = stage.split(C.op.axis[0], factor=2)
    stage.split(inner, nparts=2)
    first, second = stage.relations
    assert (first.factor.value, first.nparts) == (2, None)
    assert (second.factor, second.nparts.value) == (None, 2)


def test_layout_free_placeholders_become_layout_free_buffers() -> None:
    W = te.placeholder((4,), name="W")
    C = te.compute((4,), lambda i: A[i] * W[i], name="C", attrs={"layout_free_placeholders": [W]})
    assert list(te.create_prim_func([A, W, C]).attrs["layout_free_buffers"]) == [1]
    D = te.compute((4,), lambda i: A[i] * W[i], name="D")
    assert "layout_free_buffers" not in te.create_prim_func([A, W, D]).attrs
