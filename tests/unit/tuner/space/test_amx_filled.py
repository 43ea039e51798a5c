"""Tiles that are filled with rows of more than one line of an image, or of a matrix that has no whole tiles."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from compiler.topi import nn
from tests.kit.compiler.narrow.amx_in_software import target_with_tiles
from tests.kit.compiler.narrow.products import bits, computed, numbers
from tests.kit.tuner.sketch_points import at_point, random_point
from tests.unit.tuner.space.test_amx_windows import KINDS, SAPPHIRE, arguments, convolution, expected
from tuner.search.drafted import drafted_candidate
from tuner.space.generate import generate
from tuner.space.sketch import Sketch


def filled(func: PrimFunc) -> Sketch:
    [sketch] = [sketch for sketch in generate(func, SAPPHIRE) if sketch.name.endswith("_filled")]
    return sketch


@pytest.mark.parametrize("finish", [False, True])
@pytest.mark.parametrize(
    ("size", "window", "stride"), [((7, 7), 3, 1), ((4, 4), 1, 1), ((3, 5), 3, 2), ((13, 1), 1, 1)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_all_pixels_are_in_one_row(kind: str, size: tuple[int, int], window: int, stride: int, finish: bool) -> None:
    func = convolution(kind, *size, 32, window, stride, finish)
    sketch, args = filled(func), arguments(func)
    run(lower_func(at_point(func, sketch, random_point(sketch, np.random.default_rng(1))), 512), *args)
    wanted = expected(kind, args, window, stride)
    if finish:
        wanted = np.maximum(wanted + args[2], 0)
    found = numbers(args[-1]) if args[-1].dtype == "uint16" else args[-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-2 if finish else 1e-4, atol=1e-3)


@pytest.mark.parametrize("seed", range(24))
def test_machine_code_gives_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, rng = target_with_tiles(monkeypatch, cores=2), np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    window, stride, tiles = int(rng.choice([1, 3, 5])), int(rng.integers(1, 3)), int(rng.integers(1, 4))
    height, width = int(rng.integers(3, 12)), int(rng.choice([3, 5, 7, 9, 10, 13, 20]))
    func = convolution(kind, height, width, 16 * int(rng.integers(1, 9)), window, stride, tiles=tiles)
    sketch = filled(func)
    made = at_point(func, sketch, random_point(sketch, rng)).without_attr("layout_free_buffers")
    args = arguments(func, seed)
    wanted = expected(kind, args, window, stride)
    np.testing.assert_allclose(computed(made, target, args), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_any_convolution_gives_what_plain_loops_give(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several images, dilation, a residual, a transposed result; at random points of all sketches with tiles."""
    target, rng = target_with_tiles(monkeypatch, cores=2), np.random.default_rng(seed)
    image, weights, sums, channels, _ = KINDS[list(KINDS)[seed % len(KINDS)]]
    window, dilation = int(rng.choice([1, 2, 3])), int(rng.integers(1, 3))
    size = [int(rng.integers(1, 4)), *(int(n) for n in rng.integers((window - 1) * dilation + 9, 24, 2))]
    x = placeholder((*size, channels), image, "x")
    w = placeholder((window, window, channels, 16 * int(rng.integers(1, 5))), weights, "w")
    found = nn.conv2d(x, w, int(rng.integers(1, 4)), int(rng.integers(0, 3)), dilation, "NHWC", "HWIO", sums)
    residual = placeholder(found.shape, sums, "residual")
    out = nn.relu(topi.add(found, residual))
    func = create_prim_func([x, w, residual, topi.transpose(out, (0, 3, 1, 2)) if rng.integers(2) else out])
    args = arguments(func, seed)
    sketches = [sketch for sketch in generate(func, target) if "amx" in sketch.name]
    assert sketches
    wanted = computed(func, target, args)
    for sketch in sketches:
        made = at_point(func, sketch, random_point(sketch, rng))
        np.testing.assert_allclose(computed(made, target, args), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("batch", "rows"), [(1, 197), (2, 50), (3, 9)])
def test_rows_of_a_matrix_get_zeros_up_to_whole_tiles(batch: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = placeholder((batch, rows, 64), "bfloat16", "x"), placeholder((64, 48), "bfloat16", "w")
    bias, k = placeholder((48,), "float32", "bias"), reduce_axis((0, 64), "k")

    def value(b, i, j):  # type: ignore[no-untyped-def]
        return te_sum(x[b, i, k].astype("float32") * w[k, j].astype("float32"), axis=k)

    sums = compute((batch, rows, 48), value, name="z")
    func = create_prim_func([x, w, bias, topi.add(sums, bias)]).with_attr("layout_free_buffers", [1])
    sketch, rng = filled(func), np.random.default_rng(rows)
    target = target_with_tiles(monkeypatch)
    made = at_point(func, sketch, random_point(sketch, rng)).without_attr("layout_free_buffers")
    held = [bits(rng.uniform(-1, 1, shape)) for shape in ((batch, rows, 64), (64, 48))]
    added = rng.uniform(-1, 1, 48).astype("float32")
    wanted = numbers(held[0]).astype("float64") @ numbers(held[1]) + added
    found = computed(made, target, [*held, added, np.zeros(wanted.shape, "float32")])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "drafted"), [(7, "amx_bf16_filled"), (16, "amx_bf16_windows"), (28, "amx_bf16_windows")]
)
def test_the_draft_fills_tiles_where_lines_are_short(size: int, drafted: str) -> None:
    func = convolution("amx_bf16", size, size, 512, 3, 1, tiles=4)
    candidate = drafted_candidate(func, SAPPHIRE, generate(func, SAPPHIRE))
    assert candidate is not None
    assert candidate.sketch.name == drafted


def test_lines_of_whole_tiles_and_very_few_rows_are_left() -> None:
    for size in ((4, 16), (2, 2)):
        names = [sketch.name for sketch in generate(convolution("amx_u8s8", *size, 16, 1, 1), SAPPHIRE)]
        assert "amx_u8s8_filled" not in names
