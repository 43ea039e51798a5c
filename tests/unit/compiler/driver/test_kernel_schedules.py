"""Schedules of a graph's kernels: what a build asks, and what is done with the answers."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.kernel_schedules import KernelSchedules, kernel_schedules, scheduled
from compiler.ir.base import GlobalVar
from compiler.ir.structural import assert_structural_equal
from compiler.relax.interp import run
from compiler.target.target import Target
from compiler.tir import nodes as n
from tunefarm import relax, te, tir, topi
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op
from tuner.faces import kernel_schedules as answers
from tuner.faces.kernel_schedules import KERNEL_SCHEDULES

TARGET = Target("llvm -num-cores=2")


def product(size: int) -> n.PrimFunc:
    a, b = (te.placeholder((size, size), name=name) for name in "AB")
    func: n.PrimFunc = te.create_prim_func([a, b, topi.matmul(a, b)])
    return func


def test_a_record_comes_before_a_draft_and_small_kernels_get_none() -> None:
    asked: list[str] = []
    marked = product(8).with_attr("mine", 1)

    def find(func: n.PrimFunc, target: Target) -> Any:
        asked.append("find")
        return marked if func is known else None

    def pick(func: n.PrimFunc, target: Target) -> Any:
        asked.append("pick")
        return marked

    known, large, small = product(64), product(65), product(8)
    with kernel_schedules(KernelSchedules(find, pick)):
        made = scheduled({GlobalVar("k"): known, GlobalVar("l"): large, GlobalVar("s"): small}, TARGET)
    assert list(made.values()) == [marked, marked, small]
    assert asked == ["find", "find", "find", "pick"]


def test_a_kernel_of_several_results_is_scheduled() -> None:
    a, b = (te.placeholder((64, 64), name=name) for name in "AB")
    func = te.create_prim_func([a, b, *topi.split(topi.matmul(a, b), 2, axis=1)])
    with kernel_schedules(KernelSchedules(pick=lambda func, target: product(8))):
        assert list(scheduled({GlobalVar("k"): func}, TARGET).values()) != [func]


def test_a_kernel_that_somebody_scheduled_keeps_its_schedule() -> None:
    sch = tir.Schedule(product(64))
    sch.parallel(sch.get_loops(sch.get_block("T_matmul"))[0])
    with kernel_schedules(KernelSchedules(pick=lambda func, target: product(8))):
        assert scheduled({GlobalVar("k"): sch.mod["main"]}, TARGET) == {GlobalVar("k"): sch.mod["main"]}


def test_a_kernel_is_drafted_once() -> None:
    first = KERNEL_SCHEDULES.pick(product(66), TARGET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "drafted", lambda func, target: pytest.fail("drafted again"))
        again = KERNEL_SCHEDULES.pick(product(66), TARGET)
    assert first is not None
    assert_structural_equal(first, again)


def test_builds_draft_schedules_and_compute_the_same() -> None:
    bb = BlockBuilder()
    x, w = (Var(name, TensorStructInfo((64, 64), "float32")) for name in "xw")  # type: ignore[arg-type]
    with bb.function("main", [x, w]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.softmax(bb.emit(op.nn.relu(bb.emit(op.matmul(x, w))))))
        bb.emit_func_output(out)
    args = [np.random.default_rng(0).uniform(-1, 1, (64, 64)).astype("float32") for _ in range(2)]
    machine = relax.VirtualMachine(relax.build(bb.get(), TARGET), tvm.cpu())
    np.testing.assert_allclose(machine["main"](*args).numpy(), run(bb.get(), *args), rtol=1e-4, atol=1e-6)
