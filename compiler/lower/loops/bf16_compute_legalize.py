"""Arithmetic of bfloat16 in float32, rounded where it is stored or cast.

    y[i] = (x[i] + b) * c     →     y[i] = bfloat16((float32(x[i]) + float32(b)) * float32(c))

Code computes in float32 in any case, because CPUs only multiply pairs of bfloat16. Without this pass each operation
rounds its result, which takes longer than the operation, and digits are lost. What is only moved stays narrow. TVM's
pass of this name drops casts to bfloat16 as well; here they round. Code generation for CPUs and the interpreter call
it for each function.
"""

from __future__ import annotations

from compiler.dtype import lanes_of, with_lanes
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.tir import nodes as n
from compiler.tir.intrin.intrin import FLOAT_UNARY
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass

_MATH = frozenset(f"tir.{name}" for name in (*FLOAT_UNARY, "fabs", "pow", "fma", "fmod", "atan2", "hypot", "copysign"))
_NARROW, _WIDE = "bfloat16", "float32"


@tir_pass("BF16ComputeLegalize")
def bf16_compute_legalize(func: n.PrimFunc) -> n.PrimFunc:
    """Compute expressions of bfloat16 in float32, and round them where they are stored or cast."""
    if not any(_is_narrow(node) for node in walk(func.body) if isinstance(node, PrimExpr)):
        return func
    body = _Widening().rebuilt(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _is_narrow(expr: PrimExpr) -> bool:
    return expr.dtype.startswith(_NARROW)


def _widened(expr: PrimExpr) -> PrimExpr:
    """The same number as float32. Constants are of bfloat16, so that they stay rounded."""
    return n.Cast(with_lanes(_WIDE, lanes_of(expr.dtype)), expr)


def _rounded(expr: PrimExpr) -> PrimExpr:
    return n.Cast(with_lanes(_NARROW, lanes_of(expr.dtype)), expr)


class _Widening:
    def __init__(self) -> None:
        self._wide_vars: dict[n.Var, n.Var] = {}

    def rebuilt(self, node: Node) -> Node:
        """A statement, or an expression in its own type."""
        match node:
            case n.LetStmt(var, value, body) if _is_narrow(var) and not self._is_moved(value):
                return replace(node, var=self._defined(var), value=self.wide(value), body=self.rebuilt(body))
            case n.CmpOp(a, b) if _is_narrow(a):
                return replace(node, a=self.wide(a), b=self.wide(b))
            case PrimExpr() if _is_narrow(node):
                return self.narrow(node)
            case _:
                return map_children(node, self.rebuilt)

    def narrow(self, expr: PrimExpr) -> PrimExpr:
        """An expression of bfloat16 as what it is. Arithmetic is rounded once, what is only moved not at all."""
        if isinstance(expr, n.BinaryOp) or _name(expr) in _MATH or expr in self._wide_vars:
            return _rounded(self.wide(expr))
        if isinstance(expr, n.Let) and _is_narrow(expr.var):
            return n.Let(self._defined(expr.var), self.wide(expr.value), self.narrow(expr.body))
        found = map_children(expr, self.rebuilt)
        assert isinstance(found, PrimExpr)
        return found

    def wide(self, expr: PrimExpr) -> PrimExpr:
        """An expression as float32, if it is of bfloat16."""
        if not _is_narrow(expr):
            found = self.rebuilt(expr)
            assert isinstance(found, PrimExpr)
            return found
        match expr:
            case n.Var() if expr in self._wide_vars:
                return self._wide_vars[expr]
            case n.BinaryOp(a, b):
                return replace(expr, a=self.wide(a), b=self.wide(b))
            case n.Select(condition, yes, no):
                return n.Select(self.wide(condition), self.wide(yes), self.wide(no))
            case n.Broadcast(value, lanes):
                return n.Broadcast(self.wide(value), lanes)
            case n.Shuffle(vectors):
                return replace(expr, vectors=tuple(map(self.wide, vectors)))
            case n.Let(var, value, body):
                held = self.wide(value)
                return n.Let(self._defined(var) if _is_narrow(var) else var, held, self.wide(body))
            case n.Call(op=op, args=args) if _name(expr) in _MATH or _name(expr) == "tir.if_then_else":
                return n.Call(with_lanes(_WIDE, lanes_of(expr.dtype)), op, tuple(map(self.wide, args)), expr.span)
            case _:
                return _widened(self.narrow(expr))

    def _is_moved(self, expr: PrimExpr) -> bool:
        """Whether elements stay as they are in memory. Those of a name that is wide do not."""
        match expr:
            case n.Shuffle(vectors):
                return all(map(self._is_moved, vectors))
            case n.Var():
                return expr not in self._wide_vars
        return isinstance(expr, n.BufferLoad)

    def _defined(self, var: n.Var) -> n.Var:
        self._wide_vars[var] = n.Var(var.name, with_lanes(_WIDE, lanes_of(var.dtype)))
        return self._wide_vars[var]


def _name(expr: PrimExpr) -> str:
    return str(getattr(expr.op, "name", "")) if isinstance(expr, n.Call) else ""
