"""Affine expressions in given variables."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.linear import VAR, Lin, render
from compiler.arith.normal import INDEX_DTYPES, Bindings, Normal
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


def as_affine(expr: PrimExpr, variables: Sequence[n.Var]) -> tuple[tuple[int, ...], PrimExpr] | None:
    """Return (coefficients, rest): expr = sum(coefficient * variable) + rest, `rest` free of variables.

    One coefficient for each of `variables`, in order. None when `expr` is not of that form. `rest` is an
    `IntImm` where it is a constant.
    """
    if expr.dtype not in INDEX_DTYPES:
        return None
    position = {var: index for index, var in enumerate(variables)}
    coefficients = [0] * len(variables)
    x = Normal(Bindings()).lin(expr)
    rest = {}
    for atom, c in x.terms.items():
        if atom.kind == VAR and atom.expr in position:
            coefficients[position[atom.expr]] = c  # type: ignore[index]
        elif not position.keys().isdisjoint(atom.free):
            return None
        else:
            rest[atom] = c
    return tuple(coefficients), render(Lin(rest, x.const), expr.dtype)
