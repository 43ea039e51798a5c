"""What the readers of expressions, statements and blocks share: the place, the names, the loops."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from compiler.ir.base import Span
from compiler.script.scope import Scope
from compiler.script.source import ScriptError, Source
from compiler.tir import nodes as n


@dataclass(frozen=True, slots=True)
class Namespace:
    """A captured name's value that stands for `tvm.script.tir` ("tir") or `tvm.script.ir` ("ir")."""

    name: str


@dataclass(frozen=True, slots=True)
class ModuleName:
    """The module being read: `Module.f(x)` and `cls.f(x)` call its function f. `returns`: their dtypes."""

    returns: Mapping[str, str]


@dataclass(slots=True)
class BlockParts:
    """What the statements at the head of a block, or of a function, said."""

    iter_vars: list[n.IterVar] = field(default_factory=list)
    values: list[n.PrimExpr] = field(default_factory=list)
    predicate: n.PrimExpr | None = None
    reads: tuple[n.BufferRegion, ...] | None = None
    writes: tuple[n.BufferRegion, ...] | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    allocated: list[n.Buffer] = field(default_factory=list)
    matched: list[n.MatchBufferRegion] = field(default_factory=list)
    init: n.Stmt | None = None
    realized: bool = True
    params: dict[n.Var, n.Buffer] = field(default_factory=dict)  # of a function
    attrs: dict[str, Any] = field(default_factory=dict)
    is_function: bool = False


@dataclass(slots=True)
class Parser:
    """The state while a function is read."""

    source: Source
    scope: Scope
    loops: dict[n.Var, n.Range] = field(default_factory=dict)
    parts: list[BlockParts] = field(default_factory=list)
    params: tuple[n.Var, ...] = ()

    @property
    def block(self) -> BlockParts:
        return self.parts[-1]

    def span(self, node: ast.AST) -> Span:
        return self.source.span(node)

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        self.source.fail(node, message, hint)

    def unknown(self, node: ast.AST, what: str, name: str, known: Iterable[str]) -> ScriptError:
        """The error for a name that is not known; the hint has those that look like it, or some of all."""
        names = sorted(set(known))
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"accepted here: {', '.join(names[:40])}"
        return self.source.error(node, f"{what} {name!r}", hint if names else None)

    def member(self, node: ast.AST) -> tuple[str, str] | None:
        """("tir", "serial") for `T.serial`; None for anything that is not a name of TVMScript."""
        if not isinstance(node, ast.Attribute):
            return None
        path = []
        current: ast.AST = node
        while isinstance(current, ast.Attribute):
            path.append(current.attr)
            current = current.value
        if not isinstance(current, ast.Name):
            return None
        space = namespace(self.scope.find(current.id, None))
        return (space, ".".join(reversed(path))) if space is not None else None

    def call(self, node: ast.AST, space: str = "tir") -> str | None:
        """The name `serial` of a call `T.serial(...)`, else None."""
        found = self.member(node.func) if isinstance(node, ast.Call) else None
        return found[1] if found is not None and found[0] == space else None


def namespace(value: Any) -> str | None:
    """"tir" or "ir" when `value` is one of TVMScript's two name spaces."""
    found = value.name if isinstance(value, Namespace) else getattr(value, "__script_namespace__", None)
    return found if isinstance(found, str) else None
