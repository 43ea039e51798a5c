"""Graphs of tensor operators: nodes, what is known of values, building, rewriting."""

from compiler.driver.graph import build_graph as build
from compiler.driver.kernel_schedules import use_kernel_schedules
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
from compiler.relax.transform.pipeline import get_pipeline
from compiler.relax.transform.tuning.kernel_tuner import use_kernel_tuner
from compiler.runtime.vm.exec_builder import ExecBuilder
from compiler.runtime.vm.machine import VirtualMachine, VMInstrumentReturnKind
from compiler.runtime.vm.vm_executable import VMExecutable
from compiler.runtime.vm.vm_executable import VMExecutable as Executable
from compiler.tir.nodes import PrimExpr
from tunefarm.relax import (
    analysis,
    backend,
    binding_rewrite,
    block_builder,
    dpl,
    expr,
    expr_functor,
    op,
    struct_info,
    training,
    transform,
    ty,
    utils,
)

use_kernel_schedules("tuner.faces.kernel_schedules:KERNEL_SCHEDULES")
use_kernel_tuner("tuner.faces.kernel_tuner:KERNEL_TUNER")

__all__ = [
    "Binding", "BindingBlock", "BlockBuilder", "Call", "Constant", "DataTypeImm", "DataflowBlock",
    "DataflowBlockRewrite", "DataflowVar", "ExecBuilder", "Executable", "Expr", "ExprFunctor", "ExternFunc",
    "FuncStructInfo", "Function", "Id", "If", "MatchCast", "ObjectStructInfo", "ObjectType", "PackedFuncType",
    "PrimExpr", "PrimStructInfo", "PrimValue", "PyExprMutator", "PyExprVisitor", "RelaxExpr", "SeqExpr",
    "ShapeExpr", "ShapeStructInfo", "ShapeType", "StringImm", "StructInfo", "TensorStructInfo", "TensorType",
    "Tuple", "TupleGetItem", "TupleStructInfo", "VMExecutable", "VMInstrumentReturnKind", "Var", "VarBinding",
    "VirtualMachine", "analysis", "backend", "binding_rewrite", "block_builder", "build", "call_dps_packed",
    "call_pure_packed", "call_tir", "call_tir_inplace", "call_tir_with_grad", "const", "convert_to_expr", "dpl", "expr",
    "expr_functor", "extern", "get_pipeline", "get_shape_of", "op", "struct_info", "training", "transform", "ty",
    "utils",
]  # fmt: skip
