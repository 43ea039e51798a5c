"""The differences that the order of a sum may make, from the function alone."""

import numpy as np
import pytest

from compiler import topi
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.topi import nn
from rpc_server.executor.compare import disagreement
from tuner.rounding import Rounding, rounding
from tuner.workloads import WorkloadSpec

UNIT = 2.0**-24


def of(make, *shapes, dtype="float32"):
    inputs = [placeholder(shape, dtype, name=f"X{i}") for i, shape in enumerate(shapes)]
    return rounding(create_prim_func([*inputs, make(*inputs)]))


def test_only_sums_of_floats_round():
    assert of(lambda a: a + a, (64, 64)).relative == 0
    assert of(topi.max, (64, 64)) == Rounding()
    assert of(topi.sum, (64, 64), dtype="int32") == Rounding()


@pytest.mark.parametrize(
    ("dtype", "unit"), [("float64", 2.0**-53), ("float32", UNIT), ("float16", 2.0**-11), ("bfloat16", 2.0**-8)]
)
def test_the_error_grows_with_the_root_of_the_number_of_terms(dtype, unit):
    unit = min(unit, UNIT)  # numbers of 16 bits are added as float32, and rounded once
    short, long = (of(topi.sum, (side, side), dtype=dtype) for side in (16, 64))
    assert short == Rounding(4 * 16 * unit, 4 * 256 * unit)
    assert long == Rounding(4 * 64 * unit, 4 * 4096 * unit)


def test_sums_after_one_another_add_up():
    """A softmax subtracts a maximum, which is exact, and adds up once; two products round twice."""
    assert of(nn.softmax, (8, 4096)).relative == pytest.approx(4 * 64 * UNIT)
    twice = of(lambda a, b: nn.matmul(nn.matmul(a, b), b), (8, 1024), (1024, 1024))
    assert twice.relative == pytest.approx(4 * 2048**0.5 * UNIT)


def test_what_follows_a_sum_scales_its_error():
    shape = (1, 4096)
    total = of(lambda a: topi.sum(a, -1), shape)
    assert total == Rounding(4 * 64 * UNIT, 4 * 4096 * UNIT)
    assert of(lambda a: topi.sum(a, -1) * 0.25, shape).absolute == total.absolute / 4
    assert of(lambda a: topi.sum(a, -1) / 4096.0, shape).absolute == total.absolute / 4096
    assert of(lambda a: topi.exp(topi.sum(a, -1)), shape) == Rounding(total.relative)  # who knows how large


def test_checks_of_everyday_workloads_stay_as_they_were():
    for spec in ("matmul:1024,1024,1024", "conv2d:1,512,14,14,512,3,3", "softmax:128,4096", "layer_norm:512,1024"):
        assert rounding(WorkloadSpec.parse(spec).prim_func()).relative < 1e-4


@pytest.mark.parametrize("mean", [0.0, 0.5])
def test_orders_of_a_long_sum_agree(mean):
    """The terms are of both signs, of which next to nothing is left, or positive."""
    terms = np.random.default_rng(0).uniform(-0.5, 0.5, 1 << 20)
    terms = (terms - terms.mean() + mean).astype("float32")
    in_order = np.cumsum(terms)[-1]
    by_lanes = np.cumsum(terms.reshape(-1, 8), axis=0)[-1].sum()
    may = of(topi.sum, terms.shape)
    assert in_order != by_lanes
    assert mean or disagreement(by_lanes, in_order, "float32", 1e-4, 1e-6)  # a part of the result says nothing here
    assert disagreement(by_lanes, in_order, "float32", may.relative, may.absolute) == ""
    assert disagreement(by_lanes - mean * 4096 - 1, in_order, "float32", may.relative, may.absolute)
