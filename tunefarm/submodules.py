"""Modules of Apache TVM that are parts of one module here: each shows the names of the module that it stands for.

`import tunefarm.meta_schedule.database.json_database` gives a module with the names of
`tunefarm.meta_schedule.database`. A module that is refused can be imported too: asking it for a name says why.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_SHOWN = {
    "arith": "bound int_set int_solver iter_affine_map pattern",
    "auto_scheduler": "cost_model feature loop_state relay_integration testing",
    "auto_scheduler.cost_model": "cost_model xgb_model",
    "autotvm": "database env feature graph_tuner tophub",
    "autotvm.graph_tuner": (
        "base_graph_tuner dynamic_programming_stage dynamic_programming_tuner pbqp_tuner utils "
        "utils.traverse_graph utils.utils"
    ),
    "autotvm.measure": "executor local_executor",
    "autotvm.task": "code_hash relay_integration topi_integration",
    "autotvm.tuner": "droplet_tuner metric model_based_tuner sa_model_optimizer tuner xgboost_cost_model",
    "dlight": "base base.analysis base.common_schedules base.schedule_rule base.transform base.utils",
    "dlight.gpu": ("base fallback gemv general_reduction low_batch_gemv matmul reduction rmsnorm transpose utils"),
    "dlight.cpu": "gemv reduction",
    "ir": (
        "adt affine_type attrs diagnostics global_info global_var_supply json_compact memory_pools name_supply "
        "supply tensor_type type type_relation"
    ),
    "meta_schedule": (
        "cost_model extracted_task feature_extractor logging profiler schedule task_scheduler trace_apply tune"
    ),
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
    "meta_schedule.runner": "config local_runner rpc_runner runner utils",
    "meta_schedule.schedule": "cpu cuda cuda.layout_transform generic x86",
    "meta_schedule.schedule_rule": (
        "add_rfactor apply_custom_rule auto_bind auto_inline cross_thread_reduction multi_level_tiling "
        "parallel_vectorize_unroll random_compute_location schedule_rule"
    ),
    "meta_schedule.search_strategy": "evolutionary_search replay_func replay_trace search_strategy",
    "meta_schedule.space_generator": "post_order_apply schedule_fn space_generator space_generator_union",
    "meta_schedule.task_scheduler": "gradient_based round_robin task_scheduler",
    "rpc": "base minrpc proxy server_ios_launcher tornado_util",
    "runtime": ("executor executor.aot_executor name_transforms object_path profiler_vm script_printer support vm"),
    "runtime.disco": "process_pool session",
    "script": "parser printer",
    "script.ir_builder.ir": "frame ir",
    "script.ir_builder.tir": "frame ir",
    "script.parser": (
        "core core.diagnostics core.dispatch core.doc core.doc_core core.entry core.error core.evaluator core.parser "
        "core.utils ir.entry ir.parser tir.entry tir.operation tir.parser"
    ),
    "script.printer": "doc doc_printer",
    "target": "compilation_config datatype intrin virtual_device x86",
    "te": "autodiff hybrid hybrid.calls hybrid.module hybrid.parser hybrid.preprocessor hybrid.runtime hybrid.utils",
    "tir": (
        "block_dependence_info block_scope data_layout generic tensor_intrin tensor_intrin.arm_cpu tensor_intrin.cuda "
        "tensor_intrin.dot_product_common tensor_intrin.hexagon tensor_intrin.hip tensor_intrin.rocm tensor_intrin.x86 "
        "usmp usmp.analysis usmp.analysis.analysis usmp.transform usmp.transform.transform usmp.utils"
    ),
    "tir.schedule": "analysis instruction state transform",
}
"""A module that is here, or that stands for one, and its parts in Apache TVM."""

_MOVED = {"script.parser.ir": "script.ir", "script.parser.relax": "script.relax", "script.parser.tir": "script.tir"} | {
    "tirx.script": "script.tirx"
}
"""Modules that have another path here."""

PARTS = {
    f"{home}.{part}": f"{home}.{part}".rpartition(".")[0] for home, parts in _SHOWN.items() for part in parts.split()
}
PARTS |= _MOVED
"""The modules found here, and the modules whose names they show; paths are without `tunefarm.`."""

_HOMES = {part.rpartition(".")[0] for part in PARTS}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules of `PARTS`. It is asked last: files come before it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, part = fullname.partition(".")
        if top != "tunefarm" or part not in PARTS:
            return None
        return ModuleSpec(fullname, self, is_package=part in _HOMES)

    def __init__(self, absent: Callable[[str, str], str]) -> None:
        self._absent = absent

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__.removeprefix("tunefarm.")
        home = f"tunefarm.{PARTS[path]}"
        module.__doc__ = f"The names of `{home}`."
        is_shown = PARTS[path] not in PARTS or PARTS[path] in _MOVED

        def lookup(name: str) -> object:
            shown = is_shown and not name.startswith("__")
            found = getattr(importlib.import_module(home), name, None) if shown else None
            if found is None:
                raise AttributeError(self._absent(module.__name__, name))
            return found

        vars(module)["__getattr__"] = lookup


def is_home(module: str) -> bool:
    """Whether a module of tunefarm has parts here."""
    return module.removeprefix("tunefarm.") in _HOMES


def part(module: str, name: str) -> ModuleType | None:
    """The part `name` of a module, be it made here or a file that nobody has imported; None where it has none."""
    path = f"{module}.{name}"
    if name.startswith("_") or not hasattr(sys.modules.get(module), "__path__"):
        return None
    return importlib.import_module(path) if importlib.util.find_spec(path) is not None else None


def install(absent: Callable[[str, str], str]) -> None:
    """Let Python find the modules; `absent` says why one of them does not have a name."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder(absent))
