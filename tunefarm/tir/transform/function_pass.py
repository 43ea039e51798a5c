"""Passes of the user's own over each function."""

from compiler.driver.tir_passes import PrimFuncPass, prim_func_pass

__all__ = ["PrimFuncPass", "prim_func_pass"]
