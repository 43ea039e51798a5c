"""The way in: decorators of Python functions and classes, and `from_source` for text."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.script import dialect, module, source
from compiler.script.source import ScriptError

_TEXT_NAME = "<script>"
_MODULE_MARK = re.compile(r"\bir_module\b")


def from_source(
    program: str, extra_vars: Mapping[str, Any] | None = None, check_well_formed: bool = True
) -> BaseFunc | IRModule:
    """The function or module that `text` defines, as `script()` prints it.

    Nothing of the text is executed. The dialects' prefixes, such as `T`, and `I` need no import. `extra_vars`: values
    for names the text does not define, such as sizes. What is read is always well formed: `check_well_formed` is
    ignored; accepted for compatibility with TVM. Raises ScriptError, which points into the text.
    """
    text = program
    if not isinstance(text, str):
        raise ScriptError(f"from_source needs text, not {type(text).__name__}")
    parsed = source.parse(_TEXT_NAME, text)
    try:
        return module.text(parsed, extra_vars or {})
    except RecursionError:
        parsed.fail(parsed.tree, "the text is nested too deeply")


def read_decorated(func: Callable[..., Any], frame: FrameType, space: str, name: str) -> Any:
    """Return the IR of the Python function `func`, decorated with `name` of the dialect `space`.

    `frame` is the frame it stands in. The function's body never runs. In a class under `@I.ir_module` it is left for
    the class to read. Raises ScriptError.
    """
    if _in_module(frame):
        return func
    found = dialect.find(space)
    assert found is not None
    return found.functions[name](*read_definition(func, frame))


def read_definition(
    func: Callable[..., Any], frame: FrameType
) -> tuple[source.Source, ast.FunctionDef, dict[str, Any]]:
    """The text of a Python function, its definition there, and the values of the names around it."""
    where = source.of_code(func.__code__)
    return where, source.definition(where, func.__code__), _captured(func, frame)


def ir_module(cls: type | None = None, check_well_formed: bool = True) -> Any:
    """Read the decorated class as a module.

    Its functions have a dialect's decorator, as `@T.prim_func`. Raises ScriptError.
    """
    if cls is None:
        return ir_module
    frame = sys._getframe(1)
    members = [item for item in vars(cls).values() if hasattr(item, "__code__")]
    captured: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    if not members:
        return IRModule({})
    where = source.of_code(members[0].__code__)
    node = source.enclosing_class(where, members[0].__code__)
    if node is None:
        raise ScriptError(f"the source of class {cls.__name__} is not available")
    for member in members:
        captured.update(_cells(member))
    return module.module(where, node, captured)


def _captured(func: Callable[..., Any], frame: FrameType) -> dict[str, Any]:
    return {**func.__globals__, **frame.f_locals, **_cells(func)}


def _cells(func: Any) -> dict[str, Any]:
    """Return what the function's own names from around it stand for."""
    found: dict[str, Any] = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # assigned later, as the name of the function itself
            continue
    return found


def _in_module(frame: FrameType) -> bool:
    """Whether `frame` runs the body of a class decorated with `ir_module`."""
    if "__qualname__" not in frame.f_locals or "__module__" not in frame.f_locals:
        return False
    line = frame.f_code.co_firstlineno
    lines = linecache.getlines(frame.f_code.co_filename)
    head = lines[line - 1 : line]
    while head and not head[-1].lstrip().startswith("class ") and line < len(lines):
        head.append(lines[line])
        line += 1
    before = line - len(head) - 1
    while before >= 0 and lines[before].lstrip().startswith("@"):
        head.insert(0, lines[before])
        before -= 1
    return any(_MODULE_MARK.search(text) for text in head if text.lstrip().startswith("@"))
