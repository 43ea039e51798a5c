"""Passes over TensorIR functions."""

from compiler.driver.tir_passes import PrimFuncPass, SplitHostDevice, ThreadSync, module_pass, prim_func_pass
from tunefarm.compatibility import refuse_other_names
from tunefarm.tir.transform import function_pass, transform
from tunefarm.tir.transform.transform import *  # noqa: F403

__all__ = [
    "PrimFuncPass", "SplitHostDevice", "ThreadSync", "function_pass", "module_pass", "prim_func_pass", "transform",
]  # fmt: skip
__all__ += transform.__all__

refuse_other_names(__name__)
