"""The driver documents' examples run unchanged with `import tunefarm as tvm` (the one for CUDA apart)."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te


def vector_add(n=2):
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda *i: A(*i) + B(*i), name="C")
    return A, B, C


def run_add(function, n=2):
    dev = tvm.cpu(0)
    a = tvm.nd.array(np.arange(n, dtype="float32"), dev)
    b = tvm.nd.array(np.full(n, 0.5, "float32"), dev)
    c = tvm.nd.empty((n,), "float32", dev)
    function(a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.arange(n, dtype="float32") + 0.5)


def test_lower_then_build():
    A, B, C = vector_add()
    s = tvm.te.create_schedule(C.op)
    m = tvm.lower(s, [A, B, C], name="test_add")
    rt_mod = tvm.build(m, target="llvm")
    assert isinstance(m, tvm.IRModule)
    run_add(rt_mod["test_add"])
    run_add(rt_mod)


def test_build_a_mapping_of_target_to_module():
    A, B, C = vector_add()
    m1 = tvm.lower(tvm.te.create_schedule(C.op), [A, B, C], name="test_add1")
    rt_mod = tvm.build({"llvm": m1})
    run_add(rt_mod["test_add1"])
    run_add(tvm.build({tvm.Target("llvm"): m1})["test_add1"])


def test_build_a_schedule_under_a_target():
    A, B, C = vector_add(1000)
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=64)
    s[C].vectorize(inner)
    s[C].parallel(outer)
    with tvm.target.Target("llvm"):
        run_add(tvm.build(s, [A, B, C], name="add"), 1000)


def test_time_evaluator_and_missing_functions():
    A, B, C = vector_add()
    module = tvm.build(te.create_schedule(C.op), [A, B, C], name="add")
    dev = tvm.device("llvm", 0)
    args = [tvm.nd.array(np.ones(2, "float32"), dev) for _ in range(3)]
    result = module.time_evaluator("add", dev, number=10, repeat=3)(*args)
    assert len(result.results) == 3
    assert result.mean > 0
    with pytest.raises(AttributeError):
        module.get_function("substract")


def test_wrong_inputs_are_value_errors():
    A, B, C = vector_add()
    s = te.create_schedule(C.op)
    for call in (
        lambda: tvm.lower(s),
        lambda: tvm.lower("add", [A, B, C]),
        lambda: tvm.build({"llvm": "add"}),
        lambda: tvm.build({3: tvm.lower(s, [A, B, C])}),
        lambda: tvm.build(s, [A, B, C], target="quantum"),
    ):
        with pytest.raises(ValueError):
            call()
