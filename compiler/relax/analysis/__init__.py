"""Questions about graphs, one subject a file."""

from compiler.relax.analysis.compile_time import computable_at_compile_time
from compiler.relax.analysis.purity import contains_impure_call, is_impure_call
from compiler.relax.analysis.recursion import detect_recursion
from compiler.relax.analysis.reshape_pattern import has_reshape_pattern
from compiler.relax.analysis.struct_infos import (
    collect_non_negative_expressions,
    definable_tir_vars_in_struct_info,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    get_static_type,
    struct_info_base_check,
    struct_info_lca,
    tir_vars_in_struct_info,
)
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.analysis.uses import get_var2val, name_to_binding, post_order_visit, udchain
from compiler.relax.analysis.variables import (
    all_global_vars,
    all_vars,
    bound_vars,
    called_global_vars,
    defined_symbolic_vars,
    free_symbolic_vars,
    free_vars,
)
from compiler.relax.analysis.well_formed import assert_well_formed, problems, well_formed
from compiler.relax.nodes import BaseCheckResult

__all__ = [
    "BaseCheckResult", "all_global_vars", "all_vars", "assert_well_formed", "bound_vars", "called_global_vars",
    "collect_non_negative_expressions", "computable_at_compile_time", "contains_impure_call",
    "definable_tir_vars_in_struct_info", "defined_symbolic_vars", "derive_call_ret_struct_info", "detect_recursion",
    "erase_to_well_defined", "free_symbolic_vars", "free_vars", "get_static_type", "get_var2val", "has_reshape_pattern",
    "is_impure_call", "name_to_binding", "post_order_visit", "problems", "remove_all_unused", "struct_info_base_check",
    "struct_info_lca", "tir_vars_in_struct_info", "udchain", "well_formed",
]  # fmt: skip
