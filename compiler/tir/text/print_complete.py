"""Texts that say everything, as `script(verbose_expr=True)` gives them.

A header has the imports. Variables and buffers that the text does not define are defined before it, and each float
has its dtype.

Names are free again where their loops and blocks end, so two loops may have variables of one name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from compiler.ir import text
from compiler.ir.base import Node, Symbol
from compiler.ir.module import IRModule
from compiler.ir.text import Names, quote
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, PrimFunc, Stmt
from compiler.tir.text.print_func import printed_function
from compiler.tir.text.print_stmt import StmtPrinter, new_var, undefined_vars

_IMPORTS = {"I": "# from tvm.script import ir as I", "T": "# from tvm.script import tir as T"}


class CompletePrinter(StmtPrinter):
    """Prints statements and expressions with every dtype."""

    attrs_first = True
    ranges = True
    root_note = '# with T.block("root"):'

    def expr(self, node: PrimExpr, level: int = 0) -> str:
        match node:
            case n.FloatImm() if node.dtype == "float32" and math.isfinite(node.value):
                return f"T.float32({_digits(node.value)})"
            case n.FloatImm() if math.isfinite(node.value):
                return f"T.{node.dtype}({_digits(node.value)})"
            case n.Div() if "float" not in node.dtype:
                return f"T.Div({self.expr(node.a)}, {self.expr(node.b)})"
            case n.BinaryOp() if type(node).__name__ in _OPERATORS and _both_constant(node):
                return f"T.{type(node).__name__}({self.expr(node.a)}, {self.expr(node.b)})"
        return super().expr(node, level)

    def value(self, value: Any) -> str:
        return super().value(_with_dtypes(value))

    def iter_var(self, axis: n.IterVar) -> str:
        dom = "None" if axis.dom is None else self.range(axis.dom)
        kind = "".join(word.capitalize() for word in axis.iter_type.name.split("_"))
        return f'T.iter_var({self.names.of(axis.var)}, {dom}, "{kind}", {quote(axis.thread_tag)})'

    def range(self, dom: n.Range) -> str:
        return f"T.Range({self.expr(dom.min)}, {self.end(dom.min, dom.extent)})"

    def access(self, buffer: n.Buffer, indices: tuple[PrimExpr, ...]) -> str:
        return f"{self.names.of(buffer)}[{', '.join(map(self._index, indices)) or '()'}]"

    def _index(self, index: PrimExpr) -> str:
        if isinstance(index, n.Ramp) and isinstance(index.stride, n.IntImm) and index.stride.value == 1:
            return f"{self.expr(index.base)}:{self.end(index.base, n.IntImm(index.base.dtype, index.lanes))}"
        return self.expr(index)

    def buffer_args(self, buffer: n.Buffer, *, always_dtype: bool) -> str:
        # the dtype stands in a list of parameters only, where the buffer has its name before its arguments
        return super().buffer_args(buffer, always_dtype=always_dtype and self.names.knows(buffer))

    def stmt(self, stmt: Stmt, last: bool = True) -> None:
        mark = self.names.mark()
        match stmt:
            case n.DeclBuffer():
                self._declare(stmt, last)
            case n.Evaluate(value=n.Call() as call):
                self.line(self.expr(call))
            case _:
                super().stmt(stmt, last)
        if isinstance(stmt, n.For | n.BlockRealize | n.Block):
            self.names.back_to(mark)

    def _declare(self, stmt: n.DeclBuffer, last: bool) -> None:
        buffer = stmt.buffer
        for var in undefined_vars(self, buffer):
            self.line(f"{self.names.of(var)} = {new_var(var)}")
        text_ = f"T.decl_buffer({self.buffer_args(buffer, always_dtype=False)}, data={self.names.of(buffer.data)})"
        name = self.names.of(buffer)
        self.line(f"{name} = {text_}" if last else f"with {text_} as {name}:")
        if last:
            self.stmt(stmt.body)
        else:
            self.body(stmt.body)


_OPERATORS = frozenset({"Add", "Sub", "Mul", "FloorDiv", "FloorMod", "LT", "LE", "GT", "GE", "EQ", "NE"})
"""Operations whose operator would compute at once, where both sides are constants."""


def _both_constant(node: n.BinaryOp) -> bool:
    return all(isinstance(side, n.IntImm | n.FloatImm) for side in (node.a, node.b))


def _digits(value: float) -> str:
    """Print a number with 17 digits, which distinguish all doubles."""
    return f"{value:.17g}"


def _with_dtypes(value: Any) -> Any:
    """Truth values as constants, also inside lists and mappings."""
    match value:
        case bool():
            return n.IntImm("bool", value)
        case Mapping():
            return {key: _with_dtypes(item) for key, item in sorted(value.items())}
        case list() | tuple():
            return [_with_dtypes(item) for item in value]
        case n.IntImm() if value.dtype in ("int32", "int64"):
            return int(value.value)
    return value


# ---------------------------------------------------------------------------- whole texts


def _function(func: PrimFunc, name: str | None, sugar: bool) -> str:
    called = name or str(func.attrs.get("global_symbol", "main"))
    return _with_header(_function_lines(func, called, sugar), "T")


def _function_lines(func: PrimFunc, name: str, sugar: bool) -> list[str]:
    kept = {key: value for key, value in func.attrs.items() if not (key == "global_symbol" and value == name)}
    decorator = "@T.prim_func" if "global_symbol" in func.attrs else "@T.prim_func(private=True)"
    return printed_function(CompletePrinter(Names()), func, name, decorator, kept, sugar)


def _module(module: IRModule, _name: str | None, sugar: bool) -> str:
    with text.printing_functions(PrimFunc, lambda func, name: _function_lines(func, name, sugar)):
        body = text.module_text(_in_order(module))
    used = [prefix for prefix in _IMPORTS if prefix == "I" or f"@{prefix}." in body]
    return _with_header(body.splitlines(), *used)


def _in_order(module: IRModule) -> IRModule:
    """The module with its functions in the order of their names."""
    functions = dict(sorted(module.functions.items(), key=lambda item: item[0].name_hint))
    return IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def _with_header(lines: list[str], *prefixes: str) -> str:
    return "\n".join([*(_IMPORTS[prefix] for prefix in prefixes), "", *lines])


def _fragment(write: Callable[[CompletePrinter, Any], str]) -> Callable[[Any, str | None, bool], str]:
    """The text of a node by itself, after a definition of each symbol that it does not define."""

    def whole(node: Node, _name: str | None, _sugar: bool) -> str:
        first = CompletePrinter(Names())
        write(first, node)
        inside = {symbol for part in walk(node) for symbol in part.definitions()} - _own_symbols(node)
        inside |= {node.buffer} if isinstance(node, n.MatchBufferRegion) else set()
        free = [symbol for symbol in first.names.used() if symbol not in inside]
        printer = CompletePrinter(Names())
        for symbol in _with_parts(free):
            _define(printer, symbol)
        found = write(printer, node)
        return "\n".join([*printer.lines, found] if found else printer.lines)

    return whole


def _own_symbols(node: Node) -> set[Symbol]:
    return {node.var} if isinstance(node, n.IterVar | n.Let) else set()


def _with_parts(symbols: list[Symbol]) -> list[Symbol]:
    """The symbols, each after those that its definition mentions; not the variables of buffers' memory."""
    datas = {symbol.data for symbol in symbols if isinstance(symbol, n.Buffer)}
    found: dict[Symbol, None] = {}
    for symbol in symbols:
        if symbol in datas:
            continue
        if isinstance(symbol, n.Buffer):
            parts = (*symbol.shape, *symbol.strides)
            found.update(dict.fromkeys(var for part in parts for var in walk(part) if isinstance(var, n.Var)))
        found[symbol] = None
    return list(found)


def _define(p: CompletePrinter, symbol: Symbol) -> None:
    if p.names.knows(symbol):
        return
    if isinstance(symbol, n.Buffer):
        args = p.buffer_args(symbol, always_dtype=False)
        p.line(f"{p.names.of(symbol)} = T.Buffer({args})")
        p.own_data(symbol)
    elif isinstance(symbol, n.Var):
        typed = getattr(symbol.dtype, "script", None)  # a dtype that says more, such as what an address leads to
        p.line(f"{p.names.of(symbol)} = {typed() if typed else new_var(symbol)}")


def _match(p: CompletePrinter, node: n.MatchBufferRegion) -> str:
    source = p.region(node.source)
    args = p.buffer_args(node.buffer, always_dtype=False)
    return f"{p.names.of(node.buffer)} = T.match_buffer({source}, {args})"


def _stmt(p: CompletePrinter, node: Stmt) -> str:
    p.stmt(node, last=False)
    return ""


def _reducer(p: CompletePrinter, node: n.CommReducer) -> str:
    names = ", ".join(p.names.of(var) for var in (*node.lhs, *node.rhs))
    result = p.expr(node.result[0]) if len(node.result) == 1 else p.group(node.result)
    return f"T.comm_reducer(lambda {names}: {result}, [{p.exprs(node.identity_element)}])"


text.register_complete(PrimFunc, _function)
text.register_complete(IRModule, _module)
text.register_complete(PrimExpr, _fragment(lambda p, node: p.expr(node)))
text.register_complete(Stmt, _fragment(_stmt))
text.register_complete(n.BufferRegion, _fragment(lambda p, node: p.region(node)))
text.register_complete(n.MatchBufferRegion, _fragment(_match))
text.register_complete(n.Buffer, _fragment(lambda p, node: p.names.of(node)))
text.register_complete(n.IterVar, _fragment(lambda p, node: p.iter_var(node)))
text.register_complete(n.Range, _fragment(lambda p, node: p.range(node)))
text.register_complete(n.CommReducer, _fragment(_reducer))
