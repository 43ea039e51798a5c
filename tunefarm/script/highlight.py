"""Texts of functions and modules, printed."""

from __future__ import annotations

from typing import Any

from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule

__all__ = ["cprint"]


def cprint(printable: IRModule | BaseFunc | str, style: Any = None, black_format: bool | None = None) -> None:
    """Print a module, a function, or a text of one.
    `style` and `black_format` are ignored: the text stays plain."""
    print(printable if isinstance(printable, str) else printable.script())
