"""Relay expressions as text: one line a value, %0, %1, … in order."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from typing import Any

from compiler.faces.relay import nodes
from compiler.faces.relay.nodes import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from compiler.faces.relay.order import children, post_order
from compiler.ir.base import GlobalVar, Op
from compiler.ir.text import register_function, register_text


def text(expr: Any) -> str:
    """The text of an expression."""
    if isinstance(expr, Function):
        return "\n".join(function_lines(expr))
    writer = _Writer()
    writer.block(expr, 0)
    return "\n".join(writer.lines)


def function_lines(func: Function, name: str = "") -> list[str]:
    """The lines of a function: a definition where it has a name."""
    writer = _Writer()
    writer.function(func, f"def @{name}" if name else "fn ", 0, "")
    return writer.lines


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: MutableMapping[int, str] = {}
        self._taken: set[str] = set()
        self._count = 0

    def function(self, func: Function, head: str, depth: int, end: str) -> None:
        kinds = [f": {param.type_annotation}" if param.type_annotation else "" for param in func.params]
        params = ", ".join(f"{self._var(param)}{kind}" for param, kind in zip(func.params, kinds))
        attrs = "".join(f", {key}={value!r}" for key, value in func.attrs.items())
        result = f" -> {func.ret_type}" if func.ret_type is not None else ""
        self._line(f"{head}({params}{attrs}){result} {{", depth)
        self.block(func.body, depth + 1)
        self._line("}" + end, depth)

    def block(self, expr: Any, depth: int) -> None:
        """The lines that compute `expr`; the last one is its value. Names end with it."""
        outside = self._names
        self._names = ChainMap({}, outside)
        self._block(expr, depth)
        self._names = outside

    def _block(self, expr: Any, depth: int) -> None:
        while isinstance(expr, Let):
            head = f"let {self._var(expr.var)} = "
            if isinstance(expr.value, Function):
                self.function(expr.value, f"{head}fn ", depth, ";")
            else:
                self._parts(expr.value, depth)
                self._line(f"{head}{self._leaf(expr.value)};", depth)
            expr = expr.body
        self._parts(expr, depth, last=True)

    def _parts(self, expr: Any, depth: int, last: bool = False) -> None:
        for item in post_order([expr], lambda part: () if id(part) in self._names else _inner(part)):
            if id(item) in self._names or isinstance(item, Var | Constant | GlobalVar):
                continue
            if item is expr and last:
                break
            if isinstance(item, Tuple):
                continue
            number = f"%{self._count}"
            self._count += 1
            self._value(item, f"{number} = ", ";", depth)
            self._names[id(item)] = number
        if last:
            if id(expr) in self._names or isinstance(expr, Var | Constant | GlobalVar):
                self._line(self._leaf(expr), depth)
            else:
                self._value(expr, "", "", depth)

    def _value(self, expr: Any, head: str, end: str, depth: int) -> None:
        if isinstance(expr, If):
            self._line(f"{head}if ({self._leaf(expr.cond)}) {{", depth)
            self.block(expr.true_branch, depth + 1)
            self._line("} else {", depth)
            self.block(expr.false_branch, depth + 1)
            self._line("}" + end, depth)
        elif isinstance(expr, Function):
            self.function(expr, f"{head}fn ", depth, end)
        else:
            self._line(f"{head}{self._simple(expr)}{end}", depth)

    def _simple(self, expr: Any) -> str:
        match expr:
            case Call():
                if isinstance(expr.op, Op):
                    callee = expr.op.name
                else:
                    callee = f"@{expr.op.name_hint}" if isinstance(expr.op, GlobalVar) else self._leaf(expr.op)
                attrs = [f"{key}={value!r}" for key, value in expr.attrs.items()]
                return f"{callee}({', '.join([*map(self._leaf, expr.args), *attrs])})"
            case TupleGetItem():
                return f"{self._leaf(expr.tuple_value)}.{expr.index}"
        return self._leaf(expr)

    def _leaf(self, expr: Any) -> str:
        match expr:
            case Var():
                return self._var(expr)
            case Tuple() if id(expr) not in self._names:
                return f"({', '.join(map(self._leaf, expr.fields))}{',' if len(expr.fields) == 1 else ''})"
            case Constant() | GlobalVar():
                return repr(expr) if isinstance(expr, Constant) else f"@{expr.name_hint}"
        return self._names.get(id(expr)) or self._simple(expr)

    def _var(self, var: Var) -> str:
        name = self._names.get(id(var))
        if name is None:
            name, count = f"%{var.name_hint}", 0
            while name in self._taken:
                count += 1
                name = f"%{var.name_hint}_{count}"
            self._taken.add(name)
            self._names[id(var)] = name
        return name

    def _line(self, line: str, depth: int) -> None:
        self.lines.append("  " * depth + line)


def _inner(expr: Any) -> tuple[Any, ...]:
    match expr:
        case If():
            return (expr.cond,)
        case Let() | Function():
            return ()
    return children(expr)


nodes.use_hooks(text=text)
register_function(Function, function_lines)
register_text(Expr, text)
