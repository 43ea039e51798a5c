"""The options a pass context takes: their names, types and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.errors import CompileError
from compiler.suggest import closest


class TransformError(CompileError, ValueError):
    """A pass, a pass context or one of its options used wrongly."""

    kind = "transform"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the type its value has (`type_name` in words), what it does, and how a value is checked.

    `read` turns what the user gave into the value passes see; it raises ValueError saying what is wrong.
    """

    type_name: str
    help: str
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class UnrollConfig:
    """When loops nobody asked to unroll are unrolled: up to `auto_max_step` statements, or `auto_max_extent` steps."""

    auto_max_step: int = 0
    auto_max_extent: int = 0


_options: dict[str, Option] = {}


def register_option(name: str, type_name: str, help: str, read: Callable[[Any], Any]) -> None:
    """Make an option known. Raises TransformError when the name is taken."""
    if name in _options:
        raise TransformError(f"the pass option {name!r} is already registered")
    _options[name] = Option(type_name, help, read)


def list_options() -> dict[str, Option]:
    """Every known option by name."""
    return dict(sorted(_options.items()))


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their values read. Raises TransformError for an unknown one, or a value it cannot have."""
    return {name: _checked(name, value) for name, value in config.items()}


def _checked(name: str, value: Any) -> Any:
    option = _options.get(name)
    if option is None:
        raise TransformError(f"there is no pass option {name!r}", hint=closest(name, _options))
    try:
        return option.read(value)
    except ValueError as error:
        raise TransformError(
            f"pass option {name!r} is {option.type_name}, not {value!r}: {error}", hint=option.help
        ) from None


def truth(value: Any) -> bool:
    """A truth value, also as 0 or 1."""
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ValueError("use True or False")


def _unroll(value: Any) -> UnrollConfig:
    if isinstance(value, UnrollConfig):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("use a dict")
    fields = ("auto_max_extent", "auto_max_step")
    for name, number in value.items():
        if name not in fields:
            raise ValueError(f"no field {name!r}; {closest(name, fields)}")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(f"{name} is a non-negative integer")
    return UnrollConfig(**value)


def _lower_passes(value: Any) -> tuple[tuple[int, Any], ...]:
    try:
        pairs = tuple((phase, run) for phase, run in value)
    except (TypeError, ValueError):
        raise ValueError("use a list of (phase, pass)") from None
    for phase, run in pairs:
        if isinstance(phase, bool) or phase not in (0, 1, 2, 3):
            raise ValueError(f"phase {phase!r} is none of 0, 1, 2, 3")
        if not callable(run):
            raise ValueError(f"{run!r} cannot be called")
    return pairs


register_option(
    "tir.disable_vectorize", "a truth value", "vectorized loops run one element at a time instead", truth
)
register_option("tir.disable_assert", "a truth value", "assertions are left out of the code", truth)
register_option(
    "tir.UnrollLoop", "a dict", "auto_max_step: unroll innermost loops that become at most so many statements; "
    "auto_max_extent: unroll innermost loops of at most so many steps", _unroll,
)  # fmt: skip
register_option(
    "tir.add_lower_pass",
    "a list of (phase, pass)",
    "more passes: phase 0 before lowering, 1 once buffers are flat, 2 after vectorizing and unrolling, 3 at the end",
    _lower_passes,
)
