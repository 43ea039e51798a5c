"""Modules of Apache TVM that are parts of one module here.

Each shows the names of the module that it stands for.

`import tunefarm.meta_schedule.database.json_database` gives a module with the names of
`tunefarm.meta_schedule.database`. A refused module can be imported, too: asking it for a name says why it is
refused. A refused name can be imported by `from module import name`: using it says why. A program that never uses it
runs.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import NoReturn

_SHOWN = {
    "arith": "bound int_set int_solver iter_affine_map pattern",
    "auto_scheduler": "cost_model loop_state relay_integration testing",
    "auto_scheduler.cost_model": "cost_model xgb_model",
    "autotvm": "feature graph_tuner tophub",
    "autotvm.graph_tuner": (
        "base_graph_tuner dynamic_programming_stage dynamic_programming_tuner pbqp_tuner utils "
        "utils.traverse_graph utils.utils"
    ),
    "autotvm.measure": "executor local_executor",
    "autotvm.task": "code_hash relay_integration topi_integration",
    "autotvm.tuner": "droplet_tuner model_based_tuner sa_model_optimizer tuner",
    "contrib": (
        "cublas cublaslt cudnn cutlass download emcc hipcc miopen mkl mps nnpack peak rocblas rocm sparse spirv "
        "stackvm tedd thrust xcode"
    ),
    "dlight": "base base.analysis base.common_schedules base.schedule_rule base.transform base.utils",
    "dlight.gpu": ("base fallback gemv general_reduction low_batch_gemv matmul reduction rmsnorm transpose utils"),
    "dlight.cpu": "gemv reduction",
    "ir": (
        "adt affine_type attrs diagnostics global_info global_var_supply json_compact memory_pools name_supply "
        "supply tensor_type type type_relation"
    ),
    "meta_schedule": ("extracted_task logging schedule trace_apply tune"),
    "meta_schedule.builder": "builder local_builder",
    "meta_schedule.cost_model": "cost_model metric mlp_model random_model xgb_model",
    "meta_schedule.database": (
        "database json_database memory_database ordered_union_database schedule_fn_database union_database"
    ),
    "meta_schedule.feature_extractor": "feature_extractor per_store_feature random_feature_extractor",
    "meta_schedule.measure_callback": "add_to_database measure_callback remove_build_artifact update_cost_model",
    "meta_schedule.mutator": (
        "mutate_compute_location mutate_parallel mutate_thread_binding mutate_tile_size mutate_unroll mutator"
    ),
    "meta_schedule.postproc": (
        "disallow_async_strided_mem_copy disallow_dynamic_loop postproc rewrite_cooperative_fetch rewrite_layout "
        "rewrite_parallel_vectorize_unroll rewrite_reduction_block rewrite_tensorize rewrite_unbound_block "
        "verify_gpu_code verify_vtcm_limit"
    ),
    "meta_schedule.runner": "config runner utils",
    "meta_schedule.schedule": "cpu cuda cuda.layout_transform generic x86",
    "meta_schedule.schedule_rule": (
        "add_rfactor apply_custom_rule auto_bind auto_inline cross_thread_reduction multi_level_tiling "
        "parallel_vectorize_unroll random_compute_location schedule_rule"
    ),
    "meta_schedule.search_strategy": "evolutionary_search replay_func replay_trace search_strategy",
    "meta_schedule.space_generator": "post_order_apply schedule_fn space_generator space_generator_union",
    "meta_schedule.task_scheduler": "gradient_based round_robin task_scheduler",
    "relax": "exec_builder pipeline vm_build",
    "relay.backend": "executor te_compiler",
    "relax.frontend.nn": "core exporter modules subroutine visitor",
    "relax.testing": "ast_printer",
    "rpc": "base minrpc server_ios_launcher tornado_util",
    "runtime": "executor executor.aot_executor name_transforms object_path profiler_vm script_printer support",
    "runtime.disco": "process_pool session",
    "script": "parser",
    "script.ir_builder.ir": "frame ir",
    "script.ir_builder.tir": "frame ir",
    "script.parser": (
        "core core.diagnostics core.dispatch core.doc core.doc_core core.entry core.error core.evaluator core.parser "
        "core.utils ir.entry ir.parser tir.entry tir.operation tir.parser"
    ),
    "target": "compilation_config datatype intrin",
    "te": "autodiff",
    "te.hybrid": "calls module parser preprocessor utils",
    "testing": "aot usmp utils",
    "tir": (
        "data_layout generic tensor_intrin.arm_cpu tensor_intrin.cuda tensor_intrin.dot_product_common "
        "tensor_intrin.hexagon tensor_intrin.hip tensor_intrin.rocm "
        "usmp usmp.analysis usmp.analysis.analysis usmp.transform usmp.transform.transform usmp.utils"
    ),
    "tir.schedule": "analysis transform",
    "topi": "argwhere einsum scan scatter searchsorted signal sort sparse tensor unique",
    "topi.arm_cpu": "conv2d depthwise_conv2d injective",
    "topi.cuda": "conv2d conv2d_nhwc dense injective nn pooling reduction softmax",
    "topi.generic": "conv2d default injective nn",
    "topi.image": "dilation2d grid_sample resize",
    "topi.nn": (
        "batch_matmul batch_norm batch_to_space_nd bnn conv1d conv1d_transpose conv2d conv2d_transpose conv3d "
        "conv3d_transpose correlation deformable_conv2d dense depth_to_space depthwise_conv2d dilate elemwise "
        "fifo_buffer flatten group_norm instance_norm layer_norm local_response_norm loss lstm mapping pad pooling "
        "qnn rms_norm softmax space_to_batch_nd space_to_depth sparse upsampling utils winograd_util"
    ),
    "topi.vision": "nms nms_util rcnn rcnn.roi_align rcnn.roi_pool ssd ssd.multibox",
    "topi.x86": "batch_matmul conv2d dense injective nn pooling reduction",
}
"""A module that is here, or that stands for one, and its parts in Apache TVM."""

_MOVED = {
    "contrib.debugger.debug_runtime": "contrib.debugger.debug_executor",
    "contrib.graph_runtime": "contrib.graph_executor",
    "runtime.vm": "runtime.relax_vm",
    "script.parser._core": "script",
    "script.parser.ir": "script.ir",
    "script.parser.relax": "script.relax",
    "script.parser.tir": "script.tir",
    "tirx.script": "script.tirx",
}
"""Modules that have another path here."""

PARTS = {
    f"{home}.{part}": f"{home}.{part}".rpartition(".")[0] for home, parts in _SHOWN.items() for part in parts.split()
}
PARTS |= _MOVED
"""The modules found here, and the modules whose names they show; paths are without `tunefarm.`."""

_DIALECT = "__script_namespace__"
"""The name by which the reader of TVMScript knows the module of a dialect."""

_REFUSED = "refused"
"""The origin of what stands for a refused name."""


class RefusedName(ModuleType):
    """A stand-in for a refused name that a program imports: every use raises an error that says why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise NotImplementedError(self.__doc__)

    def __mro_entries__(self, _bases: tuple[object, ...]) -> NoReturn:
        raise NotImplementedError(self.__doc__)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(self.__doc__)


class FunctionModule(ModuleType):
    """A module that has the name of a function beside it: a call of it calls the function.

    Python binds the module where the function was.
    """

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        super().__init__(name, function.__doc__)
        self.__wrapped__ = function

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.__wrapped__(*args, **kwargs)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules of `PARTS`. It is asked last: files come before it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, part = fullname.partition(".")
        if top != "tunefarm":
            return None
        if part in PARTS:
            return ModuleSpec(fullname, self, is_package=True)
        last = part.rpartition(".")[2]
        if last.startswith("__") or self._reason(part) is None:
            return None
        return ModuleSpec(fullname, self, origin=_REFUSED, is_package=True)  # its parts are refused, too

    def __init__(self, absent: Callable[[str, str], str], reason: Callable[[str], str | None]) -> None:
        self._absent = absent
        self._reason = reason

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make what stands for a refused name or hides a function; let Python make the other modules."""
        module, _, name = spec.name.rpartition(".")
        if spec.origin == _REFUSED:
            return RefusedName(spec.name, self._absent(module, name))
        hidden = vars(sys.modules[module]).get(name)
        return FunctionModule(spec.name, hidden) if isinstance(hidden, FunctionType) else None

    def exec_module(self, module: ModuleType) -> None:
        if isinstance(module, RefusedName):
            return
        path = module.__name__.removeprefix("tunefarm.")
        home = f"tunefarm.{PARTS[path]}"
        module.__doc__ = f"The names of `{home}`."
        is_shown = PARTS[path] not in PARTS or PARTS[path] in _MOVED

        def lookup(name: str) -> object:
            shown = is_shown and (not name.startswith("__") or name == _DIALECT)
            found = getattr(importlib.import_module(home), name, None) if shown else None
            if found is None:
                raise AttributeError(self._absent(module.__name__, name))
            return found

        vars(module)["__getattr__"] = lookup


def part(module: str, name: str) -> ModuleType | None:
    """Return the part `name` of a module, made here or a file that nobody has imported.
    None where it has none."""
    path = f"{module}.{name}"
    if name.startswith("_") or not hasattr(sys.modules.get(module), "__path__"):
        return None
    spec = importlib.util.find_spec(path)
    return None if spec is None or spec.origin == _REFUSED else importlib.import_module(path)


def install(absent: Callable[[str, str], str], reason: Callable[[str], str | None]) -> None:
    """Let Python find the modules. `absent` and `reason` say why one of them does not have a name."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder(absent, reason))
