"""Functions and modules as TVMScript text: deterministic, valid Python, with all that is needed to parse it back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from compiler.ir.base import Node
from compiler.ir.module import IRModule
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.expr_text import ExprText, Names
from compiler.tir.visit import walk

_INDENT = "    "
_KINDS = {
    n.ForKind.SERIAL: "serial",
    n.ForKind.PARALLEL: "parallel",
    n.ForKind.VECTORIZED: "vectorized",
    n.ForKind.UNROLLED: "unroll",
}


def script(node: Node) -> str:
    """The text of a function, module, statement or expression."""
    return _Printer(Names()).text(node)


def workload_key(func: n.PrimFunc) -> str:
    """sha256 (hex) of the function's text with every name and the function's own symbol taken out.

    Two functions have the same key exactly when they are equal up to names.
    """
    attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
    nameless = n.PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs)
    text = _Printer(Names(anonymous=True)).text(nameless)
    return hashlib.sha256(text.encode()).hexdigest()


class _Printer:
    """Collects lines. `depth` counts indentation."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.expr = ExprText(names)
        self.lines: list[str] = []
        self.depth = 0

    def text(self, node: Node) -> str:
        match node:
            case n.PrimExpr():
                return self.expr(node)
            case n.PrimFunc():
                self.func(node, "main")
            case IRModule():
                self.module(node)
            case n.Stmt():
                self.stmt(node)
            case n.BufferRegion():
                return self.expr.region(node)
            case _:
                return str(node)
        return "\n".join(self.lines)

    def line(self, text: str) -> None:
        self.lines.append(_INDENT * self.depth + text)

    # -- functions

    def module(self, module: IRModule) -> None:
        self.line("@I.ir_module")
        self.line("class Module:")
        self.depth += 1
        if module.attrs:
            self.line(f"I.module_attrs({self.expr.attrs(module.attrs)})")
        for i, (name, func) in enumerate(sorted(module.items(), key=lambda item: item[0].name_hint)):
            if i:
                self.lines.append("")
            inner = _Printer(Names())
            inner.depth = self.depth
            inner.func(func, name.name_hint)
            self.lines += inner.lines
        if not len(module):
            self.line("pass")
        self.depth -= 1

    def func(self, func: n.PrimFunc, name: str) -> None:
        name = str(func.attrs.get("global_symbol", name))
        params = []
        for var in func.params:
            buffer = func.buffer_map.get(var)
            if buffer is None:
                params.append(f"{self.names.of(var)}: T.{var.dtype}")
            else:
                params.append(f"{self.names.of(buffer)}: {self.expr.buffer_type(buffer)}")
        self.line("@T.prim_func")
        self.line(f"def {name}({', '.join(params)}):")
        self.depth += 1
        if func.attrs:
            self.line(f"T.func_attr({self.expr.attrs(func.attrs)})")
        self._views(func)
        self.stmt(func.body)
        self.depth -= 1

    def _views(self, func: n.PrimFunc) -> None:
        """Buffers that are other views of an argument's memory, as flattening makes them."""
        owners = {b.data: b for b in func.buffer_map.values()}
        for buffer in _buffers(func.body):
            owner = owners.get(buffer.data)
            if owner is not None and buffer is not owner:
                data = f"{self.names.of(owner)}.data"
                self.line(f"{self.names.of(buffer)} = {self.expr.buffer_type(buffer, data)}")

    # -- statements

    def body(self, stmt: n.Stmt) -> None:
        self.depth += 1
        self.stmt(stmt)
        self.depth -= 1

    def stmt(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.SeqStmt():
                for item in stmt.seq:
                    self.stmt(item)
            case n.For():
                self._for(stmt)
            case n.BlockRealize():
                self._realize(stmt)
            case n.Block():
                self._block(stmt, None)
            case n.BufferStore():
                self._store(stmt)
            case n.IfThenElse():
                self.line(f"if {self.expr(stmt.condition)}:")
                self.body(stmt.then_case)
                if stmt.else_case is not None:
                    self.line("else:")
                    self.body(stmt.else_case)
            case n.Allocate():
                self._allocate(stmt)
            case n.LetStmt():
                self.line(f"{self.names.of(stmt.var)}: T.{stmt.var.dtype} = {self.expr(stmt.value)}")
                self.stmt(stmt.body)
            case n.AttrStmt():
                node = self._attr_node(stmt.node)
                self.line(f'with T.attr({node}, "{stmt.attr_key}", {self.expr(stmt.value)}):')
                self.body(stmt.body)
            case n.AssertStmt():
                self.line(f"assert {self.expr(stmt.condition)}, {self.expr(stmt.message)}")
                self.stmt(stmt.body)
            case n.While():
                self.line(f"while {self.expr(stmt.condition)}:")
                self.body(stmt.body)
            case n.Evaluate():
                self.line(f"T.evaluate({self.expr(stmt.value)})")
            case _:
                self.line(f"<{type(stmt).__name__}>")

    def _attr_node(self, node: object) -> str:
        if isinstance(node, n.Var | n.Buffer):
            return self.names.of(node)
        if isinstance(node, n.IterVar):
            return f'T.iter_var({self.names.of(node.var)}, "{node.thread_tag}")'
        return self.expr.value(node)

    def _store(self, stmt: n.BufferStore) -> None:
        indices = ", ".join(map(self.expr, stmt.indices))
        name, value = self.names.of(stmt.buffer), self.expr(stmt.value)
        if stmt.predicate is not None:
            self.line(f"{name}.vstore([{indices}], {value}, predicate={self.expr(stmt.predicate)})")
        else:
            self.line(f"{name}[{indices or '()'}] = {value}")

    def _for(self, loop: n.For) -> None:
        nest = _plain_nest(loop)
        if len(nest) > 1:
            variables = ", ".join(self.names.of(f.loop_var) for f in nest)
            extents = ", ".join(self.expr(f.extent) for f in nest)
            self.line(f"for {variables} in T.grid({extents}):")
            self.body(nest[-1].body)
            return
        zero = ops.is_const(loop.min, 0)
        parts = [self.expr(loop.extent)] if zero else [self.expr(loop.min), self.expr(loop.min + loop.extent)]
        if loop.kind is n.ForKind.THREAD_BINDING:
            tag = loop.thread_binding.thread_tag if loop.thread_binding is not None else ""
            head, parts = "T.thread_binding", [*parts, f'thread="{tag}"']
        elif loop.kind is n.ForKind.SERIAL and not loop.annotations:
            head = "range"
        else:
            head = f"T.{_KINDS[loop.kind]}"
        if loop.annotations:
            parts.append(f"annotations={self.expr.attrs(loop.annotations)}")
        self.line(f"for {self.names.of(loop.loop_var)} in {head}({', '.join(parts)}):")
        self.body(loop.body)

    def _allocate(self, stmt: n.Allocate) -> None:
        name = self.names.of(stmt.buffer_var, f"{stmt.buffer_var.name}_data")
        extents = ", ".join(map(self.expr, stmt.extents))
        extra = "" if ops.is_const(stmt.condition, 1) else f", condition={self.expr(stmt.condition)}"
        if stmt.annotations:
            extra += f", annotations={self.expr.attrs(stmt.annotations)}"
        self.line(f'{name} = T.allocate([{extents}], "{stmt.dtype}", "{stmt.scope}"{extra})')
        for buffer in _buffers(stmt.body):
            if buffer.data is stmt.buffer_var and not self.names.known(buffer):
                self.line(f"{self.names.of(buffer)} = {self.expr.buffer_type(buffer, name)}")
        self.stmt(stmt.body)

    # -- blocks

    def _realize(self, realize: n.BlockRealize) -> None:
        block = realize.block
        if self._is_plain_root(realize):
            self.line('# with T.block("root"):')
            self._allocs(block)
            self.stmt(block.body)
            return
        self._block(block, realize)

    def _is_plain_root(self, realize: n.BlockRealize) -> bool:
        block = realize.block
        bare = not (block.iter_vars or block.reads or block.writes or block.annotations or block.match_buffers)
        return bare and block.init is None and block.name_hint == "root" and ops.is_const(realize.predicate, 1)

    def _block(self, block: n.Block, realize: n.BlockRealize | None) -> None:
        self.line(f'with T.block("{self.names.block(block.name_hint)}"):')
        self.depth += 1
        values = realize.iter_values if realize is not None else ()
        self._axes(block.iter_vars, values)
        if realize is not None and not ops.is_const(realize.predicate, 1):
            self.line(f"T.where({self.expr(realize.predicate)})")
        self.line(f"T.reads({', '.join(map(self.expr.region, block.reads))})")
        self.line(f"T.writes({', '.join(map(self.expr.region, block.writes))})")
        if block.annotations:
            self.line(f"T.block_attr({self.expr.attrs(block.annotations)})")
        self._allocs(block)
        for buffer, source in block.match_buffers:
            view = self.expr.buffer_type(buffer).removeprefix("T.Buffer(")
            self.line(f"{self.names.of(buffer)} = T.match_buffer({self.expr.region(source)}, {view}")
        if block.init is not None:
            self.line("with T.init():")
            self.body(block.init)
        self.stmt(block.body)
        self.depth -= 1

    def _allocs(self, block: n.Block) -> None:
        for buffer in block.alloc_buffers:
            view = self.expr.buffer_type(buffer).removeprefix("T.Buffer(")
            self.line(f"{self.names.of(buffer)} = T.alloc_buffer({view}")

    def _axes(self, iter_vars: Sequence[n.IterVar], values: Sequence[n.PrimExpr]) -> None:
        """One line an axis: its kind, domain and value."""
        for i, iv in enumerate(iter_vars):
            kind = {n.IterType.DATA_PAR: "spatial", n.IterType.COMM_REDUCE: "reduce"}.get(iv.iter_type)
            kind = kind or iv.iter_type.name.lower()
            dom = "None" if iv.dom is None else self._domain(iv.dom)
            value = f", {self.expr(values[i])}" if i < len(values) else ""
            self.line(f"{self.names.of(iv.var)} = T.axis.{kind}({dom}{value})")

    def _domain(self, dom: n.Range) -> str:
        if ops.is_const(dom.min, 0):
            return self.expr(dom.extent)
        return f"({self.expr(dom.min)}, {self.expr(dom.min + dom.extent)})"


def _plain_nest(loop: n.For) -> list[n.For]:
    """The chain of serial loops from 0 that `T.grid` can stand for."""
    nest: list[n.For] = []
    current: n.Stmt = loop
    while (
        isinstance(current, n.For)
        and current.kind is n.ForKind.SERIAL
        and not current.annotations
        and ops.is_const(current.min, 0)
        and not _uses(current.extent, nest)
    ):
        nest.append(current)
        current = current.body
    return nest


def _uses(expr: n.PrimExpr, loops: Sequence[n.For]) -> bool:
    variables = {f.loop_var for f in loops}
    return any(node in variables for node in walk(expr) if isinstance(node, n.Var))


def _buffers(stmt: n.Stmt) -> list[n.Buffer]:
    """Buffers loaded or stored under `stmt`, in order of appearance."""
    found: dict[n.Buffer, None] = {}
    for node in walk(stmt):
        if isinstance(node, n.BufferLoad | n.BufferStore):
            found.setdefault(node.buffer)
    return list(found)
