"""Expressions, buffers and regions as TVMScript text. Valid Python, with all that is needed to build them again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from compiler.dtype import parse_dtype
from compiler.ir.base import GlobalVar, Node
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

# how tightly an operator binds, as in Python
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _ATOM = range(1, 8)
_INFIX: dict[type, tuple[str, int]] = {
    n.Add: ("+", _SUM),
    n.Sub: ("-", _SUM),
    n.Mul: ("*", _PRODUCT),
    n.FloorDiv: ("//", _PRODUCT),
    n.FloorMod: ("%", _PRODUCT),
    n.EQ: ("==", _COMPARE),
    n.NE: ("!=", _COMPARE),
    n.LT: ("<", _COMPARE),
    n.LE: ("<=", _COMPARE),
    n.GT: (">", _COMPARE),
    n.GE: (">=", _COMPARE),
    n.And: ("and", _AND),
    n.Or: ("or", _OR),
}
_PREFIX: dict[type, str] = {n.Min: "min", n.Max: "max", n.Mod: "truncmod"}
_BAD = re.compile(r"\W")


class Names:
    """A unique name for every variable and buffer, given at first sight.

    With `anonymous`, names say nothing of what the author called things: equal functions get equal names.
    """

    def __init__(self, anonymous: bool = False) -> None:
        self._names: dict[Node, str] = {}
        self._taken: set[str] = {"T", "I", "Module"}
        self._anonymous = anonymous
        self._counts: dict[str, int] = {}

    def of(self, node: n.Var | n.Buffer, hint: str | None = None) -> str:
        found = self._names.get(node)
        if found is None:
            found = self._names[node] = self._fresh(hint or node.name, "b" if isinstance(node, n.Buffer) else "v")
        return found

    def known(self, node: Node) -> bool:
        return node in self._names

    def block(self, hint: str) -> str:
        return self._count("block") if self._anonymous else hint

    def _fresh(self, hint: str, prefix: str) -> str:
        if self._anonymous:
            return self._count(prefix)
        base = _BAD.sub("_", hint) or prefix
        if base[0].isdigit():
            base = f"_{base}"
        name = base
        while name in self._taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        self._taken.add(name)
        return name

    def _count(self, prefix: str) -> str:
        self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}{self._counts[prefix] - 1}"


class ExprText:
    """Turns expressions into text with the names of one `Names`."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def __call__(self, expr: PrimExpr) -> str:
        return self._text(expr)[0]

    def _text(self, expr: PrimExpr) -> tuple[str, int]:
        infix = _INFIX.get(type(expr))
        if infix is not None:
            return self._infix(expr, *infix)  # type: ignore[arg-type]
        return self._other(expr)

    def _infix(self, expr: n.BinaryOp, symbol: str, level: int) -> tuple[str, int]:
        left, left_level = self._text(expr.a)
        right, right_level = self._text(expr.b)
        # comparisons chain in Python, so both sides of one are bracketed when they are comparisons
        if left_level < level or (left_level == level == _COMPARE):
            left = f"({left})"
        if right_level <= level:
            right = f"({right})"
        return f"{left} {symbol} {right}", level

    def _other(self, expr: PrimExpr) -> tuple[str, int]:
        match expr:
            case n.Var():
                return self.names.of(expr), _ATOM
            case n.IntImm():
                return _int_text(expr), _ATOM if expr.value >= 0 else _PRODUCT
            case n.FloatImm():
                return f"T.{expr.dtype}({_float_text(expr.value)})", _ATOM
            case n.StringImm():
                return repr(expr.value), _ATOM
            case n.Div():
                if parse_dtype(expr.dtype).is_float:
                    return self._infix(expr, "/", _PRODUCT)
                return f"T.truncdiv({self(expr.a)}, {self(expr.b)})", _ATOM
            case n.BinaryOp():
                return f"T.{_PREFIX[type(expr)]}({self(expr.a)}, {self(expr.b)})", _ATOM
            case n.Not():
                text, level = self._text(expr.a)
                return f"not {text}" if level > _NOT else f"not ({text})", _NOT
            case n.Cast():
                return f'T.Cast("{expr.dtype}", {self(expr.value)})', _ATOM
            case n.Select():
                parts = (expr.condition, expr.true_value, expr.false_value)
                return f"T.Select({', '.join(map(self, parts))})", _ATOM
            case n.Ramp():
                return f"T.Ramp({self(expr.base)}, {self(expr.stride)}, {expr.lanes})", _ATOM
            case n.Broadcast():
                return f"T.Broadcast({self(expr.value)}, {expr.lanes})", _ATOM
            case n.Let():
                name = self.names.of(expr.var)
                return f"T.Let({self(expr.body)}, where={{{name}: {self(expr.value)}}})", _ATOM
            case n.Call():
                return self._call(expr), _ATOM
            case n.BufferLoad():
                return self._load(expr), _ATOM
            case n.ProducerLoad():
                return f"{expr.producer.op.name}[{', '.join(map(self, expr.indices))}]", _ATOM
            case n.Reduce():
                axes = ", ".join(self.names.of(iv.var) for iv in expr.axis)
                sources = ", ".join(map(self, expr.source))
                results = ", ".join(map(self, expr.combiner.result))
                return f"T.reduce([{results}], [{sources}], axis=[{axes}])", _ATOM
        return f"<{type(expr).__name__}>", _ATOM

    def _call(self, call: n.Call) -> str:
        args = ", ".join(map(self, call.args))
        if isinstance(call.op, GlobalVar):
            return f"Module.{call.op.name_hint}({args})"
        name = call.op.name.removeprefix("tir.")
        typed_by = 1 if name == "if_then_else" else 0
        if len(call.args) > typed_by and call.args[typed_by].dtype == call.dtype and name != "call_extern":
            return f"T.{name}({args})"
        return f'T.call_intrin("{call.dtype}", "{call.op.name}"{", " if args else ""}{args})'

    def _load(self, load: n.BufferLoad) -> str:
        indices = ", ".join(map(self, load.indices))
        name = self.names.of(load.buffer)
        if load.predicate is not None:
            return f"{name}.vload([{indices}], predicate={self(load.predicate)})"
        return f"{name}[{indices or '()'}]"

    def shape(self, dims: tuple[PrimExpr, ...]) -> str:
        items = ", ".join(map(self, dims))
        return f"({items},)" if len(dims) == 1 else f"({items})"

    def region(self, region: n.BufferRegion) -> str:
        """`A[i, 0:16]`: an index where the extent is 1, else a slice."""
        dims = []
        for r in region.region:
            if ops.is_const(r.extent, 1):
                dims.append(self(r.min))
            else:
                dims.append(f"{self(r.min)}:{self(r.min + r.extent)}")
        return f"{self.names.of(region.buffer)}[{', '.join(dims) or '()'}]"

    def buffer_type(self, buffer: n.Buffer, data: str | None = None) -> str:
        """`T.Buffer((4, 8), "float32")` with whatever is not the default."""
        parts = [self.shape(buffer.shape), f'"{buffer.dtype}"']
        if data is not None:
            parts.append(f"data={data}")
        if buffer.strides:
            parts.append(f"strides={self.shape(buffer.strides)}")
        if buffer.elem_offset is not None:
            parts.append(f"elem_offset={self(buffer.elem_offset)}")
        if buffer.scope != "global":
            parts.append(f'scope="{buffer.scope}"')
        if buffer.data_alignment != 64:
            parts.append(f"align={buffer.data_alignment}")
        return f"T.Buffer({', '.join(parts)})"

    def attrs(self, attrs: Mapping[str, Any]) -> str:
        """A dict literal, keys sorted."""
        return "{" + ", ".join(f"{k!r}: {self.value(attrs[k])}" for k in sorted(attrs)) + "}"

    def value(self, value: Any) -> str:
        match value:
            case PrimExpr():
                return self(value)
            case tuple() | list():
                return "[" + ", ".join(map(self.value, value)) + "]"
            case dict():
                return self.attrs(value)
            case bool() | int() | float() | str() | None:
                return repr(value)
        return repr(str(value))


def _int_text(expr: n.IntImm) -> str:
    if expr.dtype == "int32":
        return str(expr.value)
    if expr.dtype == "bool":
        return f"T.bool({bool(expr.value)})"
    return f"T.{expr.dtype}({expr.value})"


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return repr(int(value)) if value == int(value) and abs(value) < 1e15 and str(value) != "-0.0" else repr(value)
    return f'"{value}"'
