"""Extents of arrays that are known only at the call, as text: "n", "n*2 + 1", "min(n, m)//4".

Artifacts hold them in this form. Reading one trusts nothing: only sums, products, divisions, minima and maxima
of names and numbers are let through, and the text is short.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from compiler.errors import ArtifactError
from compiler.python_text import parsed_expression

MAX_CHARACTERS = 256
MAX_NUMBER = 1 << 48
MAX_NAME = 100
FUNCTIONS = {"min": min, "max": max}

_SCOPE = {"__builtins__": {}, **FUNCTIONS}


@dataclass(frozen=True, slots=True)
class Extent:
    """An expression over the variables in `names`."""

    text: str
    names: frozenset[str]
    is_name: bool
    _code: CodeType

    def value(self, known: Mapping[str, int]) -> int:
        """The extent where the variables have these values. Raises ZeroDivisionError."""
        return int(eval(self._code, _SCOPE, dict(known)))  # `_check` let arithmetic through only


def can_be_name(text: str) -> bool:
    """Whether a size may have this name.
    It has ASCII letters, digits and "_", and is no word of Python or function of extents."""
    is_word = text.isascii() and text.isidentifier() and len(text) <= MAX_NAME
    return is_word and not keyword.iskeyword(text) and text not in FUNCTIONS


@lru_cache(maxsize=4096)
def parse_extent(text: str) -> Extent:
    """Read an extent. Raises ArtifactError for anything but arithmetic on names and numbers."""
    if len(text) > MAX_CHARACTERS:
        raise ArtifactError(f"an extent of {len(text)} characters is more than the {MAX_CHARACTERS} allowed")
    try:
        tree = parsed_expression(text)
        names: set[str] = set()
        _check(tree, names, text)
        code = compile(ast.Expression(tree), "<extent>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ArtifactError(f"{text!r} is no extent") from None
    return Extent(text, frozenset(names), isinstance(tree, ast.Name), code)


def _check(node: ast.expr, names: set[str], text: str) -> None:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and value <= MAX_NUMBER:
            return
        case ast.Name(id=name) if name not in FUNCTIONS:
            names.add(name)
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right):
            _check(left, names, text)
            _check(right, names, text)
        case ast.UnaryOp(ast.USub(), operand):
            _check(operand, names, text)
        case ast.Call(ast.Name(id=("min" | "max")), [left, right], []):
            _check(left, names, text)
            _check(right, names, text)
        case _:
            raise ArtifactError(f"{text!r} is no extent", hint="it is made of +, -, *, //, %, min and max")
