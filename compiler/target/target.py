"""Targets: what code is generated for. `Target("llvm -mcpu=znver3")`, `Target({"kind": "cuda"})`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Union, overload

from compiler.errors import TargetError
from compiler.target.answers import DEVICE_NUMBERS, GivenOption, KindOption, exported
from compiler.target.answers import TargetKind as TargetKind
from compiler.target.cpu_features import (
    CPUFeatures,
    architecture,
    enabled_features,
    host_cpu,
    vector_bits,
    vector_registers,
)
from compiler.target.gpu_arch import compute_capability
from compiler.target.options import (
    OptionValue,
    Parsed,
    filled,
    kind_names,
    known_kind,
    option_text,
    read_json,
    read_mapping,
    read_words,
)
from compiler.target.tags import expand_tag, list_tags

TargetLike = Union[str, Mapping[str, Any], "Target"]


class LoneHostError(TargetError, AssertionError, kind="lone_host"):
    """A host without the target that it drives."""


class _HostAccess:
    """`target.host` is the host of that target (or None); `Target.host()` describes this machine."""

    @overload
    def __get__(self, target: None, owner: type[Target]) -> Callable[[], Target]: ...
    @overload
    def __get__(self, target: Target, owner: type[Target]) -> Target | None: ...
    def __get__(self, target: Target | None, owner: type[Target]) -> Target | Callable[[], Target] | None:
        return _this_machine if target is None else target._host


def _this_machine() -> Target:
    """An llvm target for this machine, with its CPU, features and triple filled in."""
    return Target("llvm").resolved()


_stack: ContextVar[tuple[Target, ...]] = ContextVar("tunefarm_target_stack", default=())


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Target:
    """A target of code generation: a kind and its options. Frozen and hashable.

    `target` is a string ("llvm -mcpu=znver3 -mattr=+avx2,+fma -num-cores=4"), a JSON object in a string, a
    mapping with "kind" (or "tag"), or another Target. A tag ("raspberry-pi/4b-aarch64") stands for a kind and
    options. `host` is the target of the code that drives a GPU.
    `str(target)` is canonical: equal targets print alike, and the text parses back to an equal target.

    Raises TargetError for an unknown kind or option, or a value of the wrong type.
    """

    kind: TargetKind
    options: tuple[tuple[str, OptionValue], ...]
    _host: Target | None

    host = _HostAccess()
    mcpu = KindOption[str]("mcpu", "")
    """The processor's name: the one given, that of the kind, or ""."""
    mattr = GivenOption[tuple[str, ...]]("mattr", ())
    triple = GivenOption[str | None]("mtriple", None)
    """The triple given; None where this machine is meant."""
    num_cores = GivenOption[int | None]("num-cores", None)
    model = GivenOption[str]("model", "unknown")
    tag = GivenOption[str]("tag", "")
    """The tag it was made of, "" for none."""
    device_name = GivenOption[str]("device", "")
    """The `device` option, such as "arm_cpu"; "" when it was not given."""
    max_shared_memory_per_block = KindOption[int | None]("max_shared_memory_per_block", None)
    """The bytes that the threads of a block share, where the target says."""
    max_function_args = KindOption[int]("max_function_args", 0)
    """How many arguments a kernel has at most; 0 where the target does not say."""
    max_block_size_x = GivenOption[int | None]("max_block_size_x", None)
    """The most threads of a block along x, where the target says."""
    max_block_size_y = GivenOption[int | None]("max_block_size_y", None)
    vtcm_capacity = GivenOption[int]("vtcm-capacity", 0)
    """The bytes of a Hexagon's memory of tensors; 0 where the target does not say."""
    supports_cooperative_matrix = GivenOption[bool]("supports_cooperative_matrix", False)
    """Whether a target says that it has products of small matrices."""
    l2_cache_size_bytes = GivenOption[int]("l2_cache_size_bytes", 0)
    """The second cache of a GPU; 0 where the target does not say."""

    def __init__(self, target: TargetLike, host: TargetLike | None = None) -> None:
        kind, options, inner_host = _read_spec(target)
        chosen = host if host is not None else inner_host
        object.__setattr__(self, "kind", TargetKind(kind))
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "_host", None if chosen is None else _as_target(chosen))
        if self.get("keys") == self._own_keys:
            object.__setattr__(self, "options", tuple(option for option in options if option[0] != "keys"))

    # -- options ---------------------------------------------------------------------------------
    @property
    def attrs(self) -> Mapping[str, Any]:
        """The options by name: the given ones and the kind's defaults.
        The devices of a composite target are targets. `keys` and `tag` are properties instead."""
        kind = known_kind(self.kind)
        limits: dict[str, OptionValue] = dict(kind.limits)
        if kind.is_native and self.is_open:
            limits["mtriple"] = host_cpu().triple
        if self.is_gpu:
            limits |= {"max_num_threads": self.max_num_threads, "thread_warp_size": self.thread_warp_size}
        given: dict[str, Any] = {name: value for name, value in self.options if name not in ("keys", "tag")}
        if "devices" in given:
            given["devices"] = tuple(map(Target, given["devices"]))
        return MappingProxyType({**limits, **given})

    def get(self, name: str, default: Any = None) -> Any:
        """One option's value, or `default` when it was not given."""
        return dict(self.options).get(name, default)

    @property
    def keys(self) -> tuple[str, ...]:
        given: tuple[str, ...] = self.get("keys", ())
        device = self.get("device")
        return (device, *given) if given and device and device not in given else given or self._own_keys

    @property
    def _own_keys(self) -> tuple[str, ...]:
        """The keys of a target that names none: its device, or Arm's, before those of its kind."""
        front = self.device_name or ("arm_cpu" if self.is_cpu and self._is_arm else "")
        return (front, *known_kind(self.kind).keys) if front else known_kind(self.kind).keys

    @property
    def _is_arm(self) -> bool:
        micro = self.mcpu.startswith("cortex-m")
        return micro or (self.triple is not None and architecture(self.triple) in ("arm", "aarch64"))

    @property
    def mtriple(self) -> str | None:
        """The triple given, or that of the kind: this machine's for "llvm" alone."""
        value: str | None = self.attrs.get("mtriple")
        return value

    @property
    def libs(self) -> list[str]:
        """The libraries whose kernels may be called, in the order given."""
        return list(self.get("libs", ()))

    @property
    def thread_warp_size(self) -> int:
        """How many threads of a GPU run in step; 1 on a CPU."""
        return int(self.get("thread_warp_size", known_kind(self.kind).warp_size))

    @property
    def max_num_threads(self) -> int:
        """The most threads of a block of a GPU; 1 on a CPU."""
        default = self.get("max_threads_per_block", known_kind(self.kind).block_threads)
        return int(self.get("max_num_threads", default))

    @property
    def supports_integer_dot_product(self) -> bool:
        """Whether a GPU has dot products of bytes. NVIDIA's have them from sm_61 on."""
        said = self.get("supports_integer_dot_product")
        return bool(said) if said is not None else str(self.kind) == "cuda" and compute_capability(self.gpu_arch) >= 61

    def get_kind_attr(self, attr_name: str) -> Any:
        """Return what is known of the target's kind under a name; None where nothing is."""
        return {"default_keys": self.kind.default_keys, "is_external_codegen": False}.get(attr_name)

    def get_target_device_type(self) -> int:
        """Return the number that DLPack gives the device which runs the code."""
        return DEVICE_NUMBERS[self.device_type]

    @property
    def arch(self) -> str:
        """The `arch` option of a GPU, such as "sm_80": the one given, the least that its kind has, or ""."""
        named = self.gpu_arch if "arch" in known_kind(self.kind).options else None
        return str(named or known_kind(self.kind).limits.get("arch", ""))

    @property
    def gpu_arch(self) -> str | None:
        """The architecture of a GPU that the target names; None where it leaves it open."""
        value: str | None = self.get("arch", self.get("mcpu"))
        return value

    @property
    def device_type(self) -> str:
        """The runtime device that runs this target's code: "cpu", "cuda", …"""
        return known_kind(self.kind).device

    @property
    def is_cpu(self) -> bool:
        """Whether its code runs on the processor of the machine that loads it."""
        return self.device_type == "cpu"

    @property
    def is_gpu(self) -> bool:
        """Whether its kind is one of GPUs."""
        return "gpu" in known_kind(self.kind).keys

    @property
    def is_open(self) -> bool:
        """Whether it leaves open which machine of its kind is meant."""
        names = known_kind(self.kind).machine
        return bool(names) and all(self.get(name) is None for name in names)

    @property
    def architecture(self) -> str:
        """The instruction set: a CPU's ("x86_64"), or what a GPU's target names ("sm_80"), else the kind."""
        return architecture(self.triple) if self.is_cpu else (self.gpu_arch or str(self.kind))

    # -- what the CPU can do ---------------------------------------------------------------------
    @property
    def features(self) -> CPUFeatures:
        """CPU features generated code may use (LLVM's names), including those implied by `mcpu`."""
        if not self.is_cpu:
            return CPUFeatures()
        micro = self.triple is None and self.mcpu.startswith("cortex-m")
        return enabled_features("arm" if micro else architecture(self.triple), self.get("mcpu"), self.mattr)

    @property
    def vector_bits(self) -> int:
        """Width in bits of the float vector unit; the `vector-width` option overrides it."""
        width: int | None = self.get("vector-width")
        return width or vector_bits(architecture(self.triple), self.features)

    @property
    def vector_registers(self) -> int:
        return vector_registers(architecture(self.triple), self.features)

    def resolved(self) -> Target:
        """This target with missing options filled in from this machine, if it means this machine.

        An llvm target without a triple, or with this machine's, gets the triple. Without `mcpu` (or with "native", or
        this CPU's own name) it also gets the CPU and how its features differ from the name's. A given `mattr` is kept
        and applied last. Other targets come back unchanged except for their host.
        """
        host = self.host.resolved() if self.host is not None else None
        if not known_kind(self.kind).is_native or not _is_native(self.triple):
            return self if host is self.host else Target(self, host=host)
        cpu = host_cpu()
        given = {name: value for name, value in self.options if name != "mtriple" or value}
        here: dict[str, OptionValue] = {"mtriple": cpu.triple}
        if self.mcpu in ("", "native", cpu.name):
            here |= {"mcpu": cpu.name, "mattr": cpu.mattr} if cpu.mattr else {"mcpu": cpu.name}
            given.pop("mcpu", None)
        resolved = Target({"kind": self.kind, **filled(given, here)}, host=host)
        return self if resolved == self else resolved

    def with_host(self, host: TargetLike) -> Target:
        """The same target, with `host` as the target of the code that drives it."""
        return Target(self, host=host)

    @staticmethod
    def from_device(device: Any) -> Target:
        """The target of a device of this machine: `cpu(0)`, `cuda(0)` or its name.

        Raises TargetError for a device that is elsewhere, is absent, or has no target of its own.
        """
        if _device_reader is None:
            raise TargetError("no runtime is loaded that could query a device", hint="`import tunefarm` brings it")
        return _device_reader(device)

    @staticmethod
    def list_kinds() -> list[str]:
        return list_kinds()

    @staticmethod
    def list_tags() -> Mapping[str, Mapping[str, Any]]:
        """Every tag with the target it stands for, as data."""
        return list_tags()

    # -- text ------------------------------------------------------------------------------------
    def __str__(self) -> str:
        words = [str(self.kind)]
        words += [f"-{name}={option_text(value)}" for name, value in self.options]
        if self.host is not None:
            words.append(f"-host={self.host}")
        return shlex.join(words)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Target, (str(self),)

    def export(self) -> dict[str, Any]:
        """The target as JSON-ready data, with its tag and keys; `Target(target.export())` is equal to it."""
        data = exported(self.kind, self.tag, self.keys, self.options)
        if self.host is not None:
            data["host"] = self.host.export()
        return data

    # -- the current target ----------------------------------------------------------------------
    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost `with target:` around the caller.
        Without one returns None, or raises TargetError unless `allow_none`."""
        stack = _stack.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise TargetError("no target is active here", hint='wrap the call in `with Target("llvm"):`')

    @staticmethod
    def current_or_default() -> Target:
        """The innermost `with target:` around the caller.
        Without one, "llvm": this machine's CPU, left open."""
        current = Target.current()
        return Target("llvm") if current is None else current

    def __enter__(self) -> Target:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _stack.set(_stack.get()[:-1])

    # -- targets as people pass them -------------------------------------------------------------
    @staticmethod
    def canon_target(target: TargetLike | None) -> Target | None:
        """A Target of whatever stands for one; None stays None."""
        return None if target is None else _as_target(target)

    @staticmethod
    def canon_target_and_host(
        target: TargetLike | None, target_host: TargetLike | None = None
    ) -> tuple[Target | None, Target | None]:
        """The target with its host inside, and that host. Raises TargetError for a host without a target."""
        if target is None:
            if target_host is not None:
                raise LoneHostError("a target_host needs a target", hint="pass both, or put the host into the target")
            return None, None
        chosen = Target(target, host=target_host)
        return chosen, chosen.host

    @staticmethod
    def canon_multi_target(multi_targets: Any) -> list[Target] | None:
        """A list of targets: of one, of a list, or of a mapping's values. None stays None."""
        targets = multi_targets
        if targets is None:
            return None
        if isinstance(targets, Mapping) and "kind" not in targets and "tag" not in targets:
            targets = list(targets.values())
        return [_as_target(t) for t in targets] if isinstance(targets, list | tuple) else [_as_target(targets)]

    @staticmethod
    def canon_multi_target_and_host(target: Any, target_host: TargetLike | None = None) -> list[Target]:
        """The same, each with the host inside. Raises TargetError for no target."""
        found = Target.canon_multi_target(target)
        if not found:
            raise TargetError("at least one target is needed")
        return [Target(one, host=target_host) for one in found]

    @staticmethod
    def canon_target_map_and_host(
        target_map: Mapping[Any, Any], target_host: TargetLike | None = None
    ) -> tuple[dict[Target, Any], Target | None]:
        """Make the keys of a mapping Targets, each with the host inside; return it and the host."""
        host = Target.canon_target(target_host)
        found = {Target(target, host=host): value for target, value in target_map.items()}
        return found, host if host is not None else next((t.host for t in found if t.host is not None), None)

    @staticmethod
    def target_or_current(target: TargetLike | None) -> Target:
        """The target, or the current one where None. Raises TargetError when there is neither."""
        if target is not None:
            return _as_target(target)
        current = Target.current(allow_none=False)
        assert current is not None
        return current


_device_reader: Callable[[Any], Target] | None = None


def read_devices_with(reader: Callable[[Any], Target]) -> None:
    """Let `Target.from_device` ask `reader`.
    The runtime calls this, because it knows devices and targets do not."""
    global _device_reader
    _device_reader = reader


def list_kinds() -> list[str]:
    """Every target kind's name."""
    return sorted(kind_names())


def _as_target(spec: TargetLike) -> Target:
    return spec if isinstance(spec, Target) else Target(spec)


def _read_spec(spec: object) -> Parsed:
    if isinstance(spec, Target):
        return str(spec.kind), spec.options, spec.host
    if isinstance(spec, str):
        text = spec.strip()
        return read_mapping(expand_tag(read_json(text) if text.startswith("{") else read_words(text)))
    if isinstance(spec, Mapping):
        if spec.get("kind") == "composite":
            spec = {**spec, "devices": [str(Target(device)) for device in spec.get("devices", ())]}
        return read_mapping(expand_tag(spec))
    raise TargetError(f"a target is a string, a mapping or a Target, not {type(spec).__name__}")


def _is_native(triple: str | None) -> bool:
    if triple is None:
        return True
    here = host_cpu().triple
    return architecture(triple) == architecture(here) and ("linux" in triple) == ("linux" in here)
