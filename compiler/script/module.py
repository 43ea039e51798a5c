"""Modules, and whole texts, as IR: each function is read by the dialect of its decorator."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.script import dialect
from compiler.script.dialect import Dialect, FunctionReader
from compiler.script.parser import ModuleName, Namespace, Parser, decorator
from compiler.script.scope import Scope
from compiler.script.source import Source


def module(source: Source, node: ast.ClassDef, captured: Mapping[str, Any]) -> IRModule:
    """The module a class describes. Raises ScriptError."""
    p = Parser(source, Scope(captured))
    signatures: dict[str, Any] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and (known := _reader(p, item)) is not None:
            signatures[item.name] = known[0].signature(source, item, captured)
    itself = ModuleName(signatures)
    captured = {**captured, node.name: itself, "cls": itself}
    functions: dict[str, BaseFunc] = {}
    attrs: dict[str, Any] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            known = _reader(p, item)
            if known is None:
                hint = f"decorate it with {' or '.join(dialect.decorators())}"
                p.fail(item, f"{item.name} is no function of a module", hint)
            if item.name in functions:
                p.fail(item, f"the module has two functions {item.name!r}")
            functions[item.name] = known[1](source, item, captured)
        else:
            attrs.update(_module_statement(p, item))
    with source.at(node):
        return IRModule(functions, attrs)


def _reader(p: Parser, node: ast.FunctionDef) -> tuple[Dialect, FunctionReader] | None:
    """The dialect whose decorator a definition has, and what reads such definitions."""
    for item in node.decorator_list:
        member = p.member(item.func if isinstance(item, ast.Call) else item)
        known = dialect.find(member[0]) if member is not None else None
        if member is not None and known is not None and member[1] in known.functions:
            return known, known.functions[member[1]]
    return None


def _module_statement(p: Parser, node: ast.stmt) -> dict[str, Any]:
    if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return {}
    if isinstance(node, ast.Expr) and p.call(node.value) == "module_attrs":
        assert isinstance(node.value, ast.Call)
        found = p.value(node.value.args[0]) if len(node.value.args) == 1 else None
        if isinstance(found, dict):
            return found
        p.fail(node, "attributes are a dict: I.module_attrs({...})")
    accepted = f"accepted here: functions with {', '.join(dialect.decorators())}, I.module_attrs({{...}})"
    raise p.source.error(node, "this has no place in a module", accepted)


def text(source: Source, captured: Mapping[str, Any]) -> BaseFunc | IRModule:
    """The one function or module that a text defines. Raises ScriptError."""
    names = {**{prefix: Namespace(name) for prefix, name in dialect.prefixes().items()}, **captured}
    found: list[ast.FunctionDef | ast.ClassDef] = []
    for node in source.tree.body:
        match node:
            case ast.ImportFrom():
                names.update(_imported(source, node))
            case ast.FunctionDef() | ast.ClassDef():
                found.append(node)
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case _:
                hint = "a text holds one function or one module, and imports of T and I"
                source.fail(node, "this is no definition", hint)
    if len(found) != 1:
        raise_at = found[1] if found else source.tree
        source.fail(raise_at, f"a text defines one function or one module, not {len(found)}")
    node, p = found[0], Parser(source, Scope(names))
    if isinstance(node, ast.FunctionDef) and (known := _reader(p, node)) is not None:
        return known[1](source, node, names)
    if isinstance(node, ast.ClassDef) and decorator(p, node, "ir", "ir_module") is not None:
        return module(source, node, names)
    hint = f"write {' or '.join(dialect.decorators())} over a function, @I.ir_module over a class"
    raise source.error(node, f"{node.name} is not decorated", hint)


def _imported(source: Source, node: ast.ImportFrom) -> dict[str, Any]:
    """`from tvm.script import tir as T` names the dialect; any other import is refused."""
    if node.module not in ("tvm.script", "tunefarm.script"):
        accepted = "accepted here: from tvm.script import tir as T, ir as I"
        source.fail(node, f"nothing is imported from {node.module}", accepted)
    found, known = {}, [*dict.fromkeys(dialect.prefixes().values())]
    for alias in node.names:
        if alias.name not in known:
            source.fail(node, f"tvm.script has no {alias.name!r}", f"it has: {', '.join(known)}")
        found[alias.asname or alias.name] = Namespace(alias.name)
    return found
