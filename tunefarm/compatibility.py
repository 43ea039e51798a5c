"""Names of Apache TVM that are refused: why they are not here, and what to use instead.

A program that asks for one gets an error with this text. `docs/tvm-compatibility.md` lists them all.
"""

from __future__ import annotations

from typing import Any, Protocol

_REASONS: list[tuple[str, str]] = [
    (
        (
            "an internal of TVM's reader; texts are read by `script.from_source`, and a dialect adds its nodes in"
            " `compiler.script.dialect`"
        ),
        """
        script.parser.core script.parser.ir.parser script.parser.tir.entry script.parser.tir.parser
        script.register_dialect
        """,
    ),
    (
        "an internal of TVM's printer; `IRModule.script()` gives the text",
        "script.printer",
    ),
    (
        "servers run on Linux; there is no launcher for iOS simulators",
        "rpc.server_ios_launcher",
    ),
    (
        (
            "an internal of TVM's wire protocol, which is not spoken here; `rpc.connect`, `rpc.Server` and "
            "`rpc.Tracker` are the way in"
        ),
        """
        rpc.base rpc.minrpc rpc.server.PopenRPCServerState rpc.tornado_util rpc.tracker.PopenTrackerServerState
        rpc.tracker.PriorityScheduler rpc.tracker.Scheduler rpc.tracker.TCPEventHandler
        rpc.tracker.TrackerServerHandler
        """,
    ),
    (
        "a session without a network is `rpc.LocalSession`",
        "rpc.PopenSession",
    ),
    (
        "boxes behind a firewall dial out to a relay: `tunefarm relay`, see docs/farm.md",
        "rpc.proxy",
    ),
    (
        "there is no runtime for microcontrollers",
        "runtime.executor runtime.name_transforms target.stm32 target.target.micro",
    ),
    (
        "graphs run in `relax.VirtualMachine`, see docs/relax.md",
        "runtime.profiler_vm runtime.vm",
    ),
    (
        "a profiler takes devices themselves",
        "runtime.profiling.DeviceWrapper",
    ),
    (
        "an internal of TVM's containers",
        "runtime.container.getitem_helper",
    ),
    (
        "dtypes are fixed; a new one is added in `compiler.dtype`",
        "target.datatype",
    ),
    (
        "intrinsics are called by name: `T.call_llvm_intrin(dtype, name, …)`",
        "target.codegen.llvm_get_intrinsic_name",
    ),
    (
        "where a graph's arrays lie is said by `ir.VDevice`",
        "target.VirtualDevice target.make_compilation_config",
    ),
    (
        'write `Target("llvm -mtriple=armv7l-linux-gnueabihf -mattr=+neon")`',
        "target.rasp",
    ),
    (
        "there is no backend for this hardware",
        """
        s_tir.backend s_tir.tensor_intrin.metal target.target.adreno target.vta tir.tensor_intrin.hexagon
        tir.tensor_intrin.hip tir.tensor_intrin.rocm
        """,
    ),
    (
        "memory of a module is planned by `relax.transform.StaticPlanBlockMemory`",
        "tir.usmp",
    ),
    (
        "an internal of TVM's rules; `dlight.ApplyDefaultSchedule` takes the rules that are here, and your own",
        "dlight",
    ),
    (
        "a step of TVM's own lowering; the passes that build a kernel here are listed in docs/passes.md",
        "s_tir.pipeline tirx.build tirx.compilation_pipeline tirx.transform.common",
    ),
    (
        "TVM's tile language for GPUs of 2025; kernels for tensor cores are written with the `T.ptx_*` intrinsics",
        """
        tirx.CallFFIKernelAttr tirx.ComposeLayout tirx.DispatchContext tirx.ExecScope tirx.ScopeIdDef
        tirx.ScopeIdDefStmt tirx.TensorMapEncodeTiledAttr tirx.TensorMapType tirx.TileLayout
        tirx.TilePrimitiveCall tirx.call_ffi_kernel tirx.exec_context tirx.lang tirx.layout tirx.operator
        tirx.script.SMEMPool tirx.script.TMEMPool tirx.script.TensorMap tirx.script.alloc_cast_frag
        tirx.script.alloc_tcgen05_ldst_frag tirx.script.builder tirx.script.call_ffi_kernel
        tirx.script.call_kernel tirx.script.cluster tirx.script.cluster_id tirx.script.constexpr
        tirx.script.cooperative_tensor_fill tirx.script.cooperative_tensor_load
        tirx.script.cooperative_tensor_multiply_accumulate tirx.script.cooperative_tensor_store tirx.script.cta
        tirx.script.cta_id tirx.script.cta_id_in_cluster tirx.script.cta_id_in_pair tirx.script.cuda
        tirx.script.device_entry tirx.script.hint tirx.script.inline tirx.script.jit tirx.script.lane_id
        tirx.script.meta_class tirx.script.metal tirx.script.nki tirx.script.nvshmem tirx.script.parser
        tirx.script.print_buffer tirx.script.ptx tirx.script.ptx_legacy tirx.script.scope_id
        tirx.script.selector tirx.script.tensormap_encode_tiled tirx.script.thread tirx.script.thread_id
        tirx.script.thread_id_in_wg tirx.script.tvm_kernel_replace_point tirx.script.warp tirx.script.warp_id
        tirx.script.warp_id_in_wg tirx.script.warpgroup tirx.script.warpgroup_id tirx.script.webgpu
        tirx.script.wg tirx.script.wg_reg_tile tirx.tensormap_encode_tiled tirx.tile_primitive
        tirx.transform.LowerTIRx tirx.transform.LowerTIRxOpaque tirx.transform.TilePrimitiveDispatch
        """,
    ),
    (
        "layouts of a graph are chosen by `relax.transform.ConvertLayout`, see docs/passes.md",
        "autotvm.apply_graph_best autotvm.graph_tuner",
    ),
    (
        "nothing is downloaded; logs of TVM are imported with `tunefarm import`, see docs/records.md",
        "autotvm.tophub",
    ),
    (
        "an internal of TVM's log files; trials are records of a store, see docs/records.md",
        """
        autotvm.database autotvm.record.load_from_buffer autotvm.record.split_workload
        autotvm.task.attach_code_hash autotvm.task.attach_code_hash_to_arg
        """,
    ),
    (
        "an internal of TVM's task extraction",
        "autotvm.GLOBAL_SCOPE autotvm.env",
    ),
    (
        "an internal of TVM's cost model; the model here learns from the records, see docs/models.md",
        """
        auto_scheduler.cost_model.cost_model auto_scheduler.cost_model.xgb_model auto_scheduler.feature
        autotvm.feature autotvm.tuner.metric autotvm.tuner.model_based_tuner autotvm.tuner.sa_model_optimizer
        autotvm.tuner.xgboost_cost_model meta_schedule.FeatureExtractor meta_schedule.cost_model.metric
        meta_schedule.cost_model.xgb_model meta_schedule.feature_extractor
        """,
    ),
    (
        "an internal of TVM's measuring; builders and devices are started by the tuning run, see docs/tuning.md",
        """
        auto_scheduler.measure.BuildFunc auto_scheduler.measure.local_build_worker
        auto_scheduler.measure.prepare_input_map auto_scheduler.measure.prepare_runner_args
        autotvm.measure.Executor autotvm.measure.executor meta_schedule.runner.local_runner
        meta_schedule.runner.rpc_runner meta_schedule.runner.utils
        """,
    ),
    (
        "a search that starts from a good config: `autotvm.tuner.GATuner`, or the default search of `meta_schedule`",
        "autotvm.tuner.DropletTuner",
    ),
    (
        "tasks of a graph are found by `tunefarm tune` and by `meta_schedule`'s tuning of modules, see docs/tuning.md",
        """
        autotvm.task.TaskExtractEnv autotvm.task.extract_from_multiple_program autotvm.task.extract_from_program
        """,
    ),
    (
        "records go to the store of the run; `autotvm.callback.log_to_file` writes a log as well",
        "autotvm.tuner.callback.log_to_database",
    ),
    (
        "a log is thinned with `tunefarm export`, see docs/records.md",
        "auto_scheduler.measure_record.main",
    ),
    (
        "weights are packed by the rules of the search, see docs/spaces.md",
        """
        auto_scheduler.LayoutRewriteOption auto_scheduler.get_shape_from_rewritten_layout
        auto_scheduler.remove_index_check auto_scheduler.rewrite_compute_body
        auto_scheduler.rewrite_tensor_shape
        """,
    ),
    (
        "rules of your own are `meta_schedule` schedule rules, see docs/meta_schedule.md",
        "auto_scheduler.PreloadCustomSketchRule",
    ),
    (
        "the best candidates are measured again in turns, see docs/tuning.md",
        "s_tir.meta_schedule.post_optimization",
    ),
    (
        "a base class of TVM's C++ node; test for the node classes themselves",
        """
        te.tensor.BaseComputeOp te.tensor.TensorIntrinCall te.tensor.TensorOpBase tir.expr.BinaryOpExpr
        tir.expr.CmpExpr tir.expr.ConstExpr tir.expr.EqualOp tir.expr.ExprOp tir.expr.IntImmEnum
        tir.expr.LogicalExpr tir.expr.NotEqualOp tir.expr.PrimExprWithOp
        """,
    ),
]
"""A reason, and the names or modules that it is for."""

REFUSED = {name: reason for reason, names in _REASONS for name in names.split()}
"""Why a name is not here, by its path or the path of the module that it is in."""


class Lookup(Protocol):
    def __call__(self, name: str) -> Any: ...


def why_not(path: str) -> str | None:
    """The reason why a name of Apache TVM is not here; None where none is given."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        reason = REFUSED.get(".".join(parts[:end]))
        if reason is not None:
            return reason
    return None


def refusing(module: str) -> Lookup:
    """A module's `__getattr__` that says why a name of Apache TVM is not there."""

    def missing(name: str) -> Any:
        reason = why_not(f"{module.removeprefix('tunefarm.')}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}" + (f": {reason}" if reason else ""))

    return missing
