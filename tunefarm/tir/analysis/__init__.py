"""What can be asked of TensorIR functions."""

from typing import TYPE_CHECKING

from compiler.arith.analysis import (
    calculate_workspace_bytes,
    detect_buffer_access_lca,
    estimate_tir_flops,
    expr_deep_equal,
    get_block_access_region,
    undefined_vars,
    verify_memory,
    verify_well_formed,
)
from tunefarm.compatibility import refusing
from tunefarm.tir.analysis import analysis

__all__ = [
    "analysis",
    "calculate_workspace_bytes",
    "detect_buffer_access_lca",
    "estimate_tir_flops",
    "expr_deep_equal",
    "get_block_access_region",
    "undefined_vars",
    "verify_memory",
    "verify_well_formed",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
