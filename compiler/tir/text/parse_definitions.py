"""Assignments that define something: buffers, memory, threads, axes, lets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import prod

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import Stmt
from compiler.tir.text import parse_buffers as buffers
from compiler.tir.text.parse_blocks import AXES, add_axis
from compiler.tir.text.parse_expr import TirParser
from compiler.tir.visit import seq

_DEFAULT_NOTES = ("buffer_allocated_addr", "buffer_data_alignment")  # what newer versions write of all memory

# A statement; one that holds all statements behind it; or nothing but names.
Item = Stmt | Callable[[Stmt], Stmt] | None


def remap(p: TirParser, call: ast.Call, names: Sequence[ast.expr]) -> None:
    """T.axis.remap("SR", [i, k]): axes that are loops."""
    if len(call.args) != 2:
        p.fail(call, 'T.axis.remap takes kinds and loops: T.axis.remap("SR", [i, k])')
    kinds, loops = p.constant(call.args[0], str, "the kinds of axes"), p.exprs(call.args[1])
    if not len(kinds) == len(loops) == len(names):
        p.fail(call, f"T.axis.remap has {len(kinds)} kinds and {len(loops)} loops for {len(names)} names")
    for name, kind, loop in zip(names, kinds, loops):
        dom = p.loops.get(loop) if isinstance(loop, n.Var) else None
        if dom is None or not isinstance(name, ast.Name):
            p.fail(call, "T.axis.remap takes names of loops", "use T.axis.spatial or T.axis.reduce for other values")
        if kind not in AXES:
            raise p.unknown(call, "there is no kind of axis", kind, AXES)
        axis_var = n.IterVar(dom, n.Var(name.id, loop.dtype, p.span(name)), AXES[kind])
        add_axis(p, name, axis_var)
        p.block.values.append(loop)
        p.scope.define(name.id, axis_var.var)


def let(p: TirParser, node: ast.AST, target: ast.AST, name: str, given: n.PrimExpr) -> Item:
    """A variable with a value for the statements behind it."""
    var = n.Var(name, given.dtype, p.span(target))
    p.scope.define(name, var)
    return lambda rest: n.LetStmt(var, given, rest, p.span(node))


def _match_buffer(p: TirParser, call: ast.Call, name: str) -> None:
    if not call.args:
        p.fail(call, "T.match_buffer takes a parameter, or a region, and a shape")
    first = call.args[0]
    source = p.value(first) if isinstance(first, ast.Name) else None
    if isinstance(source, n.Var):
        if source not in p.params or not p.block.is_function:
            p.fail(first, f"{ast.unparse(first)} is no parameter of the function")
        buffer = buffers.declared(p, call, name, skip=1)
        p.block.params[source] = buffer
    else:
        region = buffers.region(p, first)
        buffer = buffers.declared(p, call, name, skip=1, scope=region.buffer.scope)
        p.block.matched.append(n.MatchBufferRegion(buffer, region))
    p.scope.define(name, buffer)


def _alloc_buffer(p: TirParser, call: ast.Call, name: str) -> Item:
    """Read memory of the block; `T.sblock_alloc_buffer` of a text means memory from here on."""
    if p.says_sblock:
        return _decl_buffer(p, call, name)
    _sblock_alloc_buffer(p, call, name)
    return None


def _sblock_alloc_buffer(p: TirParser, call: ast.Call, name: str) -> None:
    buffer = buffers.declared(p, call, name)
    p.block.allocated.append(buffer)
    p.scope.define(name, buffer)


def _declare(p: TirParser, call: ast.Call, name: str) -> None:
    p.scope.define(name, buffers.declared(p, call, name))


def _decl_buffer(p: TirParser, call: ast.Call, name: str) -> Item:
    """A view of data, or without `data` memory of its own."""
    notes = next((keyword for keyword in call.keywords if keyword.arg == "annotations"), None)
    given = {} if notes is None else p.value(notes.value)
    kept = {key: note for key, note in given.items() if key not in _DEFAULT_NOTES}
    span = p.span(call)
    call = call if notes is None else ast.Call(call.func, call.args, [k for k in call.keywords if k is not notes])
    buffer = buffers.declared(p, call, name)
    p.scope.define(name, buffer)
    if any(keyword.arg == "data" for keyword in call.keywords) or len(call.args) > 2:
        return lambda rest: n.DeclBuffer(buffer, rest, span)
    return lambda rest: n.Allocate(
        buffer.data, buffer.dtype, buffer.shape, ops.const(True), rest, buffer.scope, kept, span
    )


def _alloc_in(scope: str) -> Callable[[TirParser, ast.Call, str], Item]:
    """`T.alloc_local` and `T.alloc_shared` of newer versions."""

    def alloc(p: TirParser, call: ast.Call, name: str) -> Item:
        told = ast.keyword("scope", ast.copy_location(ast.Constant(scope), call))
        return _alloc_buffer(p, ast.copy_location(ast.Call(call.func, call.args, [*call.keywords, told]), call), name)

    return alloc


def _allocate(p: TirParser, call: ast.Call, name: str) -> Item:
    args, named = p.arguments(call)
    keys = ("extents", "dtype", "scope", "condition", "annotations")
    given = {"scope": "global", "condition": True, "annotations": {}, **dict(zip(keys, args)), **named}
    if set(given) != set(keys):
        p.fail(call, "T.allocate takes extents, dtype, scope, condition and annotations")
    var = n.Var(name, "handle", p.span(call))
    p.scope.define(name, var)
    extents = given["extents"] if isinstance(given["extents"], tuple | list) else (given["extents"],)
    sizes, condition = tuple(map(ops.as_expr, extents)), ops.as_expr(given["condition"])
    return lambda rest: n.Allocate(
        var, given["dtype"], sizes, condition, rest, given["scope"], given["annotations"] or {}, p.span(call)
    )


def _allocate_const(p: TirParser, call: ast.Call, name: str) -> Item:
    """C = T.allocate_const([1, 2], "int32", [2]): memory that is filled where it is made."""
    args, named = p.arguments(call)
    keys = ("data", "dtype", "extents")
    given = {**dict(zip(keys, args)), **named}
    given.pop("annotations", None)
    lists = (given.get("data"), given.get("extents"))
    if set(given) != set(keys) or not all(isinstance(value, list | tuple) for value in lists):
        p.fail(call, "T.allocate_const takes a list of values, a dtype and extents")
    sizes = tuple(map(ops.as_expr, given["extents"]))
    known = [ops.as_int(size) for size in sizes]
    if None in known or prod(known) != len(given["data"]):  # type: ignore[arg-type]
        p.fail(call, f"T.allocate_const is given {len(given['data'])} values for the extents {given['extents']}")
    buffer = n.decl_buffer((len(given["data"]),), given["dtype"], name)
    p.scope.define(name, buffer.data)
    stores = [
        n.BufferStore(buffer, ops.cast(buffer.dtype, value), (ops.const(place),), None, p.span(call))
        for place, value in enumerate(given["data"])
    ]
    return lambda rest: n.Allocate(
        buffer.data, buffer.dtype, sizes, ops.const(True), seq(*stores, rest), buffer.scope, {}, p.span(call)
    )


def _env_thread(p: TirParser, call: ast.Call, name: str) -> None:
    tag = p.constant(call.args[0] if call.args else call, str, "a thread")
    p.scope.define(name, n.IterVar(None, n.Var(name, "int32", p.span(call)), n.IterType.THREAD_INDEX, tag))


def launch_thread(p: TirParser, call: ast.Call, name: str) -> Item:
    """v = T.launch_thread("threadIdx.x", 32): the rest of the block runs on that many threads."""
    if len(call.args) != 2:
        p.fail(call, "T.launch_thread takes a thread and its extent")
    thread, size = p.value(call.args[0]), p.expr(call.args[1])
    if isinstance(thread, str):
        thread = n.IterVar(None, n.Var(name, size.dtype, p.span(call)), n.IterType.THREAD_INDEX, thread)
    if not isinstance(thread, n.IterVar):
        p.fail(call.args[0], 'a thread is named: "blockIdx.x", or made by T.env_thread')
    p.scope.define(name, thread.var)
    return lambda rest: n.AttrStmt(thread, "thread_extent", size, rest, p.span(call))


def _let_stmt(p: TirParser, call: ast.Call, name: str) -> Item:
    args, named = p.arguments(call)
    var = named.get("var")
    if len(args) != 1 or not (var is None or isinstance(var, n.Var)):
        p.fail(call, "T.LetStmt takes a value, and a variable as var=")
    given = ops.as_expr(args[0])
    if var is None:
        return let(p, call, call, name, given)
    p.scope.define(name, var)
    return lambda rest: n.LetStmt(var, given, rest, p.span(call))


DEFINITIONS: dict[str, Callable[[TirParser, ast.Call, str], Item]] = {
    "match_buffer": _match_buffer,
    "alloc_buffer": _alloc_buffer,
    "sblock_alloc_buffer": _sblock_alloc_buffer,
    "alloc_local": _alloc_in("local"),
    "alloc_shared": _alloc_in("shared"),
    "Buffer": _declare,
    "buffer_decl": _declare,
    "decl_buffer": _decl_buffer,
    "allocate": _allocate,
    "allocate_const": _allocate_const,
    "env_thread": _env_thread,
    "launch_thread": launch_thread,
    "LetStmt": _let_stmt,
}
