"""winograd: convolutions by fast filters compute what the plain sum does, and only convolutions are taken."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from compiler.interp.interpreter import run
from compiler.runtime.core.dtypes import storage_dtype
from compiler.schedule.analysis.cook_toom import POINTS, fast_filter
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from compiler.topi import nn
from tests.kit.compiler.schedules import workloads as w


def convolution(
    shape: tuple[int, int, int, int],
    filters: int,
    kernel: int = 3,
    stride: int = 1,
    padding: int = 1,
    dtype: str = "float32",
) -> PrimFunc:
    x = placeholder(shape, name="x", dtype=dtype)
    taps = placeholder((filters, shape[1], kernel, kernel), name="w", dtype=dtype)
    return create_prim_func([x, taps, nn.relu(nn.conv2d_nchw(x, taps, stride=stride, padding=padding, dilation=1))])


def by_channels_last(high: int = 6, wide: int = 9, channels: int = 3, dtype: str = "float32") -> PrimFunc:
    x, taps = placeholder((2, high, wide, channels), dtype, "x"), placeholder((3, 3, channels, 4), dtype, "w")
    r, s, c = reduce_axis((0, 3), "r"), reduce_axis((0, 3), "s"), reduce_axis((0, channels), "c")

    def out(b, i, j, k):
        factors = x[b, i + r, j + s, c], taps[r, s, c, k]
        return te_sum(factors[0].astype("float32") * factors[1].astype("float32"), axis=[r, s, c])

    return create_prim_func([x, taps, compute((2, high - 2, wide - 2, 4), out, name="conv2d_nchw")])


def results(func: PrimFunc, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    buffers = [func.buffer_map[p] for p in func.params]
    span = 9 if any("int" in b.dtype for b in buffers) else 1
    arrays = [rng.uniform(-span, span, [int(s) for s in b.shape]).astype(storage_dtype(b.dtype)) for b in buffers]
    run(func, *arrays)
    return arrays[-1]


def fast(func: PrimFunc, tile: int, band: int = 0, multiple: int = 1) -> Schedule:
    sch = Schedule(func)
    assert len(sch.winograd(sch.get_block("conv2d_nchw"), tile, band, multiple)) == 8
    return sch


@pytest.mark.parametrize("taps", [2, 3, 5])
@pytest.mark.parametrize("results_", [2, 3, 4])
def test_the_matrices_are_exact(results_: int, taps: int) -> None:
    found = fast_filter(results_, taps)
    assert found.products == results_ + taps - 1 <= len(POINTS) + 1
    rng = np.random.default_rng(0)
    data = [Fraction(int(v)) for v in rng.integers(-9, 9, found.products)]
    g = [Fraction(int(v)) for v in rng.integers(-9, 9, taps)]
    d = [sum(a * b for a, b in zip(row, data)) for row in found.data]
    f = [sum(a * b for a, b in zip(row, g)) for row in found.taps]
    y = [sum(a * p * q for a, p, q in zip(row, d, f)) for row in found.result]
    assert y == [sum(g[k] * data[i + k] for k in range(taps)) for i in range(results_)]


@pytest.mark.parametrize(
    ("shape", "tile", "band"),
    [
        ((1, 2, 6, 6), 2, 0),
        ((1, 2, 5, 7), 2, 1),
        ((2, 3, 8, 8), 4, 1),
        ((1, 1, 7, 5), 4, 0),
        ((1, 2, 6, 6), 3, 2),
        ((1, 2, 9, 7), 2, 2),
        ((1, 1, 14, 9), 4, 3),
    ],
)
def test_convolutions(shape: tuple[int, int, int, int], tile: int, band: int) -> None:
    func = convolution(shape, filters=3)
    sch = fast(func, tile, band)
    expected = results(func)
    np.testing.assert_allclose(results(sch.func), expected, rtol=0, atol=2e-5 * float(np.abs(expected).max()))


def test_no_padding_other_kernels_and_layouts() -> None:
    for func, tile in ((convolution((1, 2, 9, 9), 2, kernel=5, padding=0), 2), (by_channels_last(), 2)):
        expected = results(func)
        np.testing.assert_allclose(results(fast(func, tile).func), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_elements_that_are_cast_to_the_sums_are_computed_in_that_type(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    high, wide, channels = (int(v) for v in rng.integers((5, 5, 1), (12, 12, 4)))
    func = by_channels_last(high, wide, channels, dtype)
    tile = int(rng.integers(2, 5))
    sch = fast(func, tile, band=int(rng.integers(0, 2)))
    assert {sch.get(sch.get_block(f"{name}_tiles")).writes[0].buffer.dtype for name in ("x", "w")} == {"float32"}
    expected = results(func, seed)
    np.testing.assert_allclose(results(sch.func, seed), expected, rtol=0, atol=2e-5 * max(1.0, np.abs(expected).max()))


def test_the_trace_is_the_record() -> None:
    func = convolution((1, 2, 6, 6), filters=2)
    sch = fast(func, 2, 1)
    again = apply_trace(func, Trace.from_json(sch.trace.to_json()))
    assert again.func.script() == sch.func.script()


def test_tiles_are_added_until_vectors_are_whole() -> None:
    func = convolution((1, 2, 7, 7), filters=2)
    sch = fast(func, 2, band=2, multiple=8)
    assert [int(s) for s in sch.get(sch.get_block("pad_temp_tiles")).writes[0].buffer.shape][-1] == 8
    sch = fast(func, 2, band=4, multiple=24)
    assert [int(s) for s in sch.get(sch.get_block("pad_temp_tiles")).writes[0].buffer.shape][-1] == 24
    sch = fast(func, 2, multiple=6)
    assert [int(s) for s in sch.get(sch.get_block("pad_temp_tiles")).writes[0].buffer.shape][-1] == 24
    np.testing.assert_allclose(results(sch.func), results(func), rtol=0, atol=1e-5)
    sch = fast(func, 2, multiple=25)
    assert [int(s) for s in sch.get(sch.get_block("conv2d_nchw_lines")).writes[0].buffer.shape][-2:] == [5, 5]
    np.testing.assert_allclose(results(sch.func), results(func), rtol=0, atol=1e-5)


def test_the_product_has_fewer_multiplications() -> None:
    sch = fast(convolution((1, 4, 8, 8), filters=5), 2)
    extents = [int(iv.dom.extent) for iv in sch.get(sch.get_block("conv2d_nchw_tiles")).iter_vars]
    assert extents == [1, 4, 4, 1, 5, 16, 4]


REFUSED = [
    (convolution((1, 2, 9, 9), 2, stride=2), 2, 0, 1, "no axis by itself"),
    (convolution((1, 2, 6, 6), 2, kernel=1, padding=0), 2, 0, 1, "no fast filter for tiles of 2 and 1 × 1 taps"),
    (convolution((1, 2, 6, 6), 2, dtype="int32"), 2, 0, 1, "does not compute in one floating-point type"),
    (convolution((1, 1, 12, 12), 1), 8, 0, 1, "no fast filter for tiles of 8 and 3 × 3 taps"),
    (convolution((1, 1, 12, 12), 1), 2, 7, 1, "6 rows of tiles hold no band of 7"),
    (convolution((1, 1, 12, 12), 1), 2, 0, 0, "tiles cannot be a multiple of 0"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_no_such_convolution_is_refused(number: int) -> None:
    func, tile, band, multiple, rule = REFUSED[number]
    steps = lambda s: s.winograd(s.get_block("conv2d_nchw"), tile, band, multiple)  # noqa: E731
    w.check_refused(func, steps, "winograd", rule)


def test_only_a_sum_of_products_in_windows_is_taken() -> None:
    for func, block, rule in (
        (w.row_sum(), "S", "does not add up products"),
        (w.matmul(), "C", "does not read one buffer in windows"),
    ):
        steps = lambda s, name=block: s.winograd(s.get_block(name), 2, 0, 1)  # noqa: E731
        w.check_refused(func, steps, "winograd", rule)
