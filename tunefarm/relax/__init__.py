"""Graphs of tensor operators: nodes, what is known of values, building, rewriting."""

from compiler.ir.base import RelaxExpr
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.expr_functor import ExprFunctor, PyExprMutator, PyExprVisitor
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
    FuncStructInfo,
    Function,
    Id,
    If,
    MatchCast,
    ObjectStructInfo,
    ObjectType,
    PackedFuncType,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    ShapeType,
    StringImm,
    StructInfo,
    TensorStructInfo,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
    const,
    convert_to_expr,
    extern,
)
from compiler.relax.op import (
    call_dps_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    call_tir_with_grad,
    get_shape_of,
)
from compiler.relax.rewrite import DataflowBlockRewrite
from compiler.tir.nodes import PrimExpr
from tunefarm.relax import analysis, binding_rewrite, block_builder, expr, expr_functor, op, struct_info, ty, utils

__all__ = [
    "Binding", "BindingBlock", "BlockBuilder", "Call", "Constant", "DataTypeImm", "DataflowBlock",
    "DataflowBlockRewrite", "DataflowVar", "Expr", "ExprFunctor", "ExternFunc", "FuncStructInfo", "Function", "Id",
    "If", "MatchCast", "ObjectStructInfo", "ObjectType", "PackedFuncType", "PrimExpr", "PrimStructInfo", "PrimValue",
    "PyExprMutator", "PyExprVisitor", "RelaxExpr", "SeqExpr", "ShapeExpr", "ShapeStructInfo", "ShapeType", "StringImm",
    "StructInfo", "TensorStructInfo", "TensorType", "Tuple", "TupleGetItem", "TupleStructInfo", "Var", "VarBinding",
    "analysis", "binding_rewrite", "block_builder", "call_dps_packed", "call_pure_packed", "call_tir",
    "call_tir_inplace", "call_tir_with_grad", "const", "convert_to_expr", "expr", "expr_functor", "extern",
    "get_shape_of", "op", "struct_info", "ty", "utils",
]  # fmt: skip
