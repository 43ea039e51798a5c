"""The base of functions: what a module holds, whatever dialect they are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

from compiler.ir import text
from compiler.ir.base import Node
from compiler.ir.text_options import TextOptions
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

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print the function as TVMScript text, as `script` gives it."""
        print(self.script(**options))

    def script(
        self, *, name: str | None = None, show_meta: bool = False, indent_spaces: int = 4,
        **options: Unpack[TextOptions],
    ) -> str:  # fmt: skip
        """The function as TVMScript text, called `name`; with `show_meta`, large constants stand before it."""
        return text.printed(self, name, show_meta, indent_spaces, options)

    def __repr__(self) -> str:
        return text.script(self)
