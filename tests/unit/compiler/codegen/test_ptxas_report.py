"""Reading what ptxas says."""

from __future__ import annotations

import re

import pytest

from compiler.artifact import Artifact
from compiler.codegen.nvptx.ptxas import KernelResources, assemble, find_ptxas, kernel_resources, parse_report
from compiler.driver.build import compile_artifact, lower
from compiler.errors import CodegenError
from compiler.te.operation import placeholder
from compiler.topi import exp
from compiler.topi.schedules import cuda
from tunefarm.cli.records.build import compiled
from tunefarm.cli.records.build_report import BuiltItem, item_json, print_item
from tunefarm.client import BestReply
from tuner.kernels.files import Item
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec

REPORT = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_80'
ptxas info    : Function properties for main_kernel
    32 bytes stack frame, 28 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 60 registers, used 1 barriers, 32 bytes cumulative stack size, 2048 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 160.489 ms
ptxas info    : Compiling entry function 'main_kernel_1' for 'sm_80'
ptxas info    : Function properties for main_kernel_1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


def test_registers_spills_and_shared_memory() -> None:
    first, second = parse_report(REPORT)
    assert first == KernelResources("main_kernel", 60, 32, 28, 24, 2048)
    assert str(first) == "main_kernel: 60 registers, 52 bytes spilled, 2048 bytes shared"
    assert second == KernelResources("main_kernel_1", 8, 0, 0, 0, 0)
    assert parse_report("nothing") == ()


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")
def test_of_a_build() -> None:
    x = placeholder((100, 64), name="x")
    out = exp(x)
    artifact = compile_artifact(lower(cuda.schedule_injective("cuda", [out]), [x, out]), "cuda -arch=sm_80")
    [kernel] = kernel_resources(artifact)
    assert kernel.kernel == "main_kernel"
    assert 0 < kernel.registers < 64
    assert kernel.spill_stores == 0
    with pytest.raises(CodegenError, match="ptxas does not take the PTX for sm_80"):
        assemble(str(find_ptxas()), b"this is no PTX", "sm_80")


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")
def test_tunefarm_build_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    task = TuningTask.from_spec("copy:4096", "cuda -arch=sm_80")
    reply = BestReply("miss", ("nobody tuned it",), None, None, None, None)
    item = Item(WorkloadSpec("copy", (4096,)), {"name": "copy"})
    built = BuiltItem(task, "copy", reply, compiled(item, task, "copy", None), (), None)
    print_item(built)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "copy:4096:float32: untuned"
    assert re.fullmatch(r"  copy_kernel: \d+ registers, 0 bytes spilled, 0 bytes shared", second)
    assert third == "  - nobody tuned it"
    [kernel] = item_json(built)["kernels"]
    assert kernel["kernel"] == "copy_kernel"
    assert 0 < kernel["registers"] < 64


def test_code_for_a_cpu_has_none() -> None:
    assert kernel_resources(Artifact("llvm", (), (), {"object": b""})) == ()
