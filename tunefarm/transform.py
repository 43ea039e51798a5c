"""Passes as objects, sequences of them, and the context they run under."""

from compiler.driver import tir_passes as _tir_passes  # noqa: F401  (they declare the options of contexts)
from compiler.ir.transform.config import TransformError
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import ModulePass, Pass, PassInfo, PrintIR, Sequential, module_pass
from compiler.tir.transform import PrimFuncPass
from tunefarm import pass_options as _pass_options  # noqa: F401  (it declares options of contexts)

__all__ = [
    "ModulePass", "Pass", "PassContext", "PassInfo", "PrimFuncPass", "PrintIR", "Sequential", "TransformError",
    "module_pass",
]  # fmt: skip
