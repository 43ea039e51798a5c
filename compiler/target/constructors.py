"""Functions that make targets: `tvm.target.arm_cpu("rasp4b64")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.errors import TargetError
from compiler.suggest import closest
from compiler.target.options import COMMON, OptionValue, known_kind
from compiler.target.tags import list_tags
from compiler.target.target import Target

Options = str | Sequence[str] | None

_ARM_OPTIONS = ("-keys=arm_cpu,cpu", "-device=arm_cpu")
_ARM32 = (*_ARM_OPTIONS, "-mtriple=armv7l-linux-gnueabihf", "-mfloat-abi=hard", "-mattr=+neon")
_ARM64 = (*_ARM_OPTIONS, "-mtriple=aarch64-linux-gnu", "-mattr=+neon")
_ARM_MODELS: dict[str, tuple[str, ...]] = {
    "pixel2": ("-model=snapdragon835", *_ARM64),
    "mate10": ("-model=kirin970", *_ARM64),
    "p20": ("-model=kirin970", *_ARM64),
    "rk3399": ("-model=rk3399", *_ARM64),
    "ultra96": ("-model=ultra96", *_ARM64),
    "pynq": ("-model=pynq", *_ARM32),
    "beagleai": ("-model=beagleai", *_ARM32, "-mcpu=cortex-a15"),
}
_ARM_TAGS = {
    "rasp3b": "raspberry-pi/3b",
    "rasp4b": "raspberry-pi/4b",
    "rasp4b64": "raspberry-pi/4b-aarch64",
}
_RISCV_MODELS: dict[str, tuple[str, ...]] = {
    "sifive-u54": ("-mtriple=riscv64-unknown-linux-gnu", "-mcpu=sifive-u54", "-mabi=lp64d"),
    "sifive-u74": ("-mtriple=riscv64-unknown-linux-gnu", "-mcpu=sifive-u74", "-mabi=lp64d"),
}


def llvm(options: Options = None, **named: OptionValue) -> Target:
    """A CPU: `llvm("-mcpu=znver3")` or `llvm(mcpu="znver3", num_cores=4)`."""
    return _construct("llvm", options, named)


def cuda(model: str = "unknown", arch: str | None = None, options: Options = None, **named: OptionValue) -> Target:
    """An NVIDIA GPU: `cuda(arch="sm_80")`. `model` may also be the last part of an nvidia tag."""
    if f"nvidia/{model}" in list_tags():
        named["tag"] = f"nvidia/{model}"
        return Target(
            {
                "kind": "cuda",
                **dict(Target(f"nvidia/{model}").options),
                **dict(_construct("cuda", options, named).options),
            }
        )
    if model != "unknown":
        named["model"] = model
    if arch is not None:
        named["arch"] = arch
    return _construct("cuda", options, named)


def rocm(model: str = "unknown", options: Options = None) -> Target:
    """An AMD GPU."""
    return _construct("rocm", options, {"model": model})


def mali(model: str = "unknown", options: Options = None) -> Target:
    """An Arm Mali GPU of the Midgard line, through OpenCL."""
    return _construct("opencl", options, {"device": "mali", "model": model})


def bifrost(model: str = "unknown", options: Options = None) -> Target:
    """An Arm Mali GPU of the Bifrost line, through OpenCL."""
    return _construct("opencl", options, {"device": "bifrost", "model": model})


def intel_graphics(model: str = "unknown", options: Options = None) -> Target:
    """An Intel GPU, through OpenCL."""
    return _construct("opencl", options, {"device": "intel_graphics", "model": model, "thread_warp_size": 16})


def hexagon(
    cpu_ver: str = "v68", options: Options = None, *, hvx: int = 128, num_cores: int = 4, vtcm_capacity: int = 0
) -> Target:
    """A Qualcomm Hexagon DSP of a version from "v65" on, with vectors of `hvx` bytes (0: none)."""
    named: dict[str, OptionValue] = {"mcpu": f"hexagon{cpu_ver}", "mtriple": "hexagon", "num-cores": num_cores}
    if hvx:
        named["mattr"] = (f"+hvx{cpu_ver}", f"+hvx-length{hvx}b")
    if vtcm_capacity:
        named["vtcm-capacity"] = vtcm_capacity
    return _construct("hexagon", options, named)


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """An Arm CPU: a board's name, or the generic 64-bit one. Raises TargetError for an unknown board."""
    if model in _ARM_TAGS:
        base = Target(_ARM_TAGS[model])
        return Target({**base.export(), **_given("llvm", options)})
    words = _ARM64 if model == "unknown" else _ARM_MODELS.get(model)
    if words is None:
        known = [*_ARM_MODELS, *_ARM_TAGS]
        raise TargetError(f"there is no Arm board {model!r}", hint=closest(model, known))
    return _construct("llvm", [*words, *_words(options)], {})


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A 64-bit RISC-V CPU. Raises TargetError for an unknown one."""
    words = _RISCV_MODELS.get(model)
    if words is None:
        raise TargetError(f"there is no RISC-V CPU {model!r}", hint=closest(model, _RISCV_MODELS))
    base = ["-keys=riscv_cpu,cpu", "-device=riscv_cpu", f"-model={model}", *words]
    return _construct("llvm", [*base, *_words(options)], {})


def _words(options: Options) -> list[str]:
    if options is None:
        return []
    return [options] if isinstance(options, str) else list(options)


def _given(kind: str, options: Options) -> dict[str, object]:
    """The options that a text names, without the kind."""
    return dict(Target(" ".join([kind, *_words(options)])).options)


def _construct(kind: str, options: Options, named: Mapping[str, OptionValue]) -> Target:
    known = {**COMMON, **known_kind(kind).options}
    data: dict[str, object] = {"kind": kind}
    for name, value in named.items():
        dashed = name.replace("_", "-")
        if (name, value) != ("model", "unknown"):
            data[dashed if dashed in known else name] = value
    return Target({**data, **_given(kind, options)})
