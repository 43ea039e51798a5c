"""From a graph to the input of the bytecode writer. The lists below are the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.transform.passes import Pass, Sequential
from compiler.relax.transform.attach_global_symbol import attach_global_symbol
from compiler.relax.transform.bind_params import bind_params
from compiler.relax.transform.call_tir_rewrite import call_tir_rewrite
from compiler.relax.transform.canonicalize_bindings import canonicalize_bindings
from compiler.relax.transform.codegen.allocate_workspace import allocate_workspace
from compiler.relax.transform.codegen.attach_extern_modules import attach_extern_modules
from compiler.relax.transform.codegen.fuse_ops_by_pattern import fuse_ops_by_pattern
from compiler.relax.transform.codegen.merge_composite_functions import merge_composite_functions
from compiler.relax.transform.codegen.run_codegen import run_codegen
from compiler.relax.transform.codegen.split_call_tir_by_pattern import split_call_tir_by_pattern
from compiler.relax.transform.common_subexpr import eliminate_common_subexpr
from compiler.relax.transform.dataflow.convert_to_dataflow import convert_to_dataflow
from compiler.relax.transform.dataflow.remove_redundant_reshape import remove_redundant_reshape
from compiler.relax.transform.dataflow.topological_sort import topological_sort
from compiler.relax.transform.dataflow.use_inplace_calls import dataflow_use_inplace_calls
from compiler.relax.transform.dead_code_elimination import dead_code_elimination
from compiler.relax.transform.devices.realize_vdevice import realize_vdevice
from compiler.relax.transform.devices.update_vdevice import update_vdevice
from compiler.relax.transform.fold_constant import fold_constant
from compiler.relax.transform.fusion.annotate_tir_op_pattern import annotate_tir_op_pattern
from compiler.relax.transform.fusion.fuse_ops import fuse_ops
from compiler.relax.transform.fusion.fuse_tir import fuse_tir
from compiler.relax.transform.fusion.run_side_by_side import run_side_by_side
from compiler.relax.transform.gradient.gradient import gradient
from compiler.relax.transform.inference.decompose_ops import decompose_ops_for_inference, decompose_ops_for_training
from compiler.relax.transform.inference.fast_math import fast_math
from compiler.relax.transform.inference.fold_batch_norm import fold_batch_norm
from compiler.relax.transform.inference.fuse_attention import fuse_attention
from compiler.relax.transform.inference.reciprocals import multiply_by_reciprocals
from compiler.relax.transform.inference.to_mixed_precision import to_mixed_precision
from compiler.relax.transform.inference.widen_products import widen_products
from compiler.relax.transform.lambda_lift import lambda_lift
from compiler.relax.transform.layout.alter_op_impl import alter_op_impl
from compiler.relax.transform.layout.channels_last_narrow import channels_last_narrow
from compiler.relax.transform.layout.convert_layout import convert_layout
from compiler.relax.transform.layout.optimize_layout_transform import optimize_layout_transform
from compiler.relax.transform.legalize_ops import legalize_ops
from compiler.relax.transform.lower_alloc_tensor import lower_alloc_tensor
from compiler.relax.transform.matmul.adjust_matmul_order import adjust_matmul_order
from compiler.relax.transform.matmul.combine_constant_matmul import combine_constant_matmul
from compiler.relax.transform.matmul.combine_parallel_matmul import combine_parallel_matmul
from compiler.relax.transform.matmul.expand_matmul_of_sum import expand_matmul_of_sum
from compiler.relax.transform.matmul.fuse_transpose_matmul import fuse_transpose_matmul
from compiler.relax.transform.matmul.reorder_permute_dims_after_concat import reorder_permute_dims_after_concat
from compiler.relax.transform.matmul.reorder_take_after_matmul import reorder_take_after_matmul
from compiler.relax.transform.memory.join_in_place import join_in_place
from compiler.relax.transform.memory.kill_after_last_use import kill_after_last_use
from compiler.relax.transform.memory.rewrite_cuda_graph import rewrite_cuda_graph
from compiler.relax.transform.memory.static_plan_block_memory import static_plan_block_memory
from compiler.relax.transform.normalize import normalize
from compiler.relax.transform.packing.attach_layout_free_buffers import attach_layout_free_buffers
from compiler.relax.transform.packing.split_layout_rewrite_preproc import split_layout_rewrite_preproc
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.private.expand_tuple_arguments import expand_tuple_arguments
from compiler.relax.transform.private.inline_private_functions import inline_private_functions
from compiler.relax.transform.private.normalize_global_var import normalize_global_var
from compiler.relax.transform.private.remove_unused_outputs import remove_unused_outputs
from compiler.relax.transform.private.remove_unused_parameters import remove_unused_parameters
from compiler.relax.transform.remove_purity_checking import remove_purity_checking
from compiler.relax.transform.rewrite_dataflow_reshape import rewrite_dataflow_reshape
from compiler.relax.transform.to_non_dataflow import to_non_dataflow
from compiler.relax.transform.tuning.meta_schedule import apply_database, few_shot_tuning, tune_module, tune_tir
from compiler.relax.transform.vm_builtin_lower import lower_runtime_builtin, vm_builtin_lower
from compiler.relax.transform.vm_shape_lower import vm_shape_lower
from compiler.relax.transform.weights.bind_symbolic_vars import bind_symbolic_vars
from compiler.relax.transform.weights.bundle_model_params import bundle_model_params
from compiler.relax.transform.weights.lazy_get_input import lazy_get_input
from compiler.relax.transform.weights.lazy_set_output import lazy_set_output
from compiler.relax.transform.weights.lazy_transform_params import lazy_transform_params
from compiler.relax.transform.weights.lift_transform_params import lift_transform_params
from compiler.relax.transform.weights.update_param_struct_info import update_param_struct_info, update_param_type
from compiler.suggest import closest

PassFunction = Callable[..., Any]

PREPARATION: tuple[PassFunction, ...] = (
    normalize,
    realize_vdevice,
    fold_batch_norm,
    fuse_attention,
    multiply_by_reciprocals,
    combine_constant_matmul,
    widen_products,
    channels_last_narrow,
)
"""Values have their devices, and operators become fewer."""

KERNELS: tuple[PassFunction, ...] = (
    normalize,
    lambda_lift,
    canonicalize_bindings,
    eliminate_common_subexpr,
    legalize_ops,
    fold_constant,
    dead_code_elimination,
)
"""Operators become kernels."""

FUSION: tuple[PassFunction, ...] = (
    join_in_place,
    annotate_tir_op_pattern,
    fuse_ops,
    fuse_tir,
    fold_constant,
    eliminate_common_subexpr,
    dead_code_elimination,
)
"""Kernels that belong together become one."""

PACKING: tuple[PassFunction, ...] = (split_layout_rewrite_preproc, fold_constant, dead_code_elimination)
"""Constants are kept as schedules want them."""

SIDE_BY_SIDE: tuple[PassFunction, ...] = (rewrite_dataflow_reshape, run_side_by_side, dead_code_elimination)
"""Kernels run at the same time where threads would wait."""

LOWERING: tuple[PassFunction, ...] = (
    rewrite_dataflow_reshape,
    dataflow_use_inplace_calls,
    to_non_dataflow,
    remove_purity_checking,
    call_tir_rewrite,
    static_plan_block_memory,
    lower_alloc_tensor,
    kill_after_last_use,
    rewrite_cuda_graph,
    vm_builtin_lower,
    vm_shape_lower,
    attach_global_symbol,
)
"""Memory, dimensions and what the machine does become explicit."""

DEVICES: tuple[PassFunction, ...] = (update_vdevice,)
"""On which device values live."""

LAYOUT: tuple[PassFunction, ...] = (alter_op_impl, convert_layout, optimize_layout_transform)
"""How tensors lie in memory."""

MATMUL: tuple[PassFunction, ...] = (
    adjust_matmul_order,
    combine_parallel_matmul,
    expand_matmul_of_sum,
    fuse_transpose_matmul,
    reorder_permute_dims_after_concat,
    reorder_take_after_matmul,
)
"""Products of matrices."""

PRIVATE: tuple[PassFunction, ...] = (
    expand_tuple_arguments,
    inline_private_functions,
    normalize_global_var,
    remove_unused_outputs,
    remove_unused_parameters,
)
"""Functions that only the module itself calls."""

TUNING: tuple[PassFunction, ...] = (apply_database, few_shot_tuning, tune_module, tune_tir)
"""What asks the tuner."""

WEIGHTS: tuple[PassFunction, ...] = (
    bind_params,
    bind_symbolic_vars,
    bundle_model_params,
    lazy_get_input,
    lazy_set_output,
    lazy_transform_params,
    lift_transform_params,
    update_param_struct_info,
    update_param_type,
)
"""Parameters and results of functions."""

TRAINING: tuple[PassFunction, ...] = (gradient,)
"""What training needs of a model."""

INFERENCE: tuple[PassFunction, ...] = (
    fast_math,
    decompose_ops_for_inference,
    decompose_ops_for_training,
    to_mixed_precision,
)
"""What models are rewritten to before they run."""

DATAFLOW: tuple[PassFunction, ...] = (convert_to_dataflow, remove_redundant_reshape, topological_sort)
"""Dataflow blocks, and the order and form of what is in them."""

CODEGEN: tuple[PassFunction, ...] = (
    allocate_workspace,
    attach_extern_modules,
    fuse_ops_by_pattern,
    merge_composite_functions,
    run_codegen,
    split_call_tir_by_pattern,
)
"""Parts of graphs that code generators of users' own compute."""

ON_REQUEST: tuple[PassFunction, ...] = (
    attach_layout_free_buffers,
    lower_runtime_builtin,
    *CODEGEN,
    *DATAFLOW,
    *DEVICES,
    *INFERENCE,
    *LAYOUT,
    *MATMUL,
    *PRIVATE,
    *TRAINING,
    *TUNING,
    *WEIGHTS,
)
"""Passes that no pipeline has: builds or users run them."""

PIPELINES: dict[str, tuple[PassFunction, ...]] = {
    "zero": KERNELS,
    "fused": (*PREPARATION, *KERNELS, *FUSION),
    "scheduled": (*PACKING, *SIDE_BY_SIDE, *LOWERING),
    "default_build": (*PREPARATION, *KERNELS, *FUSION, *LOWERING),
    "default": (*PREPARATION, *KERNELS, *FUSION, *LOWERING),
}


def get_pipeline(name: str = "zero", **kwargs: Any) -> Pass:
    """The passes of a pipeline: "zero" makes kernels; "default" and "default_build" do a whole build.

    "fused" ends where kernels can be scheduled; "scheduled" goes on from scheduled kernels.

    Raises ArgumentError (a ValueError) for another name, and for options that the pipeline does not take.
    """
    if name not in PIPELINES:
        raise ArgumentError(f"there is no pipeline {name!r}", hint=closest(name, PIPELINES))
    if kwargs:
        raise ArgumentError(f"the pipeline {name} has no option {next(iter(kwargs))!r}")
    return Sequential([pass_of(function).make() for function in PIPELINES[name]], name=f"relax.{name}")
