"""Passes as objects, sequences of them, and the context they run under."""

from compiler.ir.transform.config import TransformError
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import ModulePass, Pass, PassInfo, PrimFuncPass, PrintIR, Sequential, module_pass

__all__ = [
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrimFuncPass",
    "PrintIR",
    "Sequential",
    "TransformError",
    "module_pass",
]
