"""Convolutions with channels last by instructions for groups of bytes or bfloat16, with what follows in registers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimFunc
from compiler.topi.nn import conv, conv2d_nhwc
from tests.kit.compiler.narrow.products import bits, numbers
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate

ZEN4 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2")
SCALE = 1 / 512


def convolution(shape: tuple[int, ...], filters: tuple[int, ...], stride: int, around: int, dtypes: Any) -> PrimFunc:
    """A convolution and what follows it: of integers a bias, a scale and a zero point; of others relu."""
    x, w = placeholder(shape, dtypes[0], name="x"), placeholder(filters, dtypes[1], name="w")
    y = conv2d_nhwc(x, w, stride, around, 1, dtypes[2])
    if dtypes[2] == "float32":
        return create_prim_func([x, w, compute(y.shape, lambda *i: ops.maximum(y(*i), 0.0), name="out")])
    b = placeholder((filters[3],), "int32", name="b")

    def quantised(*i: Any) -> Any:
        moved = intrin.nearbyint((y(*i) + b(i[3])).astype("float32") * SCALE) + 3.0
        return ops.maximum(ops.minimum(moved, 255.0), 0.0).astype("uint8")

    return create_prim_func([x, w, b, compute(y.shape, quantised, name="out")])


def sums(x: Any, w: Any, stride: int, around: int) -> Any:
    """The convolution in float64."""
    x = np.pad(x.astype("float64"), ((0, 0), (around, around), (around, around), (0, 0)))
    rows, columns = ((x.shape[d] - w.shape[d - 1]) // stride + 1 for d in (1, 2))
    return sum(
        np.einsum("nhwc,ck->nhwk", x[:, r : r + rows * stride : stride, s : s + columns * stride : stride], w[r, s])
        for r in range(w.shape[0]) for s in range(w.shape[1])
    )  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_results_are_those_of_numpy(data: st.DataObject) -> None:
    draw = data.draw
    integers, window, stride = draw(st.booleans()), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    image = (draw(st.integers(1, 2)), draw(st.integers(3, 5)), draw(st.integers(3, 9)), 4 * draw(st.integers(1, 3)))
    taps = (window, window, image[3], draw(st.sampled_from([16, 24, 32])) if integers else 16)
    around = draw(st.integers(0, 1))
    dtypes = ("uint8", "int8", "int32") if integers else ("bfloat16", "bfloat16", "float32")
    func = convolution(image, taps, stride, around, dtypes)
    [sketch] = generate(func, ZEN4)
    assert sketch.name == ("dot_16x2_bf16" if not integers else "dot_8x4_vnni" if taps[3] == 24 else "dot_16x4_vnni")
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    point = random_point(sketch, rng)
    scheduled = lower_func(at_point(func, sketch, point), ZEN4.vector_bits)
    if integers:
        x, w = rng.integers(0, 256, image).astype("uint8"), rng.integers(-128, 128, taps).astype("int8")
        bias = rng.integers(-999, 999, taps[3]).astype("int32")
        wanted = sums(x, w, stride, around) + bias
        out = np.zeros(wanted.shape, "uint8")
        run(scheduled, x, w, bias, out)
        made = np.clip(np.rint(wanted.astype("float32") * np.float32(SCALE)) + 3, 0, 255).astype("uint8")
        np.testing.assert_array_equal(out, made)
        return
    x, w = (bits(rng.uniform(-1, 1, size)) for size in (image, taps))
    wanted = np.maximum(sums(numbers(x), numbers(w), stride, around), 0)
    result = np.zeros(wanted.shape, "float32")
    run(scheduled, x, w, result)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("filters", [(3, 3, 6, 16), (1, 1, 8, 12)])
def test_groups_and_vectors_must_be_whole(filters: tuple[int, ...]) -> None:
    func = convolution((1, 6, 6, filters[2]), filters, 1, 0, ("uint8", "int8", "int32"))
    assert all("dot" not in sketch.name for sketch in generate(func, ZEN4))


def test_what_follows_is_computed_where_sums_are_in_registers() -> None:
    func = convolution((1, 6, 6, 8), (3, 3, 8, 32), 1, 1, ("uint8", "int8", "int32"))
    [sketch] = generate(func, ZEN4)
    made = at_point(func, sketch, [0] * len(sketch.decisions)).script()
    assert 'alloc_buffer((1, 6, 6, 32), "int32", scope="local")' in made


@pytest.mark.parametrize("seed", range(4))
def test_groups_lie_along_the_rows_of_an_image_of_three_channels(seed: int) -> None:
    """Its results have channels last."""
    rng = np.random.default_rng(seed)
    x, w = placeholder((1, 3, 11, 15), "uint8", name="x"), placeholder((3, 8, 3, 32), "int8", name="w")
    y = conv(x, w, (2, 2), (1, 1), 1, 1, "NCHW", "HWIO", "int32", "NHWC")
    func = create_prim_func([x, w, compute(y.shape, lambda *i: ops.maximum(y(*i), 0), name="out")])
    [sketch] = generate(func, ZEN4)
    assert sketch.name == "dot_16x4_vnni"
    point = random_point(sketch, rng)
    scheduled = lower_func(at_point(func, sketch, point), ZEN4.vector_bits)
    image, taps = (
        rng.integers(0, 256, (1, 3, 11, 15)).astype("uint8"),
        rng.integers(-128, 128, (3, 8, 3, 32)).astype("int8"),
    )
    padded = np.pad(image.astype("int64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((1, 6, 5, 32), "int64")
    for r in range(3):
        for s in range(8):
            wanted += np.einsum(
                "nchw,ck->nhwk", padded[:, :, r : r + 11 : 2, s : s + 9 : 2], taps[r, s].astype("int64")
            )
    out = np.zeros((1, 6, 5, 32), "int32")
    run(scheduled, image, taps, out)
    np.testing.assert_array_equal(out, np.maximum(wanted, 0))


@pytest.mark.parametrize(("channels", "vectors", "is_packed"), [(64, 2, True), (64, 4, True), (48, 3, False)])
def test_vectors_of_bytes_are_packed_together(channels: int, vectors: int, is_packed: bool) -> None:
    """Three vectors are narrowed one by one: LLVM has no good code for so many lanes."""
    func = convolution((1, 4, 4, 8), (1, 1, 8, channels), 1, 0, ("uint8", "int8", "int32"))
    [sketch] = generate(func, ZEN4)
    chosen = {"vectors": vectors}
    point = [d.values.index(chosen[d.name]) if d.name in chosen else 0 for d in sketch.decisions]
    scheduled = at_point(func, sketch, point)
    asm = compile_artifact(scheduled, ZEN4, name="main", keep=("asm",)).blobs["asm"].decode()
    assert ("vpackuswb" in asm) is is_packed
    assert ("vpmovdb" in asm) is not is_packed


@pytest.mark.parametrize(
    ("dtypes", "name", "instruction"),
    [
        (("bfloat16", "bfloat16", "float32"), "dot_16x2_bf16", "vdpbf16ps"),
        (("uint8", "int8", "int32"), "dot_16x4_vnni", "vpdpbusd"),
    ],
)
def test_groups_that_rows_share_stay_in_registers(dtypes: Any, name: str, instruction: str) -> None:
    """A row's next group is another row's: LLVM keeps all of those that are written out."""
    x, w = placeholder((1, 3, 20, 39), dtypes[0], name="x"), placeholder((7, 8, 3, 64), dtypes[1], name="w")
    y = conv(x, w, (2, 2), (0, 0), 1, 1, "NCHW", "HWIO", dtypes[2], "NHWC")
    func = create_prim_func([x, w, compute(y.shape, lambda *i: ops.maximum(y(*i), 0), name="out")])
    [sketch] = generate(func, ZEN4)
    assert sketch.name == name
    unrolls = next(d for d in sketch.decisions if d.name == "unroll")
    rng = np.random.default_rng(0)
    drawn = (random_point(sketch, rng) for _ in range(200))
    points = [p for p in drawn if unrolls.values[p[sketch.decisions.index(unrolls)]] == max(unrolls.values)][:6]
    assert points
    for point in points:
        asm = compile_artifact(at_point(func, sketch, point), ZEN4, name="main", keep=("asm",)).blobs["asm"].decode()
        inner = max(re.split(r"\.LBB\w+:", asm), key=lambda loop: loop.count(instruction))
        assert not re.search(r"%zmm\d+, -?\d*\(%rsp\)", inner)
