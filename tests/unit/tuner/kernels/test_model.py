"""The kernels of a model that are tuned: those that its build schedules, one by one."""

from __future__ import annotations

from typing import Any

from compiler.driver.graph import build_graph
from compiler.driver.kernel_schedules import KernelSchedules, kernel_schedules
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.text.print_func import workload_key
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op
from tuner.kernels.model import model_kernels

TARGET = Target("llvm -num-cores=1")


def model() -> Any:
    bb = BlockBuilder()
    given = [Var(name, TensorStructInfo((1, 32, 2, 16), "float32")) for name in "qkv"]
    with bb.function("main", given):
        with bb.dataflow():
            out = bb.emit_output(op.nn.relu(bb.emit(op.nn.attention(*given))))
        bb.emit_func_output(out)
    return bb.get()


def test_parts_of_attention_are_tasks_and_builds_ask_for_their_records() -> None:
    kernels = model_kernels(model(), TARGET)
    assert len(kernels) > 1
    assert len({kernel.name for kernel in kernels}) == len(kernels)
    assert [len(kernel.names) for kernel in kernels].count(1) == 1  # a profile's time is counted once
    asked: set[str] = set()

    def find(func: n.PrimFunc, target: Target) -> None:
        asked.add(workload_key(func))

    with kernel_schedules(KernelSchedules(find)):
        build_graph(model(), TARGET)
    assert {workload_key(kernel.func) for kernel in kernels} <= asked
