"""Tags: names for the targets of machines people have. `Target("raspberry-pi/4b-aarch64")`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from compiler.errors import TargetError
from compiler.target.device_tags import DEVICES
from compiler.target.nvidia_gpus import NVIDIA_GPUS


def _arm(model: str, cpu: str, cores: int) -> dict[str, Any]:
    """A 64-bit Arm board under Linux."""
    return {
        "kind": "llvm",
        "keys": ["arm_cpu", "cpu"],
        "device": "arm_cpu",
        "model": model,
        "mtriple": "aarch64-linux-gnu",
        "mcpu": cpu,
        "mattr": ["+neon"],
        "num-cores": cores,
    }


def _arm32(model: str, cpu: str, cores: int) -> dict[str, Any]:
    """The same with a 32-bit system, floats passed in registers."""
    triple = {"mtriple": "armv7l-linux-gnueabihf", "mfloat-abi": "hard"}
    return {**_arm(model, cpu, cores), **triple, "mattr": ["+neon", "+vfp4"]}


_FEW_REGISTERS = ("sm_20", "sm_21", "sm_53", "sm_62")
"""Architectures whose blocks have 32768 registers; those of the others have 65536."""


def _nvidia(arch: str, host: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An NVIDIA GPU, with the shared memory that a block has by default."""
    data: dict[str, Any] = {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": 32768 if arch in _FEW_REGISTERS else 65536,
    }
    return data if host is None else {**data, "host": dict(host)}


def _x86(cpu: str, cores: int) -> dict[str, Any]:
    triple = "x86_64-unknown-linux-gnu"
    return {"kind": "llvm", "keys": ["x86", "cpu"], "mtriple": triple, "mcpu": cpu, "num-cores": cores}


_RISCV = {"kind": "llvm", "keys": ["riscv_cpu", "cpu"], "device": "riscv_cpu"}
_tags: dict[str, Mapping[str, Any]] = {
    "raspberry-pi/3b": _arm32("bcm2837", "cortex-a53", 4),
    "raspberry-pi/3b-aarch64": _arm("bcm2837", "cortex-a53", 4),
    "raspberry-pi/4b": _arm32("bcm2711", "cortex-a72", 4),
    "raspberry-pi/4b-aarch64": _arm("bcm2711", "cortex-a72", 4),
    "raspberry-pi/5-aarch64": _arm("bcm2712", "cortex-a76", 4),
    "aws/cpu/c5.large": _x86("skylake-avx512", 1),
    "aws/cpu/c5.xlarge": _x86("skylake-avx512", 2),
    "aws/cpu/c5.2xlarge": _x86("skylake-avx512", 4),
    "aws/cpu/c5.4xlarge": _x86("skylake-avx512", 8),
    "aws/cpu/c5.9xlarge": _x86("skylake-avx512", 18),
    "aws/cpu/c5.12xlarge": _x86("cascadelake", 24),
    "aws/cpu/c5.18xlarge": _x86("skylake-avx512", 36),
    "aws/cpu/c5.24xlarge": _x86("cascadelake", 48),
    "aws/cpu/c7g.xlarge": _arm("graviton3", "neoverse-v1", 4),
    "riscv/sifive-u74": {
        **_RISCV, "model": "sifive-u74", "mtriple": "riscv64-unknown-linux-gnu", "mcpu": "sifive-u74", "mabi": "lp64d",
        "num-cores": 4,
    },
    **DEVICES,
    **{f"nvidia/{name}": _nvidia(arch) for arch, names in NVIDIA_GPUS.items() for name in names.split()},
    "nvidia/geforce-rtx-4070-ti": {**_nvidia("sm_89"), "l2_cache_size_bytes": 75497472},
    "nvidia/geforce-rtx-4090": {**_nvidia("sm_89"), "l2_cache_size_bytes": 75497472},
    "nvidia/nvidia-a100": {**_nvidia("sm_80"), "l2_cache_size_bytes": 41943040},
    "nvidia/geforce-rtx-5060-ti": {**_nvidia("sm_120"), "l2_cache_size_bytes": 33554432},
    "nvidia/nvidia-h100": {**_nvidia("sm_90a"), "l2_cache_size_bytes": 52428800},
    "nvidia/nvidia-b100": {**_nvidia("sm_100a"), "l2_cache_size_bytes": 52428800},
    "nvidia/gtx1080ti": {"kind": "cuda", "arch": "sm_61"},
    "nvidia/jetson-orin-nano": _nvidia("sm_87", _arm("orin", "carmel", 6)),
    "nvidia/jetson-agx-orin-32gb": _nvidia("sm_87", _arm("orin", "cortex-a78", 8)),
    "nvidia/jetson-agx-thor": {
        **_nvidia("sm_110a", _arm("thor", "neoverse-v3ae", 14)), "l2_cache_size_bytes": 33554432,
        "max_shared_memory_per_block": 232448,
    },
    "nvidia/jetson-agx-xavier": _nvidia("sm_72", _arm("xavier", "carmel", 8)),
    "nvidia/jetson-agx-orin-64gb": _nvidia("sm_87", _arm("orin", "cortex-a78", 12)),
}  # fmt: skip


def list_tags() -> Mapping[str, Mapping[str, Any]]:
    """Every tag with the target it stands for, as data."""
    return MappingProxyType(dict(sorted(_tags.items())))


def register_tag(name: str, config: Mapping[str, Any], override: bool = False) -> None:
    """Give a target, as data with "kind", a name with a "/".
    Raises TargetError when the name is taken or no name."""
    if "/" not in name or name != name.strip() or name.startswith(("-", "{")):
        raise TargetError(f"{name!r} is no tag", hint='a tag looks like "maker/machine"')
    if name in _tags and not override:
        raise TargetError(f"the tag {name!r} is already registered", hint="pass override=True to replace it")
    if "kind" not in config:
        raise TargetError(f"the target of tag {name!r} has no kind")
    _tags[name] = MappingProxyType(dict(config))


def expand_tag(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve data whose kind is a tag, or that has a tag and no kind.
    The given options override the tag's.

    Other data comes back unchanged.
    """
    name = data.get("kind", data.get("tag"))
    if not isinstance(name, str) or name not in _tags:
        return data
    return {**_tags[name], **{k: v for k, v in data.items() if k != "kind"}, "tag": name}
