"""Every node of graphs under one name: `from compiler.relax import nodes as r`.

Nodes are frozen and compared by identity, StructInfo by what it says. A graph in normal form names every value: the
arguments of calls are variables, constants, shapes, scalars, or tuples of these.
"""

from compiler.ir.attrs import Attrs, DictAttrs, as_attrs
from compiler.ir.base import RelaxExpr
from compiler.ir.vdevice import VDevice
from compiler.relax.nodes.base import BaseCheckResult, Expr, StructInfo, describe, info_of, set_struct_info
from compiler.relax.nodes.binding import Binding, BindingBlock, DataflowBlock, If, MatchCast, SeqExpr, VarBinding
from compiler.relax.nodes.expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Id,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    const,
    convert_to_expr,
    extern,
)
from compiler.relax.nodes.function import Function
from compiler.relax.nodes.shape import ObjectStructInfo, PrimStructInfo, ShapeExpr, ShapeStructInfo
from compiler.relax.nodes.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from compiler.relax.nodes.types import (
    FuncType,
    ObjectType,
    PackedFuncType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)

__all__ = [
    "Attrs", "BaseCheckResult", "Binding", "BindingBlock", "Call", "Constant", "DataTypeImm", "DataflowBlock",
    "DataflowVar", "DictAttrs", "Expr", "ExternFunc", "FuncStructInfo", "FuncType", "Function", "Id", "If", "MatchCast",
    "ObjectStructInfo", "ObjectType", "PackedFuncType", "PrimStructInfo", "PrimType", "PrimValue", "RelaxExpr",
    "SeqExpr", "ShapeExpr", "ShapeStructInfo", "ShapeType", "StringImm", "StructInfo", "TensorStructInfo", "TensorType",
    "Tuple", "TupleGetItem", "TupleStructInfo", "TupleType", "Type", "VDevice", "Var", "VarBinding", "as_attrs",
    "const", "convert_to_expr", "describe", "extern", "info_of", "set_struct_info",
]  # fmt: skip
