"""Passes as objects, sequences of them, and the context they run under."""

from tunefarm.transform import (
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PrimFuncPass,
    PrintIR,
    Sequential,
    TransformError,
    module_pass,
)

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
