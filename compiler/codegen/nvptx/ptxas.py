"""Reports of NVIDIA's assembler about kernels, where it is installed.

Registers, spills, shared memory.

`ptxas` comes with the CUDA toolkit and with the wheel `nvidia-cuda-nvcc`. Nothing needs it: the driver assembles
PTX when it loads a module.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from compiler.artifact import Artifact
from compiler.codegen.nvptx.ptx import arch_of
from compiler.errors import CodegenError
from compiler.target.target import Target

_IN_WHEELS = ("nvidia/cu*/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas")
_TIMEOUT_S = 120.0
_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class KernelResources:
    """The resources of a kernel: of each thread, and static shared memory of a block. Bytes."""

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int

    def __str__(self) -> str:
        spilled = self.spill_stores + self.spill_loads
        return f"{self.kernel}: {self.registers} registers, {spilled} bytes spilled, {self.shared} bytes shared"


@lru_cache(maxsize=1)
def find_ptxas() -> str | None:
    """The path of `ptxas`, on PATH or in a wheel; None where there is none."""
    found = shutil.which("ptxas")
    if found is not None:
        return found
    packages = Path(sysconfig.get_path("purelib"))
    return next((str(path) for pattern in _IN_WHEELS for path in sorted(packages.glob(pattern))), None)


def kernel_resources(artifact: Artifact) -> tuple[KernelResources, ...]:
    """Ask ptxas what each kernel of an artifact needs; empty without PTX or without ptxas.
    Raises CodegenError if ptxas refuses the PTX."""
    ptxas, ptx = find_ptxas(), artifact.blobs.get("ptx")
    if ptxas is None or ptx is None:
        return ()
    return parse_report(assemble(ptxas, ptx, arch_of(Target(artifact.target))))


def assemble(ptxas: str, ptx: bytes, arch: str) -> str:
    """Return what `ptxas -v` prints. Raises CodegenError with its words when it fails."""
    with tempfile.TemporaryDirectory(prefix="tunefarm-ptxas-") as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_bytes(ptx)
        command = [ptxas, "-v", f"-arch={arch}", str(source), "-o", str(source.with_suffix(".cubin"))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CodegenError(f"{ptxas} did not run: {error}") from None
    if done.returncode != 0:
        raise CodegenError(f"ptxas does not take the PTX for {arch}: {done.stderr.strip()[:400]}")
    return done.stderr


def parse_report(text: str) -> tuple[KernelResources, ...]:
    """The kernels in what `ptxas -v` printed, in order."""
    found: list[KernelResources] = []
    parts = _KERNEL.split(text)
    for name, body in zip(parts[1::2], parts[2::2]):
        stack, stores, loads = map(int, spills.groups()) if (spills := _SPILLS.search(body)) else (0, 0, 0)
        used, shared = _USED.search(body), _SHARED.search(body)
        registers = int(used.group(1)) if used else 0
        found.append(KernelResources(name, registers, stack, stores, loads, int(shared.group(1)) if shared else 0))
    return tuple(found)
