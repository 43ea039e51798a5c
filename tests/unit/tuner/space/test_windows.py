"""Windows that move along memory, as those of pooling: neighbouring results are a vector."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate
from tuner.space.sketch import Sketch

WIDE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=2")
HERE = Target("llvm -num-cores=2").resolved()


def pooled(channels: int, rows: int, columns: int, window: int, step: int, pad: int = 0, kind: str = "max") -> PrimFunc:
    x = placeholder((1, channels, rows, columns), name="x")
    out = topi.nn.pool2d(x, (window, window), (step, step), (1, 1), (pad, pad, pad, pad), kind)
    return create_prim_func([x, out])


def computed(func: PrimFunc, data: np.ndarray) -> np.ndarray:
    shape = [int(size) for size in func.buffer_map[func.params[-1]].shape]
    held = [array(data), array(np.zeros(shape, "float32"))]
    load_artifact(compile_artifact(func, HERE, name="main"))["main"](*held)
    return held[-1].numpy()


def largest(data: np.ndarray, window: int, step: int, pad: int) -> np.ndarray:
    padded = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(2, 3))
    return windows[:, :, ::step, ::step].max(axis=(4, 5))


def at(func: PrimFunc, sketch: Sketch, seed: int) -> PrimFunc:
    point = random_point(sketch, np.random.default_rng(seed))
    return at_point(func, sketch, point)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_results_beside_each_other_are_a_vector(kind: str) -> None:
    func = pooled(6, 23, 23, 3, 2, kind=kind)
    sketches = generate(func, WIDE)
    assert {"vectors", "rows"} <= {d.name for d in sketches[0].decisions}
    assert all("abreast" not in {d.name for d in sketch.decisions} for sketch in sketches)


def test_the_sum_of_a_whole_image_is_a_row() -> None:
    x = placeholder((1, 64, 28, 28), name="x")
    whole = create_prim_func([x, topi.sum(x, axis=(2, 3))])
    assert [sketch.name for sketch in generate(whole, WIDE)] == ["rows"]


@settings(max_examples=4, deadline=None)
@given(
    st.integers(1, 5), st.integers(5, 30), st.integers(5, 70), st.integers(2, 3), st.integers(1, 2), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_pooling_by_any_schedule_is_what_numpy_computes(channels, rows, columns, window, step, padded, seed) -> None:
    pad = int(padded)
    func = pooled(channels, rows, columns, window, step, pad)
    data = np.random.default_rng(seed).standard_normal((1, channels, rows, columns)).astype("float32")
    sketches = generate(func, WIDE)
    sketch = sketches[seed % len(sketches)]
    np.testing.assert_array_equal(computed(at(func, sketch, seed), data), largest(data, window, step, pad))
