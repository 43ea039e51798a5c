"""Modules that programs import by their full path, and the names they find there."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from types import FunctionType, ModuleType

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.build import InputError
from tests.kit.tvm_names.installed import tvm_installed
from tests.kit.tvm_names.standing import field
from tunefarm import te, tir
from tunefarm.submodules import PARTS

SUBMODULES = {
    "autotvm.measure.measure": "MeasureInput MeasureResult measure_option",
    "autotvm.task.task": "Task template",
    "autotvm.tuner.ga_tuner": "GATuner",
    "autotvm.tuner.index_based_tuner": "GridSearchTuner RandomTuner",
    "autotvm.tuner.xgboost_tuner": "XGBTuner",
    "contrib.nvcc": "have_fp16 parse_compute_version",
    "contrib.tar": "tar",
    "contrib.utils": "tempdir",
    "driver.build_module": "build lower compile",
    "ir.base": "Node Span structural_equal save_json",
    "ir.container": "Array Map",
    "ir.expr": "GlobalVar PrimExpr Range RelaxExpr",
    "ir.function": "BaseFunc",
    "ir.instrument": "PassInstrument",
    "ir.module": "IRModule",
    "ir.op": "Op",
    "ir.transform": "PassContext Sequential module_pass",
    "contrib.graph_executor": "GraphModule create",
    "contrib.debugger.debug_executor": "GraphModuleDebug create",
    "relax.frontend.nn.op": "matmul wrap_nested",
    "relax.frontend.nn.spec": "MethodSpec ModuleSpec",
    "relay.analysis": "free_vars free_type_vars",
    "relay.backend.executor_factory": "GraphExecutorFactoryModule",
    "relay.backend.runtime": "Runtime",
    "relay.build_module": "build bind_params_by_name",
    "relay.expr": "Call Var const var",
    "relay.function": "Function",
    "relay.nn": "bias_add conv2d dense sparse_dense",
    "relay.op": "abs get nn",
    "relay.testing.resnet": "get_workload",
    "relay.testing.vgg": "get_workload",
    "relay.ty": "TensorType FuncType",
    "relax.testing.vm": "check_saved_func",
    "script.tirx": "prim_func Buffer",
    "rpc.client": "connect connect_tracker",
    "rpc.server": "Server",
    "rpc.tracker": "Tracker",
    "runtime.container": "Array Map ShapeTuple String",
    "runtime.module": "Module load_module BenchmarkResult enabled",
    "runtime.ndarray": "NDArray array cpu device empty",
    "runtime.object": "Object",
    "runtime.object_generic": "ObjectGeneric convert_to_object",
    "runtime.packed_func": "PackedFunc",
    "runtime.params": "load_param_dict save_param_dict",
    "runtime.profiling": "Report profile_function",
    "target.generic_func": "GenericFunc",
    "target.tag": "list_tags register_tag",
    "target.target": "Target cuda llvm",
    "te.operation": "compute placeholder thread_axis create_prim_func",
    "te.schedule": "Schedule Stage create_schedule",
    "te.tensor": "ComputeOp PlaceholderOp Tensor",
    "te.tensor_intrin": "decl_tensor_intrin",
    "tir.analysis": "expr_deep_equal verify_memory",
    "tir.analysis.analysis": "undefined_vars",
    "tir.buffer": "Buffer decl_buffer",
    "tir.expr": "Add IntImm IterVar Var",
    "tir.function": "IndexMap PrimFunc TensorIntrin",
    "tir.ir_builder": "create",
    "tir.schedule": "BlockRV LoopRV Schedule ScheduleError Trace",
    "tir.schedule.schedule": "Schedule",
    "tir.schedule.trace": "Trace",
    "tir.stmt": "Block For ForKind stmt_seq",
    "tir.stmt_functor": "ir_transform post_order_visit substitute",
    "tir.transform": "Apply Simplify prim_func_pass",
    "tir.transform.function_pass": "prim_func_pass",
    "tir.transform.transform": "UnrollLoop",
    "topi.broadcast": "add maximum",
    "topi.image": "resize2d",
    "topi.math": "exp tanh",
    "topi.nn": "dense conv2d_nchw relu",
    "topi.reduction": "argmax sum",
    "topi.transform": "concatenate strided_slice",
    "topi.vision": "non_max_suppression",
}  # fmt: skip


@pytest.mark.parametrize("path", SUBMODULES)
def test_a_submodule_is_imported_by_its_path(path: str) -> None:
    module = importlib.import_module(f"tunefarm.{path}")
    assert module.__doc__
    assert set(SUBMODULES[path].split()) <= set(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("path", [p for p in SUBMODULES if not p.startswith("topi.") and p != "contrib.tar"])
def test_a_submodule_s_names_are_those_of_its_package(path: str) -> None:
    package = importlib.import_module(f"tunefarm.{path.rpartition('.')[0]}")
    module = importlib.import_module(f"tunefarm.{path}")
    for name in SUBMODULES[path].split():
        assert getattr(package, name, getattr(module, name)) is getattr(module, name)


def add_one() -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="B")
    return a, b, te.create_schedule(b.op)


def check_add_one(function: object) -> None:
    given, out = tvm.nd.array(np.arange(16, dtype="float32").reshape(4, 4)), tvm.nd.empty((4, 4))
    assert callable(function)
    function(given, out)
    np.testing.assert_array_equal(out.numpy(), given.numpy() + 1)


def test_build_takes_both_argument_orders() -> None:
    a, b, s = add_one()
    binds = {a: tir.decl_buffer((4, 4), "float32", "input")}
    check_add_one(tvm.build(s, [a, b], "llvm", None, "add")["add"])
    check_add_one(tvm.build(s, [a, b], "llvm", None, "add", binds)["add"])
    check_add_one(tvm.build(s, [a, b], "llvm", None, None, "add", binds)["add"])
    cpp = tvm.relay.backend.Runtime("cpp", {"system-lib": False})
    check_add_one(tvm.driver.build(s, [a, b], "llvm", "llvm", runtime=cpp, name="add")["add"])
    with pytest.raises(InputError, match="two names"):
        tvm.build(s, [a, b], "llvm", None, "add", "sub")
    with pytest.raises(InputError, match="string"):
        tvm.build(s, [a, b], "llvm", None, None, binds)


def test_args_may_be_the_buffers_that_binds_gives() -> None:
    a, b, s = add_one()
    binds = {a: tir.decl_buffer((4, 4), "float32", "input"), b: tir.decl_buffer((4, 4), "float32", "output")}
    check_add_one(tvm.build(s, list(binds.values()), binds=binds))
    check_add_one(tvm.build(s, [a, binds[b]], binds=binds))


def test_reductions_show_their_signature() -> None:
    assert str(inspect.signature(te.sum)).replace("'Any'", "Any") == (
        "(expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any) -> Any"
    )


def test_objects_have_a_common_base() -> None:
    base = tvm.runtime.Object
    for kind in (tvm.runtime.String, tvm.runtime.ShapeTuple, tvm.runtime.Report, tvm.nd.NDArray, tir.Var, tvm.IRModule):
        assert issubclass(kind, base)
    items = tvm.runtime.convert_to_object([1, "a", {"b": (2.0,)}])
    assert isinstance(items, base)
    assert isinstance(items, tvm.ir.Array)
    assert isinstance(items[0], tir.IntImm)
    assert isinstance(items[1], tvm.String)
    assert isinstance(items[2], tvm.ir.Map)
    assert isinstance(items[2], base)
    assert isinstance(items[2]["b"][0], tir.FloatImm)
    assert not isinstance([1], base)


def test_relay_says_what_to_use_instead() -> None:
    with pytest.raises(AttributeError, match=r"relay\.ScopeBuilder.*relax\.BlockBuilder"):
        _ = tvm.relay.ScopeBuilder
    with pytest.raises(ValueError, match="crt"):
        tvm.relay.backend.Runtime("crt")


def test_errors_have_the_names_and_kinds_that_programs_catch() -> None:
    with pytest.raises(AttributeError, match=r"no\.such"), tvm.transform.PassContext(config={"no.such": 1}):
        pass
    with pytest.raises(tvm.error.InternalError):
        tvm.Target.current(allow_none=False)
    with pytest.raises(tvm.error.DiagnosticError):
        tvm.script.from_source("def broken(")
    assert issubclass(tvm.error.RPCSessionTimeoutError, TimeoutError)
    assert tir.ScheduleError is tvm.tir.schedule.ScheduleError is tvm.error.ScheduleError


def test_warps_of_metal_and_opencl_are_one_wide() -> None:
    assert [tvm.device(kind).warp_size for kind in ("metal", "opencl", "cpu")] == [1, 1, None]


def test_every_module_of_tvm_is_imported_by_its_path() -> None:
    lists = [field()["modules"].split()]
    missing = [path for paths in lists for path in paths if importlib.import_module(f"tunefarm.{path}") is None]
    assert not missing


@pytest.mark.parametrize(
    ("path", "name", "why"),
    [
        ("contrib.msc.core.runtime", "BaseJIT", "an extra of TVM"),
        ("contrib.graph_runtime", "no_such", "no_such"),
        ("meta_schedule.testing.relay_workload", "get_network", r"relay\.testing"),
        ("te._ffi_api", "Tensor", "public names"),
        ("exec.disco_worker", "main", r"docs/disco\.md"),
    ],
)
def test_a_refused_module_is_imported_and_says_why_its_names_are_not_there(path: str, name: str, why: str) -> None:
    module = importlib.import_module(f"tunefarm.{path}")
    with pytest.raises(AttributeError, match=why):
        getattr(module, name)


def test_older_paths_of_modules_show_the_names_of_the_newer() -> None:
    graph = importlib.import_module("tunefarm.contrib.graph_runtime")
    assert graph.create is importlib.import_module("tunefarm.contrib.graph_executor").create
    core = importlib.import_module("tunefarm.script.parser._core")
    assert core.parse is importlib.import_module("tunefarm.script.parser").parse


def test_a_part_may_only_have_the_name_of_a_function() -> None:
    """Importing a part binds its name in the module, over what had that name."""

    def bound(path: str) -> object:
        home, _, name = path.rpartition(".")
        return vars(importlib.import_module(f"tunefarm.{home}")).get(name)

    assert [path for path in PARTS if not isinstance(bound(path), ModuleType | FunctionType | None)] == []


def test_a_part_that_hides_a_function_is_called_as_the_function() -> None:
    data, weight = tvm.te.placeholder((1, 3, 8, 8)), tvm.te.placeholder((4, 3, 3, 3))
    signature = inspect.signature(tvm.topi.nn.conv2d)
    assert importlib.import_module("tunefarm.topi.nn.conv2d").conv2d_nchw is tvm.topi.nn.conv2d_nchw
    assert isinstance(tvm.topi.nn.conv2d, ModuleType)
    assert tuple(tvm.topi.nn.conv2d(data, weight, 1, 0, 1).shape) == (1, 4, 6, 6)
    assert inspect.signature(tvm.topi.nn.conv2d) == signature
    for path in ("topi.x86.dense", "topi.cuda.injective", "topi.generic.nn", "topi.arm_cpu.conv2d"):
        assert callable(importlib.import_module(f"tunefarm.{path}").schedule_injective)
    assert importlib.import_module("tunefarm.topi.vision.rcnn").roi_align_nchw is tvm.topi.vision.roi_align_nchw
    assert importlib.import_module("tunefarm.relay.backend.executor").Executor is tvm.relay.backend.Executor
    mali = importlib.import_module("tunefarm.topi.mali")
    with pytest.raises(AttributeError, match="no backend for this hardware"):
        _ = mali.schedule_conv2d


def test_a_part_shows_the_names_of_its_module_and_says_why_others_are_not_there() -> None:
    parts = importlib.import_module("tunefarm.meta_schedule.database.json_database")
    assert parts.JSONDatabase is tvm.meta_schedule.database.JSONDatabase
    assert tvm.meta_schedule.database.json_database is parts
    assert importlib.import_module("tunefarm.script.parser.tir").prim_func is tvm.script.tir.prim_func
    for path, name in (
        ("relax.exec_builder", "ExecBuilder"), ("relax.frontend.nn.core", "Tensor"), ("relax.pipeline", "get_pipeline"),
        ("relax.testing.ast_printer", "dump_ast"), ("relax.vm_build", "build"), ("runtime.vm", "VirtualMachine"),
    ):  # fmt: skip
        shown = importlib.import_module(f"tunefarm.{path}")
        assert getattr(shown, name) is getattr(importlib.import_module(f"tunefarm.{PARTS[path]}"), name)
    with pytest.raises(AttributeError, match="cost model"):
        _ = tvm.autotvm.tuner.sa_model_optimizer.SimulatedAnnealingOptimizer
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tunefarm.meta_schedule.database.no_such")
    assert not hasattr(tvm.meta_schedule.database, "no_such")


def test_what_targets_and_llvm_tell() -> None:
    arm = tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76").features
    assert [arm.has_asimd, arm.has_dotprod, arm.has_matmul_i8, arm.has_sve] == [True, True, False, False]
    small = tvm.target.Target("c -mcpu=cortex-m55").features
    assert small.has_dsp
    assert small.has_mve
    assert tvm.target.Target("nvidia/jetson-nano").attrs["registers_per_block"] == 32768
    assert tvm.target.Target("nvidia/nvidia-a100").l2_cache_size_bytes == 40 << 20
    assert "x86-64" in tvm.target.codegen.llvm_get_targets()
    assert "skylake" in tvm.target.codegen.llvm_get_cpu_archlist(tvm.target.Target("llvm -mtriple=x86_64-linux"))
    assert tvm.target.codegen.llvm_get_system_x86_vendor() in ("intel", "amd", "")
    assert tvm.target.detect_target.detect_target_from_device("cpu").kind == "llvm"
    assert "supports_float16" in tvm.target.Target("vulkan").kind.options
    tags = tvm.target.list_tags()
    assert tags["nvidia/nvidia-a100"].arch == "sm_80"
    assert "no/such" not in tags
    assert len(tags) == len(list(tags)) > 200
    mine = tvm.target.register_tag("test-submodules/box", {"kind": "llvm", "num-cores": 3}, override=True)
    assert tags["test-submodules/box"] == mine
    assert mine.num_cores == 3


def test_texts_are_read_by_the_names_of_the_parser_s_modules() -> None:
    """Also once the module `script.parser.tir` itself was imported: it stands for the dialect as `script.tir` does."""
    dialects = [importlib.import_module(f"tunefarm.script.parser.{name}") for name in ("ir", "tir")]
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + T.float32(1)
"""
    module = tvm.script.from_source(text, extra_vars=dict(zip("IT", dialects)))
    check = tvm.build(module, target="llvm")
    out = tvm.nd.empty((4,))
    check(tvm.nd.array(np.arange(4, dtype="float32")), out)
    assert out.numpy().tolist() == [1, 2, 3, 4]


@pytest.fixture
def tvm_is_tunefarm() -> Iterator[None]:
    with tvm_installed():
        yield


def test_modules_are_the_same_under_the_names_of_tvm_and_found_as_before_under_their_own(tvm_is_tunefarm: None) -> None:
    for name, module in (("tunefarm", tvm), ("tunefarm.te", te)):
        assert importlib.import_module(name.replace("tunefarm", "tvm")) is module
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.name == name
        assert spec.submodule_search_locations


def test_a_module_that_is_not_there_is_not_found_as_tvm(tvm_is_tunefarm: None) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tvm\.no_such_module"):
        importlib.import_module("tvm.no_such_module")
