"""The dialects of texts: for each its prefix, its decorators of functions, and its expressions.

A dialect registers itself when the module that reads it is imported. The compiler's own dialects are loaded by name
when a text first uses their prefix, so programs without texts do not load them.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.ir import text
from compiler.ir.function import BaseFunc
from compiler.script.source import Source

FunctionReader = Callable[[Source, ast.FunctionDef, Mapping[str, Any]], BaseFunc]

# By name: the prefix, and the modules that read the dialect.
_BUILT_IN: dict[str, tuple[str, tuple[str, ...]]] = {
    "tir": ("T", ("compiler.tir.text.parse_func", "compiler.arith")),
    "relax": ("R", ("compiler.relax.text.parser", "compiler.relax.text.kept")),
    "ir": ("I", ("compiler.script.common",)),
}


@dataclass(frozen=True)
class Dialect:
    """The vocabulary of a text under one prefix."""

    name: str
    """The module of the prefix: `tir` of `from tvm.script import tir`."""
    prefix: str
    """What stands before the dot: `T` of `T.prim_func`."""
    functions: Mapping[str, FunctionReader]
    """By the decorator's name: reads a decorated definition, given the values of the names around it."""
    expression: Callable[[str], Any]
    """What `prefix.name` stands for in an expression; None where it is nothing."""
    names: Callable[[], Iterable[str]]
    """The names that `expression` knows, for error messages."""
    signature: Callable[[Source, ast.FunctionDef, Mapping[str, Any]], Any] = lambda source, node, captured: None
    """What calls of a module's function need to know of it before it is read."""


_dialects: dict[str, Dialect] = {}
_loaded: set[str] = set()  # built-in ones, with all their modules


def register(dialect: Dialect) -> None:
    """Make a dialect known. One of the same name is replaced."""
    _dialects[dialect.name] = dialect
    text.reserve(dialect.prefix)


def unregister(name: str) -> None:
    """Forget a dialect, such as one made for a test."""
    dialect = _dialects.pop(name, None)
    if dialect is not None:
        text.release(dialect.prefix)


def find(name: str) -> Dialect | None:
    """Return the dialect called `name`. One that comes with the compiler is loaded now."""
    if name in _BUILT_IN and name not in _loaded:
        for module in _BUILT_IN[name][1]:
            importlib.import_module(module)
        _loaded.add(name)
    return _dialects.get(name)


def prefixes() -> dict[str, str]:
    """Return the names of dialects by their prefix; "ir" is the part that all have in common."""
    built_in = {prefix: name for name, (prefix, _) in _BUILT_IN.items()}
    return {**built_in, **{dialect.prefix: dialect.name for dialect in _dialects.values()}}


def decorators() -> list[str]:
    """The decorators of functions, as they are written."""
    known = (find(name) for name in prefixes().values())
    return [f"@{dialect.prefix}.{name}" for dialect in known if dialect is not None for name in dialect.functions]
