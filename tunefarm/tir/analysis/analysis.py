"""Analyses of TensorIR functions."""

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
from compiler.arith.analysis import get_block_access_region as get_sblock_access_region
from compiler.arith.analysis import verify_well_formed as verify_tirx_well_formed
from compiler.driver.objects import Object
from compiler.faces.tir_analysis import (
    assert_pure_function,
    calculate_allocated_bytes,
    calculate_constant_bytes,
    find_anchor_block,
    get_block_read_write_region,
    is_pure_function,
    verify_gpu_code,
    verify_ssa,
)
from compiler.faces.tir_analysis import get_block_read_write_region as get_sblock_read_write_region
from compiler.ir.module import IRModule

__all__ = [
    "IRModule", "Object", "assert_pure_function", "calculate_allocated_bytes", "calculate_constant_bytes",
    "calculate_workspace_bytes", "detect_buffer_access_lca", "estimate_tir_flops", "expr_deep_equal",
    "find_anchor_block", "get_block_access_region", "get_block_read_write_region", "get_sblock_access_region",
    "get_sblock_read_write_region", "is_pure_function", "undefined_vars", "verify_gpu_code", "verify_memory",
    "verify_ssa", "verify_tirx_well_formed", "verify_well_formed",
]  # fmt: skip
