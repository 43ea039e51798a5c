"""What can be asked of TensorIR functions."""

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

__all__ = [
    "calculate_workspace_bytes",
    "detect_buffer_access_lca",
    "estimate_tir_flops",
    "expr_deep_equal",
    "get_block_access_region",
    "undefined_vars",
    "verify_memory",
    "verify_well_formed",
]
