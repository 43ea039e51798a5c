"""The text a script is read from, and errors that point into it."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType
from typing import Any, NoReturn

from compiler.errors import IRError
from compiler.ir.base import Span
from compiler.python_text import parsed_module

_CONTEXT = 2  # lines shown before the one an error is in


class ScriptError(IRError, kind="script"):
    """A text that is no TVMScript. The message gives file, line and column, and shows the place.

    `detail` holds `file`, `line` and `column` (both from 1).
    """


class ScriptSyntaxError(ScriptError, SyntaxError, kind="script_syntax"):
    """A text that is no Python."""


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed file: `name` is its path, or says where the text came from.

    `of_program`: it is code of the running program, so reading it may call the program's own functions.
    """

    name: str
    text: str
    tree: ast.Module
    of_program: bool = False

    def span(self, node: ast.AST) -> Span:
        return Span(self.name, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        """Raise a ScriptError that points at `node`."""
        raise self.error(node, message, hint)

    def error(self, node: ast.AST, message: str, hint: str | None = None) -> ScriptError:
        """A ScriptError that points at `node`."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line, end = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column + 1)
        return _error(self.name, self.text, message, hint, line, column, end if end_line == line else None)

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Let errors of building IR that are raised inside point at `node`."""
        try:
            yield
        except ScriptError:
            raise
        except IRError as error:
            self.fail(node, error.message, error.hint)


def _error(
    name: str, text: str, message: str, hint: str | None, line: int, column: int, end: int | None
) -> ScriptError:
    """`column` and `end` count bytes of UTF-8 from 0, as Python's parser does."""
    lines = text.splitlines() or [""]
    number = min(max(line, 1), len(lines))
    raw = lines[number - 1].encode()
    start = len(raw[:column].decode(errors="ignore"))
    stop = len(raw[: end if end is not None else len(raw)].decode(errors="ignore"))
    width = len(str(number))
    shown = [f"  {i:>{width}} | {lines[i - 1]}" for i in range(max(1, number - _CONTEXT), number + 1)]
    caret = " " * start + "^" * max(stop - start, 1)
    excerpt = "\n".join([*shown, f"  {'':>{width}} | {caret}"])
    where = {"file": name, "line": number, "column": start + 1}
    return ScriptError(f"{name}:{number}:{start + 1}: {message}\n{excerpt}", hint=hint, detail=where)


@lru_cache(maxsize=16)
def parse(name: str, text: str) -> Source:
    """Parse `text` as Python. Raises ScriptError where it is not."""
    try:
        return Source(name, text, parsed_module(text))
    except SyntaxError as error:
        column = max((error.offset or 1) - 1, 0)
        found = _error(name, text, f"no valid Python: {error.msg}", None, error.lineno or 1, column, column + 1)
        raise ScriptSyntaxError(found.message, detail=found.detail) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _error(name, text, f"no valid Python: {error}", None, 1, 0, 1) from None


def of_code(code: CodeType) -> Source:
    """The file that defines a function. Raises ScriptError when its text cannot be had."""
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    if not text:
        raise ScriptError(
            f"the source of {code.co_name} is not available ({code.co_filename})",
            hint="write it in a file, or give the text to tvm.script.from_source",
        )
    return replace(parse(code.co_filename, text), of_program=True)


def definition(source: Source, code: CodeType) -> ast.FunctionDef:
    """The definition, in `source`, of the function that `code` belongs to."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name and _first_line(node) == code.co_firstlineno:
            return node
    raise ScriptError(
        f"{source.name} has no function {code.co_name} at line {code.co_firstlineno}",
        hint="the file changed since it was imported",
    )


def enclosing_class(source: Source, code: CodeType) -> ast.ClassDef | None:
    """The class whose body holds the definition of a function."""
    wanted = definition(source, code)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and any(item is wanted for item in node.body):
            return node
    return None


def _first_line(node: Any) -> int:
    decorators: list[ast.expr] = node.decorator_list
    return decorators[0].lineno if decorators else int(node.lineno)
