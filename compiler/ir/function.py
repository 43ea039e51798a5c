"""The base of functions: what a module holds, whatever dialect they are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from compiler.ir import text
from compiler.ir.base import Node
from compiler.ir.visit import replace


class BaseFunc(Node):
    """A function with attributes. A subclass is a frozen dataclass with a field `attrs`.

    Attributes known to every dialect: "global_symbol" (str), the name it is called by from outside, and
    "target" (Target).
    """

    __slots__ = ()

    attrs: Mapping[str, Any]

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> Self:
        """A copy with the attribute `key`, or with all of a mapping."""
        return self.with_attrs(key if isinstance(key, Mapping) else {key: value})

    def with_attrs(self, attrs: Mapping[str, Any]) -> Self:
        """A copy with further attributes."""
        return replace(self, attrs={**self.attrs, **attrs})

    def without_attr(self, key: str) -> Self:
        """A copy without the attribute `key`."""
        return replace(self, attrs={k: v for k, v in self.attrs.items() if k != key})

    def show(self) -> None:
        """Print the function as TVMScript text."""
        print(self.script())

    def script(self) -> str:
        """The function as TVMScript text."""
        return text.script(self)

    def __repr__(self) -> str:
        return text.script(self)
