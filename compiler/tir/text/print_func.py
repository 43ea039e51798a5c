"""TensorIR functions, and nodes by themselves, as TVMScript text.

The text is valid Python, holds everything needed to rebuild the object, and is the same on every run. Variables and
buffers get their own names, made unique in order of appearance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.ir.base import Node
from compiler.ir.text import Names, quote, register_function, register_text, register_value
from compiler.ir.visit import walk
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, PrimFunc, Stmt
from compiler.tir.text.print_stmt import StmtPrinter, block_definitions, new_var, undefined_vars

# Attributes that say how a function is called or built, not what it computes.
_NAMING_ATTRS = frozenset({"global_symbol", "target", "tir.noalias"})


def workload_key(func: PrimFunc) -> str:
    """Return what `func` computes, as a sha256 hex digest.
    It is the same for functions that differ only in the names of variables, buffers, blocks and the function."""
    return hashlib.sha256(nameless_text(func).encode()).hexdigest()


def nameless_text(func: PrimFunc) -> str:
    """Return a text that is the same for functions that differ in names only.
    The names are those of variables, buffers and blocks."""
    printer = StmtPrinter(Names(anonymous=True))
    attrs = {k: v for k, v in sorted(func.attrs.items()) if k not in _NAMING_ATTRS}
    plain = PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs)
    return "\n".join(_function(printer, plain, "workload", mark="@T.prim_func"))


def function_lines(func: PrimFunc, name: str) -> list[str]:
    """The lines of a function's definition, under that name."""
    return _function(StmtPrinter(Names()), func, name)


def _function(p: StmtPrinter, func: PrimFunc, name: str, mark: str | None = None) -> list[str]:
    return printed_function(p, func, name, mark if mark is not None else _decorator(func), func.attrs)


def printed_function(
    p: StmtPrinter, func: PrimFunc, name: str, mark: str, attrs: Mapping[str, Any], sugar: bool = True
) -> list[str]:
    """The lines of a definition by `p`: after the decorator `mark`, with these attributes.

    Without `sugar`, the parameter list declares no buffer, and the root block is spelled.
    """
    p.names.unique(name)
    declared = {*func.buffer_map.values(), *_block_buffers(func.body)}
    p.views = _views(func.body, declared)
    signature, matches = _params(p, func, sugar)
    returns = "" if func.ret_type is None else f" -> T.{func.ret_type}"
    p.line(mark)
    p.line(f"def {Names().unique(name)}({', '.join(signature)}){returns}:")
    with p.indented():
        told = [f"T.func_attr({p.value(dict(attrs))})"] if attrs else []
        for text in (*told, *matches) if p.attrs_first else (*matches, *told):
            p.line(text)
        _top_views(p, func)
        _function_body(p, func.body, sugar)
    return p.lines


def _params(p: StmtPrinter, func: PrimFunc, sugar: bool) -> tuple[list[str], list[str]]:
    """The parameter list, and lines that match parameters whose layout is not spelled in the list."""
    signature: list[str] = []
    matched: list[tuple[n.Var, n.Buffer]] = []
    read = {node for node in walk(func.body) if isinstance(node, n.Var)} if func.buffer_map else set()
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            size = "(is_size_var=True)" if isinstance(param, n.SizeVar) else ""
            signature.append(f"{p.names.of(param)}: T.{param.dtype}{size}")
        elif sugar and param not in read and _spelled(buffer):
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


def _function_body(p: StmtPrinter, body: Stmt, sugar: bool) -> None:
    if sugar and isinstance(body, n.BlockRealize) and _is_implied_root(body):
        if p.root_note is not None:
            p.line(p.root_note)
        block_definitions(p, body.block)
        p.stmt(body.block.body)
    else:
        p.stmt(body)


def _is_implied_root(body: n.BlockRealize) -> bool:
    """Whether the outermost block states nothing beyond its contents."""
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


# ------------------------------------------------------------------------- nodes by themselves


def _stmt(stmt: Stmt) -> str:
    printer = StmtPrinter(Names())
    printer.stmt(stmt)
    return "\n".join(printer.lines)


def _range(node: n.Range) -> str:
    printer = StmtPrinter(Names())
    return f"T.Range({printer.expr(node.min)}, {printer.end(node.min, node.extent)})"


def _buffer(node: n.Buffer) -> str:
    printer = StmtPrinter(Names())
    return f"{printer.names.of(node)}: T.Buffer({printer.buffer_args(node, always_dtype=True)})"


def _value(node: Any) -> str:
    return StmtPrinter(Names()).value(node)


def _target(target: Target) -> str:
    if target.host is None:
        return f"T.target({quote(str(target))})"
    return f"T.target({_value(target.export())})"  # TVM's readers take no host within a text


register_function(PrimFunc, function_lines)
register_text(PrimExpr, lambda node: StmtPrinter(Names()).expr(node))
register_text(Stmt, _stmt)
register_text(n.BufferRegion, lambda node: StmtPrinter(Names()).region(node))
register_text(n.Range, _range)
register_text(n.Buffer, _buffer)
register_text(n.IterVar, repr)
for cls in (PrimExpr, n.Buffer, n.IterVar):
    register_value(cls, _value)
register_value(Target, _target)
