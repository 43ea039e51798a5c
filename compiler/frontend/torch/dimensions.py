"""Sizes of torch (numbers, SymInts, sympy expressions) as dimensions of relax."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import sympy

from compiler.frontend.torch.errors import RefusedNode
from compiler.relax.nodes.dims import int64, simplified
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var


class Dimensions:
    """The symbolic sizes of a model: each symbol of torch is one variable."""

    def __init__(self) -> None:
        self.variables: dict[str, PrimExpr] = {}
        self._known: dict[Any, PrimExpr] = {}

    def solve(self, shapes: Iterable[Iterable[Any]]) -> None:
        """Look at the shapes of the inputs for symbols that stand in expressions only.

        Where a size is a * s + b, and no size is s, the whole size gets a variable d, and s is (d - b) // a.
        """
        exprs = [size.node.expr for shape in shapes for size in shape if hasattr(size, "node")]
        alone = {expr for expr in exprs if isinstance(expr, sympy.Symbol)}
        for expr in exprs:
            symbols = expr.free_symbols
            if len(symbols) != 1 or symbols & alone:
                continue
            (symbol,) = symbols
            factor, rest = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
            if not factor.is_Integer or not rest.is_Integer or factor <= 0 or expr != factor * symbol + rest:
                continue
            whole = Var(f"{symbol.name}_size", "int64")
            self._known[expr] = whole
            solved = ops.floordiv(ops.sub(whole, int64(int(rest))), int64(int(factor)))
            self.variables[symbol.name] = simplified(solved)
            alone.add(symbol)

    def variable(self, name: str) -> PrimExpr:
        """Return the expression for a symbol: its variable, or what it is computed from."""
        found = self.variables.get(name)
        if found is None:
            found = self.variables[name] = Var(name, "int64")
        return found

    def rename(self, symbol: str, var: Var) -> None:
        """Have `var` stand for a symbol."""
        self.variables[symbol] = var

    def dim(self, size: Any) -> PrimExpr:
        """A size as a dimension. Raises RefusedNode for one that cannot be written as such."""
        if isinstance(size, PrimExpr):
            return size
        if isinstance(size, int):
            return int64(size)
        node = getattr(size, "node", None)
        if node is None:
            raise RefusedNode(f"{size!r} is no size")
        return simplified(self.expr(node.expr))

    def dims(self, shape: Any) -> tuple[PrimExpr, ...]:
        """A shape as dimensions."""
        return tuple([self.dim(size) for size in shape])

    def expr(self, value: Any) -> PrimExpr:
        """A sympy expression over integers."""
        if value in self._known:
            return self._known[value]
        match value:
            case sympy.Integer() | int():
                return int64(int(value))
            case sympy.Symbol():
                return self.variable(value.name)
            case sympy.Add() | sympy.Mul():
                parts = [self.expr(part) for part in value.args]
                combine = ops.add if isinstance(value, sympy.Add) else ops.mul
                total = parts[0]
                for part in parts[1:]:
                    total = combine(total, part)
                return total
            case sympy.Pow() if value.exp.is_Integer and value.exp > 0:
                base = self.expr(value.base)
                return ops.mul(base, base) if value.exp == 2 else math.prod([base] * int(value.exp), start=int64(1))
            case sympy.Max() | sympy.Min():
                pick = ops.maximum if isinstance(value, sympy.Max) else ops.minimum
                first, *rest = [self.expr(part) for part in value.args]
                for part in rest:
                    first = pick(first, part)
                return first
        name, args = type(value).__name__, value.args
        match name:
            case "FloorDiv" | "CleanDiv":
                return ops.floordiv(self.expr(args[0]), self.expr(args[1]))
            case "CeilDiv":
                return ops.ceildiv(self.expr(args[0]), self.expr(args[1]))
            case "Mod" | "PythonMod":
                return ops.floormod(self.expr(args[0]), self.expr(args[1]))
            case "ModularIndexing":
                inner = ops.floordiv(self.expr(args[0]), self.expr(args[1]))
                return ops.floormod(inner, self.expr(args[2]))
            case "Max" | "Min":
                pick = ops.maximum if name == "Max" else ops.minimum
                return pick(self.expr(args[0]), self.expr(args[1]))
            case "TruncToInt" | "ToFloat" | "Identity":
                return self.expr(args[0])
        raise RefusedNode(f"the size {value} has no counterpart")
