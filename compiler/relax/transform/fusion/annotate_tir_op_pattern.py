"""Kernels say how they may be fused."""

from __future__ import annotations

from compiler.ir.base import GlobalVar
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.fusion.kernel_pattern import pattern_of
from compiler.relax.op.core.registry import OpPatternKind
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n

OP_PATTERN = "op_pattern"
"""The attribute of a kernel that says how it may be fused: a number of `OpPatternKind`."""


@relax_pass("AnnotateTIROpPattern", opt_level=1)
def annotate_tir_op_pattern(mod: IRModule, context: PassContext) -> IRModule:
    """Find from each kernel's blocks how it may be fused, and note it as the attribute `op_pattern`.

        def relu(A, B):                  def relu(A, B):
            B[i, j] = max(A[i, j], 0)  →     T.func_attr({"op_pattern": 0})
                                             B[i, j] = max(A[i, j], 0)

    An attribute that is there stays: it is what somebody wants.
    """
    functions: dict[GlobalVar, BaseFunc] = {}
    for name, func in mod.items():
        if isinstance(func, n.PrimFunc) and OP_PATTERN not in func.attrs:
            pattern = pattern_of(func)
            kind = OpPatternKind.OPAQUE if pattern is None else pattern.kind
            func = func.with_attr(OP_PATTERN, int(kind))
        functions[name] = func
    return mod.with_functions(functions)
