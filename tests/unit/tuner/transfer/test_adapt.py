"""Traces made to fit another shape: legal there, and with the values they had as far as the shape allows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from tests.kit.tuner.sketch_points import random_point
from tuner.search.recognise import recogniser
from tuner.space.generate import generate
from tuner.space.repair import nearest_point, repair
from tuner.space.sketch import Decision, Sketch, nearest
from tuner.transfer.adapt import adapt
from tuner.workloads import WorkloadSpec

TARGET = Target("llvm -mcpu=znver3 -mtriple=x86_64-unknown-linux-gnu -mattr=+avx2,+fma -num-cores=2")


def func(spec: str):
    return WorkloadSpec.parse(spec).prim_func()


def random_trace(source, seed: int, pick: int = 0) -> Trace:
    sketch = generate(source, TARGET)[pick]
    point = random_point(sketch, np.random.default_rng(seed), 1000)
    return sketch.trace.with_decisions(point)


def point_of(trace: Trace, of):
    found = recogniser(generate(of, TARGET))("", trace.to_json())
    assert found is not None
    return found.sketch.name, found.sketch.values(found.decisions)


PAIRS = [
    ("matmul:64,64,64", "matmul:128,128,128"),
    ("matmul:64,64,64", "matmul:37,61,29"),  # nothing divides
    ("matmul:509,251,127", "matmul:64,64,64"),
    ("matmul:64,64,64", "matmul:1,64,64"),
    ("batch_matmul:4,32,32,32", "batch_matmul:3,17,40,24"),
    ("dense:32,64,48", "dense:7,96,50"),
    ("conv2d:1,8,14,14,16,3,3", "conv2d:1,16,7,7,24,3,3"),
    ("conv2d:1,8,14,14,16,3,3", "conv2d:1,8,28,28,16,3,3,2,1"),
]


@pytest.mark.parametrize(("source", "to"), PAIRS)
@pytest.mark.parametrize("pick", [0, -1])
def test_what_is_adapted_is_a_legal_point_of_the_other_space(source, to, pick):
    here, there = func(source), func(to)
    trace = random_trace(here, 3, pick)
    made = adapt(trace, here, there, TARGET)
    assert made is not None
    kind = point_of(trace, here)[0].split("+")[0]
    assert point_of(made, there)[0].split("+")[0] == kind


def test_a_trace_is_its_own_adaptation():
    here = func("matmul:64,48,32")
    for seed in range(3):
        trace = random_trace(here, seed)
        assert adapt(trace, here, here, TARGET) == trace


def test_values_that_are_legal_there_are_kept():
    here, there = func("matmul:64,64,64"), func("matmul:512,512,512")
    trace = random_trace(here, 1)
    assert point_of(adapt(trace, here, there, TARGET), there)[1] == point_of(trace, here)[1]


def test_adapted_traces_compute_the_function():
    here, there = func("conv2d:1,4,10,10,8,3,3"), func("conv2d:1,3,7,9,5,3,3")
    made = adapt(random_trace(here, 5, -1), here, there, TARGET)
    rng = np.random.default_rng(0)
    data, weight = (rng.random(s, dtype=np.float32) for s in ((1, 3, 7, 9), (5, 3, 3, 3)))
    out, expected = (np.zeros((1, 5, 7, 9), np.float32) for _ in range(2))
    run(apply_trace(there, made).func, data, weight, out)
    run(there, data, weight, expected)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_other_families_have_no_adaptation():
    here = func("matmul:64,64,64")
    assert adapt(random_trace(here, 0), here, func("dense:64,64,64"), TARGET) is None


# ----------------------------------------------------------------- traces of no derived space


def row_sums(rows: int, columns: int, name: str = "S"):
    a = placeholder((rows, columns), "float32", name="A")
    k = reduce_axis((0, columns), name="k")
    return create_prim_func([a, compute((rows,), lambda i: te_sum(a[i, k], axis=k), name=name)])


def tiled(of, decision, prim="sample_perfect_tile", parts=3, block="S") -> Trace:
    sch = Schedule(of)
    i, _ = sch.get_loops(sch.get_block(block))
    factors = getattr(sch, prim)(i, n=parts, max_innermost_factor=16, decision=decision)
    loops = sch.split(i, factors)
    sch.parallel(loops[0])
    return sch.trace


@pytest.mark.parametrize(("rows", "expected"), [(96, (3, 4, 8)), (192, (6, 4, 8)), (60, (3, 4, 5)), (61, (61, 1, 1))])
def test_perfect_factors_move_to_the_nearest_ones(rows, expected):
    made = adapt(tiled(row_sums(64, 8), [2, 4, 8]), row_sums(64, 8), row_sums(rows, 8), TARGET)
    assert math.prod(made.decisions[0]) == rows
    if rows in (96, 192, 61):
        assert made.decisions == (expected,)


def test_covering_factors_are_kept_where_they_need_not_divide():
    made = adapt(tiled(row_sums(64, 8), [4, 8], "sample_tile"), row_sums(64, 8), row_sums(61, 8), TARGET)
    assert made.decisions == ((4, 8),)


def test_blocks_of_another_name_are_found():
    made = adapt(tiled(row_sums(64, 8), [2, 4, 8]), row_sums(64, 8), row_sums(128, 8, "T"), TARGET)
    assert made is not None
    assert dict(made.steps[0].attrs)["name"] == "T"
    assert made.decisions == ((4, 4, 8),)


def test_steps_that_are_illegal_there_mean_none():
    sch = Schedule(row_sums(64, 8))
    i, _ = sch.get_loops(sch.get_block("S"))
    sch.split(i, [8, 8])  # covers 64 rows and no more
    assert adapt(sch.trace, row_sums(64, 8), row_sums(128, 8), TARGET) is None


# ------------------------------------------------------------------------------------- repair


def space(allowed, sizes=(8, 8)) -> Sketch:
    decisions = tuple(Decision(f"d{i}", tuple(2**k for k in range(size))) for i, size in enumerate(sizes))
    return Sketch("s", Trace(), decisions, allowed, lambda v: 0.0)


def test_repair_keeps_what_is_allowed_and_moves_the_rest_no_further_than_needed():
    sketch = space(lambda v: v["d0"] * v["d1"] <= 64)
    assert repair(sketch, (3, 3)) == (3, 3)
    moved = repair(sketch, (5, 4))
    assert moved[0] + moved[1] == 6
    assert abs(moved[0] - 5) + abs(moved[1] - 4) == 3


def test_repair_brings_a_point_back_into_the_domains():
    assert repair(space(lambda v: True), (99, -3)) == (7, 0)


def test_repair_gives_up():
    assert repair(space(lambda v: False), (1, 1)) is None


def test_the_nearest_value_is_by_ratio():
    assert nearest((1, 4, 16), 9) == 2  # 16/9 is less than 9/4
    assert nearest((1, 4, 16), 8) == 1  # as near as 16, and smaller
    assert nearest((-2, 0, 3), 2) == 2


def test_unknown_decisions_take_a_middle_value():
    assert nearest_point(space(lambda v: True), {"d1": 64}) == (4, 6)
