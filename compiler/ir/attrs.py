"""Attributes of calls, functions and modules.

They are an unchangeable mapping whose entries are also Python attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.ir import text

_EMPTY: dict[str, Any] = {}


class Attrs(Mapping[str, Any]):
    """Named values of a call, function or module: `attrs["axis"]` and `attrs.axis` are the same."""

    __slots__ = ("_values",)
    _values: Mapping[str, Any]

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        held = values._values if isinstance(values, Attrs) else dict(values) if values else _EMPTY
        object.__setattr__(self, "_values", held)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_int(self, name: str) -> int:
        """The value as an int."""
        return int(self[name])

    def get_str(self, name: str) -> str:
        """The value as a str."""
        return str(self[name])

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """The values of a list as ints."""
        return tuple(int(value) for value in self[name])

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "none"
            raise AttributeError(f"no attribute {name!r}; there are: {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("attributes cannot be changed; make new ones")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._values == dict(other)

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        return text.value_text({name: self._values[name] for name in sorted(self._values)})

    def __reduce__(self) -> tuple[Any, ...]:
        return Attrs, (dict(self._values),)


NO_ATTRS = Attrs()


def as_attrs(values: Mapping[str, Any] | None) -> Attrs:
    """`values` as attributes."""
    return values if isinstance(values, Attrs) else Attrs(values) if values else NO_ATTRS


DictAttrs = Attrs
