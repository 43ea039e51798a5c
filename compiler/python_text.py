"""Python's parser, for texts that only have its grammar: extents, index maps, scripts. Nothing is run."""

from __future__ import annotations

import ast
import threading

_one_at_a_time = threading.RLock()  # Python 3.11 counts the depth of all threads' trees together, and fails


def parsed_expression(text: str) -> ast.expr:
    """The tree of an expression. Raises what `ast.parse` does: SyntaxError, ValueError, RecursionError, MemoryError."""
    with _one_at_a_time:
        return ast.parse(text, mode="eval").body


def parsed_module(text: str) -> ast.Module:
    """The tree of a file's text. Raises as `parsed_expression` does."""
    with _one_at_a_time:
        return ast.parse(text)
