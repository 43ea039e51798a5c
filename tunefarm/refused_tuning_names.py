"""Why names of Apache TVM's runtime, farm and tuners are not here.

What `tunefarm.compatibility` looks up.
"""

from __future__ import annotations

TUNING: list[tuple[str, str]] = [
    (
        "no library of a vendor is called: kernels are made here, for GPUs as docs/gpu.md says",
        """
        contrib.cublas contrib.cublaslt contrib.cudnn contrib.cutlass contrib.miopen contrib.mkl contrib.mps
        contrib.dnnl contrib.nnpack contrib.rocblas contrib.thrust
        """,
    ),
    (
        "there is no backend for this hardware",
        """
        contrib.coreml_runtime contrib.emcc contrib.ethosu contrib.hexagon contrib.hipcc contrib.mrvl contrib.rocm
        contrib.sdaccel contrib.spirv contrib.target contrib.tflite_runtime contrib.tvmjs contrib.xcode testing.aot
        testing.usmp
        """,
    ),
    (
        "an extra of TVM that is not here",
        """
        contrib.download contrib.msc contrib.mxnet contrib.peak contrib.pipeline_executor
        contrib.pipeline_executor_build contrib.sparse contrib.stackvm contrib.tedd contrib.tf_op
        exec.gpu_memory_bandwidth
        """,
    ),
    (
        "print a graph with `show()`, or look at its kernels with `tunefarm profile`, see docs/relax.md",
        "contrib.relay_viz",
    ),
    (
        'models of PyTorch run by `torch.compile(backend="tunefarm")` or `relax.frontend.torch`, see docs/relax.md',
        "contrib.torch",
    ),
    ("graphs run in `relax.VirtualMachine`, see docs/relax.md", "contrib.cuda_graph"),
    ("times and results of a graph's kernels are asked of `GraphModuleDebug` itself", "contrib.debugger.debug_result"),
    ("processes of a session are started by the session, see docs/disco.md", "exec.disco_worker"),
    (
        (
            "a script of TVM's own benchmarks; models are tuned by `tunefarm tune`, functions by "
            "`meta_schedule.tune_tir`, see docs/tuning.md"
        ),
        """
        auto_scheduler.testing autotvm.testing dlight.benchmark meta_schedule.testing.custom_builder_runner
        meta_schedule.testing.dataset_collect_models meta_schedule.testing.dataset_extract_tasks
        meta_schedule.testing.dataset_sample_candidates meta_schedule.testing.distributed_measure_candidates
        meta_schedule.testing.tlcbench meta_schedule.testing.torchbench meta_schedule.testing.tune_onnx
        meta_schedule.testing.tune_relay meta_schedule.testing.tune_te meta_schedule.testing.validate_database
        """,
    ),
    (
        "networks to tune are in `relay.testing`, or come in by `relax.frontend`, see docs/relax.md",
        "meta_schedule.testing.relay_workload",
    ),
    (
        "what a search holds is a trace here; make it with `te` and a schedule",
        "testing.auto_scheduler.get_tiled_matmul testing.auto_scheduler.PropagatingThread",
    ),
    ("servers run on Linux; there is no launcher for iOS simulators", "rpc.server_ios_launcher"),
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
    ("a session without a network is `rpc.LocalSession`", "rpc.PopenSession"),
    (
        "an internal of TVM's proxy; `rpc.proxy.Proxy` is a relay, see docs/farm.md",
        """
        rpc.proxy.ForwardHandler rpc.proxy.PopenProxyServerState rpc.proxy.ProxyServerHandler rpc.proxy.RequestHandler
        rpc.proxy.TCPHandler rpc.proxy.WebSocketHandler
        """,
    ),
    (
        "there is no runtime for microcontrollers",
        """
        contrib.micro exec.microtvm_debug_shell runtime.executor runtime.name_transforms target.stm32
        target.target.micro
        """,
    ),
    ("graphs run in `relax.VirtualMachine`, see docs/relax.md", "runtime.profiler_vm runtime.vm"),
    ("what `tvm.compile` gives is a module, which runs, or a `relax.VMExecutable`", "runtime.Executable"),
    ("a profiler takes devices themselves", "runtime.profiling.DeviceWrapper"),
    ("an internal of TVM's containers", "runtime.container.getitem_helper"),
    ("dtypes are fixed; a new one is added in `compiler.dtype`", "target.datatype"),
    (
        "`Target.from_device` asks the backend of a device; one of your own is a `Backend`, see docs/extending.md",
        "target.detect_target.register_device_target_detector",
    ),
    ("where a graph's arrays lie is said by `ir.VDevice`", "target.make_compilation_config"),
    ("there is no backend for this hardware", "target.target.adreno target.vta"),
    (
        ("an internal of TVM's rules; `dlight.ApplyDefaultSchedule` takes the rules that are here, and your own"),
        "dlight",
    ),
    (
        "layouts of a graph are chosen by `relax.transform.ConvertLayout`, see docs/passes.md",
        "autotvm.apply_graph_best autotvm.graph_tuner",
    ),
    ("nothing is downloaded; logs of TVM are imported with `tunefarm import`, see docs/records.md", "autotvm.tophub"),
    (
        "an internal of TVM's log files; trials are records of a store, see docs/records.md",
        """
        autotvm.database.RedisDatabase autotvm.task.attach_code_hash autotvm.task.attach_code_hash_to_arg
        """,
    ),
    ("an internal of TVM's task extraction", "autotvm.env.reset_global_scope"),
    (
        "an internal of TVM's cost model; the model here learns from the records, see docs/models.md",
        """
        auto_scheduler.cost_model.cost_model auto_scheduler.cost_model.xgb_model auto_scheduler.feature.unpack_feature
        autotvm.feature autotvm.tuner.model_based_tuner autotvm.tuner.sa_model_optimizer
        autotvm.tuner.xgboost_cost_model
        meta_schedule.cost_model.xgb_model.PackSum meta_schedule.cost_model.xgb_model.make_metric_sorter
        """,
    ),
    (
        ("an internal of TVM's measuring; builders and devices are started by the tuning run, see docs/tuning.md"),
        """
        auto_scheduler.measure.BuildFunc
        auto_scheduler.measure.local_build_worker auto_scheduler.measure.prepare_input_map
        auto_scheduler.measure.prepare_runner_args auto_scheduler.utils.PropagatingThread
        auto_scheduler.utils.call_func_with_thread auto_scheduler.utils.call_func_with_timeout
        auto_scheduler.utils.check_remote auto_scheduler.utils.deserialize_args
        auto_scheduler.utils.kill_child_processes auto_scheduler.utils.make_traceback_info
        auto_scheduler.utils.request_remote auto_scheduler.utils.serialize_args autotvm.measure.Executor
        autotvm.measure.executor autotvm.measure.measure_methods.check_remote
        autotvm.measure.measure_methods.gpu_verify_pass
        autotvm.measure.measure_methods.set_cuda_target_arch autotvm.measure.measure_methods.vtcm_verify_pass
        meta_schedule.runner.LocalRunnerFuture meta_schedule.runner.rpc_runner.RPCRunnerFuture
        meta_schedule.runner.utils meta_schedule.utils.get_global_func_on_rpc_session
        meta_schedule.utils.get_global_func_with_default_on_worker
        """,
    ),
    (
        (
            "tasks of a graph are found by `tunefarm tune` and by `meta_schedule`'s tuning of modules, see "
            "docs/tuning.md"
        ),
        """
        autotvm.task.TaskExtractEnv autotvm.task.extract_from_multiple_program autotvm.task.extract_from_program
        """,
    ),
    ("a log is thinned with `tunefarm export`, see docs/records.md", "auto_scheduler.measure_record.main"),
    (
        "weights are packed by the rules of the search, see docs/spaces.md",
        """
        auto_scheduler.LayoutRewriteOption auto_scheduler.get_shape_from_rewritten_layout
        auto_scheduler.remove_index_check auto_scheduler.rewrite_compute_body auto_scheduler.rewrite_tensor_shape
        """,
    ),
    (
        "rules of your own are `meta_schedule` schedule rules, see docs/meta_schedule.md",
        "auto_scheduler.PreloadCustomSketchRule",
    ),
    (
        "an internal of TVM's object system",
        """
        runtime.ObjectConvertible runtime.Scriptable
        runtime.script_printer
        """,
    ),
    ("paths into IR are made by `ir.structural` and printed in its errors", "runtime.object_path"),
    (
        "sessions of other machines are `disco.RemoteSession`, see docs/disco.md",
        "runtime.disco.SocketSession runtime.disco.process_pool",
    ),
    (
        "a whole search state is a trace here; `SearchTask` and `TaskScheduler` find and apply it",
        """
        auto_scheduler.loop_state.StateObject
        auto_scheduler.search_policy.SearchCallback
        """,
    ),
    (
        "what a task's inputs hold does not matter here: kernels are measured on random values",
        "auto_scheduler.register_task_input_check_func auto_scheduler.search_task",
    ),
    (
        "workload functions are registered by the program that tunes, in the process that does",
        "auto_scheduler.workload_registry",
    ),
    (
        "progress is shown by the run itself, see docs/tuning.md",
        """
        auto_scheduler.task_scheduler meta_schedule.logging
        """,
    ),
    ("spell it `auto_scheduler.SearchTask`", "auto_scheduler.auto_schedule auto_scheduler.create_task"),
    (
        "schedules of a graph's kernels come from the store, see docs/relax.md",
        """
        auto_scheduler.ApplyHistoryBestOrSample auto_scheduler.dispatcher.FallbackContext
        auto_scheduler.is_auto_scheduler_enabled
        autotvm.apply_fixed_config autotvm.register_topi_compute autotvm.register_topi_schedule
        autotvm.task.clear_fallback_cache autotvm.task.get_workload
        """,
    ),
    (
        "an internal of TVM's templates; `@autotvm.template` makes tasks, and counts their operations",
        "autotvm.create autotvm.task.task autotvm.tuner.index_based_tuner.IndexBaseTuner",
    ),
    (
        "rules of the search are those of docs/meta_schedule.md; the GPU's are chosen by the sketches",
        """
        meta_schedule.mutator.MutateThreadBinding meta_schedule.postproc meta_schedule.schedule
        meta_schedule.schedule_rule.AutoBind meta_schedule.schedule_rule.CrossThreadReduction
        meta_schedule.schedule_rule.MultiLevelTilingTensorCore meta_schedule.schedule_rule.MultiLevelTilingWideVector
        meta_schedule.schedule_rule.MultiLevelTilingWithIntrin meta_schedule.trace_apply
        """,
    ),
    ("searches of your own are strategies, see docs/extending.md", "meta_schedule.search_strategy.PySearchStrategy"),
    (
        "what is known of a task during a run goes to the callbacks, see docs/meta_schedule.md",
        "meta_schedule.task_scheduler.task_scheduler.TaskRecord",
    ),
    ("a text is plain; `show()` prints it", "runtime.script_printer"),
]
"""A reason, and the names or modules that it is for."""
