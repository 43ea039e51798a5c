"""Expressions as TVMScript text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from compiler.ir.base import GlobalVar, Node
from compiler.ir.text import Names, quote, value_text
from compiler.ir.visit import children
from compiler.tir import nodes as n
from compiler.tir.intrin.intrin import TEXT_CALLS, TYPED_CALLS, usual_dtype
from compiler.tir.nodes import PrimExpr

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)

_INFIX: dict[type, tuple[str, int]] = {
    n.Or: ("or", _OR),
    n.And: ("and", _AND),
    n.EQ: ("==", _COMPARE),
    n.NE: ("!=", _COMPARE),
    n.LT: ("<", _COMPARE),
    n.LE: ("<=", _COMPARE),
    n.GT: (">", _COMPARE),
    n.GE: (">=", _COMPARE),
    n.Add: ("+", _SUM),
    n.Sub: ("-", _SUM),
    n.Mul: ("*", _PRODUCT),
    n.FloorDiv: ("//", _PRODUCT),
    n.FloorMod: ("%", _PRODUCT),
}
_PREFIX: dict[type, str] = {n.Min: "T.min", n.Max: "T.max"}


class ExprPrinter:
    """Prints expressions with the names of `names`."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def expr(self, node: PrimExpr, level: int = _OR) -> str:
        """Print `node`, in parentheses if it binds less tightly than `level`."""
        cls = type(node)
        infix = _INFIX.get(cls)
        if infix is not None and _bare(node.a) and _bare(node.b):  # type: ignore[attr-defined]
            return f"T.{cls.__name__}({self.expr(node.a)}, {self.expr(node.b)})"  # type: ignore[attr-defined]
        if infix is not None:
            return self._infix(node, *infix, level)
        if cls in _PREFIX:
            return f"{_PREFIX[cls]}({self.expr(node.a)}, {self.expr(node.b)})"  # type: ignore[attr-defined]
        rule = _RULES.get(cls)
        if rule is None:
            return f"{cls.__name__}({', '.join(self.expr(c) for c in _operands(node))})"
        text, own = rule(self, node)
        return text if own >= level else f"({text})"

    def _infix(self, node: Any, sign: str, own: int, level: int) -> str:
        # a comparison does not chain, and "a - (b - c)" keeps its parentheses
        left = self.expr(node.a, own + 1 if own == _COMPARE else own)
        text = f"{left} {sign} {self.expr(node.b, own + 1)}"
        return text if own >= level else f"({text})"

    def exprs(self, nodes: tuple[PrimExpr, ...]) -> str:
        return ", ".join(map(self.expr, nodes))

    def group(self, nodes: tuple[PrimExpr, ...]) -> str:
        return f"({self.exprs(nodes)},)" if len(nodes) == 1 else f"({self.exprs(nodes)})"

    def access(self, buffer: n.Buffer, indices: tuple[PrimExpr, ...]) -> str:
        return f"{self.names.of(buffer)}[{self.exprs(indices) or '()'}]"

    def region(self, region: n.BufferRegion) -> str:
        dims = ", ".join(self._range(r) for r in region.region)
        return f"{self.names.of(region.buffer)}[{dims or '()'}]"

    def _range(self, dim: n.Range) -> str:
        if isinstance(dim.extent, n.IntImm) and dim.extent.value == 1:
            return self.expr(dim.min)
        return f"{self.expr(dim.min)}:{self.end(dim.min, dim.extent)}"

    def end(self, low: PrimExpr, extent: PrimExpr) -> str:
        """Print low + extent, added up where both are constants."""
        if isinstance(low, n.IntImm) and isinstance(extent, n.IntImm):
            return self.expr(n.IntImm(low.dtype, low.value + extent.value))
        if isinstance(low, n.IntImm) and low.value == 0:
            return self.expr(extent)
        return self.expr(n.Add(low, extent))

    def iter_var(self, axis: n.IterVar) -> str:
        dom = "None" if axis.dom is None else f"({self.expr(axis.dom.min)}, {self.expr(axis.dom.extent)})"
        kind = "".join(word.capitalize() for word in axis.iter_type.name.split("_"))
        return f'T.iter_var({self.names.of(axis.var)}, {dom}, "{kind}", {quote(axis.thread_tag)})'

    def value(self, value: Any) -> str:
        """An attribute or annotation value."""
        return value_text(value, self._node_value)

    def _node_value(self, value: Any) -> str | None:
        match value:
            case n.IntImm() if value.dtype != "bool":
                return f"T.{value.dtype}({value.value})"
            case n.FloatImm() if math.isfinite(value.value):
                return f"T.{value.dtype}({value.value!r})"
            case n.StringImm():
                return f"T.StringImm({quote(value.value)})"
            case PrimExpr():
                return self.expr(value)
            case n.Buffer():
                return self.names.of(value)
            case n.IterVar():
                return self.iter_var(value)
        return None


def _bare(node: PrimExpr) -> bool:
    """Whether `node` is printed as a plain Python number.
    Between two of those Python itself would compute an operator."""
    if isinstance(node, n.FloatImm):
        return node.dtype == "float32" and math.isfinite(node.value)
    return isinstance(node, n.IntImm) and node.dtype == "int32"


def _operands(node: Node) -> list[PrimExpr]:
    return [c for c in children(node) if isinstance(c, PrimExpr)]


# ---------------------------------------------------------------------- rules: (text, level)

Rule = tuple[str, int]


def _var(p: ExprPrinter, node: n.Var) -> Rule:
    return p.names.of(node), _ATOM


def _int(p: ExprPrinter, node: n.IntImm) -> Rule:
    if node.dtype == "int32":
        return str(node.value), _ATOM if node.value >= 0 else _UNARY
    if node.dtype == "bool":
        return f"T.bool({bool(node.value)})", _ATOM
    return f"T.{node.dtype}({node.value})", _ATOM


def _float_imm(p: ExprPrinter, node: n.FloatImm) -> Rule:
    value = node.value
    if not math.isfinite(value):
        return f'T.{node.dtype}("{value}")', _ATOM
    if node.dtype == "float32":
        return repr(value), _ATOM if math.copysign(1, value) > 0 else _UNARY
    return f"T.{node.dtype}({value!r})", _ATOM


def _string(p: ExprPrinter, node: n.StringImm) -> Rule:
    return quote(node.value), _ATOM


def _not(p: ExprPrinter, node: n.Not) -> Rule:
    return f"not {p.expr(node.a, _NOT)}", _NOT


def _cast(p: ExprPrinter, node: n.Cast) -> Rule:
    return f'T.Cast("{node.dtype}", {p.expr(node.value)})', _ATOM


def _div(p: ExprPrinter, node: n.Div) -> Rule:
    if _bare(node.a) and _bare(node.b):
        return f"T.Div({p.expr(node.a)}, {p.expr(node.b)})", _ATOM
    if "float" in node.dtype:
        return f"{p.expr(node.a, _PRODUCT)} / {p.expr(node.b, _PRODUCT + 1)}", _PRODUCT
    return f"T.truncdiv({p.expr(node.a)}, {p.expr(node.b)})", _ATOM


def _mod(p: ExprPrinter, node: n.Mod) -> Rule:
    return f"T.truncmod({p.expr(node.a)}, {p.expr(node.b)})", _ATOM


def _select(p: ExprPrinter, node: n.Select) -> Rule:
    return f"T.Select({p.exprs((node.condition, node.true_value, node.false_value))})", _ATOM


def _ramp(p: ExprPrinter, node: n.Ramp) -> Rule:
    return f"T.Ramp({p.expr(node.base)}, {p.expr(node.stride)}, {node.lanes})", _ATOM


def _shuffle(p: ExprPrinter, node: n.Shuffle) -> Rule:
    return f"T.Shuffle([{p.exprs(node.vectors)}], [{p.exprs(node.indices)}])", _ATOM


def _broadcast(p: ExprPrinter, node: n.Broadcast) -> Rule:
    return f"T.Broadcast({p.expr(node.value)}, {node.lanes})", _ATOM


def _let(p: ExprPrinter, node: n.Let) -> Rule:
    value = p.expr(node.value)
    name = p.names.of(node.var)
    return f"T.Let({p.expr(node.body)}, where={{{name}: {value}}})", _ATOM


def _call(p: ExprPrinter, node: n.Call) -> Rule:
    if isinstance(node.op, GlobalVar):
        inner = "".join(f", {p.expr(a)}" for a in node.args)
        return f'T.Call("{node.dtype}", "@{node.op.name_hint}"{inner})', _ATOM
    name = node.op.name.removeprefix("tir.")
    name = name.removeprefix("tvm_") if name in TEXT_CALLS else name
    args = p.exprs(node.args)
    if name == "tvm_struct_get":
        return f'T.{name}({args}, "{node.dtype}")', _ATOM
    if node.op.name in TYPED_CALLS:
        return f'T.{name}("{node.dtype}"{", " + args if args else ""})', _ATOM
    if node.op.name.startswith("tir.") and node.dtype == usual_dtype(node.op.name, node.args):
        return f"T.{name}({args})", _ATOM
    return f'T.Call("{node.dtype}", "{node.op.name}"{", " + args if args else ""})', _ATOM


def _load(p: ExprPrinter, node: n.BufferLoad) -> Rule:
    if node.predicate is None:
        return p.access(node.buffer, node.indices), _ATOM
    name = p.names.of(node.buffer)
    return f"{name}.vload([{p.exprs(node.indices)}], predicate={p.expr(node.predicate)})", _ATOM


def _producer(p: ExprPrinter, node: n.ProducerLoad) -> Rule:
    return f"{getattr(node.producer, 'name', node.producer)}[{p.exprs(node.indices) or '()'}]", _ATOM


def _reduce(p: ExprPrinter, node: n.Reduce) -> Rule:
    combiner = node.combiner
    names = ", ".join(p.names.of(v) for v in (*combiner.lhs, *combiner.rhs))
    axes = ", ".join(p.names.of(axis.var) for axis in node.axis)
    parts = [f"lambda {names}: {p.group(combiner.result)}", f"source={p.group(node.source)}", f"axis=[{axes}]"]
    if not (isinstance(node.condition, n.IntImm) and node.condition.value):
        parts.append(f"where={p.expr(node.condition)}")
    if node.init:
        parts.append(f"init={p.group(node.init)}")
    return f"T.Reduce({', '.join(parts)}, value_index={node.value_index})", _ATOM


_RULES: dict[type, Callable[[ExprPrinter, Any], Rule]] = {
    n.Var: _var,
    n.SizeVar: _var,
    n.IntImm: _int,
    n.FloatImm: _float_imm,
    n.StringImm: _string,
    n.Not: _not,
    n.Cast: _cast,
    n.Div: _div,
    n.Mod: _mod,
    n.Select: _select,
    n.Ramp: _ramp,
    n.Broadcast: _broadcast,
    n.Shuffle: _shuffle,
    n.Let: _let,
    n.Call: _call,
    n.BufferLoad: _load,
    n.ProducerLoad: _producer,
    n.Reduce: _reduce,
}
