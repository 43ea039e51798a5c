"""Target kinds, their options, and reading options from text or data with checks."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from compiler.errors import TargetError
from compiler.suggest import closest
from compiler.target import entry_points

OptionValue = Union[str, int, bool, tuple[str, ...]]  # noqa: UP007 - evaluated at run time
Parsed = tuple[str, tuple[tuple[str, OptionValue], ...], Any]  # kind, options by name, host as given

COMMON: dict[str, type] = {"keys": tuple, "device": str, "model": str, "libs": tuple, "tag": str}
_LLVM: dict[str, type] = {
    "mcpu": str,
    "mattr": tuple,
    "mtriple": str,
    "mfloat-abi": str,
    "mabi": str,
    "num-cores": int,
    "vector-width": int,
    "opt-level": int,
    "fast-math": bool,
    "fast-math-nnan": bool,
    "fast-math-ninf": bool,
    "fast-math-nsz": bool,
    "fast-math-arcp": bool,
    "fast-math-contract": bool,
    "fast-math-reassoc": bool,
    "system-lib": bool,
    "runtime": str,
    "link-params": bool,
    "jit": str,
    "cl-opt": tuple,
}
_GPU: dict[str, type] = {
    "max_num_threads": int,
    "max_threads_per_block": int,
    "max_shared_memory_per_block": int,
    "thread_warp_size": int,
    "registers_per_block": int,
    "l2_cache_size_bytes": int,
    "system-lib": bool,
}
_SHADERS: dict[str, type] = {
    **_GPU,
    "device_name": str,
    "device_type": str,
    "driver_name": str,
    "driver_version": int,
    "vulkan_api_version": int,
    "max_spirv_version": int,
    "max_block_size_x": int,
    "max_block_size_y": int,
    "max_block_size_z": int,
    "max_push_constants_size": int,
    "max_uniform_buffer_range": int,
    "max_storage_buffer_range": int,
    "max_per_stage_descriptor_storage_buffer": int,
    "from_device": int,
    "supported_subgroup_operations": int,
    **{
        f"supports_{what}": bool
        for what in (
            "float16", "float32", "float64", "int8", "int16", "int32", "int64", "8bit_buffer", "16bit_buffer",
            "storage_buffer_storage_class", "push_descriptor", "dedicated_allocation", "integer_dot_product",
            "cooperative_matrix",
        )
    },
}  # fmt: skip
_METAL: dict[str, type] = {**_GPU, "max_function_args": int}
_OPENCL: dict[str, type] = {
    **_GPU,
    "max_function_args": int,
    "texture_spatial_limit": int,
    "texture_depth_limit": int,
    "image_base_address_alignment": int,
}
_HEXAGON: dict[str, type] = {**_LLVM, "llvm-options": tuple, "vtcm-capacity": int}
_CUDA: dict[str, type] = {**_GPU, "arch": str, "mcpu": str}
_LLVM_GPU: dict[str, type] = {**_GPU, "mcpu": str, "mtriple": str, "mattr": tuple}
_ARCH = ("arch", "mcpu")


@dataclass(frozen=True, slots=True)
class Kind:
    """A target kind: its default keys, the runtime device type, and its own options with their types.

    `is_native`: a target that leaves its machine open means this one (see `Target.resolved`). `machine`: the options
    that name the machine. Defaults of a GPU's target: `warp_size` threads run in step, and a block has at most
    `block_threads`. `is_lent_by_number`: a server lends one such device, by its number, beside the processor. `limits`:
    other defaults.
    """

    keys: tuple[str, ...]
    device: str
    options: Mapping[str, type]
    is_native: bool = False
    machine: tuple[str, ...] = ()
    warp_size: int = 1
    block_threads: int = 1
    is_lent_by_number: bool = False
    limits: Mapping[str, int | str] = field(default_factory=dict)


KINDS: dict[str, Kind] = {
    "llvm": Kind(("cpu",), "cpu", _LLVM, is_native=True, machine=("mcpu", "mtriple")),
    "c": Kind(("cpu",), "cpu", {"mcpu": str, "march": str, "system-lib": bool, "runtime": str}),
    "stackvm": Kind(("cpu",), "cpu", {"system-lib": bool}),
    "cuda": Kind(
        ("cuda", "gpu"), "cuda", _CUDA, machine=_ARCH, warp_size=32, block_threads=1024, is_lent_by_number=True,
        limits={"arch": "sm_50"},
    ),
    "nvptx": Kind(
        ("cuda", "gpu"), "cuda", _LLVM_GPU, machine=_ARCH, warp_size=32, block_threads=1024, is_lent_by_number=True,
        limits={"mcpu": "sm_50", "mtriple": "nvptx64-nvidia-cuda"},
    ),
    "rocm": Kind(
        ("rocm", "gpu"), "rocm", _LLVM_GPU, warp_size=64, block_threads=256,
        limits={
            "max_shared_memory_per_block": 65536, "max_threads_per_block": 256, "mcpu": "gfx900",
            "mtriple": "amdgcn-amd-amdhsa-hcc",
        },
    ),
    "opencl": Kind(
        ("opencl", "gpu"), "opencl", _OPENCL, block_threads=256,
        limits={
            "max_function_args": 128, "max_shared_memory_per_block": 16384, "max_threads_per_block": 256,
            "texture_spatial_limit": 16384, "texture_depth_limit": 2048, "image_base_address_alignment": 64,
        },
    ),
    "vulkan": Kind(
        ("vulkan", "gpu"), "vulkan", _SHADERS, block_threads=256,
        limits={"max_threads_per_block": 256, "supports_float32": True, "supports_int32": True},
    ),
    "metal": Kind(
        ("metal", "gpu"), "metal", _METAL, warp_size=16, block_threads=256,
        limits={"max_function_args": 31, "max_shared_memory_per_block": 32768, "max_threads_per_block": 256},
    ),
    "webgpu": Kind(
        ("webgpu", "gpu"), "webgpu", {**_GPU, "supports_subgroups": bool}, block_threads=256,
        limits={"max_shared_memory_per_block": 32768, "supports_subgroups": False},
    ),
    "hexagon": Kind(("hexagon", "cpu"), "hexagon", _HEXAGON),
    "ext_dev": Kind((), "ext_dev", {}, block_threads=256),
    "composite": Kind((), "cpu", {"devices": tuple}),
    "hybrid": Kind((), "cpu", {}),
}  # fmt: skip
"""The target kinds by name that are in use. `register_kind` adds one; `find_kind` adds those of distributions."""


def register_kind(name: str, kind: Kind, override: bool = False) -> None:
    """Declare a target kind. Raises TargetError when the name is taken and `override` is false."""
    if name in KINDS and not override:
        raise TargetError(f"there is a target kind {name!r}", hint="pass override=True to replace it")
    KINDS[name] = kind


def find_kind(name: str) -> Kind | None:
    """Return a target kind, ours or one that an installed distribution adds; None where there is none."""
    found = KINDS.get(name)
    if found is None and (added := entry_points.load(entry_points.KIND_GROUP, name)) is not None:
        if not isinstance(added, Kind):
            raise TargetError(f"target kind {name!r} of a distribution is no Kind, but {added!r}")
        found = KINDS[name] = added
    return found


def known_kind(name: str) -> Kind:
    """Return a target kind. Raises TargetError where there is none of that name."""
    found = find_kind(name)
    if found is None:
        raise TargetError(f"target kind {name!r} is unknown", hint=closest(name, kind_names()))
    return found


def kind_for(device_type: str) -> str:
    """Return the first target kind that runs on devices of this type; the type itself where there is none."""
    return next((name for name, kind in KINDS.items() if kind.device == device_type), device_type)


def kind_names() -> tuple[str, ...]:
    """Return the name of every target kind."""
    return entry_points.merged(KINDS, entry_points.KIND_GROUP)


def _kinds_hint() -> str:
    return f"known kinds: {', '.join(kind_names())}"


def read_json(text: str) -> Mapping[str, Any]:
    """The object in a JSON text that starts with "{"."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TargetError(f"the target {text[:80]!r} is not valid JSON: {error}") from None
    assert isinstance(data, dict)  # the text starts with "{"
    return data


def read_words(text: str) -> Mapping[str, Any]:
    """ "llvm -mcpu=x -system-lib" as {"kind": "llvm", "mcpu": "x", "system-lib": True}, values unchecked."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"cannot read the target {text[:80]!r}: {error}") from None
    if not words:
        raise TargetError("the target is empty", hint=_kinds_hint())
    data: dict[str, Any] = {"kind": words[0]}
    rest = iter(words[1:])
    pending: str | None = None
    for word in rest:
        if pending is not None and not word.startswith("-"):
            data[pending], pending = word, None
            continue
        if not word.startswith("-"):
            raise TargetError(f"target {text!r}: {word!r} is not an option", hint='options look like "-mcpu=znver3"')
        name, equals, value = word.lstrip("-").partition("=")
        if name in data:
            raise TargetError(f"target {text!r} says {name!r} twice")
        data[name], pending = (value, None) if equals else (True, name)
    return data


def read_mapping(data: Mapping[str, Any]) -> Parsed:
    """Check a target's kind and options. Options come back sorted by name, defaults left out."""
    kind = data.get("kind")
    found = find_kind(kind) if isinstance(kind, str) else None
    if not isinstance(kind, str) or found is None:
        what = "has no kind" if kind is None else f"kind {str(kind)!r} is unknown"
        near = f"{closest(kind, kind_names())}; tags: Target.list_tags()" if isinstance(kind, str) else _kinds_hint()
        raise TargetError(f"the target {what}", hint=near)
    known: dict[str, type] = {**COMMON, **found.options}
    options: dict[str, OptionValue] = {}
    for name, value in data.items():
        if name in ("kind", "host") or value is None or (name == "tag" and value == ""):
            continue
        if name not in known:
            raise TargetError(f"target kind {kind!r} has no option {name!r}", hint=closest(name, [*known, "host"]))
        options[name] = _option_value(kind, name, value, known[name])
    if options.get("model") == "unknown":
        del options["model"]
    return kind, tuple(sorted((n, v) for n, v in options.items() if v != ())), data.get("host")


def _option_value(kind: str, name: str, value: Any, wanted: type) -> OptionValue:
    where = f"target {kind!r}, option {name!r}"
    if wanted is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, Iterable) or not all(isinstance(item, str) for item in items):
            raise TargetError(f"{where}: {value!r} is not a list of names")
        names = tuple(item.strip() for item in items if item.strip())
        return _checked_mattr(where, names) if name == "mattr" else names
    if wanted is bool:
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        if isinstance(value, str) and value.lower() in ("0", "1", "true", "false"):
            return value.lower() in ("1", "true")
        raise TargetError(f"{where}: {value!r} is not a truth value", hint="use 0 or 1")
    if wanted is int:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise TargetError(f"{where}: {value!r} is not a non-negative integer")
        return value
    if not isinstance(value, str) or not value:
        raise TargetError(f"{where}: {value!r} is not a name")
    return value


def _checked_mattr(where: str, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name[0] not in "+-" or len(name) < 2:
            raise TargetError(
                f"{where}: {name!r} must start with + or -", hint=f'write "+{name}" to turn the feature on'
            )
    return merge_mattr(names)


def merge_mattr(names: Iterable[str]) -> tuple[str, ...]:
    """Drop words that a later word overrides.
    Words with "+" only are sorted; the order of a mixture matters."""
    last: dict[str, str] = {}
    for name in names:
        last.pop(name[1:], None)
        last[name[1:]] = name
    merged = tuple(last.values())
    return tuple(sorted(merged)) if all(name[0] == "+" for name in merged) else merged


def filled(given: Mapping[str, OptionValue], machine: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Return the given options, with those of a machine filled in.
    Features are those of both, the given ones last."""
    options = {**machine, **given}
    if merged := merge_mattr(name for of in (machine, given) for name in _features(of)):
        options["mattr"] = merged
    return options


def _features(options: Mapping[str, OptionValue]) -> tuple[str, ...]:
    names = options.get("mattr", ())
    assert isinstance(names, tuple)
    return names


def option_text(value: OptionValue) -> str:
    """A value as it stands after "-name=" in a target's text."""
    match value:
        case bool():
            return str(int(value))
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
