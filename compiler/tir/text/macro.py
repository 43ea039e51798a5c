"""Macros: statements that a script uses several times.

A Python function holds them, and each use reads it anew.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from compiler.errors import IRError
from compiler.script.entry import read_definition
from compiler.script.scope import Scope
from compiler.script.source import Source
from compiler.tir.text.parse_expr import TirParser


@dataclass(frozen=True)
class Macro:
    """A function under `@T.macro`.
    Its free names are looked up at its definition if `hygienic`, else at its use."""

    source: Source
    node: ast.FunctionDef
    captured: Mapping[str, Any]
    hygienic: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise IRError(f"the macro {self.node.name} means something only inside a function under @T.prim_func")

    def expand(self, p: TirParser, call: ast.Call, read: Callable[[list[ast.stmt]], Any]) -> Any:
        """Read the statements with `read`, the parameters standing for the arguments of `call`."""
        given = self._bound(p, call)
        scope, source = p.scope, p.source
        p.scope, p.source = Scope(self.captured) if self.hygienic else scope, self.source
        try:
            with p.scope.block():
                for name, value in given.items():
                    p.scope.define(name, value)
                return read(self.node.body)
        finally:
            p.scope, p.source = scope, source

    def _bound(self, p: TirParser, call: ast.Call) -> dict[str, Any]:
        args, named = p.arguments(call)
        spec = self.node.args
        names = [param.arg for param in spec.args]
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.posonlyargs:
            p.fail(call, f"the macro {self.node.name} takes plain parameters only: no *args")
        defaults = names[len(names) - len(spec.defaults) :]
        found = {
            name: TirParser(self.source, Scope(self.captured)).value(node)
            for name, node in zip(defaults, spec.defaults)
        }
        if len(args) > len(names) or not set(named) <= set(names[len(args) :]):
            p.fail(call, f"the macro {self.node.name} takes {', '.join(names) or 'no arguments'}")
        found.update(zip(names, args), **named)
        if missing := [name for name in names if name not in found]:
            p.fail(call, f"the macro {self.node.name} is not given {', '.join(missing)}")
        return found


def macro(func: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """Decorator: calls of the function in scripts stand for its statements.

    Arguments are buffers, expressions and constants. `hygienic=False`: names that are no parameters are those of the
    place of use, instead of those around the definition. Raises ScriptError.
    """
    if func is None:
        return lambda later: Macro(*read_definition(later, sys._getframe(1)), hygienic)
    return Macro(*read_definition(func, sys._getframe(1)), hygienic)
