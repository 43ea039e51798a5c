"""Convolutions on Intel's matrix unit: what is computed, for all rows of tiles and steps, and the code for it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir.intrin.amx import TILE_ROWS, left_tile_name
from compiler.tir.nodes import PrimFunc
from compiler.topi import nn
from tests.kit.compiler.narrow.amx_in_software import target_with_tiles
from tests.kit.compiler.narrow.products import bits, computed, numbers
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate
from tuner.space.sketch import Sketch

SAPPHIRE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2")
KINDS = {  # sketch: dtypes of image, filters and sums, channels of a tile, the instruction
    "amx_bf16": ("bfloat16", "bfloat16", "float32", 32, "tdpbf16ps"),
    "amx_s8s8": ("int8", "int8", "int32", 64, "tdpbssd"),
    "amx_u8s8": ("uint8", "int8", "int32", 64, "tdpbusd"),
}


def convolution(
    kind: str, height: int, width: int, filters: int, window: int, stride: int, finish: bool = False, tiles: int = 1
) -> PrimFunc:
    """NHWC and HWIO, padded so that the result has `height` × `width` pixels; `finish`: a bias, relu and a cast."""
    image, weights, sums, channels, _ = KINDS[kind]
    sizes = [(extent - 1) * stride + window - 2 * (window // 2) for extent in (height, width)]
    x = placeholder((1, *sizes, channels * tiles), image, name="x")
    w = placeholder((window, window, channels * tiles, filters), weights, name="w")
    found = nn.conv2d(x, w, stride, window // 2, 1, "NHWC", "HWIO", sums)
    args = [x, w]
    if finish:
        args.append(placeholder((filters,), sums, name="bias"))
        found = topi.cast(nn.relu(topi.add(found, args[-1])), "bfloat16" if sums == "float32" else sums)
    return create_prim_func([*args, found]).with_attr("layout_free_buffers", [1])


def windows(func: PrimFunc, kind: str) -> Sketch:
    [sketch] = [sketch for sketch in generate(func, SAPPHIRE) if sketch.name == f"{kind}_windows"]
    return sketch


def arguments(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Small numbers, bfloat16 as its bits, and room for the result."""
    rng = np.random.default_rng(seed)
    made = []
    for buffer in func.buffer_map.values():
        shape = [int(size) for size in buffer.shape]
        if buffer.dtype == "bfloat16":
            made.append(bits(rng.uniform(-1, 1, shape)))
        elif buffer.dtype == "float32":
            made.append(rng.uniform(-1, 1, shape).astype("float32"))
        else:
            made.append(rng.integers(0 if buffer.dtype == "uint8" else -9, 10, shape).astype(buffer.dtype))
    made[-1][...] = 0
    return made


def expected(kind: str, args: list[np.ndarray], window: int, stride: int) -> np.ndarray:
    x, w = (numbers(item) if item.dtype == "uint16" else item.astype("float64") for item in args[:2])
    x = np.pad(x.astype("float64"), [(0, 0), (window // 2,) * 2, (window // 2,) * 2, (0, 0)])
    height, width = ((size - window) // stride + 1 for size in x.shape[1:3])
    total: Any = 0.0
    for r in range(window):
        for s in range(window):
            seen = x[0, r : r + height * stride : stride, s : s + width * stride : stride][:height, :width]
            total = total + seen @ w[r, s].astype("float64")
    return total[None]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", TILE_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_pixels_of_a_row_are_tiles(kind: str, width: int, stride: int) -> None:
    func = convolution(kind, 2, width, 16, 3 if width < 16 else 1, stride)
    sketch = windows(func, kind)
    made = at_point(func, sketch, random_point(sketch, np.random.default_rng(width)))
    args = arguments(func)
    run(lower_func(made, 512), *args)
    assert left_tile_name(kind, "rows", width, stride) in sketch.trace_json(
        random_point(sketch, np.random.default_rng(0))
    )
    np.testing.assert_allclose(args[-1], expected(kind, args, 3 if width < 16 else 1, stride), rtol=1e-4, atol=1e-4)


def first_convolution(channels: int, height: int, width: int, filters: int, window: int, stride: int) -> PrimFunc:
    """The convolution of an NCHW image, with rows of filters that have zeros up to a tile's 32 numbers."""
    sizes = [(height - 1) * stride + window, (width - 1) * stride + 32]
    x = placeholder((1, channels, *sizes), "bfloat16", name="x")
    w = placeholder((window, 32, channels, filters), "bfloat16", name="w")
    c, r, s = (reduce_axis((0, extent), name) for extent, name in ((channels, "c"), (window, "r"), (32, "s")))

    def value(n: Any, i: Any, j: Any, f: Any) -> Any:
        pixel, weight = x[n, c, i * stride + r, j * stride + s], w[r, s, c, f]
        return te_sum(pixel.astype("float32") * weight.astype("float32"), axis=[c, r, s])

    found = compute((1, height, width, filters), value, "z")
    return create_prim_func([x, w, found]).with_attr("layout_free_buffers", [1])


@pytest.mark.parametrize("seed", range(16))
def test_rows_of_a_tile_overlap_where_images_have_few_channels(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    channels, window, stride = int(rng.integers(1, 4)), int(rng.choice([1, 3, 7])), int(rng.choice([1, 2, 3, 4]))
    height, width = int(rng.integers(1, 5)), int(rng.choice(TILE_ROWS)) * int(rng.integers(1, 3))
    func = first_convolution(channels, height, width, 16 * int(rng.integers(1, 5)), window, stride)
    sketch = windows(func, "amx_bf16")
    made = at_point(func, sketch, random_point(sketch, rng)).without_attr("layout_free_buffers")
    args = arguments(func, seed)
    args[1][:, window:] = 0
    x, w = (numbers(item).astype("float64") for item in args[:2])
    wanted = np.zeros(args[2].shape)
    for r in range(window):
        for s in range(window):
            seen = x[0, :, r : r + height * stride : stride, s : s + width * stride : stride][:, :height, :width]
            wanted[0] += np.einsum("chw,cf->hwf", seen, w[r, s])
    if seed < 4:
        run(lower_func(made, 512), *args)
        np.testing.assert_allclose(args[2], wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(computed(made, target_with_tiles(monkeypatch), args), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(24))
def test_machine_code_gives_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_with_tiles(monkeypatch)
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    window, stride = int(rng.choice([1, 3, 5])), int(rng.integers(1, 3))
    width = int(rng.choice(TILE_ROWS)) * int(rng.integers(1, 5))
    height, filters, tiles = int(rng.integers(1, 9)), 16 * int(rng.integers(1, 9)), int(rng.integers(1, 4))
    func = convolution(kind, height, width, filters, window, stride, tiles=tiles)
    sketch = windows(func, kind)
    made = at_point(func, sketch, random_point(sketch, rng)).without_attr("layout_free_buffers")
    args = arguments(func, seed)
    wanted = expected(kind, args, window, stride)
    np.testing.assert_allclose(computed(made, target, args), wanted, rtol=1e-3, atol=1e-3)


def test_what_follows_is_computed_where_tiles_are_copied_to_their_places() -> None:
    func = convolution("amx_bf16", 4, 14, 32, 3, 1, finish=True)
    sketch = windows(func, "amx_bf16")
    args = arguments(func)
    run(lower_func(at_point(func, sketch, random_point(sketch, np.random.default_rng(1))), 512), *args)
    wanted = np.maximum(expected("amx_bf16", args, 3, 1) + args[2], 0)
    np.testing.assert_allclose(numbers(args[-1]), wanted, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_holds_four_tiles_of_sums(kind: str) -> None:
    func = convolution(kind, 4, 28, 64, 3, 1, tiles=2)
    sketch = windows(func, kind)
    wanted = {"rows": 2, "lines": 1, "columns": 2, "panel": 1, "unroll": 1}
    made = at_point(func, sketch, [d.values.index(wanted[d.name]) for d in sketch.decisions])
    asm = compile_artifact(made, SAPPHIRE, name="main", keep=("asm",)).blobs["asm"].decode()
    instruction = KINDS[kind][-1]
    inner = max(re.split(r"\.LBB\w+:", asm), key=lambda loop: loop.count(instruction))
    assert inner.count(instruction) == 4
    assert inner.count("tileloadd") == 4
    between = inner[inner.index(instruction) : inner.rindex(instruction)]
    assert "tilestored" not in between
    assert "zmm" not in between


def test_short_sums_begin_with_zeros_of_their_own() -> None:
    """Registers of tiles have no copy: LLVM would store one tile of zeros, and load it for each tile of sums."""
    func = convolution("amx_bf16", 4, 28, 64, 1, 1, tiles=2)
    sketch = windows(func, "amx_bf16")
    wanted = {"rows": 2, "lines": 1, "columns": 2, "panel": 1, "unroll": 2}
    made = at_point(func, sketch, [d.values.index(wanted[d.name]) for d in sketch.decisions])
    asm = compile_artifact(made, SAPPHIRE, name="main", keep=("asm",)).blobs["asm"].decode()
    kernel = max(asm.split("tilerelease"), key=lambda part: part.count("tdpbf16ps"))
    assert (kernel.count("tilezero"), kernel.count("tileloadd"), kernel.count("tilestored")) == (4, 8, 4)


def test_images_without_whole_tiles_are_filled_or_take_vectors() -> None:
    def names(*size: int) -> list[str]:
        return [sketch.name for sketch in generate(convolution("amx_u8s8", *size), SAPPHIRE)]

    assert names(4, 13, 16, 3, 1) == ["amx_u8s8_filled", "dot_16x4_vnni"]
    assert names(4, 14, 24, 3, 1) == ["dot_8x4_vnni"]
    assert names(4, 14, 16, 3, 1)[0] == "amx_u8s8_windows"


def test_points_fit_eight_tile_registers() -> None:
    sketch = windows(convolution("amx_bf16", 8, 56, 128, 3, 1), "amx_bf16")
    points = [sketch.values(random_point(sketch, np.random.default_rng(seed))) for seed in range(40)]
    sizes = {(v["rows"] * v["lines"], v["columns"]) for v in points}
    assert (2, 2) in sizes
    assert all(down * columns + min(down, columns) + 1 <= 8 for down, columns in sizes)
