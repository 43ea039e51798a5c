"""Expressions as C has them: how a computation's lines show what it computes."""

from __future__ import annotations

from compiler.ir.base import GlobalVar
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_SIGNS: dict[type[PrimExpr], str] = {
    n.Add: " + ",
    n.Sub: " - ",
    n.Mul: "*",
    n.Div: "/",
    n.Mod: " % ",
    n.EQ: " == ",
    n.NE: " != ",
    n.LT: " < ",
    n.LE: " <= ",
    n.GT: " > ",
    n.GE: " >= ",
    n.And: " && ",
    n.Or: " || ",
}
_CALLED: dict[type[PrimExpr], str] = {n.FloorDiv: "floordiv", n.FloorMod: "floormod", n.Min: "min", n.Max: "max"}


def c_text(expr: PrimExpr) -> str:
    """Return an expression as C would spell it, with every operation in parentheses."""
    match expr:
        case n.IntImm():
            return str(expr.value) if expr.dtype == "int32" else f"({expr.dtype}){int(expr.value)}"
        case n.FloatImm(value=value):
            number = f"{value:g}"
            return f"{number}f" if expr.dtype == "float32" else f"({expr.dtype}){number}"
        case n.Var():
            return expr.name
        case n.Cast(value=value):
            return f"{expr.dtype}({c_text(value)})"
        case n.Not(a=value):
            return f"!{c_text(value)}"
        case n.Select():
            parts = (expr.condition, expr.true_value, expr.false_value)
            return f"select({', '.join(map(c_text, parts))})"
        case n.ProducerLoad(producer=producer, indices=indices):
            return f"{_name(producer)}[{', '.join(map(c_text, indices))}]"
        case n.Call(op=op, args=args):
            name = op.name_hint if isinstance(op, GlobalVar) else op.name
            return f"{name}({', '.join(map(c_text, args))})"
        case n.BinaryOp(a=a, b=b) if type(expr) in _SIGNS:
            return f"({c_text(a)}{_SIGNS[type(expr)]}{c_text(b)})"
        case n.BinaryOp(a=a, b=b) if type(expr) in _CALLED:
            return f"{_CALLED[type(expr)]}({c_text(a)}, {c_text(b)})"
    return str(expr)


def _name(producer: object) -> str:
    return producer.name if isinstance(producer, Tensor) else str(producer)
