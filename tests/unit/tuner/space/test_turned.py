"""Sketches of functions that turn dimensions around: every point computes the right thing, tiles are drafted well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.cpu.turned import turn_of
from tuner.space.generate import generate

TARGET = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=2")
HOST = Target("llvm -num-cores=2").resolved()
Array = np.ndarray[Any, Any]


def function(shape: tuple[int, ...], make: Callable[..., Any], dtype: str = "float32") -> PrimFunc:
    x = placeholder(shape, dtype, name="X")
    return create_prim_func([x, make(x)])


CASES = {
    "matrix": ((96, 80), topi.transpose, lambda a: a.T),
    "matrix with edges": ((67, 45), topi.transpose, lambda a: a.T),
    "channels last": ((2, 24, 9, 11), lambda x: topi.transpose(x, (0, 2, 3, 1)), lambda a: a.transpose(0, 2, 3, 1)),
    "channels first": ((2, 9, 30, 24), lambda x: topi.transpose(x, (0, 3, 1, 2)), lambda a: a.transpose(0, 3, 1, 2)),
    "turned and doubled": ((64, 48), lambda x: topi.multiply(topi.transpose(x), topi.full((64,), "float32", 2.0)),
                           lambda a: a.T * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_sketch_agrees_with_numpy(name: str) -> None:
    shape, make, reference = CASES[name]
    func = function(shape, make)
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape).astype("float32")
    found = generate(func, HOST)
    assert [sketch.name for sketch in found] == ["turned", "plain"]
    for sketch in found:
        for _ in range(3):
            point = random_point(sketch, rng)
            scheduled = at_point(func, sketch, point)
            module = load_artifact(compile_artifact(scheduled, HOST, name="main"))
            out = empty(reference(a).shape, "float32")
            module["main"](array(a), out)
            np.testing.assert_array_equal(out.numpy(), reference(a), err_msg=f"{sketch.values(point)}")
            assert 0 <= sketch.score(point) <= 1


@pytest.mark.parametrize(
    ("shape", "make"),
    [
        ((64, 64), lambda x: topi.add(x, x)),
        ((8, 64, 12, 64), lambda x: topi.transpose(x, (0, 2, 1, 3))),  # rows stay whole
        ((64, 3), topi.transpose),  # too few to make vectors of
        ((64, 64), lambda x: topi.sum(topi.transpose(x), 1)),
    ],
)
def test_other_functions_have_no_such_sketch(shape: tuple[int, ...], make: Any) -> None:
    assert "turned" not in [sketch.name for sketch in generate(function(shape, make), TARGET)]


def test_tiles_read_whole_lines() -> None:
    func = function((1024, 1024), topi.transpose)
    turn = turn_of(func)
    assert turn is not None
    assert (turn.read.position, turn.written.position) == (0, 1)
    sketch = generate(func, TARGET)[0]
    rows, columns = sketch.decisions
    assert rows.values == (4, 8, 16, 32)
    assert columns.values == (8, 16, 32)
    best = max(np.ndindex(4, 3), key=sketch.score)
    assert sketch.values(best) == {"rows": 16, "columns": 8}
    edges = generate(function((40, 33), topi.transpose), TARGET)[0]
    assert edges.decisions[0].values == (4, 8, 16)  # the second tile of 32 would hold one row
    assert generate(function((40, 20), topi.transpose), TARGET)[0].decisions[0].values == (4, 8)  # 16 + 4 of 16


def test_rows_that_data_chooses_are_copied_in_plain_loops() -> None:
    table, places = placeholder((500, 64), name="X"), placeholder((40, 7), "int64", name="I")
    func = create_prim_func([table, places, topi.take(table, places, 0)])
    [sketch] = generate(func, HOST)
    scheduled = at_point(func, sketch, ())
    assert "T.parallel" in scheduled.script()
    assert "T.vectorized" not in scheduled.script()  # lane by lane, a vector would be gathered
    module = load_artifact(compile_artifact(scheduled, HOST, name="main"))
    rng = np.random.default_rng(0)
    a, i = rng.standard_normal((500, 64)).astype("float32"), rng.integers(0, 500, (40, 7))
    out = empty((40, 7, 64), "float32")
    module["main"](array(a), array(i), out)
    np.testing.assert_array_equal(out.numpy(), a[i])
