"""Every candidate of a search space computes what the unscheduled function computes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from compiler.tir.intrin.intrin import exp
from compiler.tir.ops import maximum
from compiler.topi import matmul
from tuner.errors import TuningError
from tuner.search.base import Candidate
from tuner.space.generate import generate
from tuner.workloads import WorkloadSpec

TARGETS = [Target("llvm -mcpu=znver3 -num-cores=2"), Target("llvm -mcpu=skylake-avx512 -num-cores=8")]
WORKLOADS = [
    "matmul:20,36,12",
    "matmul:17,23,7",
    "matmul:1,40,9",
    "matmul:8,3,5",
    "batch_matmul:2,9,18,6",
    "dense:7,19,11",
    "conv2d:1,3,8,9,5,3,3",
    "conv2d:2,2,9,9,4,3,3,2,1",
    "conv2d:1,4,6,20,7,1,1,1,0",
]


def biased_relu_matmul():
    """A contraction with an elementwise epilogue."""
    a, b, bias = placeholder((10, 14), name="A"), placeholder((14, 21), name="B"), placeholder((21,), name="bias")
    product = matmul(a, b)
    summed = compute((10, 21), lambda i, j: product[i, j] + bias[j], name="summed")
    return create_prim_func([a, b, bias, compute((10, 21), lambda i, j: maximum(summed[i, j], 0.0), name="relu")])


def elementwise_chain():
    a = placeholder((13, 70), name="A")
    twice = compute(a.shape, lambda i, j: a[i, j] * 2.0, name="twice")
    return create_prim_func([a, compute(a.shape, lambda i, j: exp(twice[i, j]) + 1.0, name="out")])


def agree(func, candidate: Candidate) -> None:
    rng = np.random.default_rng(1)
    shapes = [[int(d) for d in buffer.shape] for buffer in func.buffer_map.values()]
    arrays = [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]
    plain, scheduled = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run(func, *plain)
    sch = apply_trace(func, Trace.from_json(candidate.trace_json))
    run(sch.func, *scheduled)
    np.testing.assert_allclose(scheduled[-1], plain[-1], rtol=1e-4, atol=1e-5, err_msg=str(candidate.key))


def draw(func, target: Target, each: int) -> list[Candidate]:
    rng = np.random.default_rng(0)
    points = [(s, s.random(rng)) for s in generate(func, target) for _ in range(each)]
    return [Candidate(s, p) for s, p in points if p is not None]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.mcpu)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_named_workloads(workload, target):
    func = WorkloadSpec.parse(workload).prim_func()
    candidates = draw(func, target, each=3)
    assert candidates
    for candidate in candidates:
        agree(func, candidate)


@pytest.mark.parametrize("make", [biased_relu_matmul, elementwise_chain])
def test_chains(make):
    func = make()
    for candidate in draw(func, TARGETS[0], each=4):
        agree(func, candidate)


def test_an_epilogue_is_fused_into_the_tile():
    func = biased_relu_matmul()
    sch = apply_trace(func, Trace.from_json(draw(func, TARGETS[0], 1)[0].trace_json))
    text = sch.func.script()
    assert "summed" not in text.replace("summed_", "")
    assert 'scope="local"' in text


def test_the_tile_never_needs_more_registers_than_there_are():
    func = WorkloadSpec.parse("matmul:512,512,512").prim_func()
    for candidate in draw(func, TARGETS[0], each=40):
        values = candidate.sketch.values(candidate.decisions)
        assert values["rows"] * values["vectors"] < TARGETS[0].vector_registers


def test_wider_vectors_are_used_where_the_target_has_them():
    func = WorkloadSpec.parse("matmul:64,64,64").prim_func()
    texts = [apply_trace(func, Trace.from_json(draw(func, t, 1)[0].trace_json)).func.script() for t in TARGETS]
    assert "T.vectorized(8)" in texts[0]
    assert "T.vectorized(16)" in texts[1]


def test_a_function_without_blocks_is_refused():
    a = placeholder((4,), name="A")
    with pytest.raises(TuningError, match="no block"):
        generate(create_prim_func([a]), TARGETS[0])
