"""Depthwise convolutions of bytes by an instruction for groups: exact results, the code, and where it is offered."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tunefarm as tvm
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimFunc
from compiler.topi.nn import group_conv2d_nhwc, pad
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate

ZEN4, ALDER, HASWELL, ARM = (
    Target(f"llvm -mtriple={triple} -mcpu={cpu} -num-cores=2")
    for triple, cpu in (
        ("x86_64-linux-gnu", "znver4"), ("x86_64-linux-gnu", "alderlake"), ("x86_64-linux-gnu", "haswell"),
        ("aarch64-linux-gnu", "neoverse-n1"),
    )
)  # fmt: skip
SCALE = 1 / 64
AFTER = ("sums", "quantised", "residual")


def convolution(
    image: tuple[int, ...], window: tuple[int, int], stride: int, around: int, zero: int = 0, after: str = "quantised",
    dtype: str = "uint8", dilation: int = 1,
) -> PrimFunc:  # fmt: skip
    """A depthwise convolution with `zero` around its image: sums, or these quantised, with a residual or without."""
    x, w = placeholder(image, dtype, name="x"), placeholder((*window, 1, image[3]), "int8", name="w")
    edges = (0, around, around, 0)
    padded = pad(x, edges, edges, zero) if around else x
    y = group_conv2d_nhwc(padded, w, stride, 0, dilation, image[3], "int32")
    if after == "sums":
        return create_prim_func([x, w, y])
    b, s = placeholder((image[3],), "int32", name="b"), placeholder(y.shape, "uint8", name="s")

    def quantised(*i: Any) -> Any:
        value = (y(*i) + b(i[3])).astype("float32") * SCALE
        value = value + s(*i).astype("float32") if after == "residual" else value
        return ops.maximum(ops.minimum(intrin.nearbyint(value) + 3.0, 255.0), 0.0).astype("uint8")

    out = compute(y.shape, quantised, name="out")
    return create_prim_func([x, w, b, s, out] if after == "residual" else [x, w, b, out])


def wanted(x: Any, w: Any, stride: int, around: int, zero: int) -> Any:
    """The sums, in integers that hold them all."""
    edges = ((0, 0), (around, around), (around, around), (0, 0))
    x = np.pad(x.astype("int64"), edges, constant_values=zero)
    high, wide = ((x.shape[d] - w.shape[d - 1]) // stride + 1 for d in (1, 2))
    down, along = (high - 1) * stride + 1, (wide - 1) * stride + 1
    return sum(
        x[:, r : r + down : stride, s : s + along : stride] * w[r, s, 0].astype("int64")
        for r in range(w.shape[0]) for s in range(w.shape[1])
    )  # fmt: skip


def arguments(func: PrimFunc, seed: int) -> list[Any]:
    """Numbers from all that the types hold, the extreme ones often."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for buffer in func.buffer_map.values():
        shape, info = [int(size) for size in buffer.shape], np.iinfo(buffer.dtype)
        low, high = (info.min, info.max) if info.bits == 8 else (-(2**12), 2**12)
        values = rng.integers(low, high + 1, shape)
        extreme = rng.choice([low, high], shape)
        made.append(np.where(rng.random(shape) < 0.3, extreme, values).astype(buffer.dtype))
    return made


def finished(sums: Any, given_: list[Any], after: str) -> Any:
    if after == "sums":
        return sums.astype("int32")
    value = (sums + given_[2]).astype("float32") * np.float32(SCALE)
    value = value + given_[3].astype("float32") if after == "residual" else value
    return np.clip(np.rint(value) + 3, 0, 255).astype("uint8")


@settings(max_examples=6, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_results_are_those_of_numpy(data: st.DataObject) -> None:
    draw = data.draw
    target = draw(st.sampled_from([ZEN4, ALDER]))
    channels = draw(st.sampled_from([16, 24, 48]) if target is ZEN4 else st.sampled_from([8, 24]))
    image = (draw(st.integers(1, 2)), draw(st.integers(5, 6)), draw(st.integers(5, 9)), channels)
    window, stride, around = (3, draw(st.integers(2, 3))), draw(st.integers(1, 2)), draw(st.integers(0, 1))
    zero, after = draw(st.sampled_from([0, 1, 128, 255])), draw(st.sampled_from(AFTER))
    func = convolution(image, window, stride, around, zero, after)
    [sketch] = generate(func, target)
    assert sketch.name == f"columns_{16 if target is ZEN4 and channels % 16 == 0 else 8}x3_vnni"
    seed = draw(st.integers(0, 1000))
    point = random_point(sketch, np.random.default_rng(seed))
    held = arguments(func, seed)
    expected = finished(wanted(held[0], held[1], stride, around, zero), held, after)
    run(lower_func(at_point(func, sketch, point), target.vector_bits), *held)
    np.testing.assert_array_equal(held[-1], expected)


@pytest.mark.skipif("avx512vnni" not in Target.host().features, reason="this CPU has no AVX-512 VNNI")
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize(("channels", "stride", "zero"), [(32, 1, 255), (48, 2, 0), (96, 1, 7), (128, 2, 128)])
def test_code_computes_the_same(channels: int, stride: int, zero: int, after: str) -> None:
    host = Target(f"{Target.host()} -num-cores=1")
    func = convolution((1, 9, 13, channels), (3, 3), stride, 1, zero, after)
    [sketch] = generate(func, host)
    rng = np.random.default_rng(channels)
    for _ in range(2):
        point = random_point(sketch, rng)
        made = at_point(func, sketch, point).with_attr("global_symbol", "kernel")
        kernel = tvm.build(made, target=host, name="kernel")
        held = arguments(func, channels)
        given_ = [tvm.nd.array(array) for array in held]
        kernel["kernel"](*given_)
        expected = finished(wanted(held[0], held[1], stride, 1, zero), held, after)
        np.testing.assert_array_equal(given_[-1].numpy(), expected)


def test_a_column_is_shuffled_once_and_used_by_three_results() -> None:
    func = convolution((1, 4, 14, 16), (3, 3), 1, 1)
    [sketch] = generate(func, ZEN4)
    chosen = {"rows": 14, "vectors": 1, "panel": 1, "block": 1}
    point = tuple(d.values.index(chosen[d.name]) for d in sketch.decisions)
    asm = compile_artifact(at_point(func, sketch, point), ZEN4, name="main", keep=("asm",)).blobs["asm"].decode()
    assert len(re.findall(r"\bvpdpbusd\b", asm)) == 3 * 14
    assert len(re.findall(r"\bvpermb\b", asm)) == 16 + 3
    assert not re.findall(r"\bvpermt2b\b|\bvpermi2b\b|\bvpmulld\b", asm)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (HASWELL, {}), (ARM, {}), (ZEN4, {"window": (5, 5)}), (ZEN4, {"image": (1, 8, 8, 12)}),
        (ZEN4, {"dtype": "int8"}), (ZEN4, {"dilation": 2}),
    ],
)  # fmt: skip
def test_others_are_computed_as_before(target: Target, options: dict[str, Any]) -> None:
    wanted_ = {"image": (1, 8, 8, 16), "window": (3, 3), "stride": 1, "around": 1, **options}
    sketches = generate(convolution(**wanted_), target)
    assert sketches
    assert not any("columns" in sketch.name for sketch in sketches)
