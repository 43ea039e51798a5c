"""Statements as TVMScript text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from compiler.errors import IRError
from compiler.ir.text import Lines, Names
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt
from compiler.tir.text.print_expr import ExprPrinter

_LOOPS = {
    ForKind.SERIAL: "T.serial",
    ForKind.PARALLEL: "T.parallel",
    ForKind.VECTORIZED: "T.vectorized",
    ForKind.UNROLLED: "T.unroll",
    ForKind.THREAD_BINDING: "T.thread_binding",
}
_AXES = {
    IterType.DATA_PAR: ("spatial", "S"),
    IterType.COMM_REDUCE: ("reduce", "R"),
    IterType.ORDERED: ("scan", "O"),
    IterType.OPAQUE: ("opaque", "Q"),
}


class StmtPrinter(ExprPrinter, Lines):
    """Prints statements, one line at a time, into `lines`."""

    root_note: ClassVar[str | None] = None
    """A line that stands for a root block that is not spelled."""
    attrs_first: ClassVar[bool] = False
    """Whether a function's attributes stand before its buffers."""
    ranges: ClassVar[bool] = False
    """Whether a plain loop with a start is a `range`."""
    block_word: ClassVar[str] = "block"
    block_memory: ClassVar[str] = "alloc_buffer"
    view: ClassVar[str] = "Buffer"
    """How a text calls blocks, the memory that they allocate, and another view of memory."""

    def __init__(self, names: Names) -> None:
        ExprPrinter.__init__(self, names)
        Lines.__init__(self)
        self._loops: dict[PrimExpr, n.For] = {}
        self.views: dict[n.Var, list[n.Buffer]] = {}  # undeclared buffers, by the variable of their data

    def block_name(self, name: str) -> str:
        """Print the name of a block, which need not be an identifier."""
        return self.names.unique("block") if self.names.anonymous else name

    def body(self, stmt: Stmt) -> None:
        with self.indented():
            self.stmt(stmt)

    def stmt(self, stmt: Stmt, last: bool = True) -> None:
        """Print `stmt`; `last` says that no statement follows in its scope, so it may go without `with`."""
        rule = _RULES.get(type(stmt))
        if rule is None:
            raise IRError(f"no text for a {type(stmt).__name__} statement")
        rule(self, stmt, last)

    # ------------------------------------------------------------------------------ buffers

    def buffer_args(self, buffer: n.Buffer, *, always_dtype: bool) -> str:
        """The arguments that make `buffer`: shape, dtype and whatever is not the default."""
        parts = [self.group(buffer.shape)]
        if always_dtype or buffer.dtype != "float32":
            parts.append(f'"{buffer.dtype}"')
        if buffer.strides:
            parts.append(f"strides={self.group(buffer.strides)}")
        if buffer.elem_offset is not None:
            parts.append(f"elem_offset={self.expr(buffer.elem_offset)}")
        if buffer.scope != "global":
            parts.append(f'scope="{buffer.scope}"')
        if buffer.data_alignment != 64:
            parts.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor:
            parts.append(f"offset_factor={buffer.offset_factor}")
        return ", ".join(parts)

    def own_data(self, buffer: n.Buffer) -> None:
        """Print the variable of the buffer's data as `name.data`."""
        name = self.names.of(buffer)
        if not self.names.knows(buffer.data):
            self.names.set(buffer.data, f"{name}.data")

    def declare_views(self, data: n.Var) -> None:
        """Lines for the buffers that are other views of `data`."""
        for buffer in self.views.pop(data, ()):
            args = self.buffer_args(buffer, always_dtype=True)
            known = self.names.knows(data)
            name = self.names.of(buffer)
            if known:
                self.line(f"{name} = T.{self.view}({args}, data={self.names.of(data)})")
            else:
                self.own_data(buffer)
                self.line(f"{name} = T.Buffer({args})")


# ------------------------------------------------------------------------------------- loops


def _for(p: StmtPrinter, loop: n.For, last: bool) -> None:
    nest = _plain_nest(loop)
    if len(nest) > 1:
        names = ", ".join(p.names.of(f.loop_var) for f in nest)
        p.line(f"for {names} in T.grid({p.exprs(tuple(f.extent for f in nest))}):")
    elif nest:
        p.line(f"for {p.names.of(loop.loop_var)} in range({p.expr(loop.extent)}):")
    else:
        nest = [loop]
        plain = loop.kind is ForKind.SERIAL and not loop.annotations and loop.thread_binding is None
        word = "range" if plain and p.ranges else _LOOPS[loop.kind]
        p.line(f"for {p.names.of(loop.loop_var)} in {word}({_loop_args(p, loop)}):")
    for f in nest:
        p._loops[f.loop_var] = f
    p.body(nest[-1].body)


def _plain_nest(loop: n.For) -> list[n.For]:
    """The perfectly nested plain loops from `loop` inwards whose extents read none of its variables."""
    nest: list[n.For] = []
    current: Stmt = loop
    while isinstance(current, n.For) and _is_plain(current):
        seen = [f.loop_var for f in nest]
        if any(node is var for node in walk(current.extent) for var in seen):
            break
        nest.append(current)
        current = current.body
    return nest


def _is_plain(loop: n.For) -> bool:
    return (
        loop.kind is ForKind.SERIAL
        and not loop.annotations
        and loop.thread_binding is None
        and isinstance(loop.min, n.IntImm)
        and loop.min.value == 0
    )


def _loop_args(p: StmtPrinter, loop: n.For) -> str:
    args = []
    if not (isinstance(loop.min, n.IntImm) and loop.min.value == 0):
        args.append(p.expr(loop.min))
    args.append(p.end(loop.min, loop.extent))
    if loop.thread_binding is not None:
        args.append(f'thread="{loop.thread_binding.thread_tag}"')
    if loop.annotations:
        args.append(f"annotations={p.value(dict(loop.annotations))}")
    return ", ".join(args)


def _while(p: StmtPrinter, stmt: n.While, last: bool) -> None:
    p.line(f"while {p.expr(stmt.condition)}:")
    p.body(stmt.body)


def _if(p: StmtPrinter, stmt: n.IfThenElse, last: bool) -> None:
    p.line(f"if {p.expr(stmt.condition)}:")
    p.body(stmt.then_case)
    if stmt.else_case is not None:
        p.line("else:")
        p.body(stmt.else_case)


def _seq(p: StmtPrinter, stmt: n.SeqStmt, last: bool) -> None:
    for position, item in enumerate(stmt.seq):
        p.stmt(item, last and position == len(stmt.seq) - 1)
    if not stmt.seq:
        p.line("pass")


# ------------------------------------------------------------------------- plain statements


def _store(p: StmtPrinter, stmt: n.BufferStore, last: bool) -> None:
    if stmt.predicate is None:
        p.line(f"{p.access(stmt.buffer, stmt.indices)} = {p.expr(stmt.value)}")
        return
    mask, value = p.expr(stmt.predicate), p.expr(stmt.value)
    p.line(f"{p.names.of(stmt.buffer)}.vstore([{p.exprs(stmt.indices)}], {value}, predicate={mask})")


def _evaluate(p: StmtPrinter, stmt: n.Evaluate, last: bool) -> None:
    p.line(f"T.evaluate({p.expr(stmt.value)})")


def _let(p: StmtPrinter, stmt: n.LetStmt, last: bool) -> None:
    value = p.expr(stmt.value)
    name = p.names.of(stmt.var)
    if last:
        p.line(f"{name}: T.{stmt.var.dtype} = {value}")
    else:
        p.line(f"with T.LetStmt({value}) as {name}:")
    _scope_body(p, stmt.body, last, stmt.var)


def _scope_body(p: StmtPrinter, body: Stmt, last: bool, data: n.Var | None = None) -> None:
    """The body of a statement that opens a scope: indented, unless the rest of the block is that scope."""
    if last:
        if data is not None:
            p.declare_views(data)
        p.stmt(body)
        return
    with p.indented():
        if data is not None:
            p.declare_views(data)
        p.stmt(body)


def _attr(p: StmtPrinter, stmt: n.AttrStmt, last: bool) -> None:
    node = stmt.node
    value = p.expr(stmt.value)
    if stmt.attr_key == "thread_extent" and isinstance(node, n.IterVar):
        text, name = f'T.launch_thread("{node.thread_tag}", {value})', p.names.of(node.var)
        p.line(f"{name} = {text}" if last else f"with {text} as {name}:")
    else:
        text = f'T.attr({p.value(node)}, "{stmt.attr_key}", {value})'
        p.line(text if last else f"with {text}:")
    _scope_body(p, stmt.body, last)


def _assert(p: StmtPrinter, stmt: n.AssertStmt, last: bool) -> None:
    condition, message = p.expr(stmt.condition), p.expr(stmt.message)
    p.line(f"assert {condition}, {message}" if last else f"with T.Assert({condition}, {message}):")
    _scope_body(p, stmt.body, last)


def _allocate(p: StmtPrinter, stmt: n.Allocate, last: bool) -> None:
    args = [f"[{p.exprs(stmt.extents)}]", f'"{stmt.dtype}"', f'"{stmt.scope}"']
    if not (isinstance(stmt.condition, n.IntImm) and stmt.condition.value):
        args.append(f"condition={p.expr(stmt.condition)}")
    if stmt.annotations:
        args.append(f"annotations={p.value(dict(stmt.annotations))}")
    text, name = f"T.allocate({', '.join(args)})", p.names.of(stmt.buffer_var)
    p.line(f"{name} = {text}" if last else f"with {text} as {name}:")
    _scope_body(p, stmt.body, last, stmt.buffer_var)


def _declare(p: StmtPrinter, stmt: n.DeclBuffer, last: bool) -> None:
    for var in undefined_vars(p, stmt.buffer):
        p.line(f"{p.names.of(var)} = {new_var(var)}")
    data = p.names.of(stmt.buffer.data)
    name = p.names.of(stmt.buffer)
    text = f"T.decl_buffer({p.buffer_args(stmt.buffer, always_dtype=True)}, data={data})"
    p.line(f"{name} = {text}" if last else f"with {text} as {name}:")
    _scope_body(p, stmt.body, last)


# ------------------------------------------------------------------------------------ blocks


def _realize(p: StmtPrinter, stmt: n.BlockRealize, last: bool) -> None:
    p.line(f'with T.{p.block_word}("{p.block_name(stmt.block.name_hint)}"):')
    with p.indented():
        _axes(p, stmt)
        if not (isinstance(stmt.predicate, n.IntImm) and stmt.predicate.value):
            p.line(f"T.where({p.expr(stmt.predicate)})")
        _block_body(p, stmt.block)


def _block(p: StmtPrinter, block: n.Block, last: bool) -> None:
    """A block by itself: its iteration variables have no values."""
    p.line(f'with T.{p.block_word}("{p.block_name(block.name_hint)}", no_realize=True):')
    with p.indented():
        for iter_var in block.iter_vars:
            p.line(f"{p.names.of(iter_var.var)} = T.axis.{_axis_kind(iter_var)[0]}({_domain(p, iter_var)})")
        _block_body(p, block)


def _block_body(p: StmtPrinter, block: n.Block) -> None:
    p.line(f"T.reads({', '.join(map(p.region, block.reads))})")
    p.line(f"T.writes({', '.join(map(p.region, block.writes))})")
    if block.annotations:
        p.line(f"T.{p.block_word}_attr({p.value(dict(block.annotations))})")
    block_definitions(p, block)
    if block.init is not None:
        p.line("with T.init():")
        p.body(block.init)
    p.stmt(block.body)


def block_definitions(p: StmtPrinter, block: n.Block) -> None:
    """The buffers a block allocates, and its views of regions."""
    for buffer in block.alloc_buffers:
        p.line(f"{p.names.of(buffer)} = T.{p.block_memory}({p.buffer_args(buffer, always_dtype=False)})")
        p.own_data(buffer)
        p.declare_views(buffer.data)
    for match in block.match_buffers:
        buffer = match.buffer
        for var in undefined_vars(p, buffer):
            p.line(f"{p.names.of(var)} = {new_var(var)}")
        args = p.buffer_args(buffer, always_dtype=True)
        p.line(f"{p.names.of(buffer)} = T.match_buffer({p.region(match.source)}, {args})")
        p.own_data(buffer)


def undefined_vars(p: StmtPrinter, buffer: n.Buffer) -> list[n.Var]:
    """Return the variables that the layout of `buffer` is the first to mention."""
    parts = (*buffer.shape, *buffer.strides, *(() if buffer.elem_offset is None else (buffer.elem_offset,)))
    found: dict[n.Var, None] = {}
    for part in parts:
        found.update(dict.fromkeys(v for v in walk(part) if isinstance(v, n.Var) and not p.names.knows(v)))
    return list(found)


def new_var(var: n.Var) -> str:
    return f"T.{var.dtype}({'is_size_var=True' if isinstance(var, n.SizeVar) else ''})"


def _axes(p: StmtPrinter, stmt: n.BlockRealize) -> None:
    """The iteration variables: runs of plain loops as one `remap`, the others one a line."""
    pairs = list(zip(stmt.block.iter_vars, stmt.iter_values))
    position = 0
    while position < len(pairs):
        run = position
        while run < len(pairs) and _is_remap(p, *pairs[run]):
            run += 1
        if run - position > 1:
            part = pairs[position:run]
            names = ", ".join(p.names.of(iter_var.var) for iter_var, _ in part)
            kinds = "".join(_axis_kind(iter_var)[1] for iter_var, _ in part)
            p.line(f'{names} = T.axis.remap("{kinds}", [{p.exprs(tuple(v for _, v in part))}])')
            position = run
            continue
        iter_var, value = pairs[position]
        kind = _axis_kind(iter_var)[0]
        args = f"{_domain(p, iter_var)}, {p.expr(value)}"
        p.line(f"{p.names.of(iter_var.var)} = T.axis.{kind}({args})")
        position += 1


def _axis_kind(iter_var: n.IterVar) -> tuple[str, str]:
    return _AXES.get(iter_var.iter_type, _AXES[IterType.OPAQUE])


def _domain(p: StmtPrinter, iter_var: n.IterVar) -> str:
    dom = iter_var.dom
    if dom is None:
        return "None"
    if isinstance(dom.min, n.IntImm) and dom.min.value == 0:
        return p.expr(dom.extent)
    return f"({p.expr(dom.min)}, {p.end(dom.min, dom.extent)})"


def _is_remap(p: StmtPrinter, iter_var: n.IterVar, value: PrimExpr) -> bool:
    loop = p._loops.get(value) if isinstance(value, n.Var) else None
    dom = iter_var.dom
    if loop is None or dom is None or iter_var.iter_type is IterType.OPAQUE:
        return False
    return all(
        a is b or (isinstance(a, n.IntImm) and isinstance(b, n.IntImm) and a.value == b.value)
        for a, b in ((loop.min, dom.min), (loop.extent, dom.extent))
    )


_RULES: dict[type, Callable[[StmtPrinter, Any, bool], None]] = {
    n.For: _for,
    n.While: _while,
    n.IfThenElse: _if,
    n.SeqStmt: _seq,
    n.BufferStore: _store,
    n.Evaluate: _evaluate,
    n.LetStmt: _let,
    n.AttrStmt: _attr,
    n.AssertStmt: _assert,
    n.Allocate: _allocate,
    n.DeclBuffer: _declare,
    n.BlockRealize: _realize,
    n.Block: _block,
}
