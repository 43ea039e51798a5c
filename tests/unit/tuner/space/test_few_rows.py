"""The sketch of a few rows by a matrix along the sum: right at edges and any size, offered where it pays."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.tuner.sketch_points import random_point
from tuner.families.family import FamilySpec
from tuner.search.drafted import drafted_candidate
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.workloads import WorkloadSpec

TARGET = Target("llvm -num-cores=2").resolved()
ZEN = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2")


def product(text: str) -> PrimFunc:
    return WorkloadSpec.parse(text).prim_func()


def few(func: PrimFunc, target: Target = TARGET) -> Sketch | None:
    return next((s for s in generate(func, target) if s.name == "rows+few"), None)


def call(func: PrimFunc, trace: str, *args: np.ndarray) -> np.ndarray:
    scheduled = apply_trace(func, Trace.from_json(trace)).func
    held = [array(a) for a in args]
    load_artifact(compile_artifact(scheduled, TARGET, name="main"))["main"](*held)
    return held[-1].numpy()


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype("float32")


@pytest.mark.parametrize(("m", "n", "k"), [(2, 9, 130), (7, 36, 200), (17, 23, 161)])
def test_it_agrees_with_numpy_at_edges(m, n, k):
    func, rng = product(f"dense:{m},{n},{k}"), np.random.default_rng(m)
    sketch = few(func)
    assert sketch is not None
    a, w = numbers(m, k), numbers(n, k)
    for _ in range(3):
        point = random_point(sketch, rng)
        found = call(func, sketch.trace_json(point), a, w, np.empty((m, n), "float32"))
        np.testing.assert_allclose(found, a @ w.T, rtol=1e-4, atol=1e-4, err_msg=f"{sketch.values(point)}")


def test_what_follows_the_product_is_computed_tile_by_tile():
    a, w, bias = placeholder((5, 160), name="A"), placeholder((24, 160), name="W"), placeholder((24,), name="c")
    func = create_prim_func([a, w, bias, topi.nn.relu(topi.add(topi.nn.dense(a, w), bias))])
    sketch = few(func)
    assert sketch is not None
    point = random_point(sketch, np.random.default_rng(0))
    x, y, z = numbers(5, 160), numbers(24, 160), numbers(24)
    found = call(func, sketch.trace_json(point), x, y, z, np.empty((5, 24), "float32"))
    np.testing.assert_allclose(found, np.maximum(x @ y.T + z, 0), rtol=1e-4, atol=1e-4)


def test_a_trace_of_one_size_is_right_at_any():
    spec = FamilySpec.parse("dense:M,24,160")
    sketch = few(product("dense:6,24,160"))
    assert sketch is not None
    trace = Trace.from_json(sketch.trace_json(tuple(d.values.index(4) for d in sketch.decisions)))
    general = compile_artifact(apply_trace(spec.general(), trace).func, TARGET, name="main")
    dense, weight = load_artifact(general)["main"], numbers(24, 160)
    for rows in (1, 4, 6, 9):
        data, out = numbers(rows, 160), array(np.empty((rows, 24), "float32"))
        dense(array(data), array(weight), out)
        np.testing.assert_allclose(out.numpy(), data @ weight.T, rtol=1e-4, atol=1e-4)


def test_only_products_that_read_both_operands_along_the_sum_have_it():
    assert [s.name for s in generate(product("dense:8,512,512"), ZEN)] == ["rows+few"]
    assert {"rows+few", "panels+pack"} <= {s.name for s in generate(product("dense:16,512,512"), ZEN)}
    free = product("dense:8,512,512").with_attr("layout_free_buffers", [1])
    others = ["dense:1,512,512", "dense:33,512,512", "dense:8,512,64", "matmul:8,512,512", "dense:8,512,512:float64"]
    for func in (*map(product, others), free):
        assert few(func, ZEN) is None


def test_it_is_drafted_where_packing_takes_longer_than_the_product():
    for text, name in (
        ("dense:2,3072,768", "rows+few"),
        ("dense:8,3072,768", "rows+few"),
        ("dense:17,3072,768", "rows+few"),
        ("dense:32,3072,768", "rows+few"),
        ("dense:32,512,128", "panels+pack"),  # sums so short that adding up lanes takes longer than the products
    ):
        func = product(text)
        found = drafted_candidate(func, ZEN, generate(func, ZEN))
        assert found is not None
        assert found.sketch.name == name, text
