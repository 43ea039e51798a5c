"""Targets that code is built for."""

from compiler.runtime.core import device_target as _device_target  # noqa: F401  (for Target.from_device)
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
from compiler.target.target import Target, TargetKind, list_kinds
from tunefarm.compatibility import refuse_other_names
from tunefarm.target import detect_target, tag, target, x86
from tunefarm.target.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)
from tunefarm.target.tag import list_tags, register_tag
from tunefarm.target.virtual_device import VirtualDevice

__all__ = [
    "GenericFunc", "Target", "TargetKind", "VirtualDevice", "arm_cpu", "bifrost", "create", "cuda", "detect_target",
    "generic_func", "get_native_generic_func", "hexagon", "intel_graphics", "list_kinds", "list_tags", "llvm", "mali",
    "override_native_generic_func", "rasp", "register_tag", "riscv_cpu", "rocm", "tag", "target", "x86",
]  # fmt: skip

create = Target

refuse_other_names(__name__)
