"""Targets that code is built for."""

from compiler.target.constructors import (
    arm_cpu,
    bifrost,
    cuda,
    hexagon,
    intel_graphics,
    llvm,
    mali,
    rasp,
    riscv_cpu,
    rocm,
)
from compiler.target.cpu_features import CPUFeatures as TargetFeatures
from compiler.target.target import Target, TargetKind, list_kinds

__all__ = [
    "Target", "TargetFeatures", "TargetKind", "arm_cpu", "bifrost", "cuda", "hexagon", "intel_graphics", "list_kinds",
    "llvm", "mali", "rasp", "riscv_cpu", "rocm",
]  # fmt: skip
