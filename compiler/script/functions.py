"""Functions and modules as IR."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.script import buffers, statements
from compiler.script.expressions import arguments, value
from compiler.script.parser import BlockParts, ModuleName, Namespace, Parser
from compiler.script.scope import Scope
from compiler.script.source import Source
from compiler.script.vocabulary import TypeName
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.ir_builder import closed

STANDARD: Mapping[str, Any] = {"T": Namespace("tir"), "I": Namespace("ir")}


def decorator(p: Parser, node: ast.FunctionDef | ast.ClassDef, space: str, name: str) -> ast.expr | None:
    """The decorator `T.prim_func` (or with arguments) of a definition, if it has it."""
    for item in node.decorator_list:
        if p.member(item.func if isinstance(item, ast.Call) else item) == (space, name):
            return item
    return None


def function(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> n.PrimFunc:
    """The function a definition describes. Raises ScriptError."""
    p = Parser(source, Scope(captured))
    parts = BlockParts(is_function=True)
    p.parts.append(parts)
    with source.at(node):
        _parameters(p, node)
        found = closed([item for item in statements.items(p, node.body) if item is not None])
        body = _rooted(p, node, found, parts)
        ret = value(p, node.returns) if node.returns is not None else None
        if ret is not None and not isinstance(ret, TypeName):
            p.fail(node.returns or node, "a function returns a T.dtype, or nothing")
        options = _options(p, node)
        attrs = dict(parts.attrs)
        if not options.get("private") and "global_symbol" not in attrs:
            attrs = {"global_symbol": node.name, **attrs}
        return n.PrimFunc(p.params, body, ret.dtype if ret else None, parts.params, attrs, p.span(node))


def _options(p: Parser, node: ast.FunctionDef) -> dict[str, Any]:
    mark = decorator(p, node, "tir", "prim_func")
    named = arguments(p, mark)[1] if isinstance(mark, ast.Call) else {}
    known = {"private", "check_well_formed", "root_block"}
    if not set(named) <= known:
        p.fail(mark or node, f"T.prim_func takes {', '.join(sorted(known))}")
    return named


def _parameters(p: Parser, node: ast.FunctionDef) -> None:
    spec = node.args
    if spec.vararg or spec.kwarg or spec.defaults or spec.kwonlyargs or spec.posonlyargs:
        p.fail(node, "a function takes plain parameters only: no defaults, no *args")
    for param in spec.args:
        if param.annotation is None:
            p.fail(param, f"parameter {param.arg!r} has no type", "write A: T.Buffer((8,), 'float32'), or n: T.int32")
        p.params = (*p.params, _parameter(p, param, param.annotation))


def _parameter(p: Parser, param: ast.arg, kind: ast.expr) -> n.Var:
    name = param.arg
    if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
        p.fail(kind, "an annotation is no string here", "remove the quotes")
    if p.call(kind) == "Buffer":
        assert isinstance(kind, ast.Call)
        return _buffer_parameter(p, param, buffers.declared(p, kind, name))
    if isinstance(kind, ast.Subscript) and p.member(kind.value) == ("tir", "Buffer"):  # T.Buffer[(8,), "float32"]
        items = value(p, kind.slice)
        args = items if isinstance(items, tuple) and items and isinstance(items[0], tuple) else (items,)
        return _buffer_parameter(p, param, buffers.from_arguments(p, kind, name, args, {}))
    found = value(p, kind)
    if isinstance(found, TypeName):
        found = found()
    if not isinstance(found, n.Var):
        accepted = "accepted here: T.Buffer, T.handle, T.int32, ..."
        p.fail(kind, f"{ast.unparse(kind)} is no type of a parameter", accepted)
    var = type(found)(name, found.dtype, p.span(param))
    p.scope.define(name, var)
    return var


def _buffer_parameter(p: Parser, param: ast.arg, buffer: n.Buffer) -> n.Var:
    var = n.Var(f"var_{param.arg}", "handle", p.span(param))
    p.block.params[var] = buffer
    p.scope.define(param.arg, buffer)
    return var


def _rooted(p: Parser, node: ast.FunctionDef, body: n.Stmt, parts: BlockParts) -> n.Stmt:
    """`body` in the root block that a function with blocks has, written or not."""
    if parts.iter_vars or parts.reads is not None or parts.writes is not None or parts.init is not None:
        p.fail(node, "T.axis, T.reads, T.writes, T.where and T.init stand in a block")
    if isinstance(body, n.BlockRealize) and body.block.name_hint == "root" and not parts.allocated:
        return body
    blocks = any(isinstance(inner, n.BlockRealize) for inner in walk(body))
    if not parts.allocated and (not blocks or _options(p, node).get("root_block") is False):
        return body
    root = n.Block((), (), (), "root", body, None, tuple(parts.allocated), tuple(parts.matched), {}, p.span(node))
    return n.BlockRealize((), ops.const(True), root, p.span(node))


def module(source: Source, node: ast.ClassDef, captured: Mapping[str, Any]) -> IRModule:
    """The module a class describes. Raises ScriptError."""
    p = Parser(source, Scope(captured))
    returns: dict[str, str] = {}
    for defined in node.body:
        if isinstance(defined, ast.FunctionDef):
            kind = p.member(defined.returns) if defined.returns is not None else None
            returns[defined.name] = kind[1] if kind is not None else "int32"
    itself = ModuleName(returns)
    captured = {**captured, node.name: itself, "cls": itself}
    functions: dict[str, n.PrimFunc] = {}
    attrs: dict[str, Any] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            if decorator(p, item, "tir", "prim_func") is None:
                p.fail(item, f"{item.name} is no function of a module", "decorate it with @T.prim_func")
            if item.name in functions:
                p.fail(item, f"the module has two functions {item.name!r}")
            functions[item.name] = function(source, item, captured)
        else:
            attrs.update(_module_statement(p, item))
    with source.at(node):
        return IRModule(functions, attrs)


def _module_statement(p: Parser, node: ast.stmt) -> dict[str, Any]:
    if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return {}
    if isinstance(node, ast.Expr) and p.call(node.value, "ir") == "module_attrs":
        assert isinstance(node.value, ast.Call)
        found = value(p, node.value.args[0]) if len(node.value.args) == 1 else None
        if isinstance(found, dict):
            return found
        p.fail(node, "attributes are a dict: I.module_attrs({...})")
    raise p.source.error(
        node, "this has no place in a module", "accepted here: functions with @T.prim_func, I.module_attrs({...})"
    )


def text(source: Source, captured: Mapping[str, Any]) -> n.PrimFunc | IRModule:
    """The one function or module that a text defines. Raises ScriptError."""
    names = {**STANDARD, **captured}
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
    if isinstance(node, ast.FunctionDef) and decorator(p, node, "tir", "prim_func") is not None:
        return function(source, node, names)
    if isinstance(node, ast.ClassDef) and decorator(p, node, "ir", "ir_module") is not None:
        return module(source, node, names)
    hint = "write @T.prim_func over a function, @I.ir_module over a class"
    raise source.error(node, f"{node.name} is not decorated", hint)


def _imported(source: Source, node: ast.ImportFrom) -> dict[str, Any]:
    """`from tvm.script import tir as T` names the name space; any other import is refused."""
    if node.module not in ("tvm.script", "tunefarm.script"):
        accepted = "accepted here: from tvm.script import tir as T, ir as I"
        source.fail(node, f"nothing is imported from {node.module}", accepted)
    found = {}
    for alias in node.names:
        if alias.name not in ("tir", "ir"):
            source.fail(node, f"tvm.script has no {alias.name!r}", "it has: tir, ir")
        found[alias.asname or alias.name] = Namespace(alias.name)
    return found


