"""IR as TVMScript text.

The text is valid Python, holds all that is needed to rebuild what it prints, and is the same on every run:
variables and buffers get their own names, made unique in order of appearance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, PrimFunc, Stmt
from compiler.tir.text.print_names import Names
from compiler.tir.text.print_stmt import StmtPrinter, block_definitions, new_var, undefined_vars
from compiler.tir.visit import walk

# Attributes that say how a function is called or built, not what it computes.
_NAMING_ATTRS = frozenset({"global_symbol", "target", "tir.noalias"})


def script(node: Any) -> str:
    """The text of a function, module, statement, expression, buffer, range or iteration variable.

    Raises IRError for anything else.
    """
    printer = StmtPrinter(Names())
    match node:
        case PrimFunc():
            _function(printer, node, _function_name(node, "main"))
        case PrimExpr():
            return printer.expr(node)
        case Stmt():
            printer.stmt(node)
        case n.BufferRegion():
            return printer.region(node)
        case n.Range():
            return f"T.Range({printer.expr(node.min)}, {printer.end(node.min, node.extent)})"
        case n.Buffer():
            return f"{printer.names.of(node)}: T.Buffer({printer.buffer_args(node, always_dtype=True)})"
        case n.IterVar():
            return repr(node)
        case _ if hasattr(node, "functions") and isinstance(node, Node):
            _module(printer, node)
        case _:
            raise IRError(f"cannot print {node!r} ({type(node).__name__})")
    return "\n".join(printer.lines)


def workload_key(func: PrimFunc) -> str:
    """What `func` computes, as a sha256 hex digest: the same for functions that differ only in the names of
    variables, buffers, blocks and the function."""
    printer = StmtPrinter(Names(anonymous=True))
    attrs = {k: v for k, v in sorted(func.attrs.items()) if k not in _NAMING_ATTRS}
    plain = PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs)
    _function(printer, plain, "workload", mark="@T.prim_func")
    return hashlib.sha256("\n".join(printer.lines).encode()).hexdigest()


def _module(p: StmtPrinter, module: Any) -> None:
    p.line("@I.ir_module")
    p.line("class Module:")
    with p.indented():
        if module.attrs:
            p.line(f"I.module_attrs({p.value(dict(module.attrs))})")
        for position, (name, func) in enumerate(module.items()):
            if position or module.attrs:
                p.line("")
            _function(p, func, name.name_hint, StmtPrinter(Names()))
        if not module.functions:
            p.line("pass")
    p.lines[:] = [line.rstrip() for line in p.lines]


def _function_name(func: PrimFunc, default: str) -> str:
    return str(func.attrs.get("global_symbol", default))


def _function(
    out: StmtPrinter, func: PrimFunc, name: str, inner: StmtPrinter | None = None, mark: str | None = None
) -> None:
    """Append the function's lines to `out`; names are the function's own when `inner` is given."""
    p = inner if inner is not None else out
    p.names.unique(name)
    declared = {*func.buffer_map.values(), *_block_buffers(func.body)}
    p.views = _views(func.body, declared)
    signature, matches = _params(p, func)
    returns = "" if func.ret_type is None else f" -> T.{func.ret_type}"
    p.line(mark if mark is not None else _decorator(func))
    p.line(f"def {Names().unique(name)}({', '.join(signature)}){returns}:")
    with p.indented():
        for text in matches:
            p.line(text)
        if func.attrs:
            p.line(f"T.func_attr({p.value(dict(func.attrs))})")
        _top_views(p, func)
        _function_body(p, func.body)
    if inner is not None:
        for text in inner.lines:
            out.line(text)


def _params(p: StmtPrinter, func: PrimFunc) -> tuple[list[str], list[str]]:
    """The parameter list, and lines that match parameters whose layout is not spelled in the list."""
    signature: list[str] = []
    matched: list[tuple[n.Var, n.Buffer]] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            size = "(is_size_var=True)" if isinstance(param, n.SizeVar) else ""
            signature.append(f"{p.names.of(param)}: T.{param.dtype}{size}")
        elif _spelled(buffer):
            signature.append(f"{p.names.of(buffer)}: T.Buffer({p.buffer_args(buffer, always_dtype=True)})")
        else:
            signature.append(f"{p.names.of(param)}: T.handle")
            matched.append((param, buffer))
    lines: list[str] = []
    for param, buffer in matched:
        lines.extend(f"{p.names.of(var)} = {new_var(var)}" for var in undefined_vars(p, buffer))
        args = p.buffer_args(buffer, always_dtype=True)
        lines.append(f"{p.names.of(buffer)} = T.match_buffer({p.names.of(param)}, {args})")
    for buffer in func.buffer_map.values():
        p.own_data(buffer)
    return signature, lines


def _spelled(buffer: n.Buffer) -> bool:
    """Whether the buffer's layout is made of constants only."""
    parts = (*buffer.shape, *buffer.strides)
    return buffer.elem_offset is None and all(isinstance(part, n.IntImm) for part in parts)


def _top_views(p: StmtPrinter, func: PrimFunc) -> None:
    """Declare the views of parameters, and of data that is defined nowhere."""
    inner = {node.buffer_var for node in walk(func.body) if isinstance(node, n.Allocate)}
    inner |= {node.var for node in walk(func.body) if isinstance(node, n.LetStmt)}
    inner |= {buffer.data for buffer in _block_buffers(func.body)}
    for data in [data for data in p.views if data not in inner]:
        p.declare_views(data)


def _function_body(p: StmtPrinter, body: Stmt) -> None:
    if isinstance(body, n.BlockRealize) and _is_implied_root(body):
        block_definitions(p, body.block)
        p.stmt(body.block.body)
    else:
        p.stmt(body)


def _is_implied_root(body: n.BlockRealize) -> bool:
    """Whether the outermost block says nothing that its contents do not."""
    block = body.block
    if block.name_hint != "root" or block.iter_vars or block.reads or block.writes or block.match_buffers:
        return False
    if block.annotations or block.init is not None or not isinstance(body.predicate, n.IntImm):
        return False
    inside = any(isinstance(node, n.BlockRealize) for node in walk(block.body))
    return bool(body.predicate.value) and (inside or bool(block.alloc_buffers))


def _decorator(func: PrimFunc) -> str:
    options = [] if "global_symbol" in func.attrs else ["private=True"]
    if _lacks_root(func.body):
        options.append("root_block=False")
    return f"@T.prim_func({', '.join(options)})" if options else "@T.prim_func"


def _lacks_root(body: Stmt) -> bool:
    """Whether there are blocks under no root block, as while blocks are lowered."""
    if isinstance(body, n.BlockRealize) and body.block.name_hint == "root":
        return False
    return any(isinstance(node, n.BlockRealize) for node in walk(body))


def _block_buffers(body: Node) -> Iterator[n.Buffer]:
    """Buffers that blocks and declarations under `body` define."""
    for node in walk(body):
        if isinstance(node, n.DeclBuffer):
            yield node.buffer
        elif isinstance(node, n.Block):
            yield from node.alloc_buffers
            yield from (match.buffer for match in node.match_buffers)


def _views(body: Node, declared: set[n.Buffer]) -> dict[n.Var, list[n.Buffer]]:
    """The buffers used under `body` that nothing declares, by their data, in order of first use."""
    found: dict[n.Var, list[n.Buffer]] = {}
    for node in walk(body):
        used: list[n.Buffer] = []
        match node:
            case n.BufferLoad() | n.BufferStore():
                used = [node.buffer]
            case n.Block():
                used = [region.buffer for region in (*node.reads, *node.writes)]
            case n.AttrStmt(node=n.Buffer() as buffer):
                used = [buffer]
            case _:
                pass
        for buffer in used:
            if buffer not in declared:
                declared.add(buffer)
                found.setdefault(buffer.data, []).append(buffer)
    return found
