"""TensorIR functions of a text; and TensorIR as a dialect of texts."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from compiler.ir.visit import walk
from compiler.script.dialect import Dialect, register
from compiler.script.entry import read_decorated
from compiler.script.parser import decorator
from compiler.script.scope import Scope
from compiler.script.source import Source
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.ir_builder import closed
from compiler.tir.text import parse_buffers as buffers
from compiler.tir.text import parse_stmt as statements
from compiler.tir.text import vocabulary
from compiler.tir.text.parse_expr import BlockParts, TirParser
from compiler.tir.text.vocabulary import TypeName


def function(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> n.PrimFunc:
    """The function a definition describes. Raises ScriptError."""
    p = TirParser(source, Scope(captured))
    parts = BlockParts(is_function=True)
    p.parts.append(parts)
    with source.at(node):
        options = _options(p, node)
        p.says_sblock = bool(options.get("s_tir"))
        p.written_again = _written_again(node) if p.says_sblock else set()
        p.size_types = _scalars(p, node)
        _parameters(p, node)
        found = closed([item for item in statements.items(p, node.body) if item is not None])
        body = _rooted(p, node, found, parts)
        ret = p.value(node.returns) if node.returns is not None else None
        if ret is not None and not isinstance(ret, TypeName):
            p.fail(node.returns or node, "a function returns a T.dtype, or nothing")
        attrs = dict(parts.attrs)
        if not options.get("private") and "global_symbol" not in attrs:
            attrs = {"global_symbol": node.name, **attrs}
        return n.PrimFunc(p.params, body, ret.dtype if ret else None, parts.params, attrs, p.span(node))


def _written_again(node: ast.FunctionDef) -> set[str]:
    """Return the names that statements without a type give another value."""
    count: Counter[str] = Counter()
    plain: set[str] = set()
    for item in ast.walk(node):
        match item:
            case ast.Assign(targets=[ast.Name(id=name)]):
                count[name] += 1
                plain.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                count[name] += 1
            case ast.AugAssign(target=ast.Name(id=name)):
                count[name] += 2
                plain.add(name)
    return {name for name in plain if count[name] > 1}


def _options(p: TirParser, node: ast.FunctionDef) -> dict[str, Any]:
    mark = decorator(p, node, "tir", "prim_func")
    named = p.arguments(mark)[1] if isinstance(mark, ast.Call) else {}
    known = {"private", "check_well_formed", "root_block", "s_tir"}
    if not set(named) <= known:
        p.fail(mark or node, f"T.prim_func takes {', '.join(sorted(known))}")
    return named


def _scalars(p: TirParser, node: ast.FunctionDef) -> dict[str, str]:
    """The types of scalars that a function declares, as parameters or by `n = T.int64()`, by name."""
    declared = [(param.arg, param.annotation) for param in node.args.args]
    for item in node.body:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=kind, args=[])):
                declared.append((name, kind))
    members = [(name, p.member(kind)) for name, kind in declared if kind is not None]
    return {name: found[1] for name, found in members if found is not None and "int" in found[1]}


def _parameters(p: TirParser, node: ast.FunctionDef) -> None:
    spec = node.args
    if spec.vararg or spec.kwarg or spec.defaults or spec.kwonlyargs or spec.posonlyargs:
        p.fail(node, "a function takes plain parameters only: no defaults, no *args")
    for param in spec.args:
        if param.annotation is None:
            p.fail(param, f"parameter {param.arg!r} has no type", "write A: T.Buffer((8,), 'float32'), or n: T.int32")
        p.params = (*p.params, _parameter(p, param, param.annotation))


def _parameter(p: TirParser, param: ast.arg, kind: ast.expr) -> n.Var:
    name = param.arg
    if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
        p.fail(kind, "an annotation is no string here", "remove the quotes")
    if p.call(kind) == "Buffer":
        assert isinstance(kind, ast.Call)
        return _buffer_parameter(p, param, buffers.declared(p, kind, name))
    if isinstance(kind, ast.Subscript) and p.member(kind.value) == ("tir", "Buffer"):  # T.Buffer[(8,), "float32"]
        items = p.value(kind.slice)
        args = items if isinstance(items, tuple) and items and isinstance(items[0], tuple) else (items,)
        return _buffer_parameter(p, param, buffers.from_arguments(p, kind, name, args, {}))
    found = p.value(kind)
    if isinstance(found, TypeName):
        found = found()
    if not isinstance(found, n.Var):
        accepted = "accepted here: T.Buffer, T.handle, T.int32, ..."
        p.fail(kind, f"{ast.unparse(kind)} is no type of a parameter", accepted)
    named = p.sizes.pop(name, None)  # by a string in a parameter before
    if named is not None and named.dtype == found.dtype and type(named) is type(found):
        return named
    var = type(found)(name, found.dtype, p.span(param))
    p.scope.define(name, var)
    return var


def _buffer_parameter(p: TirParser, param: ast.arg, buffer: n.Buffer) -> n.Var:
    var = n.Var(f"var_{param.arg}", "handle", p.span(param))
    p.block.params[var] = buffer
    p.scope.define(param.arg, buffer)
    return var


def _rooted(p: TirParser, node: ast.FunctionDef, body: n.Stmt, parts: BlockParts) -> n.Stmt:
    """Put `body` in the root block of a function with blocks, whether that is written or not."""
    if parts.iter_vars or parts.reads is not None or parts.writes is not None or parts.init is not None:
        p.fail(node, "T.axis, T.reads, T.writes, T.where and T.init stand in a block")
    if isinstance(body, n.BlockRealize) and body.block.name_hint == "root" and not parts.allocated:
        return body
    blocks = any(isinstance(inner, n.BlockRealize) for inner in walk(body))
    if not parts.allocated and (not blocks or _options(p, node).get("root_block") is False):
        return body
    root = n.Block((), (), (), "root", body, None, tuple(parts.allocated), tuple(parts.matched), {}, p.span(node))
    return n.BlockRealize((), ops.const(True), root, p.span(node))


def signature(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> str:
    """The dtype that calls of the function have."""
    kind = TirParser(source, Scope(captured)).member(node.returns) if node.returns is not None else None
    return kind[1] if kind is not None else "int32"


def prim_func(
    func: Callable[..., Any] | None = None,
    private: bool = False,
    check_well_formed: bool = True,
    root_block: bool = True,
    s_tir: bool = True,
) -> Any:
    """Decorator: the Python function is read as TVMScript, and becomes a PrimFunc.

    Its body never runs. Names from around it give constants, shapes and dtypes. `private`: without a global symbol.
    `root_block=False`: no root block is put around blocks (as in half lowered functions). `s_tir` is ignored; texts
    of newer versions give it for functions with blocks. In a class under `@I.ir_module` the function is left for the
    class to read. Raises ScriptError.
    """
    return prim_func if func is None else read_decorated(func, sys._getframe(1), "tir", "prim_func")


register(Dialect("tir", "T", {"prim_func": function}, vocabulary.lookup, vocabulary.names, signature))
