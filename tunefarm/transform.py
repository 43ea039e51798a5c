"""Passes as objects, sequences of them, and the context they run under."""

from compiler.transform.config import TransformError
from compiler.transform.context import PassContext
from compiler.transform.passes import ModulePass, Pass, PassInfo, PrimFuncPass, PrintIR, Sequential, module_pass

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
