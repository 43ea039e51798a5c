"""Tags of phones, boards and GPUs, by the names that Apache TVM gives them."""

from __future__ import annotations

from typing import Any


def _apple(cpu: str, block_threads: int) -> dict[str, Any]:
    """A GPU of Apple, which a processor of the same chip drives."""
    return {
        "kind": "metal",
        "thread_warp_size": 32,
        "max_function_args": 31,
        "max_num_threads": 256,
        "max_threads_per_block": block_threads,
        "max_shared_memory_per_block": 32768,
        "host": {"kind": "llvm", "mtriple": "arm64-apple-macos", "mcpu": cpu},
    }


def _arm(model: str, triple: str, features: str = "+neon", cpu: str | None = None) -> dict[str, Any]:
    return {
        "kind": "llvm", "keys": ["arm_cpu", "cpu"], "device": "arm_cpu", "model": model, "mtriple": triple,
        "mattr": features.split(","), "mcpu": cpu,
    }  # fmt: skip


def _riscv(cpu: str, wide: bool = True) -> dict[str, Any]:
    triple, abi = ("riscv64-unknown-linux-gnu", "lp64d") if wide else ("riscv32-unknown-linux-gnu", "ilp32")
    keys = ["riscv_cpu", "cpu"]
    return {"kind": "llvm", "keys": keys, "device": "riscv_cpu", "mtriple": triple, "mabi": abi, "mcpu": cpu}


def _adreno(kind: str, *features: str) -> dict[str, Any]:
    return {"kind": kind, "keys": ["adreno", kind, "gpu", *features], "device": "adreno"}


def _hexagon(version: int, tensor_bytes: int, features: str = "") -> dict[str, Any]:
    mattr = [f"+hvxv{version}", "+hvx-length128b", *features.split()]
    cpu = {"mcpu": f"hexagonv{version}", "mtriple": "hexagon", "num-cores": 4}
    return {"kind": "hexagon", **cpu, "mattr": mattr, "vtcm-capacity": tensor_bytes}


_FLOATS = "+hvx-qfloat -hvx-ieee-fp"
_SMALL_CORES = "+neon,+vfp4,+thumb2"
DEVICES: dict[str, dict[str, Any]] = {
    "apple/m1-gpu": _apple("apple-m1", 1024),
    "apple/m1-gpu-restricted": _apple("apple-m1", 256),
    "apple/m2-gpu": _apple("apple-m2", 1024),
    "arm/beagleai": _arm("beagleai", "armv7a-linux-gnueabihf", _SMALL_CORES, "cortex-a15"),
    "arm/mate10": _arm("kirin970", "arm64-linux-android"),
    "arm/pixel2": _arm("snapdragon835", "arm64-linux-android"),
    "arm/pynq": _arm("pynq", "armv7a-linux-eabi"),
    "arm/rasp3b": _arm("bcm2837", "armv7l-linux-gnueabihf"),
    "arm/rasp4b": _arm("bcm2711", "armv8l-linux-gnueabihf", cpu="cortex-a72"),
    "arm/rasp4b64": _arm("bcm2711", "aarch64-linux-gnu", cpu="cortex-a72"),
    "arm/rk3399": _arm("rk3399", "aarch64-linux-gnu"),
    "arm/stm32mp1": _arm("stm32mp1", "armv7a-linux-gnueabihf", _SMALL_CORES, "cortex-a7"),
    "arm/thunderx": _arm("thunderx", "aarch64-linux-gnu", "+neon,+crc,+lse", "thunderxt88"),
    "arm/ultra96": _arm("ultra96", "aarch64-linux-gnu"),
    "qcom/adreno-opencl": _adreno("opencl"),
    "qcom/adreno-opencl-clml": _adreno("opencl", "clml"),
    "qcom/adreno-opencl-texture": _adreno("opencl", "texture"),
    "qcom/adreno-vulkan": _adreno("vulkan"),
    "qcom/adreno-vulkan-texture": _adreno("vulkan", "texture"),
    "qcom/hexagon-v65": _hexagon(65, 1 << 18),
    "qcom/hexagon-v66": _hexagon(66, 1 << 18),
    "qcom/hexagon-v68": {**_hexagon(68, 1 << 22, _FLOATS), "llvm-options": ["-force-hvx-float"]},
    "qcom/hexagon-v69": _hexagon(69, 1 << 23, _FLOATS),
    "qcom/hexagon-v73": _hexagon(73, 1 << 23, _FLOATS),
    "qcom/hexagon-v75": _hexagon(75, 1 << 23, _FLOATS),
    "riscv/licheepi3a": {**_riscv("spacemit-x60"), "num-cores": 8, "mfloat-abi": "hard"},
    "riscv/sifive-e31": {**_riscv("sifive-e31", wide=False), "model": "sifive-e31"},
    "riscv/sifive-e76": {**_riscv("sifive-e76", wide=False), "model": "sifive-e76"},
    "riscv/sifive-u54": {**_riscv("sifive-u54"), "model": "sifive-u54"},
}
