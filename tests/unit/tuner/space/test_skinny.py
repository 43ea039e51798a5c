"""Sketches for a few rows by a matrix that comes from memory: right at edges, offered for such products only."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.workloads import WorkloadSpec

OFFERED = {1: {"stream"}, 3: {"stream", "stream+keep"}, 4: {"stream", "stream+keep"}, 5: {"stream+keep"}}
"""The sketches by rows of results; 5 stands for more."""
TARGET = Target("llvm -num-cores=2").resolved()
ZEN = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=1")


def product(text: str) -> PrimFunc:
    return WorkloadSpec.parse(text).prim_func()


def names(func: PrimFunc) -> set[str]:
    return {sketch.name for sketch in generate(func, TARGET)}


def at(sketch: Sketch, **wanted: int) -> tuple[int, ...]:
    point = tuple(d.values.index(wanted[d.name]) for d in sketch.decisions)
    assert sketch.is_allowed(point)
    return point


def call(func: PrimFunc, sketch: Sketch, point: tuple[int, ...], *args: np.ndarray) -> np.ndarray:
    scheduled = at_point(func, sketch, point)
    held = [array(a) for a in args]
    load_artifact(compile_artifact(scheduled, TARGET, name="main"))["main"](*held)
    return held[-1].numpy()


@pytest.mark.parametrize(("m", "n", "k"), [(1, 2060, 1032), (4, 2049, 1028), (7, 2065, 1040)])
def test_they_agree_with_numpy_at_edges(m, n, k):
    func = product(f"matmul:{m},{n},{k}")
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype("float32") for shape in ((m, k), (k, n), (m, n)))
    sketches = generate(func, TARGET)
    assert {s.name for s in sketches} == OFFERED[min(m, 5)]
    for sketch in sketches:
        point = random_point(sketch, rng, 512)
        found = call(func, sketch, point, a, b, c)
        np.testing.assert_allclose(found, a @ b, rtol=1e-3, atol=1e-3, err_msg=f"{sketch.values(point)}")


def test_what_follows_the_product_is_computed_after_it():
    a, b, bias = placeholder((3, 1024), name="A"), placeholder((1024, 2056), name="B"), placeholder((2056,), name="c")
    func = create_prim_func([a, b, bias, topi.nn.relu(topi.add(topi.nn.matmul(a, b), bias))])
    sketches = generate(func, TARGET)
    assert {s.name for s in sketches} == OFFERED[3]
    rng = np.random.default_rng(0)
    x, y, z = (rng.uniform(-1, 1, shape).astype("float32") for shape in ((3, 1024), (1024, 2056), (2056,)))
    for sketch in sketches:
        point = at(sketch, depth=8, rows=3, vectors=3, panel=64)
        found = call(func, sketch, point, x, y, z, np.empty((3, 2056), "float32"))
        np.testing.assert_allclose(found, np.maximum(x @ y + z, 0), rtol=1e-3, atol=1e-3, err_msg=sketch.name)


def test_only_float32_products_of_few_rows_by_a_matrix_from_memory_have_them():
    assert names(product("matmul:16,4096,4096")) == OFFERED[5]
    assert names(product("matmul:1,4096,4096")) == {"stream"}
    others = ["matmul:4,256,256", "matmul:64,4096,4096", "dense:4,4096,4096", "matmul:4,4096,4099"]
    others += [f"matmul:4,4096,4096:{dtype}" for dtype in ("float64", "float16", "bfloat16", "int8")]
    free = product("matmul:4,4096,4096").with_attr("layout_free_buffers", [1])
    for func in (*map(product, others), free):
        assert not any(name.startswith("stream") for name in names(func))


def test_rows_are_read_far_and_few_at_a_time():
    """Rows are read as many at a time as a cache has ways, 16 KiB of each in one go; kept sums fit the second level."""
    rng = np.random.default_rng(0)
    for sketch in generate(product("matmul:4,8192,4096"), ZEN):
        for _ in range(20):
            point = random_point(sketch, rng, 512)
            values = sketch.values(point)
            row = values["panel"] * values["vectors"] * 8 * 4
            assert values["depth"] == 8
            assert row >= 16 << 10
            assert sketch.name == "stream" or 4 * row <= 512 << 10


def test_every_stream_has_a_load_of_its_own():
    """All of 8 rows and 2 vectors are loaded and multiplied in one straight piece of code, and no sum is spilled."""
    func = product("matmul:4,4096,4096")
    sketch = generate(func, ZEN)[0]
    scheduled = apply_trace(func, Trace.from_json(sketch.trace_json(at(sketch, depth=8, rows=4, vectors=2, panel=256))))
    asm = compile_artifact(scheduled.func, ZEN, name="main", keep=("asm",)).blobs["asm"].decode()
    fused = [line for line in asm.splitlines() if "vfmadd" in line and "ymm" in line]
    assert len(fused) == 4 * 2 * 8
    assert "(%rsp)" not in "".join(fused)


def test_kept_sums_and_rows_are_read_straight_on():
    """In the loop over tiles only B is read with the matrix's own distances: one line of each of 8 rows."""
    func = product("matmul:16,4096,4096")
    sketch = next(s for s in generate(func, ZEN) if s.name == "stream+keep")
    point = at(sketch, depth=8, rows=4, vectors=2, panel=256)
    scheduled = at_point(func, sketch, point)
    text = lower_func(scheduled).script()
    tile = text[text.index("for j_1, i_0 in T.grid(256, 4)") : text.index("for ax1_0_1, ")]
    assert "A_1[" not in tile
    assert "T_matmul_1[" not in tile
    assert "T_matmul_global_1[T.Ramp(j_1 * 256 + i_0 * 64 + i_1 * 16 + j_2 * 8, 1, 8)]" in tile
    assert "B_1[T.Ramp(k_0 * 32768 + ax3_1 * 4096 + j_1 * 16 + ax1_0 * 8, 1, 8)]" in tile


def test_a_trace_recorded_before_still_applies():
    """Reductions in blocks were `deep` for such products, with other decisions; a record is its trace, not a sketch."""
    older = next(s for s in generate(product("matmul:4,64,64"), TARGET) if s.name == "deep")
    text = older.trace_json(at(older, depth=16, rows=4, vectors=1, panel=2, unroll=8))
    func = product("matmul:4,2056,1024")
    scheduled = apply_trace(func, Trace.from_json(text)).func
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (4, 1024)).astype("float32"), rng.uniform(-1, 1, (1024, 2056)).astype("float32")
    held = [array(a), array(b), array(np.empty((4, 2056), "float32"))]
    load_artifact(compile_artifact(scheduled, TARGET, name="main"))["main"](*held)
    np.testing.assert_allclose(held[-1].numpy(), a @ b, rtol=1e-3, atol=1e-3)
