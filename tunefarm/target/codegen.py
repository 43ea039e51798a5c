"""LLVM's knowledge of machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from compiler.codegen.llvm.cpu_names import check_names
from compiler.codegen.llvm.llvm import llvm_version
from compiler.driver.build import build as build_module
from compiler.errors import TargetError
from compiler.target.cpu_features import architecture, host_cpu, known_cpus
from compiler.target.target import Target
from compiler.tir.intrin.foreign import llvm_intrinsic as llvm_get_intrinsic_name
from compiler.tir.intrin.foreign import llvm_intrinsic as llvm_lookup_intrinsic_id
from tunefarm.compatibility import refuse_other_names

__all__ = [
    "build_module", "llvm_cpu_has_features", "llvm_get_cpu_archlist", "llvm_get_cpu_features",
    "llvm_get_intrinsic_name", "llvm_get_system_cpu", "llvm_get_system_triple", "llvm_get_system_x86_vendor",
    "llvm_get_targets", "llvm_get_vector_width", "llvm_is_valid_cpu", "llvm_lookup_intrinsic_id", "llvm_version_major",
    "target_has_features",
]  # fmt: skip

_TRIPLES = (
    "i386", "x86_64", "arm", "armeb", "thumb", "thumbeb", "aarch64", "aarch64_be", "arm64", "arm64_32",
    "riscv32", "riscv64", "nvptx", "nvptx64", "amdgcn", "r600", "bpfel", "bpfeb", "wasm32", "wasm64", "hexagon",
    "mips", "mipsel", "mips64", "mips64el", "powerpc", "powerpc64", "powerpc64le", "sparc", "sparcv9", "systemz",
    "avr", "msp430", "lanai", "xcore", "loongarch32", "loongarch64", "ve", "spirv32", "spirv64",
)  # fmt: skip

refuse_other_names(__name__)


def llvm_version_major(allow_none: bool = False) -> int:
    """The first number of LLVM's version."""
    return int(llvm_version().partition(".")[0])


def llvm_get_system_cpu() -> str:
    """LLVM's name of this machine's CPU."""
    return host_cpu().name


def llvm_get_system_triple() -> str:
    """LLVM's triple of this machine."""
    return str(llvm.get_default_triple())


def llvm_get_cpu_features(target: Any = None) -> list[str]:
    """The features of a target's CPU, sorted."""
    return sorted(_target(target).features)


def llvm_cpu_has_features(cpu_features: str | Sequence[str], target: Any = None) -> bool:
    """Whether a target's CPU has all of some features."""
    wanted = [cpu_features] if isinstance(cpu_features, str) else cpu_features
    return set(wanted) <= _target(target).features


target_has_features = llvm_cpu_has_features


def llvm_get_targets() -> list[str]:
    """The instruction sets that this build of LLVM writes code for, by the names of `llc --version`."""
    llvm.initialize_all_targets()
    found = []
    for triple in _TRIPLES:
        try:
            found.append(str(llvm.Target.from_triple(triple).name))
        except RuntimeError:  # not in this build
            continue
    return sorted(found)


def llvm_get_cpu_archlist(target: Any = None) -> list[str]:
    """The CPUs of a target's instruction set whose features are known here."""
    return sorted(known_cpus(architecture(_target(target).triple)))


def llvm_get_system_x86_vendor() -> str:
    """The maker of this machine's CPU: "intel", "amd", or "" where it is not of that family."""
    if architecture(None) not in ("x86_64", "i386"):
        return ""
    about = Path("/proc/cpuinfo")
    text = about.read_text() if about.exists() else ""
    return "intel" if "GenuineIntel" in text else "amd" if "AuthenticAMD" in text else ""


def llvm_get_vector_width(target: Any = None) -> int:
    """The widest vectors of a target's CPU, in bits."""
    return _target(target).vector_bits


def llvm_is_valid_cpu(cpu: str, triple: str) -> bool:
    """Whether LLVM knows a CPU of this name for a triple."""
    try:
        check_names(Target({"kind": "llvm", "mcpu": cpu, "mtriple": triple}), triple)
    except TargetError:
        return False
    return True


def _target(given: Any) -> Target:
    return (Target.current_or_default() if given is None else Target(given)).resolved()
