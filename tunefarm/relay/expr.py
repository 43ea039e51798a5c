"""Expressions."""

from compiler.faces.relay.nodes import Call, Constant, Expr, If, Let, Tuple, TupleGetItem, TupleWrapper, Var, const, var
from compiler.ir.base import GlobalVar

RelayExpr = Expr

__all__ = [
    "Call", "Constant", "Expr", "GlobalVar", "If", "Let", "RelayExpr", "Tuple", "TupleGetItem", "TupleWrapper", "Var",
    "const", "var",
]  # fmt: skip
