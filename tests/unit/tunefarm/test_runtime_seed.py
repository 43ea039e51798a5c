"""Everything the runtime documents name is under `tvm.runtime`, and does what they say of it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te
from tunefarm.runtime import ObjectPath, ObjectPathPair

CLASSES = [
    "PackedFunc", "Object", "ObjectPath", "ObjectPathPair", "ObjectGeneric", "DataType", "DataTypeCode", "Device",
    "Module", "Report", "String", "ShapeTuple",
]  # fmt: skip
FUNCTIONS = {
    "num_threads": "", "convert_to_object": "value, span=None", "convert": "value, span=None",
    "const": "value, dtype=None, span=None", "device": "dev_type, dev_id=0", "load_module": "path, fmt=''",
    "enabled": "target", "system_lib": "symbol_prefix=''", "load_static_library": "path, func_names",
    "save_param_dict": "params",
    "load_param_dict": "param_bytes",
    **dict.fromkeys(
        ["cpu", "cuda", "gpu", "opencl", "cl", "vulkan", "metal", "mtl", "vpi", "rocm", "ext_dev"], "dev_id=0"
    ),
}  # fmt: skip
METHODS = {
    ("Module", "implements_function"): "name, query_imports=False",
    ("Module", "get_function"): "name, query_imports=False",
    ("Module", "import_module"): "module",
    ("Module", "get_source"): "fmt=''",
    ("Module", "save"): "file_name, fmt=''",
    ("Module", "time_evaluator"): (
        "func_name, dev, number=10, repeat=1, min_repeat_ms=0, limit_zero_time_iterations=100, "
        "cooldown_interval_ms=0, repeats_to_cooldown=1, f_preproc=''"
    ),
    ("Module", "export_library"): "file_name, fcompile=None, addons=None, workspace_dir=None, **kwargs",
    ("Device", "texture_spatial_limit"): "",
    ("Device", "create_raw_stream"): "",
    ("Device", "free_raw_stream"): "stream",
    ("Device", "set_raw_stream"): "stream",
    ("Device", "sync"): "stream=None",
    ("Report", "csv"): "",
    ("Report", "table"): "sort=True, aggregate=True, col_sums=True",
    ("Report", "json"): "",
    ("ObjectGeneric", "asobject"): "",
}
PROPERTIES = {
    "Module": ["entry_func", "type_key", "format", "imported_modules", "is_dso_exportable"],
    "Device": [
        "exist", "max_threads_per_block", "warp_size", "max_shared_memory_per_block", "compute_version",
        "device_name", "max_clock_rate", "multi_processor_count", "max_thread_dimensions", "api_version",
        "driver_version",
    ],
}  # fmt: skip


def parameters(function) -> str:
    signature = inspect.signature(function)
    shown = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=shown, return_annotation=inspect.Signature.empty))[1:-1]


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    assert inspect.isclass(getattr(tvm.runtime, name))
    assert name in tvm.runtime.__all__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    assert parameters(getattr(tvm.runtime, name)) == FUNCTIONS[name]
    assert name in tvm.runtime.__all__


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_methods(owner, name):
    assert parameters(getattr(getattr(tvm.runtime, owner), name)) == METHODS[owner, name]


@pytest.mark.parametrize(("owner", "name"), [(c, n) for c, names in PROPERTIES.items() for n in names])
def test_properties(owner, name):
    assert not inspect.isfunction(inspect.getattr_static(getattr(tvm.runtime, owner), name))


def test_report_and_shape_and_string_constructors():
    assert parameters(tvm.runtime.Report) == "calls, device_metrics, configuration"
    assert inspect.signature(tvm.runtime.Report.from_json).parameters.keys() == {"s"}
    report = tvm.runtime.Report([{"Name": tvm.runtime.String("add")}], {}, {})
    assert tvm.runtime.Report.from_json(report.json()).csv() == report.csv()
    assert tvm.runtime.ShapeTuple([2, 3]) == (2, 3)
    assert tvm.runtime.String("text") == "text"
    assert tvm.runtime.DataType("int8x4").lanes == 4


def test_the_documents_examples():
    assert tvm.device("cpu", 1) == tvm.cpu(1)
    assert tvm.device("cuda", 0) == tvm.cuda(0)
    assert tvm.runtime.enabled("gpu") == tvm.gpu().exist
    arr0, arr1 = (tvm.nd.array(np.full(3, i, "float32")) for i in range(2))
    param_bytes = tvm.runtime.save_param_dict({"param0": arr0, "param1": arr1})
    assert tvm.runtime.load_param_dict(param_bytes)["param1"].numpy().tolist() == [1, 1, 1]


# -- packed functions --------------------------------------------------------------------------------------
def test_modules_and_the_registry_give_packed_functions():
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1, name="B")
    module = tvm.build(te.create_schedule(b.op), [a, b], target="llvm", name="plus_one")

    @tvm.register_func("test_runtime_seed.twice")
    def twice(x):
        """Twice as much."""
        return 2 * x

    try:
        found = tvm.get_global_func("test_runtime_seed.twice")
        for function in (module["plus_one"], module.entry_func, found, twice, tvm.runtime.convert(len)):
            assert isinstance(function, tvm.runtime.PackedFunc)
        assert found is twice
        assert (found(4), found(x=4), found("ab")) == (8, 8, "abab")
        assert (found.__name__, found.__doc__) == ("twice", "Twice as much.")
    finally:
        tvm.runtime.remove_global_func("test_runtime_seed.twice")


def test_a_packed_function_of_ones_own():
    function = tvm.runtime.PackedFunc(lambda *args: args)
    assert isinstance(function, tvm.runtime.PackedFunc)
    assert function(1, "two", None) == (1, "two", None)
    assert tvm.runtime.convert(function) is function
    with pytest.raises(tvm.TVMError, match="made of a Python function, not of 3"):
        tvm.runtime.PackedFunc(3)


def test_an_error_in_a_packed_function_reaches_the_caller():
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tvm.runtime.convert(fail)()


# -- paths -------------------------------------------------------------------------------------------------
def test_steps_of_a_path():
    root = ObjectPath.root()
    path = root.attr("body").array_index(2).map_value("k")
    assert str(path) == "<root>.body[2]['k']"
    assert (len(root), len(path)) == (1, 4)
    assert path.parent == root.attr("body").array_index(2)
    assert root.parent is None
    assert path == root.attr("body").array_index(2).map_value("k")
    assert len({path, path.get_prefix(4), path.get_prefix(3)}) == 2
    assert path != root.attr("body").missing_array_element(2).map_value("k")
    assert str(ObjectPath.root("mod").attr(None).missing_array_element(1)).startswith("mod.<unknown attribute>[<miss")
    assert str(root.missing_map_entry()) == "<root>[<missing entry>]"


def test_prefixes():
    root = ObjectPath.root()
    path = root.attr("a").attr("b")
    assert path.get_prefix(1) == root
    assert root.attr("a").is_prefix_of(path)
    assert path.is_prefix_of(path)
    assert not path.is_prefix_of(root)
    assert not root.attr("b").is_prefix_of(path)
    for length in (0, 4):
        with pytest.raises(tvm.TVMError, match="prefixes of 1 to 3 steps"):
            path.get_prefix(length)


ROOT = ObjectPath.root()


@pytest.mark.parametrize(
    ("left", "right", "lhs_path", "rhs_path"),
    [
        ([1, 2], [1, 3], ROOT.array_index(1), ROOT.array_index(1)),
        ([1, 2], [1], ROOT.array_index(1), ROOT.missing_array_element(1)),
        ([1], [1, 2], ROOT.missing_array_element(1), ROOT.array_index(1)),
        ({"a": [0]}, {"a": [1]}, ROOT.map_value("a").array_index(0), ROOT.map_value("a").array_index(0)),
        ({"a": 1}, {}, ROOT.map_value("a"), ROOT.missing_map_entry()),
        ({}, {"a": 1}, ROOT.missing_map_entry(), ROOT.map_value("a")),
    ],
)
def test_where_two_objects_differ_first(left, right, lhs_path, rhs_path):
    assert tvm.ir.get_first_structural_mismatch(left, right) == ObjectPathPair(lhs_path, rhs_path)


def test_where_two_expressions_differ_first():
    x = tvm.tir.Var("x", "int32")
    found = tvm.ir.get_first_structural_mismatch(x + 1, x + 2)
    assert found.lhs_path == found.rhs_path == ROOT.attr("b").attr("value")
    assert tvm.ir.get_first_structural_mismatch(x + 1, x + 1) is None


def test_kernels_are_checked_against_what_a_gpu_has() -> None:
    a = te.placeholder((256,), name="A")
    b = te.compute((256,), lambda i: a[i] + 1, name="B")
    c = te.compute((256,), lambda i: b[255 - i] * 2, name="C")
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], block)
    s[b].set_scope("shared")
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    built = tvm.build(s, [a, c], tvm.target.Target("cuda -arch=sm_80", host="llvm"))
    built.set_cuda_props(max_shared_memory_per_block=256, max_threads_per_block=64)
    with pytest.raises(tvm.TVMError, match="needs 64 threads in a block; 32 are allowed"):
        built.set_cuda_props(max_threads_per_block=32)
    with pytest.raises(tvm.TVMError, match="needs 256 bytes of shared memory in a block; 128 are allowed"):
        built.set_cuda_props(max_shared_memory_per_block=128)
    tvm.build(te.create_schedule(c.op), [a, c], "llvm").set_cuda_props(max_threads_per_block=1)
