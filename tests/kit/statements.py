"""The statements of a syntax tree: imports and definitions are among them. Expressions, most of a tree, are not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def inner(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right inside `node`, handlers and cases among them."""
    for name in _BODIES:
        found = getattr(node, name, None)
        if isinstance(found, list):  # a lambda's body, or that of a conditional expression, is none
            yield from found
