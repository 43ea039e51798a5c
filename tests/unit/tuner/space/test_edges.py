"""Depthwise convolutions and pooling with AVX-512 read an image's edges under masks, and make no padded copy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.ir.visit import walk
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate

WIDE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=2")
NARROW = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=2")
HERE = Target("llvm -num-cores=2").resolved()
Sides = tuple[int, int, int, int]


def depthwise(channels: int, image: tuple[int, int], window: tuple[int, int], step: int, pad: Sides) -> n.PrimFunc:
    x, w = placeholder((1, channels, *image), name="x"), placeholder((channels, 1, *window), name="w")
    return create_prim_func([x, w, topi.nn.relu(topi.nn.depthwise_conv2d_nchw(x, w, step, pad, 1))])


def expected(data: np.ndarray, taps: np.ndarray, step: int, pad: Sides) -> np.ndarray:
    top, left, bottom, right = pad
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps.shape[2:], axis=(2, 3))[:, :, ::step, ::step]
    return np.maximum(np.einsum("ncyxrs,crs->ncyx", windows, taps[:, 0]), 0)


def copies(func: n.PrimFunc, target: Target) -> bool:
    """Whether the schedules of a function make a padded copy of the image."""
    found = {
        any(
            "pad" in buffer.name
            for block in walk(made.body)
            if isinstance(block, n.Block)
            for buffer in block.alloc_buffers
        )
        for sketch in generate(func, target)
        for made in [at_point(func, sketch, random_point(sketch, np.random.default_rng(0)))]
    }
    [made] = found
    return made


@pytest.mark.parametrize("window", [3, 5, 7])
@pytest.mark.parametrize("step", [1, 2])
def test_images_are_copied_for_narrow_vectors_only(window, step):
    half = window // 2
    func = depthwise(16, (28, 28), (window, window), step, (half, half, half, half))
    assert not copies(func, WIDE)
    assert copies(func, NARROW)


def test_rows_that_no_tile_has_whole_are_copied():
    wide = depthwise(4, (16, 200), (3, 3), 1, (1, 1, 1, 1))
    large = depthwise(4, (56, 56), (7, 7), 1, (3, 3, 3, 3))  # two rows of results and seven of the image: too many
    assert copies(wide, WIDE)
    assert copies(large, WIDE)


@pytest.mark.parametrize("step", [1, 2])
def test_code_has_no_gathers_and_compares_no_vectors(step):
    func = depthwise(16, (56, 56), (3, 3), step, (1, 1, 1, 1))
    for sketch in generate(func, WIDE):
        made = at_point(func, sketch, random_point(sketch, np.random.default_rng(1)))
        asm = compile_artifact(made, WIDE, name="main", keep=("asm",)).blobs["asm"].decode()
        assert "{%k" in asm
        assert not re.search(r"\bvgather|\bvpcmp", asm)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 3), st.integers(4, 40), st.integers(4, 70), st.sampled_from([(3, 3), (5, 5), (2, 3), (7, 7)]),
    st.integers(1, 4), st.tuples(*[st.integers(0, 3)] * 4), st.integers(0, 99),
)  # fmt: skip
def test_any_schedule_is_what_numpy_computes(channels, rows, columns, window, step, pad, seed):
    if rows + pad[0] + pad[2] < window[0] or columns + pad[1] + pad[3] < window[1]:
        return
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((1, channels, rows, columns)).astype("float32")
    taps = rng.standard_normal((channels, 1, *window)).astype("float32")
    func, wanted = depthwise(channels, (rows, columns), window, step, pad), expected(data, taps, step, pad)
    sketches = generate(func, WIDE)
    sketch = sketches[seed % len(sketches)]
    out = array(np.full(wanted.shape, np.nan, "float32"))
    made = at_point(func, sketch, random_point(sketch, rng))
    load_artifact(compile_artifact(made, HERE, name="main"))["main"](array(data), array(taps), out)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-4)
