"""Loops split by a size that the function is called with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te

X = np.arange(64, dtype="float32")
n, m = te.var("n"), te.var("m")


def elementwise() -> tuple[Any, Any, Any]:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    return a, b, te.compute((n,), lambda i: b[i] * 2, name="C")


def value_of(schedule: Any, a: Any, c: Any, size: int, length: int = 64) -> Any:
    out = tvm.nd.empty((length,))
    tvm.build(schedule, [a, c, m], "llvm")(tvm.nd.array(X), out, size)
    return out.numpy()


@pytest.mark.parametrize("size", [1, 7, 64, 100])
@pytest.mark.parametrize("way", ["factor", "nparts"])
def test_every_element_is_computed(way: str, size: int) -> None:
    a, b, _ = elementwise()
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], **{way: m})
    s[b].parallel(outer)
    np.testing.assert_array_equal(value_of(s, a, b, size), X + 1)


def test_a_stage_is_computed_in_such_a_loop() -> None:
    a, b, c = elementwise()
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=m)
    s[b].compute_at(s[c], outer)
    np.testing.assert_array_equal(value_of(s, a, c, 5), (X + 1) * 2)


def test_the_size_is_an_expression_and_the_loops_are_fused() -> None:
    a, b, _ = elementwise()
    s = te.create_schedule(b.op)
    s[b].fuse(*s[b].split(b.op.axis[0], factor=m * 2 + 1))
    np.testing.assert_array_equal(value_of(s, a, b, 5), X + 1)


def test_a_known_extent_keeps_its_guard() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=m)
    np.testing.assert_array_equal(value_of(s, a, b, 5), X + 1)


def test_a_reduction() -> None:
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    total = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="total")
    s = te.create_schedule(total.op)
    s[total].split(k, factor=m)
    assert value_of(s, a, total, 5, length=1)[0] == X.sum()


def test_what_is_known_of_the_loops() -> None:
    _, b, _ = elementwise()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=m)
    bounds = te.schedule.InferBound(s)
    assert str(bounds[outer].extent) == "(n + m - 1) // m"
    assert bounds[inner].extent is m


@pytest.mark.parametrize("size", [0, -1, 1.5, te.var("f", "float32")])
def test_what_is_no_size(size: Any) -> None:
    _, b, _ = elementwise()
    s = te.create_schedule(b.op)
    with pytest.raises(ValueError, match="must be a positive integer"):
        s[b].split(b.op.axis[0], factor=size)
