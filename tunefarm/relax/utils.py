"""Helpers for those who write passes and tools over graphs."""

from compiler.relax.utils import convert_to_expr, copy_with_new_vars, gen_call_tir_inputs

__all__ = ["convert_to_expr", "copy_with_new_vars", "gen_call_tir_inputs"]
