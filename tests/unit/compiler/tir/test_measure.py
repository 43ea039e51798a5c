"""Flops, workspaces, where buffers are used, memory rules, and copies with definitions of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from compiler.interp.interpreter import run
from compiler.ir.structural import structural_equal
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.verify import verify
from tests.kit.compiler.schedules import workloads as workloads
from tunefarm import te, tir
from tunefarm.script import tir as T


def product(rows, inner) -> n.PrimFunc:
    a = te.placeholder((rows, inner), name="A")
    k = te.reduce_axis((0, inner), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[i, k] * 2.0, axis=k), name="C")
    return te.create_prim_func([a, te.compute((rows,), lambda i: te.max(c[i], 0.0), name="D")])


def test_flops():
    func = product(6, 8)
    assert tir.analysis.estimate_tir_flops(func) == 6 * 8 * 2 + 6
    assert tir.analysis.estimate_tir_flops(tvm.IRModule({"a": func, "b": func})) == 2 * (6 * 8 * 2 + 6)
    assert tir.analysis.estimate_tir_flops(tvm.lower(func)["main"].body) >= 6 * 8 * 2 + 6
    with pytest.raises(IRError, match="the flops of loop 'i' are not known"):
        tir.analysis.estimate_tir_flops(product(te.var("m"), 8))


def test_workspace():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        first = T.allocate([10], "float32")  # noqa: F841
        with T.allocate([100], "int8"):
            T.evaluate(0)
        last = T.allocate([5], "float64")  # noqa: F841
        A[0] = 1.0

    assert tir.analysis.calculate_workspace_bytes(func) == 40 + 100
    assert tir.analysis.calculate_workspace_bytes(func, 64) == 64 + 128
    assert tir.analysis.calculate_workspace_bytes(product(6, 8)) == 24


def test_where_buffers_are_used():
    func = product(6, 8)
    found = {buffer.name: at for buffer, at in tir.analysis.detect_buffer_access_lca(func).items()}
    assert found["C"].name_hint == "root"
    assert (found["A"].name_hint, found["D"].name_hint) == ("C", "D")


def test_memory_of_a_gpu_is_touched_by_threads():
    s = tir.Schedule(product(6, 8))
    func = s.mod["main"].with_attr("target", tvm.target.Target("cuda"))
    assert tir.analysis.verify_memory(s.mod["main"])
    assert not tir.analysis.verify_memory(func)
    for name in ("C", "D"):
        s.bind(s.get_loops(s.get_block(name))[0], "threadIdx.x")
    assert tir.analysis.verify_memory(s.mod["main"].with_attr("target", tvm.target.Target("cuda")))


@pytest.mark.parametrize("make", [workloads.matmul_relu, workloads.blur, lambda: product(5, 7)])
def test_renewed_definitions(make):
    func = make()
    for each in (func, tvm.lower(func)["main"]):
        copy = tir.stmt_functor.renew_defs(each)
        assert structural_equal(copy, each)
        theirs = {node for node in walk(each.body) if isinstance(node, n.Var)}
        assert not any(node in theirs for node in walk(copy.body) if isinstance(node, n.Var))
    verify(tir.stmt_functor.renew_defs(func))


@pytest.mark.parametrize("inner", [0, te.var("k")])
def test_an_empty_reduction_initialises_everywhere(inner):
    func = product(5, inner)
    given = np.zeros((5, 0), "float32")
    machine = tvm.nd.array(np.full(5, 9, "float32"))
    tvm.build(func, target="llvm")(tvm.nd.array(given), machine)
    interpreted = np.full(5, 9, "float32")
    run(func, given, interpreted)
    assert interpreted.tolist() == machine.numpy().tolist() == [0.0] * 5
