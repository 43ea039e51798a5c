"""Targets: what code is generated for. `Target("llvm -mcpu=znver3")`, `Target({"kind": "cuda"})`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Union, overload

from compiler.cpu_features import (
    architecture,
    enabled_features,
    host_cpu,
    vector_bits,
    vector_registers,
)
from compiler.errors import TargetError
from compiler.target_options import (
    COMMON,
    KINDS,
    OptionValue,
    Parsed,
    merge_mattr,
    option_text,
    read_json,
    read_mapping,
    read_words,
)

TargetLike = Union[str, Mapping[str, Any], "Target"]


class TargetKind(str):
    """A target kind's name; `.name` gives the plain string as well."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)


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
    """What to generate code for: a kind and its options. Frozen and hashable.

    `spec` is a string ("llvm -mcpu=znver3 -mattr=+avx2,+fma -num-cores=4"), a JSON object in a string, a
    mapping with "kind", or another Target. `host` is the target of the code that drives a GPU.
    `str(target)` is canonical: equal targets print alike, and the text parses back to an equal target.

    Raises TargetError for an unknown kind or option, or a value of the wrong type.
    """

    kind: TargetKind
    options: tuple[tuple[str, OptionValue], ...]
    _host: Target | None

    host = _HostAccess()

    def __init__(self, spec: TargetLike, host: TargetLike | None = None) -> None:
        kind, options, inner_host = _read_spec(spec)
        chosen = host if host is not None else inner_host
        object.__setattr__(self, "kind", TargetKind(kind))
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "_host", None if chosen is None else _as_target(chosen))

    # -- options ---------------------------------------------------------------------------------
    @property
    def attrs(self) -> Mapping[str, OptionValue]:
        """The options as given, by name."""
        return MappingProxyType(dict(self.options))

    def get(self, name: str, default: Any = None) -> Any:
        """One option's value, or `default` when it was not given."""
        return dict(self.options).get(name, default)

    @property
    def keys(self) -> tuple[str, ...]:
        given: tuple[str, ...] = self.get("keys", ())
        device = self.get("device")
        front = (device,) if device and device not in given else ()
        return (*front, *(given or KINDS[self.kind].keys))

    @property
    def mcpu(self) -> str | None:
        value: str | None = self.get("mcpu")
        return value

    @property
    def mattr(self) -> tuple[str, ...]:
        value: tuple[str, ...] = self.get("mattr", ())
        return value

    @property
    def mtriple(self) -> str | None:
        value: str | None = self.get("mtriple")
        return value

    @property
    def num_cores(self) -> int | None:
        value: int | None = self.get("num-cores")
        return value

    @property
    def libs(self) -> tuple[str, ...]:
        value: tuple[str, ...] = self.get("libs", ())
        return value

    @property
    def model(self) -> str:
        return str(self.get("model", "unknown"))

    @property
    def arch(self) -> str | None:
        """A GPU's architecture, such as "sm_80"."""
        value: str | None = self.get("arch", self.get("mcpu"))
        return value

    @property
    def device_type(self) -> str:
        """The runtime device that runs this target's code: "cpu", "cuda", …"""
        return KINDS[self.kind].device

    # -- what the CPU can do ---------------------------------------------------------------------
    @property
    def features(self) -> frozenset[str]:
        """CPU features generated code may use (LLVM's names), including those implied by `mcpu`."""
        if self.device_type != "cpu":
            return frozenset()
        return enabled_features(architecture(self.mtriple), self.mcpu, self.mattr)

    @property
    def vector_bits(self) -> int:
        """Width in bits of the float vector unit; the `vector-width` option overrides it."""
        width: int | None = self.get("vector-width")
        return width or vector_bits(architecture(self.mtriple), self.features)

    @property
    def vector_registers(self) -> int:
        return vector_registers(architecture(self.mtriple), self.features)

    def resolved(self) -> Target:
        """This target with what is missing filled in from this machine, where it means this machine.

        An llvm target without a triple, or with this machine's, gets the triple; without `mcpu` (or with
        "native", or this CPU's own name) it also gets the CPU and how its features differ from the
        name's. A `mattr` that was given is kept and applied last. Other targets come back unchanged
        except for their host.
        """
        host = self.host.resolved() if self.host is not None else None
        if self.kind != "llvm" or not _is_native(self.mtriple):
            return self if host is self.host else Target(self, host=host)
        cpu = host_cpu()
        options = dict(self.options)
        options["mtriple"] = self.mtriple or cpu.triple
        if self.mcpu in (None, "native", cpu.name):
            options["mcpu"] = cpu.name
            if merged := merge_mattr((*cpu.mattr, *self.mattr)):
                options["mattr"] = merged
        filled = Target({"kind": self.kind, **options}, host=host)
        return self if filled == self else filled

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
        """The target as JSON-ready data; `Target(target.export())` is equal to it."""
        data: dict[str, Any] = {"kind": str(self.kind), **dict(self.options)}
        data = {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}
        if self.host is not None:
            data["host"] = self.host.export()
        return data

    # -- the current target ----------------------------------------------------------------------
    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost `with target:` around the caller; TargetError when there is none and one must be."""
        stack = _stack.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise TargetError("no target is active here", hint='wrap the call in `with Target("llvm"):`')

    def __enter__(self) -> Target:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _stack.set(_stack.get()[:-1])


def list_kinds() -> list[str]:
    """Every target kind's name."""
    return sorted(KINDS)


def llvm(options: str = "", **named: OptionValue) -> Target:
    """An llvm (CPU) target: `llvm("-mcpu=znver3")` or `llvm(mcpu="znver3", num_cores=4)`."""
    return _construct("llvm", options, named)


def cuda(model: str = "unknown", arch: str | None = None, options: str = "", **named: OptionValue) -> Target:
    """An NVIDIA target: `cuda(arch="sm_80")`."""
    if model != "unknown":
        named["model"] = model
    if arch is not None:
        named["arch"] = arch
    return _construct("cuda", options, named)


def _construct(kind: str, options: str, named: Mapping[str, OptionValue]) -> Target:
    known = {**COMMON, **KINDS[kind].options}
    base = Target(f"{kind} {options}").export()
    for name, value in named.items():
        dashed = name.replace("_", "-")
        base[dashed if dashed in known else name] = value
    return Target(base)


def _as_target(spec: TargetLike) -> Target:
    return spec if isinstance(spec, Target) else Target(spec)


def _read_spec(spec: object) -> Parsed:
    if isinstance(spec, Target):
        return str(spec.kind), spec.options, spec.host
    if isinstance(spec, str):
        text = spec.strip()
        return read_mapping(read_json(text) if text.startswith("{") else read_words(text))
    if isinstance(spec, Mapping):
        return read_mapping(spec)
    raise TargetError(f"a target is a string, a mapping or a Target, not {type(spec).__name__}")


def _is_native(triple: str | None) -> bool:
    if triple is None:
        return True
    here = host_cpu().triple
    return architecture(triple) == architecture(here) and ("linux" in triple) == ("linux" in here)
