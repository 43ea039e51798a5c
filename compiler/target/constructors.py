"""Functions that make targets: `tvm.target.arm_cpu("rasp4b64")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.errors import TargetError
from compiler.suggest import closest
from compiler.target.options import COMMON, OptionValue, known_kind
from compiler.target.tags import list_tags
from compiler.target.target import Target

Options = str | Sequence[str] | None

_ARM_TAGS = {
    "mate10pro": "arm/mate10",
    "p20": "arm/mate10",
    "p20pro": "arm/mate10",
    "rasp3b": "raspberry-pi/3b",
    "rasp4b": "raspberry-pi/4b",
    "rasp4b64": "raspberry-pi/4b-aarch64",
}
"""The tags of boards that have another name than theirs in `arm_cpu`."""
_FLOAT_HEXAGONS = ("v68", "v69", "v71", "v73", "v75")
"""The versions whose vectors hold floats."""


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
    cpu_ver: str = "v68", options: Options = None, *, hvx: int = 128, num_cores: int = 4,
    vtcm_capacity: int | None = None, llvm_options: str | None = None, **ignored: object,
) -> Target:  # fmt: skip
    """A Qualcomm Hexagon DSP of a version from "v65" on, with vectors of `hvx` bytes (0: none).

    `vtcm_capacity` is its memory of tensors in bytes, by default that of the version. `llvm_options` are separated by
    blanks. Other keywords are ignored; accepted for compatibility with TVM.
    """
    vectors = [f"+hvx{cpu_ver}", f"+hvx-length{hvx}b"] if hvx else ["-hvx"]
    floats = ["+hvx-qfloat", "-hvx-ieee-fp"] if cpu_ver in _FLOAT_HEXAGONS else []
    words = [*(llvm_options or "").split(), *(["-force-hvx-float"] if cpu_ver == "v68" else [])]
    tagged: int | None = list_tags().get(f"qcom/hexagon-{cpu_ver}", {}).get("vtcm-capacity")
    named: dict[str, OptionValue] = {
        "mcpu": f"hexagon{cpu_ver}",
        "mtriple": "hexagon",
        "num-cores": num_cores,
        "mattr": (*vectors, *floats),
        "vtcm-capacity": (tagged or 0) if vtcm_capacity is None else vtcm_capacity,
        "llvm-options": tuple(words),
    }
    return _construct("hexagon", options, named)


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """An Arm CPU: a board's name. A board that has no tag is one like this machine, unless `options` say another."""
    base = _tagged(_ARM_TAGS.get(model, f"arm/{model}"))
    return Target({"kind": "llvm", "device": "arm_cpu", "model": model, **base, **_given("llvm", options)})


def rasp(options: Options = None) -> Target:
    """The third Raspberry Pi, with a system of 32 bits: `arm_cpu("rasp3b")`."""
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A RISC-V CPU, by the last part of its tag. Raises TargetError for an unknown one."""
    base = _tagged(f"riscv/{model}")
    if not base:
        known = [tag.partition("/")[2] for tag in list_tags() if tag.startswith("riscv/")]
        raise TargetError(f"there is no RISC-V CPU {model!r}", hint=closest(model, known))
    return Target({"kind": "llvm", "model": model, **base, **_given("llvm", options)})


def _tagged(tag: str) -> dict[str, object]:
    """The options of a tag and its name; nothing where there is no such tag."""
    return {**list_tags()[tag], "tag": tag} if tag in list_tags() else {}


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
