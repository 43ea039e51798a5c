"""Texts for readers that know the names of Apache TVM 0.27.

`script(tvm_version="0.27")` gives them. Blocks and their memory have other names there. Lets, allocations and
assertions are lines, in use until the statements around them end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compiler.errors import IRError
from compiler.ir import text
from compiler.ir.module import IRModule
from compiler.ir.text import Names, quote
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimFunc, Stmt
from compiler.tir.text.print_complete import CompletePrinter
from compiler.tir.text.print_func import printed_function
from compiler.tir.text.print_stmt import StmtPrinter, new_var, undefined_vars

_IMPORTS = {"I": "# from tvm.script import ir as I", "T": "# from tvm.script import tirx as T"}


class NewerPrinter(CompletePrinter):
    """Prints statements and expressions by their newer names."""

    root_note = '# with T.sblock("root"):'
    block_word = "sblock"
    block_memory = "sblock_alloc_buffer"
    view = "decl_buffer"

    def value(self, value: Any) -> str:
        match value:
            case Target():
                return f"T.target({StmtPrinter.value(self, value.export())})"
            case Mapping():
                return "{" + ", ".join(f"{quote(str(key))}: {self.value(item)}" for key, item in value.items()) + "}"
        return StmtPrinter.value(self, value)

    def access(self, buffer: n.Buffer, indices: tuple[n.PrimExpr, ...]) -> str:
        # no slices: readers take them where a vector is stored, not where one is read
        return f"{self.names.of(buffer)}[{self.exprs(indices) or '()'}]"

    def stmt(self, stmt: Stmt, last: bool = True) -> None:
        match stmt:
            case n.LetStmt():
                self.line(f"{self.names.of(stmt.var)}: T.let[{_annotation(stmt.var)}] = {self.expr(stmt.value)}")
                self.declare_views(stmt.var)
                self.stmt(stmt.body)
            case n.AssertStmt():
                self.line(f"assert {self.expr(stmt.condition)}, {self._message(stmt.message)}")
                self.stmt(stmt.body)
            case n.Allocate():
                self._allocate(stmt)
            case n.DeclBuffer():
                for var in undefined_vars(self, stmt.buffer):
                    self.line(f"{self.names.of(var)} = {new_var(var)}")
                data, args = self.names.of(stmt.buffer.data), self.buffer_args(stmt.buffer, always_dtype=True)
                self.line(f"{self.names.of(stmt.buffer)} = T.decl_buffer({args}, data={data})")
                self.stmt(stmt.body)
            case n.BufferStore() if stmt.predicate is not None:
                raise IRError("texts of Apache TVM 0.27 have no stores with a mask")
            case _:
                super().stmt(stmt, last)

    def _message(self, message: n.PrimExpr) -> str:
        """A text "ValueError: ..." as the kind of error and what it says, any other as it stands."""
        kind, colon, said = message.value.partition(": ") if isinstance(message, n.StringImm) else ("", "", "")
        if colon and kind.isidentifier():
            return f"({quote(kind)}, [{quote(said)}])"
        return self.expr(message)

    def _allocate(self, stmt: n.Allocate) -> None:
        """Allocate memory as a buffer: one that the body uses where it has a view of all of it."""
        if not (isinstance(stmt.condition, n.IntImm) and stmt.condition.value):
            raise IRError("texts of Apache TVM 0.27 have no allocations with a condition")
        body = stmt.body
        views = self.views.setdefault(stmt.buffer_var, [])
        if isinstance(body, n.DeclBuffer) and body.buffer.data is stmt.buffer_var and _holds(stmt, body.buffer):
            buffer, body = body.buffer, body.body
        else:
            whole = next((view for view in views if _holds(stmt, view)), None)
            buffer = whole or n.decl_buffer(stmt.extents, stmt.dtype, stmt.buffer_var.name, scope=stmt.scope)
            self.views[stmt.buffer_var] = [view for view in views if view is not whole]
        args = self.buffer_args(buffer, always_dtype=True)
        kept = f", annotations={self.value(dict(stmt.annotations))}" if stmt.annotations else ""
        name = self.names.of(buffer)
        self.line(f"{name} = T.alloc_buffer({args}{kept})")
        self.names.set(stmt.buffer_var, f"{name}.data")
        self.declare_views(stmt.buffer_var)
        self.stmt(body)


def _annotation(var: n.Var) -> str:
    typed = getattr(var.dtype, "script", None)  # what an address leads to
    return typed() if typed else f"T.{var.dtype}"


def _holds(stmt: n.Allocate, buffer: n.Buffer) -> bool:
    """Whether `buffer` is all of the allocated memory."""
    same = [a is b or (isinstance(a, n.IntImm) and isinstance(b, n.IntImm) and a.value == b.value)
            for a, b in zip(buffer.shape, stmt.extents)]  # fmt: skip
    plain = not buffer.strides and buffer.elem_offset is None
    whole = len(buffer.shape) == len(stmt.extents) and all(same)
    return plain and whole and buffer.dtype == stmt.dtype and buffer.scope == stmt.scope


def _function(func: PrimFunc, name: str | None, sugar: bool) -> str:
    called = name or str(func.attrs.get("global_symbol", "main"))
    return "\n".join([_IMPORTS["T"], "", *_function_lines(func, called, sugar)])


def _function_lines(func: PrimFunc, name: str, sugar: bool) -> list[str]:
    kept = {key: value for key, value in func.attrs.items() if not (key == "global_symbol" and value == name)}
    attrs = {re.sub(r"^tir\.", "tirx.", key): value for key, value in kept.items()}
    private = "" if "global_symbol" in func.attrs else "private=True, "
    return printed_function(NewerPrinter(Names()), func, name, f"@T.prim_func({private}s_tir=True)", attrs, sugar)


def _module(module: IRModule, _name: str | None, sugar: bool) -> str:
    with text.printing_functions(PrimFunc, lambda func, name: _function_lines(func, name, sugar)):
        body = text.module_text(module)
    used = [note for prefix, note in _IMPORTS.items() if prefix == "I" or f"@{prefix}." in body]
    return "\n".join([*used, "", *body.splitlines()])


text.register_newer(PrimFunc, _function)
text.register_newer(IRModule, _module)
