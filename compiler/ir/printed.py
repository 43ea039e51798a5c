"""Nodes that print themselves as text, each by itself."""

from __future__ import annotations

from typing import Any, Unpack

from compiler.ir import text
from compiler.ir.text_options import TextOptions


class Printed:
    """A node that has a text of its own."""

    __slots__ = ()

    def script(self, *, show_meta: bool = False, indent_spaces: int = 4, **options: Unpack[TextOptions]) -> str:
        """The node as TVMScript text; `verbose_expr` defines first what it uses and does not define."""
        return text.printed(self, None, show_meta, indent_spaces, options)

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print the node as TVMScript text, as `script` gives it."""
        print(self.script(**options))
