"""Images whose rows fill no vectors are written as one row, where they lie so in memory."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import blocks_of
from tuner.space.cpu.elementwise import spread
from tuner.space.cpu.hardware import Hardware

WIDE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=2")


def scaled(channels: int, height: int, width: int, padded: int = 0) -> PrimFunc:
    """Images, each scaled by a number of its own, and padded on the right."""
    x = placeholder((1, channels, height, width), name="X")
    scale = placeholder((1, channels, 1, 1), name="Scale")
    given = topi.nn.pad(x, (0, 0, 0, 0), (0, 0, 0, padded)) if padded else x
    return create_prim_func([x, scale, topi.multiply(given, scale)])


def spread_out(func: PrimFunc) -> Schedule:
    sch = Schedule(func)
    for info in blocks_of(sch.func):
        spread(sch, info, Hardware.of(WIDE, "float32").lanes)
    return sch


@pytest.mark.parametrize(("height", "width", "one_row"), [
    (14, 14, True), (7, 7, True), (56, 56, True), (14, 16, False), (14, 32, False),
])  # fmt: skip
def test_rows_that_leave_lanes_empty_are_one(height, width, one_row):
    sch = spread_out(scaled(32, height, width))
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops(sch.get_block("T_multiply"))]
    assert (-(-height * width // 16) in extents) is one_row
    assert extents[-1] == 16


def test_few_images_are_not() -> None:
    sch = spread_out(scaled(3, 56, 56))
    assert 56 * 56 // 16 not in [int(sch.get(loop).extent) for loop in sch.get_loops(sch.get_block("T_multiply"))]


@pytest.mark.parametrize("seed", range(12))
def test_results_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels, height, width = (int(rng.integers(low, high)) for low, high in ((14, 20), (1, 9), (3, 24)))
    func = scaled(channels, height, width, int(rng.integers(0, 3)))
    shapes = [tuple(int(s) for s in b.shape) for b in func.buffer_map.values()]
    given = [rng.standard_normal(shape).astype("float32") for shape in shapes[:-1]]
    wanted, got = np.zeros(shapes[-1], "float32"), np.zeros(shapes[-1], "float32")
    run(lower_func(func, 512), *given, wanted)
    run(lower_func(spread_out(func).func, 512), *given, got)
    np.testing.assert_array_equal(got, wanted)
