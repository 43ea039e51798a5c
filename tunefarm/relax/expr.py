"""Expressions, bindings and functions."""

from compiler.relax.nodes import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    Id,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
    extern,
)
from compiler.relax.nodes.base import set_struct_info as _update_struct_info
from compiler.relax.op import get_shape_of

__all__ = [
    "Binding", "BindingBlock", "Call", "Constant", "DataTypeImm", "DataflowBlock", "DataflowVar", "Expr", "ExternFunc",
    "Function", "Id", "If", "MatchCast", "PrimValue", "SeqExpr", "ShapeExpr", "StringImm", "Tuple", "TupleGetItem",
    "Var", "VarBinding", "_update_struct_info", "const", "extern", "get_shape_of",
]  # fmt: skip
