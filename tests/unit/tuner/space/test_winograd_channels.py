"""Sketches by fast filters with channels along vectors: offered where they can pay, and what they compute."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.lower.blocks.split_preproc import LAYOUT_FREE, split_layout_rewrite
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from compiler.topi import add, cast, nn
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.search.drafted import drafted_candidate
from tuner.space.generate import generate
from tuner.space.sketch import Sketch

WIDE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=1")
PAIRS = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=1")
TWO = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=2")
TILES = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1")
NARROW = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=1")
HERE = Target("llvm -num-cores=2").resolved()  # what is made for another target is computed here


def convolution(
    channels: int, high: int, filters: int, *, wide: int = 0, images: int = 1, padding: int = 1, window: int = 3,
    stride: int = 1, dtype: str = "bfloat16", filters_first: bool = False,
) -> PrimFunc:  # fmt: skip
    """Channels last, with a bias and a relu behind it; the result is as narrow as the image."""
    x = placeholder((images, high, wide or high, channels), dtype, "x")
    shape = (filters, channels, window, window) if filters_first else (window, window, channels, filters)
    w, b = placeholder(shape, dtype, "w"), placeholder((1, 1, 1, filters), name="b")
    layout = "OIHW" if filters_first else "HWIO"
    out = nn.conv2d(x, w, stride, padding, 1, "NHWC", layout, out_dtype="float32")
    func = create_prim_func([x, w, b, cast(nn.relu(add(out, b)), dtype)])
    return func.with_attr(LAYOUT_FREE, [1])


def fast(func: PrimFunc, target: Target = PAIRS) -> list[Sketch]:
    return [sketch for sketch in generate(func, target) if sketch.name.startswith("winograd")]


def names(func: PrimFunc, target: Target = PAIRS) -> list[str]:
    return [sketch.name for sketch in fast(func, target)]


def computed(func: PrimFunc, arrays: list[np.ndarray]) -> np.ndarray:
    held = [array(a) for a in arrays]
    load_artifact(compile_artifact(func, HERE, name="main"))["main"](*held)
    return held[-1].numpy()


def given(func: PrimFunc, rng: np.random.Generator) -> list[np.ndarray]:
    buffers = [func.buffer_map[p] for p in func.params]
    return [rng.uniform(-1, 1, [int(s) for s in b.shape]).astype(storage_dtype(b.dtype)) for b in buffers]


CASES = {
    "bands": convolution(16, 24, 16),
    "two images": convolution(16, 12, 16, images=2),
    "three images of a row of tiles": convolution(16, 4, 16, wide=12, images=3),
    "rows that are no whole tiles": convolution(16, 13, 32, wide=18),
    "without padding": convolution(32, 11, 16, padding=0),
    "one row of tiles": convolution(16, 4, 16, wide=33),
    "float32": convolution(16, 14, 48, dtype="float32"),
    "filters first": convolution(16, 14, 16, dtype="float32", filters_first=True),
}


@pytest.mark.parametrize("func", CASES.values(), ids=CASES)
@pytest.mark.parametrize("target", [PAIRS, TWO], ids=["one thread", "two"])
def test_points_compute_the_convolution(func: PrimFunc, target: Target) -> None:
    """Also with taps that are transformed ahead of the call."""
    rng = np.random.default_rng(0)
    arrays = given(func, rng)
    expected = computed(func, arrays).astype("float32")
    most = 1e-4 if arrays[0].dtype == np.float32 else 2**-7 * float(np.abs(expected).max())
    sketches = fast(func, target)
    assert sketches
    for sketch in sketches:
        for _ in range(2):
            point = random_point(sketch, rng)
            parts = split_layout_rewrite(at_point(func, sketch, point))
            assert parts is not None
            taps, rest = (part.with_attr("global_symbol", "main") for part in parts)
            between = rest.buffer_map[rest.params[1]]
            assert between.dtype == "float32"
            x, w, *others = arrays
            turned = computed(taps, [w, np.zeros([int(s) for s in between.shape], "float32")])
            found = computed(rest, [x, turned, *others]).astype("float32")
            np.testing.assert_allclose(found, expected, rtol=0, atol=most, err_msg=str(sketch.values(point)))


def test_taps_that_may_not_be_packed_are_transformed_in_the_call() -> None:
    func = convolution(16, 12, 16).without_attr(LAYOUT_FREE)
    rng = np.random.default_rng(0)
    arrays = given(func, rng)
    for sketch in fast(func):
        assert not sketch.name.endswith("ahead")
        found = computed(at_point(func, sketch, random_point(sketch, rng)), arrays).astype("float32")
        np.testing.assert_allclose(found, computed(func, arrays).astype("float32"), rtol=0, atol=2**-6)


@pytest.mark.parametrize(
    ("func", "target"),
    [
        (convolution(64, 24, 64), TILES),
        (convolution(16, 24, 16), NARROW),
        (convolution(16, 24, 16, stride=2), PAIRS),
        (convolution(16, 24, 16, window=1, padding=0), PAIRS),
        (convolution(16, 24, 16, window=5, padding=2), PAIRS),
        (convolution(12, 24, 16), PAIRS),
        (convolution(16, 24, 24), PAIRS),
        (convolution(272, 14, 64, dtype="float32"), PAIRS),
        (convolution(64, 7, 64), PAIRS),
    ],
    ids=[
        "tiles of AMX",
        "16 registers",
        "stride",
        "no window",
        "window of 5",
        "channels",
        "filters",
        "many channels",
        "few tiles",
    ],
)
def test_others_are_left_to_other_sketches(func: PrimFunc, target: Target) -> None:
    assert not names(func, target)


def test_bands_are_near_and_all_tiles_are_one_image() -> None:
    assert names(convolution(64, 56, 64)) == ["winograd-channels+ahead", "winograd-channels+band2+ahead"]
    assert names(convolution(64, 56, 64), TWO) == ["winograd-channels+ahead", "winograd-channels+band1+ahead"]
    assert names(convolution(16, 12, 16, images=2)) == ["winograd-channels+band1+ahead"]
    assert names(convolution(64, 256, 64)) == ["winograd-channels+band1+ahead"]  # all tiles would take 75 MB
    assert names(convolution(256, 64, 256)) == ["winograd-channels+ahead", "winograd-channels+band1+ahead"]
    assert names(convolution(16, 4, 16, wide=33)) == ["winograd-channels+ahead"]


@pytest.mark.parametrize("target", [PAIRS, TWO], ids=["one thread", "two"])
@pytest.mark.parametrize(
    ("func", "wins"),
    [
        (convolution(64, 56, 64), True),
        (convolution(128, 28, 128), True),
        (convolution(256, 14, 256), False),
        (convolution(64, 56, 64, dtype="float32"), True),
    ],
    ids=["64 channels", "128", "taps that take longer to load than to use", "float32"],
)
def test_without_a_trial_they_are_used_where_they_win(func: PrimFunc, wins: bool, target: Target) -> None:
    found = drafted_candidate(func, target, generate(func, target))
    assert found is not None
    assert found.sketch.name.startswith("winograd") == wins


def test_the_next_panel_of_taps_is_fetched_meanwhile() -> None:
    func = convolution(16, 28, 64)
    sketch = fast(func)[0]
    point = random_point(sketch, np.random.default_rng(3))
    parts = split_layout_rewrite(at_point(func, sketch, point))
    assert parts is not None
    text = lower_func(parts[1]).script()
    assert re.search(r"T\.prefetch\(w_tiles\w*\[", text), sketch.values(point)
