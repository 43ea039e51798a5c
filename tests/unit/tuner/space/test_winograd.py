"""Sketches by fast filters: offered where they can pay, and what they compute is the convolution."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.lower.blocks.split_preproc import LAYOUT_FREE, split_layout_rewrite
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from compiler.topi import add, nn
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.model.guide import Guide
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.workloads import WorkloadSpec

TARGET = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=2")
WIDE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=1")
HERE = Target("llvm -num-cores=2").resolved()  # what is made for another target is computed here


def fast(func: PrimFunc, target: Target = TARGET) -> list[Sketch]:
    return [sketch for sketch in generate(func, target) if sketch.name.startswith("winograd")]


def biased_relu(images: int, channels: int, size: int, filters: int) -> PrimFunc:
    x, w = placeholder((images, channels, size, size), name="x"), placeholder((filters, channels, 3, 3), name="w")
    b = placeholder((1, filters, 1, 1), name="b")
    return create_prim_func([x, w, b, nn.relu(add(nn.conv2d_nchw(x, w, stride=1, padding=1, dilation=1), b))])


def computed(func: PrimFunc, arrays: list[np.ndarray]) -> np.ndarray:
    held = [array(a) for a in arrays]
    load_artifact(compile_artifact(func, HERE, name="main"))["main"](*held)
    return held[-1].numpy()


@pytest.mark.parametrize(
    ("func", "names"),
    [
        (WorkloadSpec.parse("conv2d:1,16,16,16,20,3,3").prim_func(), {"winograd2+band4"}),
        (WorkloadSpec.parse("conv2d:1,16,7,7,32,3,3").prim_func(), {"winograd2+chunk16"}),
        (WorkloadSpec.parse("conv2d:1,24,8,72,16,3,3").prim_func(), {"winograd2+band2"}),
        (WorkloadSpec.parse("conv2d:1,16,15,65,16,3,3,1,0").prim_func(), {"winograd2+band4"}),
        (biased_relu(2, 16, 16, 16), {"winograd2+band4"}),
    ],
    ids=["bands", "few pixels", "long rows", "odd sizes without padding, a row added to the last band", "epilogue"],
)
def test_points_compute_the_convolution(func: PrimFunc, names: set[str]) -> None:
    check_points(func, TARGET, names, largest=2e-5)


@pytest.mark.parametrize(
    ("func", "names"),
    [
        (WorkloadSpec.parse("conv2d:1,16,30,56,20,3,3").prim_func(), {"winograd4+band4"}),
        (WorkloadSpec.parse("conv2d:1,16,28,28,32,3,3").prim_func(), {"winograd4+band4"}),
        (WorkloadSpec.parse("conv2d:1,16,23,23,32,3,3").prim_func(), {"winograd4+chunk16"}),
        (WorkloadSpec.parse("conv2d:1,16,13,14,64,3,3").prim_func(), {"winograd4+chunk32"}),
        (biased_relu(1, 16, 28, 32), {"winograd4+band4"}),
        (biased_relu(1, 16, 14, 32), {"winograd4+chunk16"}),
        (WorkloadSpec.parse("conv2d:1,16,7,7,32,3,3").prim_func(), {"winograd2+chunk16"}),
        (WorkloadSpec.parse("conv2d:1,260,14,14,64,3,3").prim_func(), {"winograd2+chunk8"}),
    ],
    ids=[
        "bands",
        "a last band with rows added",
        "rows and tiles added",
        "one vector",
        "epilogue of bands",
        "epilogue",
        "too few pixels",
        "too many channels",
    ],
)
def test_large_tiles_where_registers_hold_many_numbers(func: PrimFunc, names: set[str]) -> None:
    check_points(func, WIDE, names, largest=2e-4)


def test_taps_of_bands_are_transformed_ahead_where_they_may_be() -> None:
    """One function transforms them, another does the rest; those of chunks are transformed where they are used."""
    func = WorkloadSpec.parse("conv2d:1,16,30,56,20,3,3").prim_func().with_attr(LAYOUT_FREE, [1])
    [sketch] = fast(func, WIDE)
    assert sketch.name == "winograd4+band4+ahead"
    check_ahead(func, sketch)


def test_taps_of_filters_are_packed_ahead_where_they_may_be() -> None:
    func = WorkloadSpec.parse("conv2d:1,16,14,14,32,3,3").prim_func().with_attr(LAYOUT_FREE, [1])
    [sketch] = fast(func, WIDE)
    assert sketch.name == "winograd4+chunk16+ahead"
    check_ahead(func, sketch)


def test_many_channels_are_added_up_in_parts() -> None:
    """Each part's taps are transformed just before it, which registers of few lanes gain nothing from."""
    func = WorkloadSpec.parse("conv2d:1,256,14,14,32,3,3").prim_func().with_attr(LAYOUT_FREE, [1])
    [sketch] = fast(func, WIDE)
    assert sketch.name == "winograd4+chunk16+ahead"
    assert next(d.values for d in sketch.decisions if d.name == "depth") == (16, 32, 64)
    check_ahead(func, sketch)
    assert all("depth" not in {d.name for d in sketch.decisions} for sketch in fast(func))


def test_the_next_chunk_of_packed_taps_is_fetched_meanwhile() -> None:
    for workload, fetched in (("conv2d:1,16,14,14,32,3,3", True), ("conv2d:1,16,30,56,20,3,3", False)):
        func = WorkloadSpec.parse(workload).prim_func().with_attr(LAYOUT_FREE, [1])
        [sketch] = fast(func, WIDE)
        point = random_point(sketch, np.random.default_rng(0))
        parts = split_layout_rewrite(at_point(func, sketch, point))
        assert parts is not None
        asked = re.findall(r"T\.prefetch\((\w+)\[", lower_func(parts[1]).script())
        assert set(asked) == ({"weight_global_1"} if fetched else set()), workload


def check_ahead(func: PrimFunc, sketch: Any) -> None:
    """The rest of a kernel computes the same with taps that were packed, or transformed, ahead."""
    rng = np.random.default_rng(0)
    point = random_point(sketch, rng)
    parts = split_layout_rewrite(at_point(func, sketch, point))
    assert parts is not None
    taps, rest = (part.with_attr("global_symbol", "main") for part in parts)
    x, w, out = (rng.uniform(-1, 1, [int(s) for s in func.buffer_map[p].shape]).astype("float32") for p in func.params)
    between = np.zeros([int(s) for s in rest.buffer_map[rest.params[1]].shape], "float32")
    found = computed(rest, [x, computed(taps, [w, between]), out])
    np.testing.assert_allclose(found, computed(func, [x, w, out]), atol=2e-3)


def check_points(func: PrimFunc, target: Target, names: set[str], largest: float) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, [int(s) for s in func.buffer_map[p].shape]).astype("float32") for p in func.params]
    expected = computed(func, arrays)
    sketches = fast(func, target)
    assert {sketch.name for sketch in sketches} == names
    for sketch in sketches:
        for _ in range(2):
            point = random_point(sketch, rng)
            made = at_point(func, sketch, point)
            np.testing.assert_allclose(
                computed(made, arrays), expected, rtol=0, atol=largest, err_msg=str(sketch.values(point))
            )


@pytest.mark.parametrize(
    ("workload", "target", "most"),
    [("conv2d:1,512,8,8,16,3,3", TARGET, 4e-6), ("conv2d:1,256,16,16,32,3,3", WIDE, 3e-5)],
    ids=["small tiles", "large tiles"],
)
def test_many_channels_keep_their_digits(workload: str, target: Target, most: float) -> None:
    """Beside sums in float64, relative to the largest result: what the documentation states, with some room."""
    func = WorkloadSpec.parse(workload).prim_func()
    rng = np.random.default_rng(0)
    x, w, out = (rng.uniform(-1, 1, [int(s) for s in func.buffer_map[p].shape]).astype("float32") for p in func.params)
    padded = np.pad(x[0].astype("float64"), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    exact = np.einsum("cyxrs,kcrs->kyx", windows, w.astype("float64"), optimize=True)
    (sketch,) = fast(func, target)
    point = random_point(sketch, rng)
    got = computed(at_point(func, sketch, point), [x, w, out])[0]
    assert np.abs(got - exact).max() < most * np.abs(exact).max()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_sums_have_none(dtype: str) -> None:
    """A sum of four numbers that the transforms make may be beyond float16 where the convolution is not."""
    assert not fast(narrow(dtype, sums=dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", [TARGET, WIDE], ids=["small tiles", "large tiles"])
def test_narrow_elements_are_transformed_as_the_sums_are(dtype: str, target: Target) -> None:
    rng = np.random.default_rng(0)
    func = narrow(dtype, sums="float32")
    buffers = [func.buffer_map[p] for p in func.params]
    arrays = [rng.uniform(-1, 1, [int(s) for s in b.shape]).astype(storage_dtype(b.dtype)) for b in buffers]
    sketches = fast(func, target)
    assert sketches
    for sketch in sketches:
        made = at_point(func, sketch, random_point(sketch, rng))
        np.testing.assert_allclose(computed(made, arrays), computed(func, arrays), rtol=0, atol=2e-4)


def narrow(dtype: str, sums: str) -> PrimFunc:
    x, w = placeholder((1, 16, 28, 28), dtype, "x"), placeholder((32, 16, 3, 3), dtype, "w")
    return create_prim_func([x, w, nn.conv2d(x, w, 1, 1, 1, "NCHW", "OIHW", out_dtype=sums)])


def test_the_epilogue_is_part_of_the_last_step() -> None:
    func = biased_relu(1, 16, 8, 16)
    (sketch,) = fast(func)
    text = at_point(func, sketch, [0] * len(sketch.decisions)).script()
    assert text.count("T.alloc_buffer") == len(["pad", "phases", "lines", "tiles"] + ["taps"] * 2 + ["products"] * 3)


@pytest.mark.parametrize(
    "workload", ["conv2d:1,16,16,16,16,3,3,2", "conv2d:1,3,16,16,16,3,3", "conv2d:1,16,16,16,16,1,1,1,0"]
)
def test_others_have_none(workload: str) -> None:
    assert not fast(WorkloadSpec.parse(workload).prim_func())


@pytest.mark.parametrize("outermost", [False, True])
def test_channels_last_have_none(outermost: bool) -> None:
    """Wherever filters are numbered: those that lie along windows are no rows of images."""
    x, w = (
        placeholder((1, 18, 18, 16), name="x"),
        placeholder((16, 16, 3, 3) if outermost else (3, 3, 16, 16), name="w"),
    )
    r, s, c = reduce_axis((0, 3), "r"), reduce_axis((0, 3), "s"), reduce_axis((0, 16), "c")

    def value(b: Any, i: Any, j: Any, k: Any) -> Any:
        tap = w[k, c, r, s] if outermost else w[r, s, c, k]
        return te_sum(x[b, i + r, j + s, c] * tap, axis=[r, s, c])

    assert not fast(create_prim_func([x, w, compute((1, 16, 16, 16), value)]))


def test_operations_that_are_saved_count() -> None:
    """The search is told of them before it has measured anything."""
    func = WorkloadSpec.parse("conv2d:1,64,56,56,64,3,3").prim_func()
    sketches = generate(func, TARGET)
    guide = Guide.of(sketches, func, TARGET)
    rng = np.random.default_rng(0)
    best = {}
    for sketch in sketches:
        points = [p for p in (sketch.random(rng) for _ in range(64)) if p is not None]
        best[sketch.name.partition("+")[0]] = max(guide.describe(sketch, points)[1])
    assert best["winograd2"] > best["panels"] + 0.5
