"""The answers of targets, under Apache TVM's names, that follow from kind and options alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from compiler.target.options import COMMON, OptionValue, known_kind

T = TypeVar("T")

DEVICE_NUMBERS = {
    "cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12, "webgpu": 15, "hexagon": 16,
}  # fmt: skip
"""DLPack's number of each type of device."""


class TargetKind(str):
    """A target kind's name; `.name` gives the plain string as well."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)

    @property
    def default_keys(self) -> list[str]:
        """The keys of targets of the kind that name none."""
        return list(known_kind(self).keys)

    @property
    def default_device_type(self) -> int:
        """DLPack's number of the devices that run its code."""
        return DEVICE_NUMBERS[known_kind(self).device]

    @property
    def options(self) -> dict[str, str]:
        """The options that targets of the kind take, with the type of each."""
        return {name: kind.__name__ for name, kind in {**COMMON, **known_kind(self).options}.items()}

    @staticmethod
    def options_from_name(kind_name: str) -> dict[str, str]:
        """The options of a kind by its name."""
        return TargetKind(kind_name).options


class GivenOption(Generic[T]):
    """An attribute of targets that answers with an option: the value given, else `default`."""

    def __init__(self, name: str, default: T) -> None:
        self.name = name
        self.default = default

    def __get__(self, target: Any, owner: type | None = None) -> T:
        found: T = self.default if target is None else target.get(self.name, self.default)
        return found


class KindOption(GivenOption[T]):
    """An attribute of targets that answers with an option: the value given, the kind's, or `default`."""

    def __get__(self, target: Any, owner: type | None = None) -> T:
        if target is None:
            return self.default
        found: T = target.get(self.name, known_kind(target.kind).limits.get(self.name, self.default))
        return found


def exported(kind: str, tag: str, keys: tuple[str, ...], options: Iterable[tuple[str, OptionValue]]) -> dict[str, Any]:
    """Return a target without its host as JSON-ready data."""
    data: dict[str, Any] = {"kind": str(kind), "tag": tag, "keys": keys, **dict(options)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}
