"""Objects for machines other than this one: what instructions they hold, and what they compute under emulation."""

from __future__ import annotations

from pathlib import Path

import capstone
import llvmlite.binding as binding
import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.codegen.llvm.llvm import assembly_text
from compiler.driver.build import compile_artifact
from compiler.errors import ArtifactError
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler import cross as cross_kit
from tests.kit.compiler.cross import MACHINES
from tests.kit.compiler.lowering import chain, matmul

DISASSEMBLERS = {
    "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    "riscv64": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC),
    "armv7": (capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM),
}
FUSED = {"aarch64": "fmla", "riscv64": "fmadd.s", "armv7": "vmla.f32"}


def tiled(m: int, n: int, k: int, dtype: str = "float32") -> PrimFunc:
    """A matmul with vectors along its columns, rows in parallel."""
    sch = Schedule(matmul(m, n, k, dtype))
    block = sch.get_block("C")
    i, j, r = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(j0, r, j1)
    sch.vectorize(j1)
    sch.parallel(i)
    return sch.func


def mnemonics(artifact: Artifact, name: str) -> set[str]:
    engine = capstone.Cs(*DISASSEMBLERS[name])
    engine.skipdata = True
    sections = binding.ObjectFileRef.from_data(artifact.blobs["object"]).sections()
    codes = [section.data() for section in sections if section.is_text()]
    return {instruction[2] for code in codes for instruction in engine.disasm_lite(code, 0)}


def emulated(name: str, artifact: Artifact, arrays: list[np.ndarray], folder: Path) -> None:
    machine = MACHINES[name]
    if machine.missing:
        pytest.skip(f"{machine.missing} is not installed (Debian: apt-get install qemu-user lld)")
    cross_kit.run(machine, artifact, arrays, folder)


@pytest.mark.parametrize("name", MACHINES)
def test_the_object_is_for_that_machine(name: str) -> None:
    artifact = compile_artifact(tiled(6, 20, 7), MACHINES[name].target, keep=("asm",))
    found = mnemonics(artifact, name)
    assert any(word.startswith(FUSED[name][:4]) for word in found), sorted(found)
    assert not any(word.startswith(("vfmadd", "vmovups")) for word in found)
    assert "_packed" in artifact.blobs["asm"].decode()
    with pytest.raises(ArtifactError, match="this machine is"):
        load_artifact(artifact)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("shape", [(5, 6, 7), (6, 20, 7), (13, 33, 9)])
def test_matmul_under_emulation(name: str, shape: tuple[int, int, int], tmp_path: Path) -> None:
    m, n, k = shape
    values = np.random.default_rng(0)
    a, b = (values.standard_normal(s).astype("float32") for s in ((m, k), (k, n)))
    out = np.zeros((m, n), "float32")
    emulated(name, compile_artifact(tiled(m, n, k), MACHINES[name].target), [a, b, out], tmp_path)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MACHINES)
def test_float16_where_the_machine_has_no_such_arithmetic(name: str, tmp_path: Path) -> None:
    target = MACHINES[name].target
    assert not {"fullfp16", "zfh"} & target.features
    values = np.random.default_rng(0)
    x, y = (values.standard_normal((7, 13)).astype("float16") for _ in range(2))
    out = np.zeros((7, 13), "float16")
    sch = Schedule(chain(7, 13, "float16"))
    for block in ("double", "total", "relu"):
        sch.vectorize(sch.get_loops(sch.get_block(block))[-1])
    emulated(name, compile_artifact(sch.func, target), [x, y, out], tmp_path)
    np.testing.assert_array_equal(out, np.maximum(x * np.float16(2) + y, np.float16(0)))


def test_float16_arithmetic_where_the_machine_has_it(tmp_path: Path) -> None:
    target = Target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+fullfp16")
    artifact = compile_artifact(chain(8, 16, "float16"), target, keep=("asm",))
    assert "fcvt" not in mnemonics(artifact, "aarch64")
    values = np.random.default_rng(0)
    x, y = (values.standard_normal((8, 16)).astype("float16") for _ in range(2))
    out = np.zeros((8, 16), "float16")
    emulated("aarch64", artifact, [x, y, out], tmp_path)
    np.testing.assert_array_equal(out, np.maximum(x * np.float16(2) + y, np.float16(0)))


@pytest.mark.parametrize("tag", sorted(t for t, c in Target.list_tags().items() if c["kind"] == "llvm"))
def test_llvm_makes_code_for_every_tag(tag: str) -> None:
    target = Target(tag)
    artifact = compile_artifact(tiled(4, 16, 8), target)
    assert artifact.blobs["object"].startswith(b"\x7fELF")
    assert Target(artifact.target) == target
    assert target.vector_bits >= 32


def test_assembly_of_a_target_elsewhere() -> None:
    artifact = compile_artifact(tiled(4, 16, 8), MACHINES["riscv64"].target)
    assert "fmadd.s" in assembly_text(artifact.blobs["ll"].decode(), MACHINES["riscv64"].target)
