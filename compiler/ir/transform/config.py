"""The options a pass context takes: their names, types and checks.

Each is declared beside the pass that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from compiler.errors import CompileError
from compiler.suggest import closest


class TransformError(CompileError, ValueError, kind="transform"):
    """A pass, a pass context or one of its options used wrongly."""


class PassOptionError(TransformError, AttributeError, kind="pass_option"):
    """A pass option of no known name, or a value that it cannot have."""


class _Context(Protocol):
    def option(self, name: str, default: Any = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the type its value has (`type_name` in words), what it does, and how a value is checked.

    `read` turns what the user gave into the value passes see; it raises ValueError saying what is wrong.
    """

    name: str
    type_name: str
    help: str
    read: Callable[[Any], Any]
    default: Any = None

    def value(self, context: _Context | None) -> Any:
        """Return what `context` says, or the default where there is none or it says nothing."""
        return self.default if context is None else context.option(self.name, self.default)


_options: dict[str, Option] = {}


def register_option(name: str, type_name: str, help: str, read: Callable[[Any], Any], default: Any = None) -> Option:
    """Make an option known. Raises TransformError when the name is taken."""
    if name in _options:
        raise TransformError(f"the pass option {name!r} is already registered")
    _options[name] = Option(name, type_name, help, read, default)
    return _options[name]


def list_options() -> dict[str, Option]:
    """Every known option by name."""
    return dict(sorted(_options.items()))


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their values read.
    Raises PassOptionError for an unknown one, or a value it cannot have."""
    return {name: _checked(name, value) for name, value in config.items()}


def _checked(name: str, value: Any) -> Any:
    option = _options.get(name)
    if option is None:
        raise PassOptionError(f"there is no pass option {name!r}", hint=closest(name, _options))
    try:
        return option.read(value)
    except ValueError as error:
        raise PassOptionError(
            f"pass option {name!r} is {option.type_name}, not {value!r}: {error}", hint=option.help
        ) from None


def truth(value: Any) -> bool:
    """A truth value, also as 0 or 1."""
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ValueError("use True or False")
