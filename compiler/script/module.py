"""Modules, and whole texts, as IR: each function is read by the dialect of its decorator."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.script import dialect
from compiler.script.dialect import Dialect, FunctionReader
from compiler.script.metadata import read_metadata
from compiler.script.parser import ModuleName, Namespace, Parser, SizeName, decorator
from compiler.script.scope import Scope
from compiler.script.source import Source

_MODULES = ("tvm.script", "tvm.script.parser", "tunefarm.script")
_PACKAGES = ("tvm", "tunefarm", "typing")
_RENAMED = {"tirx": "tir"}  # as newer versions call it
_DECORATORS = ("ir_module", "script.ir_module", "tvm.script.ir_module", "tunefarm.script.ir_module")
"""Names of the decorator of modules that need no `I`."""


def module(source: Source, node: ast.ClassDef, captured: Mapping[str, Any]) -> IRModule:
    """The module a class describes. Raises ScriptError."""
    p = Parser(source, Scope(captured))
    attrs: dict[str, Any] = {}
    infos: dict[str, list[Any]] = {}
    definitions: list[tuple[ast.FunctionDef, Dialect, FunctionReader]] = []
    for item in node.body:
        if not isinstance(item, ast.FunctionDef):
            _module_statement(p, item, attrs, infos)
            continue
        known = _reader(p, item)
        if known is None:
            hint = f"decorate it with {' or '.join(dialect.decorators())}"
            p.fail(item, f"{item.name} is no function of a module", hint)
        if any(other.name == item.name for other, _, _ in definitions):
            p.fail(item, f"the module has two functions {item.name!r}")
        definitions.append((item, *known))
    signatures: dict[str, Any] = {}
    itself = ModuleName(signatures, infos)
    captured = {**captured, node.name: itself, "cls": itself}
    for item, known_dialect, _ in definitions:
        signatures[item.name] = known_dialect.signature(source, item, captured)
    functions: dict[Any, BaseFunc] = {item.name: reader(source, item, captured) for item, _, reader in definitions}
    functions.update(itself.made)
    with source.at(node):
        return IRModule(functions, attrs, infos)


def _reader(p: Parser, node: ast.FunctionDef) -> tuple[Dialect, FunctionReader] | None:
    """The dialect whose decorator a definition has, and what reads such definitions."""
    for item in node.decorator_list:
        member = p.member(item.func if isinstance(item, ast.Call) else item)
        known = dialect.find(member[0]) if member is not None else None
        if member is not None and known is not None and member[1] in known.functions:
            return known, known.functions[member[1]]
    return None


def _module_statement(p: Parser, node: ast.stmt, attrs: dict[str, Any], infos: dict[str, list[Any]]) -> None:
    if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    name = p.call(node.value) if isinstance(node, ast.Expr) else None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and name is not None:
        found = p.value(node.value.args[0]) if len(node.value.args) == 1 else None
        if name == "module_attrs":
            if not isinstance(found, dict):
                p.fail(node, "attributes are a dict: I.module_attrs({...})")
            attrs.update(found)
            return
        if name == "module_global_infos":
            if not isinstance(found, dict) or not all(isinstance(item, list | tuple) for item in found.values()):
                p.fail(node, 'these are lists by name: I.module_global_infos({"vdevice": [I.vdevice("llvm")]})')
            infos.update({key: list(items) for key, items in found.items()})
            return
    accepted = f"functions with {', '.join(dialect.decorators())}, I.module_attrs, I.module_global_infos"
    raise p.source.error(node, "this has no place in a module", f"accepted here: {accepted}")


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
            case ast.Import() if all(alias.name.partition(".")[0] in _PACKAGES for alias in node.names):
                pass
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TypeVar"))):
                names[name] = SizeName(name)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="load_json"), args=[ast.Constant(value=str(saved))]),
            ):
                with source.at(node):
                    names[name] = read_metadata(saved)
            case _:
                hint = "a text holds one function or one module, and imports of T and I"
                source.fail(node, "this is no definition", hint)
    if len(found) != 1:
        raise_at = found[1] if found else source.tree
        source.fail(raise_at, f"a text defines one function or one module, not {len(found)}")
    node, p = found[0], Parser(source, Scope(names))
    if isinstance(node, ast.FunctionDef) and (known := _reader(p, node)) is not None:
        return known[1](source, node, names)
    if isinstance(node, ast.ClassDef) and (decorator(p, node, "ir", "ir_module") is not None or _is_module(node)):
        return module(source, node, names)
    hint = f"write {' or '.join(dialect.decorators())} over a function, @I.ir_module over a class"
    raise source.error(node, f"{node.name} is not decorated", hint)


def _is_module(node: ast.ClassDef) -> bool:
    """Whether a class has the decorator of modules by its own name, as in older texts."""
    names = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return any(ast.unparse(name) in _DECORATORS for name in names)


def _imported(source: Source, node: ast.ImportFrom) -> dict[str, Any]:
    """`from tvm.script import tir as T` names the dialect.

    What else programs of this kind import gives nothing.

    Imports of modules that such programs do not use are refused.
    """
    if node.module is not None and node.module not in _MODULES and node.module.partition(".")[0] in _PACKAGES:
        return {}
    if node.module not in _MODULES:
        accepted = "accepted here: from tvm.script import tir as T, ir as I"
        source.fail(node, f"nothing is imported from {node.module}", accepted)
    found, known = {}, [*dict.fromkeys(dialect.prefixes().values())]
    for alias in node.names:
        name = _RENAMED.get(alias.name, alias.name)
        if name in _DECORATORS and alias.asname is None:
            continue
        if name not in known:
            source.fail(node, f"tvm.script has no {alias.name!r}", f"it has: {', '.join(known)}")
        found[alias.asname or alias.name] = Namespace(name)
    return found
