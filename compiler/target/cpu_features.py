"""Features of CPUs: instruction sets by LLVM's names, of named CPUs and of this machine.

Only features LLVM may use when it compiles plain IR are tracked: those decide what code may contain, and
so which machine can run it. Names are LLVM's (`-mattr` spelling).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

_X86_IMPLIES: dict[str, tuple[str, ...]] = {
    "sse2": ("sse",),
    "sse3": ("sse2",),
    "ssse3": ("sse3",),
    "sse4.1": ("ssse3",),
    "sse4.2": ("sse4.1",),
    "avx": ("sse4.2",),
    "avx2": ("avx",),
    "fma": ("avx",),
    "f16c": ("avx",),
    "gfni": ("sse2",),
    "avxvnni": ("avx2",),
    "avxifma": ("avx2",),
    "avxneconvert": ("avx2",),
    "avxvnniint8": ("avx2",),
    "avxvnniint16": ("avx2",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx512cd": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512bw": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512vnni": ("avx512f",),
    "avx512ifma": ("avx512f",),
    "avx512vpopcntdq": ("avx512f",),
    "avx512vp2intersect": ("avx512f",),
    "avx512vbmi": ("avx512bw",),
    "avx512vbmi2": ("avx512bw",),
    "avx512bitalg": ("avx512bw",),
    "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
    "amx-int8": ("amx-tile",),
    "amx-bf16": ("amx-tile",),
    "amx-fp16": ("amx-tile",),
    "amx-complex": ("amx-tile",),
    "popcnt": (),
    "lzcnt": (),
    "movbe": (),
    "bmi": (),
    "bmi2": (),
}
_ARM_IMPLIES: dict[str, tuple[str, ...]] = {
    "neon": (),
    "dotprod": ("neon",),
    "fullfp16": ("neon",),
    "bf16": ("neon",),
    "i8mm": ("neon",),
    "sve": ("fullfp16",),
    "sve2": ("sve",),
    "sme": ("bf16",),
    "dsp": (),
    "mve": ("dsp",),
}
_RISCV_IMPLIES: dict[str, tuple[str, ...]] = {"v": ("zve64d",), "zve64d": (), "zvfh": ("zve64d",)}

_V2 = ("sse4.2", "popcnt")
_V3 = (*_V2, "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_CANNONLAKE = (*_V4, "avx512ifma", "avx512vbmi")
_ICELAKE = (*_CANNONLAKE, "avx512bitalg", "avx512vbmi2", "avx512vnni", "avx512vpopcntdq", "gfni")
_SAPPHIRERAPIDS = (*_ICELAKE, "amx-tile", "amx-bf16", "amx-int8", "avx512bf16", "avx512fp16", "avxvnni")
_ALDERLAKE = (*_V3, "avxvnni", "gfni")
_SIERRAFOREST = (*_ALDERLAKE, "avxifma", "avxneconvert", "avxvnniint8")
_ARROWLAKE_S = (*_SIERRAFOREST, "avxvnniint16")
_ZNVER4 = (*_ICELAKE, "avx512bf16")

_X86_CPUS: dict[str, tuple[str, ...]] = {
    "x86-64-v2": _V2,
    "nehalem": _V2,
    "westmere": _V2,
    "silvermont": (*_V2, "movbe"),
    "sandybridge": (*_V2, "avx"),
    "ivybridge": (*_V2, "avx", "f16c"),
    "x86-64-v3": _V3,
    "haswell": _V3,
    "core-avx2": _V3,
    "broadwell": _V3,
    "skylake": _V3,
    "znver1": _V3,
    "znver2": _V3,
    "znver3": _V3,
    "alderlake": _ALDERLAKE,
    "raptorlake": _ALDERLAKE,
    "meteorlake": _ALDERLAKE,
    "gracemont": _ALDERLAKE,
    "sierraforest": _SIERRAFOREST,
    "grandridge": _SIERRAFOREST,
    "arrowlake": _SIERRAFOREST,
    "arrowlake-s": _ARROWLAKE_S,
    "lunarlake": _ARROWLAKE_S,
    "knl": (*_V3, "avx512f", "avx512cd"),
    "x86-64-v4": _V4,
    "skylake-avx512": _V4,
    "skx": _V4,
    "cascadelake": (*_V4, "avx512vnni"),
    "cooperlake": (*_V4, "avx512vnni", "avx512bf16"),
    "cannonlake": _CANNONLAKE,
    "icelake-client": _ICELAKE,
    "icelake-server": _ICELAKE,
    "rocketlake": _ICELAKE,
    "tigerlake": (*_ICELAKE, "avx512vp2intersect"),
    "sapphirerapids": _SAPPHIRERAPIDS,
    "emeraldrapids": _SAPPHIRERAPIDS,
    "graniterapids": (*_SAPPHIRERAPIDS, "amx-fp16"),
    "graniterapids-d": (*_SAPPHIRERAPIDS, "amx-fp16", "amx-complex"),
    "znver4": _ZNVER4,
    "znver5": (*_ZNVER4, "avx512vp2intersect", "avxvnni"),
}
_SLOW_BFLOAT16 = ("sapphirerapids", "emeraldrapids")
"""One `vdpbf16ps` of 512 bits in two cycles: half as many products as two float32 `vfmadd` a cycle. Measured on Emerald
Rapids, and taken to hold for Sapphire Rapids."""
_ARM_CPUS: dict[str, tuple[str, ...]] = {
    "cortex-a53": (),
    "cortex-a57": (),
    "cortex-a72": (),
    "cortex-a73": (),
    "cortex-a55": ("dotprod", "fullfp16"),
    "cortex-a75": ("dotprod", "fullfp16"),
    "cortex-a76": ("dotprod", "fullfp16"),
    "cortex-a78": ("dotprod", "fullfp16"),
    "cortex-x1": ("dotprod", "fullfp16"),
    "neoverse-n1": ("dotprod", "fullfp16"),
    "neoverse-v1": ("dotprod", "sve", "bf16", "i8mm"),
    "neoverse-n2": ("dotprod", "sve2", "bf16", "i8mm"),
    "neoverse-v2": ("dotprod", "sve2", "bf16", "i8mm"),
    "a64fx": ("sve",),
    "apple-latest": ("dotprod", "fullfp16", "bf16", "i8mm"),
    "apple-m1": ("dotprod", "fullfp16"),
    "apple-m2": ("dotprod", "fullfp16", "bf16", "i8mm"),
    "apple-m3": ("dotprod", "fullfp16", "bf16", "i8mm"),
    "apple-m4": ("dotprod", "fullfp16", "bf16", "i8mm"),
}
_ARM_MICRO: dict[str, tuple[str, ...]] = {
    "cortex-m4": ("dsp",),
    "cortex-m7": ("dsp",),
    "cortex-m33": ("dsp",),
    "cortex-m55": ("mve",),
    "cortex-m85": ("mve",),
}


class CPUFeatures(frozenset[str]):
    """Features by LLVM's names, and what schedules for Arm ask of them.

    A question that nobody thought of, `has_…` or `is_…`, is answered with None, as TVM does.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # our own code asks for what there is

        def __getattr__(self, name: str) -> None:
            if not name.startswith(("has_", "is_")):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def has_asimd(self) -> bool:
        """Whether there are vectors of 128 bits."""
        return "neon" in self

    @property
    def has_dotprod(self) -> bool:
        """Whether there are sums of four products of bytes."""
        return "dotprod" in self

    @property
    def has_matmul_i8(self) -> bool:
        """Whether there are products of small matrices of bytes."""
        return "i8mm" in self

    @property
    def has_fp16_simd(self) -> bool:
        """Whether there is arithmetic on vectors of 16-bit floats."""
        return "fullfp16" in self

    @property
    def has_sve(self) -> bool:
        """Whether there are vectors whose length depends on the machine."""
        return "sve" in self

    @property
    def has_sme(self) -> bool:
        """Whether there are registers of whole matrices."""
        return "sme" in self

    @property
    def has_dsp(self) -> bool:
        """Whether a microcontroller multiplies pairs of 16-bit numbers."""
        return "dsp" in self

    @property
    def has_mve(self) -> bool:
        """Whether a microcontroller has vectors."""
        return "mve" in self

    @property
    def is_aarch64(self) -> bool:
        """Whether they are those of a 64-bit Arm CPU."""
        return False


class AArch64Features(CPUFeatures):
    """Features of a 64-bit Arm CPU."""

    __slots__ = ()

    @property
    def is_aarch64(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Family:
    baseline: tuple[str, ...]
    implies: dict[str, tuple[str, ...]]
    cpus: dict[str, tuple[str, ...]]


_FAMILIES: dict[str, _Family] = {
    "x86_64": _Family(("sse2",), _X86_IMPLIES, _X86_CPUS),
    "i386": _Family((), _X86_IMPLIES, _X86_CPUS),
    "aarch64": _Family(("neon",), _ARM_IMPLIES, _ARM_CPUS),
    "arm": _Family((), _ARM_IMPLIES, _ARM_MICRO),
    "riscv64": _Family((), _RISCV_IMPLIES, {}),
}
_OTHER = _Family((), {}, {})


def architecture(triple: str | None) -> str:
    """The architecture family of a triple: x86_64, i386, aarch64, arm, riscv64, or its own first word.

    None means this machine.
    """
    name = (triple.split("-", 1)[0] if triple else platform.machine()).lower()
    if name in ("x86_64", "amd64", "x86_64h"):
        return "x86_64"
    if name in ("x86", "i386", "i486", "i586", "i686"):
        return "i386"
    if name.startswith(("aarch64", "arm64")):
        return "aarch64"
    if name.startswith(("arm", "thumb")):
        return "arm"
    return "riscv64" if name.startswith("riscv64") else name


def known_features(arch: str) -> frozenset[str]:
    """The features tracked for an architecture, including those that only come with another one."""
    implies = _FAMILIES.get(arch, _OTHER).implies
    return frozenset(implies).union(*implies.values())


def known_cpus(arch: str) -> frozenset[str]:
    """The CPUs whose features are known here; LLVM may know more."""
    return frozenset(_FAMILIES.get(arch, _OTHER).cpus)


@lru_cache(maxsize=512)
def enabled_features(arch: str, cpu: str | None, mattr: tuple[str, ...]) -> CPUFeatures:
    """Return what code for `cpu` with `mattr` ("+avx2", "-fma", …) may use, in LLVM's order.

    Turning a feature on turns on all it needs; turning one off takes away all that need it. An unknown
    CPU name counts as the architecture's baseline.
    """
    family = _FAMILIES.get(arch, _OTHER)
    features: set[str] = set()
    for name in (*family.baseline, *family.cpus.get(cpu or "", ())):
        _enable(features, name, family.implies)
    for item in mattr:
        if item.startswith("-"):
            _disable(features, item[1:], family.implies)
        else:
            _enable(features, item.removeprefix("+"), family.implies)
    return AArch64Features(features) if arch == "aarch64" else CPUFeatures(features)


def _enable(features: set[str], name: str, implies: dict[str, tuple[str, ...]]) -> None:
    if name not in features:
        features.add(name)
        for needed in implies.get(name, ()):
            _enable(features, needed, implies)


def _disable(features: set[str], name: str, implies: dict[str, tuple[str, ...]]) -> None:
    features.discard(name)
    for other in [f for f in features if name in implies.get(f, ())]:
        _disable(features, other, implies)


def multiplies_pairs_fast(cpu: str, features: frozenset[str]) -> bool:
    """Return whether bfloat16 products in pairs (`vdpbf16ps`) are faster than as float32."""
    return "avx512bf16" in features and cpu not in _SLOW_BFLOAT16


def vector_bits(arch: str, features: frozenset[str]) -> int:
    """Width of the widest float vector unit in bits; 32 where there is none."""
    match arch:
        case "x86_64" | "i386":
            if "avx512f" in features:
                return 512
            return 256 if "avx" in features else 128 if "sse2" in features else 32
        case "aarch64" | "arm":
            return 128 if "neon" in features else 32
        case "riscv64":
            return 128 if "v" in features else 32
        case _:
            return 128


def vector_registers(arch: str, features: frozenset[str]) -> int:
    """How many vector registers the architecture names."""
    match arch:
        case "x86_64":
            return 32 if "avx512f" in features else 16
        case "i386":
            return 8
        case "arm":
            return 16
        case _:
            return 32


@dataclass(frozen=True, slots=True)
class HostCPU:
    """This machine's CPU as LLVM sees it. `features` holds everything the CPU reports as present."""

    name: str
    triple: str
    features: frozenset[str]

    @property
    def mattr(self) -> tuple[str, ...]:
        """How this CPU differs from what its name implies (a virtual machine may hide features)."""
        arch = architecture(self.triple)
        implied = enabled_features(arch, self.name, ())
        known = known_features(arch)
        plus = sorted((self.features & known) - implied)
        minus = sorted((implied & known) - self.features)
        return (*(f"+{name}" for name in plus), *(f"-{name}" for name in minus))


@lru_cache(maxsize=1)
def host_cpu() -> HostCPU:
    """Ask LLVM, once per process, what this machine is."""
    import llvmlite.binding as llvm  # slow to import, and not needed to describe other machines

    features = llvm.get_host_cpu_features()
    return HostCPU(
        name=llvm.get_host_cpu_name(),
        triple=llvm.get_default_triple(),
        features=frozenset(name for name, present in features.items() if present),
    )


@lru_cache(maxsize=1)
def told_features() -> frozenset[str]:
    """The features that Linux says programs may use, by LLVM's names.

    LLVM is not loaded, which saves memory. The list may be incomplete; `host_cpu` gives all. Empty where Linux does not
    tell.
    """
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line.partition(":")[2].split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    return frozenset(_LLVM_NAMES.get(flag) or _llvm_name(flag) for flag in flags)


_LLVM_NAMES = {"pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "abm": "lzcnt", "bmi1": "bmi"}


def _llvm_name(flag: str) -> str:
    return flag.replace("_", "-" if flag.startswith("amx_") else "")
