"""Graphs of tensor operators: nodes, what is known of values, building, rewriting.

Importing it loads nothing of the compiler: each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from compiler import hooks
from tunefarm.lazy_names import lazy_names

_NAMES = {
    "compiler.driver.graph": "build=build_graph",
    "compiler.ir.base": "RelaxExpr",
    "compiler.relax.block_builder": "BlockBuilder",
    "compiler.relax.expr_functor": "ExprFunctor PyExprMutator PyExprVisitor",
    "compiler.relax.nodes": (
        "Binding BindingBlock Call Constant DataflowBlock DataflowVar DataTypeImm Expr ExternFunc "
        "FuncStructInfo Function Id If MatchCast ObjectStructInfo ObjectType PackedFuncType PrimStructInfo "
        "PrimValue SeqExpr ShapeExpr ShapeStructInfo ShapeType StringImm StructInfo TensorStructInfo "
        "TensorType Tuple TupleGetItem TupleStructInfo Var VarBinding const convert_to_expr extern"
    ),
    "compiler.relax.op": "call_dps_packed call_pure_packed call_tir call_tir_inplace call_tir_with_grad get_shape_of",
    "compiler.relax.rewrite": "DataflowBlockRewrite",
    "compiler.relax.transform.pipeline": "get_pipeline",
    "compiler.runtime.vm.exec_builder": "ExecBuilder",
    "compiler.runtime.vm.machine": "VirtualMachine VMInstrumentReturnKind",
    "compiler.runtime.vm.vm_executable": "VMExecutable Executable=VMExecutable",
    "compiler.tir.nodes": "PrimExpr",
}
_PARTS = (
    "analysis backend binding_rewrite block_builder dpl expr expr_functor op struct_info training transform ty utils"
)

if TYPE_CHECKING:
    from compiler.driver.graph import build_graph as build
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

hooks.name_answer(hooks.SCHEDULES, "tuner.faces.kernel_schedules:KERNEL_SCHEDULES")
hooks.name_answer(hooks.TUNER, "tuner.faces.kernel_tuner:KERNEL_TUNER")

__all__ = [
    "Binding", "BindingBlock", "BlockBuilder", "Call", "Constant", "DataTypeImm", "DataflowBlock",
    "DataflowBlockRewrite", "DataflowVar", "ExecBuilder", "Executable", "Expr", "ExprFunctor", "ExternFunc",
    "FuncStructInfo", "Function", "Id", "If", "MatchCast", "ObjectStructInfo", "ObjectType", "PackedFuncType",
    "PrimExpr", "PrimStructInfo", "PrimValue", "PyExprMutator", "PyExprVisitor", "RelaxExpr", "SeqExpr", "ShapeExpr",
    "ShapeStructInfo", "ShapeType", "StringImm", "StructInfo", "TensorStructInfo", "TensorType", "Tuple",
    "TupleGetItem", "TupleStructInfo", "VMExecutable", "VMInstrumentReturnKind", "Var", "VarBinding", "VirtualMachine",
    "analysis", "backend", "binding_rewrite", "block_builder", "build", "call_dps_packed", "call_pure_packed",
    "call_tir", "call_tir_inplace", "call_tir_with_grad", "const", "convert_to_expr", "dpl", "expr", "expr_functor",
    "extern", "get_pipeline", "get_shape_of", "op", "struct_info", "training", "transform", "ty", "utils",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__, __dir__ = lazy_names(__name__, _NAMES, _PARTS)
