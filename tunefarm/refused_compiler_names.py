"""Why names of Apache TVM's compiler are not here: what `tunefarm.compatibility` looks up."""

from __future__ import annotations

COMPILER: list[tuple[str, str]] = [
    (
        (
            "an internal of TVM's reader; texts are read by `script.from_source`, and a dialect adds its "
            "nodes in `compiler.script.dialect`"
        ),
        """
        script.parser.core script.parser.ir.parser script.parser.tir.entry script.parser.tir.parser
        script.register_dialect
        """,
    ),
    (
        "graphs are made by `relax.BlockBuilder` or read by `script.from_source`, see docs/relax.md",
        "script.ir_builder.relax script.parser.relax.dist",
    ),
    (
        "there is no backend for this hardware",
        """
        s_tir.backend s_tir.tensor_intrin.metal topi.adreno topi.bifrost topi.gpu topi.hexagon topi.hls
        topi.intel_graphics topi.mali topi.rocm tir.tensor_intrin.hexagon tir.tensor_intrin.hip tir.tensor_intrin.rocm
        """,
    ),
    ("memory of a module is planned by `relax.transform.StaticPlanBlockMemory`", "tir.usmp"),
    (
        "a step of TVM's own lowering; the passes that build a kernel here are listed in docs/passes.md",
        """
        s_tir.analysis.find_anchor_sblock s_tir.pipeline s_tir.transform tir.analysis.OOBChecker
        tir.analysis.apply_prim_func_arg_and_result_memory_constraints
        tir.analysis.get_prim_func_arg_and_result_memory_constraints tir.analysis.get_vtcm_compaction_passes
        tir.transform.AnnotateDeviceRegions tir.transform.ApplyLayoutTransforms
        tir.transform.CoProcSync tir.transform.CombineContextCall tir.transform.CommonSubexprElimTIR
        tir.transform.ConvertForLoopsToSerial tir.transform.ConvertSSA tir.transform.DecorateDeviceScope
        tir.transform.ExtractPrimFuncConstants tir.transform.HoistExpression tir.transform.HoistIfThenElse
        tir.transform.HoistedConditionals tir.transform.HoistedLetBindings tir.transform.InferFragment
        tir.transform.InjectCopyIntrin tir.transform.InjectCustomizedCode tir.transform.InjectPermutedLayout
        tir.transform.InjectRollingBuffer tir.transform.InlinePrivateFunctions tir.transform.InstallDebugSpans
        tir.transform.InstrumentBoundCheckers tir.transform.InstrumentProfileIntrinsics
        tir.transform.LegalizePackedCalls tir.transform.LiftAttrScope tir.transform.LiftThreadBinding
        tir.transform.LowerAutoCopy tir.transform.LowerDeviceKernelLaunch tir.transform.LowerDeviceStorageAccessInfo
        tir.transform.LowerIntrin tir.transform.LowerTVMBuiltin tir.transform.LowerThreadAllreduce
        tir.transform.LowerWarpMemory tir.transform.MakePackedAPI tir.transform.MakeUnpackedAPI
        tir.transform.ManifestSharedMemoryLocalStage tir.transform.MergeSharedMemoryAllocations
        tir.transform.NarrowDataType tir.transform.PointerValueTypeRewrite
        tir.transform.ReduceBranchingThroughOvercompute tir.transform.RemoveAssume
        tir.transform.RemoveStoreUndef tir.transform.RemoveWeightLayoutRewriteBlock
        tir.transform.RenormalizeSplitPattern tir.transform.StorageFlatten
        tir.transform.StorageRewrite tir.transform.TextureFlatten tir.transform.ThreadPartialSync
        tir.transform.TransformMmaBufferLayout tir.transform.UnifyThreadBinding tir.transform.VerifyVTCMLimit
        tirx.build tirx.compilation_pipeline tirx.get_default_tir_pipeline tirx.get_tir_pipeline
        tirx.register_tir_pipeline tirx.transform tirx.transform.common
        """,
    ),
    (
        ("TVM's tile language for GPUs of 2025; kernels for tensor cores are written with the `T.ptx_*` intrinsics"),
        """
        tirx.CallFFIKernelAttr tirx.ComposeLayout tirx.DispatchContext tirx.ExecScope tirx.ScopeIdDef
        tirx.ScopeIdDefStmt tirx.TensorMapEncodeTiledAttr tirx.TensorMapType tirx.TileLayout tirx.TilePrimitiveCall
        tirx.call_ffi_kernel tirx.exec_context tirx.lang tirx.layout tirx.operator tirx.script.SMEMPool
        tirx.script.TMEMPool tirx.script.TensorMap tirx.script.alloc_cast_frag tirx.script.alloc_scalar
        tirx.script.alloc_tcgen05_ldst_frag tirx.script.builder tirx.script.call_ffi_kernel tirx.script.call_kernel
        tirx.script.cluster tirx.script.cluster_id tirx.script.constexpr tirx.script.cooperative_tensor_fill
        tirx.script.cooperative_tensor_load tirx.script.cooperative_tensor_multiply_accumulate
        tirx.script.cooperative_tensor_store tirx.script.cta tirx.script.cta_id tirx.script.cta_id_in_cluster
        tirx.script.cta_id_in_pair tirx.script.cuda tirx.script.decl_scalar tirx.script.device_entry tirx.script.hint
        tirx.script.inline tirx.script.jit tirx.script.lane_id tirx.script.local_scalar tirx.script.meta_class
        tirx.script.metal tirx.script.nki tirx.script.nvshmem tirx.script.parser tirx.script.print_buffer
        tirx.script.ptx tirx.script.ptx_legacy tirx.script.s_tir tirx.script.scope_id tirx.script.selector
        tirx.script.shared_scalar tirx.script.static_assert tirx.script.tensormap_encode_tiled tirx.script.thread
        tirx.script.thread_id tirx.script.thread_id_in_wg tirx.script.tvm_kernel_replace_point tirx.script.warp
        tirx.script.warp_id tirx.script.warp_id_in_wg tirx.script.warpgroup tirx.script.warpgroup_id
        tirx.script.webgpu tirx.script.wg tirx.script.wg_reg_tile tirx.tensormap_encode_tiled tirx.tile_primitive
        tirx.transform.LowerTIRx tirx.transform.LowerTIRxOpaque tirx.transform.TilePrimitiveDispatch
        """,
    ),
    ("the best candidates are measured again in turns, see docs/tuning.md", "s_tir.meta_schedule.post_optimization"),
    (
        "a base class of TVM's C++ node; test for the node classes themselves",
        """
        te.tensor.BaseComputeOp te.tensor.TensorIntrinCall te.tensor.TensorOpBase tir.expr.BinaryOpExpr
        tir.expr.CmpExpr tir.expr.ConstExpr tir.expr.EqualOp tir.expr.ExprOp tir.expr.IntImmEnum tir.expr.LogicalExpr
        tir.expr.NotEqualOp tir.expr.PrimExprWithOp
        """,
    ),
    ("bfloat16 is stored as such in 16 bits, without a pass", "tir.transform.BF16StorageLegalize"),
    ("indices are 32 bits wide where their values allow it, without a pass", "tir.transform.ForceNarrowIndexToInt32"),
    (
        "there are floats of 16, 32 and 64 bits only",
        """
        script.tir.e4m3_float8 script.tir.e4m3_float8x16 script.tir.e4m3_float8x32 script.tir.e4m3_float8x4
        script.tir.e4m3_float8x64 script.tir.e4m3_float8x8 script.tir.e5m2_float8 script.tir.e5m2_float8x16
        script.tir.e5m2_float8x32 script.tir.e5m2_float8x4 script.tir.e5m2_float8x64 script.tir.e5m2_float8x8
        tir.transform.FP8ComputeLegalize tir.transform.FP8StorageLegalize tir.transform.LowerCustomDatatypes
        tirx.script.float4_e2m1fn tirx.script.float4_e2m1fnx16 tirx.script.float4_e2m1fnx2
        tirx.script.float4_e2m1fnx32 tirx.script.float4_e2m1fnx4 tirx.script.float4_e2m1fnx64
        tirx.script.float4_e2m1fnx8 tirx.script.float6_e2m3fn tirx.script.float6_e2m3fnx16 tirx.script.float6_e2m3fnx2
        tirx.script.float6_e2m3fnx32 tirx.script.float6_e2m3fnx4 tirx.script.float6_e2m3fnx64
        tirx.script.float6_e2m3fnx8 tirx.script.float6_e3m2fn tirx.script.float6_e3m2fnx16 tirx.script.float6_e3m2fnx2
        tirx.script.float6_e3m2fnx32 tirx.script.float6_e3m2fnx4 tirx.script.float6_e3m2fnx64
        tirx.script.float6_e3m2fnx8 tirx.script.float8_e3m4 tirx.script.float8_e3m4x16 tirx.script.float8_e3m4x2
        tirx.script.float8_e3m4x32 tirx.script.float8_e3m4x4 tirx.script.float8_e3m4x64 tirx.script.float8_e3m4x8
        tirx.script.float8_e4m3 tirx.script.float8_e4m3b11fnuz tirx.script.float8_e4m3b11fnuzx16
        tirx.script.float8_e4m3b11fnuzx2 tirx.script.float8_e4m3b11fnuzx32 tirx.script.float8_e4m3b11fnuzx4
        tirx.script.float8_e4m3b11fnuzx64 tirx.script.float8_e4m3b11fnuzx8 tirx.script.float8_e4m3fn
        tirx.script.float8_e4m3fnuz tirx.script.float8_e4m3fnuzx16 tirx.script.float8_e4m3fnuzx2
        tirx.script.float8_e4m3fnuzx32 tirx.script.float8_e4m3fnuzx4 tirx.script.float8_e4m3fnuzx64
        tirx.script.float8_e4m3fnuzx8 tirx.script.float8_e4m3fnx16 tirx.script.float8_e4m3fnx2
        tirx.script.float8_e4m3fnx32 tirx.script.float8_e4m3fnx4 tirx.script.float8_e4m3fnx64
        tirx.script.float8_e4m3fnx8 tirx.script.float8_e4m3x16 tirx.script.float8_e4m3x2 tirx.script.float8_e4m3x32
        tirx.script.float8_e4m3x4 tirx.script.float8_e4m3x64 tirx.script.float8_e4m3x8 tirx.script.float8_e5m2
        tirx.script.float8_e5m2fnuz tirx.script.float8_e5m2fnuzx16 tirx.script.float8_e5m2fnuzx2
        tirx.script.float8_e5m2fnuzx32 tirx.script.float8_e5m2fnuzx4 tirx.script.float8_e5m2fnuzx64
        tirx.script.float8_e5m2fnuzx8 tirx.script.float8_e5m2x16 tirx.script.float8_e5m2x2 tirx.script.float8_e5m2x32
        tirx.script.float8_e5m2x4 tirx.script.float8_e5m2x64 tirx.script.float8_e5m2x8 tirx.script.float8_e8m0fnu
        tirx.script.float8_e8m0fnux16 tirx.script.float8_e8m0fnux2 tirx.script.float8_e8m0fnux32
        tirx.script.float8_e8m0fnux4 tirx.script.float8_e8m0fnux64 tirx.script.float8_e8m0fnux8
        """,
    ),
    (
        "an internal of TVM's reader of hybrid functions; `te.hybrid.script` reads them, see docs/te.md",
        "te.hybrid.calls te.hybrid.parser te.hybrid.preprocessor te.hybrid.utils",
    ),
    (
        "one function serves many shapes; a variant for one shape is built from `PrimFunc.specialize`",
        "te.SpecializedCondition",
    ),
    ('a debugging aid of TVM\'s code generator; run the interpreter instead: `target="stackvm"`', "te.trace"),
    (
        "a stage that calls a tensor intrinsic is an `ExternOp`, whose loops no schedule changes; see docs/te.md",
        "te.TensorComputeOp",
    ),
    ("a module of TensorIR holds the function; call it there", "te.extern_primfunc tir.call_tir"),
    (
        "an internal of TVM's script parser; texts are read by `script.from_source`",
        """
        script.ir_builder.ir.dummy_global_info script.ir_builder.ir.lookup_name script.ir_builder.ir.lookup_vdevice
        script.ir_builder.tir.frame script.ir_builder.tir.ir.func_gen script.parser.ir tirx.script.DtypeConstructor
        tirx.script.LetAnnotation tirx.script.LocalVectorAnnotation tirx.script.Optional tirx.script.Tuple
        tirx.script.add_to_parent tirx.script.block_name_suffix_context tirx.script.register_script_namespace
        tirx.script.scalar_wrapper
        """,
    ),
    (
        (
            "a kernel of tensor cores is made by the schedules of docs/gpu.md, from `tir.TensorIntrin`s of "
            "your own or the rules of dlight"
        ),
        """
        s_tir.tensor_intrin.cuda s_tir.tensor_intrin.enabled tir.tensor_intrin.cuda
        tir.tensor_intrin.dot_product_common
        """,
    ),
    (
        "products of small integers are found and made by the code generator; see docs/intrinsics.md",
        """
        s_tir.tensor_intrin.arm_cpu s_tir.tensor_intrin.riscv_cpu tir.tensor_intrin.arm_cpu
        tir.tensor_intrin.x86.dot_product_16x4_u8i8i32_avx512
        """,
    ),
    (
        (
            "an instruction that no backend here has; kernels for tensor cores are written with the "
            "`T.ptx_*` intrinsics of docs/gpu.md"
        ),
        """
        tirx.dp4a
        tirx.op.cooperative_tensor_fill tirx.op.cooperative_tensor_load tirx.op.cooperative_tensor_multiply_accumulate
        tirx.op.cooperative_tensor_store tirx.op.filter tirx.op.print_buffer tirx.op.selector
        tirx.op.tvm_global_barrier_kinit tirx.op.tvm_kernel_replace_point tirx.script.dp4a tirx.script.filter
        """,
    ),
    (
        "vectors have a constant number of lanes here, and masks of their own where a loop ends in the middle of one",
        """
        tirx.get_active_lane_mask tirx.get_vscale_expr tirx.script.get_active_lane_mask
        """,
    ),
    (
        "how TVM's functions call each other inside; kernels call registered functions by `tir.call_packed`",
        """
        tirx.handle_add_byte_offset
        tirx.ptr_byte_offset tirx.script.handle_add_byte_offset tirx.script.ptr_byte_offset
        """,
    ),
    (
        "scalars are passed and returned through arrays of one element; functions return nothing",
        """
        script.tir.func_ret tirx.Return tirx.op.thread_return tirx.script.Return
        tirx.script.thread_return
        """,
    ),
    (
        "loops end when their condition does; `while` has no break",
        """
        tirx.Break tirx.Continue tirx.break_loop tirx.continue_loop tirx.script.Break tirx.script.Continue
        tirx.script.break_loop tirx.script.continue_loop
        """,
    ),
    (
        "nodes of TVM's older lowering, which produce nothing here; stages become blocks at once",
        """
        script.tir.customized_code script.tir.realize tir.AllocateConst tir.BufferRealize
        tir.CustomizedCode tir.DataProducer tir.Prefetch tir.ProducerRealize tir.ProducerStore
        """,
    ),
    (
        'layouts are names such as "NCHW4c", in `topi` and `relax.transform.ConvertLayout`',
        """
        s_tir.SBijectiveLayout s_tir.SLayout s_tir.sbijective_layout s_tir.slayout tir.BijectiveLayout tir.Layout
        tir.bijective_layout tir.layout
        """,
    ),
    (
        "an internal of TVM's schedule, which its own tests look at; steps check what they need, each time",
        "tir.schedule.state.CachedFlags",
    ),
    (
        "tensorization is decided by the search; `Schedule.tensorize` applies an intrinsic",
        "tir.schedule.analysis tir.schedule.transform",
    ),
    (
        "an internal of TVM's expressions",
        """
        s_tir.analysis.TensorRegion tir.CallEffectKind tir.expr.div_ambiguity_error tir.ir_builder.WithScope
        tirx.AllocBuffer tirx.Bind tirx.BufferAccessKind tirx.BufferRegionType tirx.BufferType tirx.Expr
        tirx.LambdaExpr tirx.buffer_data tirx.buffer_data_pointer_type tirx.ignore_loop_partition tirx.is_buffer_var
        tirx.op.masked_load tirx.op.masked_store tirx.register_intrin_lowering tirx.script.Bind
        tirx.script.ignore_loop_partition tirx.script.masked_load tirx.script.masked_store
        """,
    ),
    ("ask `tir.analysis.verify_memory` of each function", "tir.transform.VerifyMemory"),
    ("a function without a result returns nothing, and says no type", "script.tir.void"),
    (
        "bit operations are calls: `tir.bitwise_and(a, b)`, `a << b`",
        "tirx.BitwiseAnd tirx.BitwiseNot tirx.BitwiseOr tirx.BitwiseXor tirx.LShift tirx.RShift",
    ),
    ("operators are written in Python here: `topi` has them", "topi.cpp"),
    ("the command line is `tunefarm` (docs/cli.md)", "driver.tvmc exec.autotvm_log_editor exec.measure_peak"),
]
"""A reason, and the names or modules that it is for."""
