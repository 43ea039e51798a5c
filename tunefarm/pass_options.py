"""Options of pass contexts that programs for Apache TVM give, and that change nothing here.

They control TVM's own lowering, which is decided otherwise here, or ask for what builds always do.
"""

from __future__ import annotations

from compiler.ir.transform.config import register_option

_TEXT = """
relay.FuseOps.link_params relay.FuseOps.max_depth relay.backend.tir_converter relay.backend.use_auto_scheduler
relay.backend.use_meta_schedule relay.backend.use_meta_schedule_dispatch relay.fallback_device_type
relay.remove_standalone_reshapes.enable relax.fallback_device_type te.keep_schedule_record tir.HoistExpression
tir.HoistIfThenElse tir.InjectDoubleBuffer tir.LoopPartition tir.ReduceBranchingThroughOvercompute tir.RemoveNoOp
tir.Simplify tir.debug_keep_trivial_loop tir.detect_global_barrier tir.disable_cse_tir tir.disable_storage_rewrite
tir.enable_debug tir.enable_equiv_terms_in_cse_tir tir.is_entry_func tir.merge_static_smem tir.noalias tir.ptx_ldg32
tir.use_async_copy
"""
IGNORED = tuple(_TEXT.split())
"""Their names."""


def _register() -> None:
    for name in IGNORED:
        register_option(name, "anything", "it has no effect; accepted for programs of Apache TVM", lambda value: value)


_register()
