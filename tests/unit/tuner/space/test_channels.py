"""Convolutions of small images with channels along vectors: where they are offered, and that they are right."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import build, compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.lower.blocks.split_preproc import LAYOUT_FREE, split_layout_rewrite
from compiler.runtime.core.ndarray import array, empty
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.cpu import channels as channels_module
from tuner.space.generate import generate

WIDE, NARROW = (
    Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=2") for cpu in ("skylake-avx512", "znver3")
)
NAME = "panels+pack+ahead+across"


def convolution(size: int, kernel: int, stride: int, channels: int = 6, filters: int = 32, stages: bool = False):
    x = placeholder((1, channels, size, size), name="X")
    w = placeholder((filters, channels, kernel, kernel), name="W")
    out = topi.nn.conv2d_nchw(x, w, stride=stride, padding=kernel // 2, dilation=1)
    if not stages:
        return create_prim_func([x, w, out]).with_attr(LAYOUT_FREE, [1])
    bias = placeholder((1, filters, 1, 1), name="Bias")
    other = placeholder(out.shape, name="Other")
    end = topi.nn.relu(topi.add(topi.add(out, bias), other))
    return create_prim_func([x, w, bias, other, end]).with_attr(LAYOUT_FREE, [1])


def names(func: PrimFunc, target: Target) -> set[str]:
    return {sketch.name for sketch in generate(func, target)}


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results cost nothing to write across memory, so that few channels are enough."""
    monkeypatch.setattr(channels_module, "_ACROSS", 0)


@pytest.mark.parametrize(("size", "kernel", "stride", "channels", "offered"), [
    (7, 1, 1, 256, True), (14, 1, 2, 256, True), (7, 1, 1, 64, True), (7, 1, 1, 32, False),
    (14, 1, 1, 1024, True), (14, 1, 1, 256, True), (14, 1, 1, 128, False), (8, 1, 1, 1024, False),
    (28, 3, 2, 64, True), (56, 1, 2, 512, False),
])  # fmt: skip
def test_images_that_leave_vectors_empty_or_are_read_apart_have_channels_along_them(
    size, kernel, stride, channels, offered
):
    assert (NAME in names(convolution(size, kernel, stride, channels), WIDE)) is offered


def test_filters_that_are_not_known_or_fill_no_vectors_have_not():
    known = convolution(7, 1, 1, 256)
    assert NAME in names(known, WIDE)
    assert NAME not in names(PrimFunc(known.params, known.body, known.buffer_map), WIDE)
    assert NAME not in names(convolution(7, 1, 1, 256, filters=24), WIDE)
    assert NAME not in names(known, NARROW), "vectors without masks would write parts of them element by element"


@pytest.mark.parametrize(("filters", "offered"), [(40, True), (47, True), (33, False), (1000, True)])
def test_the_last_vector_of_filters_may_have_empty_lanes_if_fewer_than_the_pixels(filters, offered):
    assert (NAME in names(convolution(7, 1, 1, 256, filters=filters), WIDE)) is offered


def test_a_whole_row_of_pixels_is_offered_as_the_rows_of_a_tile():
    [sketch] = [sketch for sketch in generate(convolution(13, 1, 1, 512, filters=1000), WIDE) if sketch.name == NAME]
    [rows] = [decision.values for decision in sketch.decisions if decision.name == "rows"]
    assert 13 in rows
    assert 14 not in rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("size", "kernel", "stride", "stages"), [
    (7, 1, 1, False), (7, 3, 1, True), (14, 3, 2, False), (13, 1, 2, True), (5, 3, 1, False),
])  # fmt: skip
def test_results_are_those_of_the_function(size, kernel, stride, stages, seed, shallow):
    rng = np.random.default_rng(seed)
    filters = 32 + 16 * int(rng.integers(0, 3)) - int(rng.integers(0, 4))
    func = convolution(size, kernel, stride, int(rng.integers(1, 9)), filters, stages)
    [sketch] = [sketch for sketch in generate(func, WIDE) if sketch.name == NAME]
    point = random_point(sketch, rng)
    scheduled = at_point(func, sketch, point)
    parts = split_layout_rewrite(scheduled)
    assert parts is not None, "filters are packed ahead"
    shapes = [tuple(int(s) for s in b.shape) for b in func.buffer_map.values()]
    given = [rng.standard_normal(shape).astype("float32") for shape in shapes[:-1]]
    wanted, got = np.zeros(shapes[-1], "float32"), np.zeros(shapes[-1], "float32")
    run(lower_func(func, 512), *given, wanted)
    run(lower_func(scheduled, 512), *given, got)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


needs_avx512 = pytest.mark.skipif(
    not Target("llvm").resolved().features >= {"avx512f", "avx512dq", "avx512vl", "avx512bw"}, reason="needs AVX-512"
)
HERE = Target("llvm -num-cores=2")


def silu(x):
    return topi.nn.silu(x)


def scaled(x):
    return topi.multiply(topi.nn.relu6(x), topi.nn.relu(x))


@needs_avx512
@pytest.mark.parametrize("end", [None, topi.nn.relu, silu, scaled, topi.nn.gelu])
@pytest.mark.parametrize("seed", range(4))
def test_machine_code_writes_transposed_tiles_of_any_width(end, seed, shallow):
    """Every number of rows that a tile may have, with and without what follows; tiles may end beyond an image."""
    rng = np.random.default_rng([seed, 77])
    size, kernel, stride = int(rng.integers(3, 20)), int(rng.choice([1, 3])), int(rng.integers(1, 3))
    channels, filters = int(rng.integers(1, 9)), int(rng.integers(24, 81))
    x = placeholder((1, channels, size, size), name="X")
    w = placeholder((filters, channels, kernel, kernel), name="W")
    given, out = [x, w], topi.nn.conv2d_nchw(x, w, stride=stride, padding=kernel // 2, dilation=1)
    if end is not None:
        bias = placeholder((1, filters, 1, 1), name="Bias")
        other = placeholder(out.shape, name="Other")
        given, out = [x, w, bias, other], end(topi.add(topi.add(out, bias), other))
    func = create_prim_func([*given, out]).with_attr(LAYOUT_FREE, [1])
    sketches = [sketch for sketch in generate(func, HERE) if sketch.name == NAME]
    if not sketches:  # an image whose pixels fill vectors
        return
    [sketch] = sketches
    shapes = [tuple(int(s) for s in b.shape) for b in func.buffer_map.values()]
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes[:-1]]
    wanted = np.zeros(shapes[-1], "float32")
    run(lower_func(func, 512), *arrays, wanted)
    for rows in next(d.values for d in sketch.decisions if d.name == "rows"):
        point = random_point(sketch, rng)
        at = next(i for i, d in enumerate(sketch.decisions) if d.name == "rows")
        point = (*point[:at], sketch.decisions[at].values.index(rows), *point[at + 1 :])
        module = build(at_point(func, sketch, point), HERE)
        held = [array(values) for values in arrays] + [empty(shapes[-1])]
        module["main"](*held)
        np.testing.assert_allclose(held[-1].numpy(), wanted, rtol=1e-4, atol=1e-4, err_msg=f"{rows} rows")


def test_a_tile_is_transposed_by_shuffles_and_nothing_is_scattered():
    func = convolution(7, 1, 1, channels=256, filters=64, stages=True)
    [sketch] = [sketch for sketch in generate(func, WIDE) if sketch.name == NAME]
    wanted = {"rows": 7, "vectors": 2, "panel": 1, "unroll": 1}
    point = [d.values.index(wanted[d.name]) for d in sketch.decisions]
    parts = split_layout_rewrite(at_point(func, sketch, point))
    assert parts is not None
    text = compile_artifact(parts[1], WIDE, name="main", keep=("asm",)).blobs["asm"].decode()
    assert not re.search(r"scatter|gather|vinsertps|vextractps", text)
    assert text.count("vunpck") >= 2 * 8
    stored = re.findall(r"vmovups\s+%ymm\d+, .*\{%k\d\}", text)
    assert len(stored) == 2 * 16  # rows of 7 pixels, for each channel of the tile


def test_the_next_group_of_filters_is_asked_for_though_a_step_reads_many_lines(shallow):
    """A step reads 9 vectors for each tile of columns, and 7 rows of pixels use them."""
    func = convolution(7, 3, 1, channels=16, filters=64)
    [sketch] = [sketch for sketch in generate(func, WIDE) if sketch.name == NAME]
    wanted = {"rows": 7, "vectors": 2, "panel": 1}
    point = [d.values.index(wanted[d.name]) for d in sketch.decisions]
    parts = split_layout_rewrite(at_point(func, sketch, point))
    assert parts is not None
    text = lower_func(parts[1], 512).script()
    assert text.count("T.prefetch") == 3  # two and a half lines in a step, which seven rows use
