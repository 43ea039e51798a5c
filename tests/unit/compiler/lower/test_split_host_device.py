"""Kernels and hosts apart: the launches of a split module compute what the whole function computes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver import tir_passes
from compiler.driver.build import compile_artifact, lower
from compiler.driver.pipeline import gpu_stages
from compiler.errors import CodegenError, LoweringError
from compiler.interp import threads as interp_threads
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.instrument import PassTimingInstrument
from compiler.lower.gpu.split_host_device import launches
from compiler.script.entry import from_source
from compiler.tir.verify import LoweringStage, verify
from tunefarm.script import tir as T

MAIN = GlobalVar("main")


@T.prim_func
def two_kernels(A: T.Buffer((48,)), B: T.Buffer((48,)), scale: T.float32):
    C = T.alloc_buffer((48,))
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("C"):
                i = T.axis.spatial(48, bx * 16 + tx)
                C[i] = A[47 - i] * scale
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(24, thread="threadIdx.x"):
            with T.block("B"):
                i = T.axis.spatial(48, bx * 24 + tx)
                B[i] = C[i] + C[47 - i]


def split(func=two_kernels) -> IRModule:
    *_, module = gpu_stages(lower(IRModule({"main": func})))
    return module


def test_launches_compute_what_the_function_does() -> None:
    module = split()
    assert [g.name_hint for g in module] == ["main", "main_kernel", "main_kernel_1"]
    plan = launches(module, MAIN)
    assert [[int(extent) for extent in kernel.grid] for kernel in plan.kernels] == [[3, 1, 1], [2, 1, 1]]
    assert [kernel.block for kernel in plan.kernels] == [(16, 1, 1), (24, 1, 1)]
    assert [buffer.name for buffer in plan.workspaces] == ["C"]
    a, b, c = np.arange(48, dtype="float32"), np.zeros(48, "float32"), np.zeros(48, "float32")
    given = [a, b, np.float32(3), c]  # the workspace last
    for kernel in plan.kernels:
        interp_threads.run(kernel.func, *(given[slot] for slot in kernel.slots))
    reversed_ = a[::-1] * 3
    np.testing.assert_array_equal(b, reversed_ + reversed_[::-1])


def test_a_split_module_is_read_back_and_valid() -> None:
    module = split()
    again = from_source(module.script())
    assert structural_equal(again, module)
    assert [k.slots for k in launches(again, MAIN).kernels] == [k.slots for k in launches(module, MAIN).kernels]
    for func in module.values():
        verify(func, LoweringStage.LOWERED)
    assert structural_equal(tir_passes.SplitHostDevice()(module), module)  # nothing is left to split


def test_names_that_are_taken_are_left_alone() -> None:
    module = lower(IRModule({"main": two_kernels, "main_kernel": two_kernels}))
    *_, done = gpu_stages(module)
    assert len(done) == 6
    for name in module:
        assert len(launches(done, name).kernels) == 2
    artifact = compile_artifact(module, "cuda -arch=sm_80")
    started = {entry.name: [launch.symbol for launch in entry.launches] for entry in artifact.entries}
    assert started["main_kernel"] == ["main_kernel_kernel", "main_kernel_kernel_1"]


def test_builds_for_gpus_run_both_as_passes() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        compile_artifact(two_kernels, "cuda -arch=sm_80")
        table = timing.render()
    assert "tir.ThreadSync" in table
    assert "tir.SplitHostDevice" in table
    with (
        PassContext(disabled_pass=["tir.SplitHostDevice"]),
        pytest.raises(CodegenError, match=r"main is not split(?s:.)*tir.SplitHostDevice does it"),
    ):
        compile_artifact(two_kernels, "cuda -arch=sm_80", name="main")


def test_barriers_are_for_shared_memory() -> None:
    module = lower(IRModule({"main": two_kernels}))
    assert structural_equal(tir_passes.ThreadSync("shared.dyn")(module), tir_passes.ThreadSync()(module))
    with pytest.raises(LoweringError, match=r"no barriers for memory of scope 'warp'"):
        tir_passes.ThreadSync("warp")(module)
