"""`from_onnx`: names, shapes, computed shapes, weights, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.driver.graph import build_graph
from compiler.errors import ArgumentError
from compiler.frontend.onnx import model_source
from compiler.frontend.onnx.errors import NeedsValueError, OnnxFileError, OnnxImportError, UnsupportedOperatorsError
from compiler.frontend.onnx.from_onnx import from_onnx
from compiler.frontend.params import detach_params
from compiler.relax.interp import run
from compiler.relax.nodes import TensorStructInfo
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], weights: dict[str, Any] | None = None,
          opset: int = 21, **more: Any) -> onnx.ModelProto:  # fmt: skip
    """A model of `nodes`; inputs are shapes of floats, or (element type, shape)."""
    made = []
    for name, info in inputs.items():
        elem, shape = info if isinstance(info, tuple) and isinstance(info[1], list) else (FLOAT, info)
        made.append(helper.make_tensor_value_info(name, elem, shape))
    graph = helper.make_graph(
        nodes, "g", made, [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def node(op: str, inputs: str, output: str, **attrs: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attrs)


def compiled(module: Any, *inputs: Any) -> Any:
    return VirtualMachine(build_graph(module, "llvm"), cpu(0))["main"](*inputs)


def test_a_small_network_runs_and_agrees_with_the_interpreter() -> None:
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(8, 3)).astype("float32"), rng.normal(size=(3,)).astype("float32")
    module = from_onnx(model(
        [node("MatMul", "x w", "h"), node("Add", "h b", "s"), node("Relu", "s", "y")], {"x": [2, 8]}, ["y"],
        {"w": w, "b": b},
    ))  # fmt: skip
    x = rng.normal(size=(2, 8)).astype("float32")
    wanted = np.maximum(x @ w + b, 0)
    np.testing.assert_allclose(compiled(module, x).numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(run(module, x), wanted, rtol=1e-5)


def test_named_dimensions_are_one_variable_and_shapes_fold_away() -> None:
    """Shape, Gather, Concat, Reshape: what a framework writes for x.reshape(x.shape[0], -1)."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 minus", "to", axis=0), node("Reshape", "x to", "f"), node("Add", "f f", "y"),
    ]  # fmt: skip
    weights = {"zero": np.array(0), "axis": np.array([0]), "minus": np.array([-1])}
    module = from_onnx(model(nodes, {"x": ["batch", 4, 5]}, ["y"], weights))
    text = module.script()
    assert "shape_of" not in text
    assert "take" not in text
    assert "gather" not in text
    info = module["main"].ret_struct_info
    assert isinstance(info, TensorStructInfo)
    assert info.dims is not None
    assert info.dims[0] is module["main"].params[0].struct_info.dims[0]
    machine = VirtualMachine(build_graph(module, "llvm"), cpu(0))
    for size in (1, 3):
        x = np.arange(size * 20, dtype="float32").reshape(size, 4, 5)
        np.testing.assert_array_equal(machine["main"](x).numpy(), 2 * x.reshape(size, 20))


@pytest.mark.parametrize("shape", [[2, 3, 4], [4, 0, -1], [-1], [24, 1]])
def test_a_shape_that_comes_when_the_program_runs(shape: list[int]) -> None:
    made = model([node("Reshape", "x s", "y")], {"x": [2, 3, 4], "s": (INT64, [len(shape)])}, ["y"])
    module = from_onnx(made)
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    wanted = x.reshape([x.shape[d] if size == 0 else size for d, size in enumerate(shape)])
    np.testing.assert_array_equal(compiled(module, x, np.array(shape)).numpy(), wanted)


@pytest.mark.parametrize(
    ("op", "outputs", "values"),
    [
        ("TopK", "y z", [[99], [-3]]),
        ("Split", "y z", [[9, 9], [-1, 5], [1, 1]]),
        ("Tile", "y", [[-1, 2], [1 << 40, 1 << 40]]),
        ("Reshape", "y", [[5, 5], [-1, 7]]),
    ],
)
def test_sizes_that_do_not_fit_are_errors_when_the_program_runs(op: str, outputs: str, values: list[Any]) -> None:
    attrs = {"axis": 1} if op == "Split" else {}
    made = model([node(op, "x s", outputs, **attrs)], {"x": [3, 4], "s": (INT64, [len(values[0])])}, outputs.split())
    machine = VirtualMachine(build_graph(from_onnx(made), "llvm", exec_mode="compiled"), cpu(0))
    for sizes in values:
        with pytest.raises(ArgumentError, match=r"shape|below 0"):
            machine["main"](np.ones((3, 4), "float32"), np.array(sizes))


def test_conditions_longer_than_the_dimension_read_nothing_behind_it() -> None:
    nodes = [node("Compress", "x c", "y", axis=0)]
    with pytest.raises(OnnxImportError, match="9 elements"):
        from_onnx(model(nodes, {"x": [3, 4], "c": (BOOL, [9])}, ["y"]))
    made = from_onnx(model(nodes, {"x": ["n", 4], "c": (BOOL, ["m"])}, ["y"]))
    x = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(compiled(made, x, np.ones(9, bool)).numpy(), x)


def test_one_artifact_serves_every_axis() -> None:
    made = model([node("ReduceSum", "x a", "y", keepdims=1)], {"x": [2, 3, 4], "a": (INT64, [1])}, ["y"])
    machine = VirtualMachine(build_graph(from_onnx(made), "llvm"), cpu(0))
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    for axis in (0, 1, 2, -1):
        np.testing.assert_allclose(machine["main"](x, np.array([axis])).numpy(), x.sum(axis, keepdims=True))


def test_shapes_and_types_of_inputs_may_be_given() -> None:
    made = model([node("Relu", "x", "y")], {"x": None}, ["y"])
    with pytest.raises(OnnxImportError, match="how many dimensions the input 'x' has"):
        from_onnx(made)
    info = from_onnx(made, {"x": ["n", 7]}, "float16")["main"].params[0].struct_info
    assert info.dtype == "float16"
    assert str(info.dims[1]).endswith("7)")
    with pytest.raises(OnnxImportError, match="no input"):
        from_onnx(made, {"z": [1]})


def test_weights_as_parameters() -> None:
    w = np.ones((4, 4), "float32")
    made = model([node("MatMul", "x w", "y")], {"x": [2, 4]}, ["y"], {"w": w})
    module, params = detach_params(from_onnx(made, keep_params_in_input=True))
    assert [param.name_hint for param in module["main"].params] == ["x", "w"]
    assert module["main"].attrs["num_input"] == 1
    np.testing.assert_array_equal(params["main"][0].numpy(), w)
    x = np.ones((2, 4), "float32")
    np.testing.assert_array_equal(compiled(module, x, params["main"][0]).numpy(), x @ w)


def test_names_of_inputs_become_python_names() -> None:
    made = model([node("Add", "1.x class", "y")], {"1.x": [2], "class": [2]}, ["y"])
    assert [param.name_hint for param in from_onnx(made)["main"].params] == ["input_1_x", "class_"]
    kept = from_onnx(made, sanitize_input_names=False)["main"].params
    assert [param.name_hint for param in kept] == ["1.x", "class"]


def test_every_unsupported_node_is_in_one_error() -> None:
    nodes = [
        helper.make_node("Nope", ["x"], ["a"], name="first", domain="their.own"), node("Relu", "a", "b"),
        helper.make_node("RandomNormal", [], ["y"], name="second", shape=[2]),
        helper.make_node("Nope", ["b"], ["z"], name="third", domain="their.own"),
    ]  # fmt: skip
    with pytest.raises(UnsupportedOperatorsError) as caught:
        from_onnx(model(nodes, {"x": [2]}, ["y", "z"]))
    text = str(caught.value)
    assert all(name in text for name in ("'first'", "'second'", "'third'", "their.own.Nope", "opset 21", "random"))
    assert caught.value.detail["operators"] == ["ai.onnx.RandomNormal", "their.own.Nope"]


def test_what_must_be_known_names_the_inputs_that_it_comes_from() -> None:
    made = model([node("Cast", "k", "c", to=INT64), node("Reshape", "x c", "y")],
                 {"x": [6], "k": (TensorProto.INT32, ["n"])}, ["y"])  # fmt: skip
    with pytest.raises(NeedsValueError) as caught:
        from_onnx(made)
    assert caught.value.detail["inputs"] == ["k"]


def test_functions_of_the_model_are_expanded() -> None:
    double = helper.make_function(
        "their.own", "Scale", ["a"], ["b"],
        [helper.make_node("Constant", [], ["k"]), helper.make_node("Mul", ["a", "k"], ["b"])],
        [helper.make_opsetid("", 21)], ["by"],
    )  # fmt: skip
    attribute = double.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "value_float", "by", onnx.AttributeProto.FLOAT
    nodes = [helper.make_node("Scale", ["x"], ["y"], domain="their.own", by=3.0)]
    made = model(nodes, {"x": [2]}, ["y"], functions=[double])
    made.opset_import.append(helper.make_opsetid("their.own", 1))
    x = np.array([1, -2], "float32")
    np.testing.assert_array_equal(compiled(from_onnx(made), x).numpy(), 3 * x)


# ----------------------------------------------------------------------------- files and limits


def _external(folder: Path, location: str, **entries: str) -> Path:
    made = model([node("Add", "x w", "y")], {"x": [4]}, ["y"], {"w": np.arange(4, dtype="float32")})
    tensor = made.graph.initializer[0]
    (folder / "w.bin").write_bytes(b"\0" * 8 + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "8", "length": "16", **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_lies_beside_the_model(tmp_path: Path) -> None:
    path = _external(tmp_path, "w.bin")
    made = compiled(from_onnx(path), np.zeros(4, "float32")).numpy()
    np.testing.assert_array_equal(made, np.arange(4))
    with pytest.raises(OnnxFileError, match=r"beside the model"):
        from_onnx(onnx.ModelProto.FromString(path.read_bytes()))


@pytest.mark.parametrize("location", ["/etc/passwd", "../w.bin", "", ".", "link", "gone"])
def test_external_data_elsewhere_is_refused(location: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    (inner / "link").symlink_to(tmp_path / "w.bin")
    with pytest.raises(OnnxFileError):
        from_onnx(_external(inner, location))


@pytest.mark.parametrize("entries", [{"offset": "-1"}, {"offset": "x"}, {"length": "4"}, {"offset": "99999999999"}])
def test_external_data_that_does_not_fit_is_refused(entries: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(OnnxFileError):
        from_onnx(_external(tmp_path, "w.bin", **entries))


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\xff" * 64)
    for bad in (path, tmp_path / "gone.onnx", b"", b"\x08\x01", 7):
        with pytest.raises(OnnxFileError):
            from_onnx(bad)  # type: ignore[arg-type]


def test_tensors_that_lie_about_their_size() -> None:
    for dims in ([1 << 40, 1 << 40], [-4], [1000]):
        made = model([node("Add", "x w", "y")], {"x": [4]}, ["y"], {"w": np.zeros(4, "float32")})
        del made.graph.initializer[0].dims[:]
        made.graph.initializer[0].dims.extend(dims)
        with pytest.raises(OnnxFileError):
            from_onnx(made)


def test_graphs_that_lie_too_deep_in_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_source, "MAX_NESTING", 5)  # protobuf itself reads no more than 33
    flat = inner = helper.make_graph([], "g", [], [helper.make_value_info("c", onnx.TypeProto())])
    for _ in range(8):
        branch = helper.make_node("If", ["c"], ["d"], then_branch=inner, else_branch=flat)
        inner = helper.make_graph([branch], "g", [], [helper.make_value_info("d", onnx.TypeProto())])
    made = model([helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)],
                 {"c": (TensorProto.BOOL, [])}, ["y"])  # fmt: skip
    with pytest.raises(OnnxFileError, match="deep"):
        from_onnx(made)


def test_a_function_that_calls_itself() -> None:
    body = helper.make_node("Self", ["a"], ["b"], domain="their.own")
    own = helper.make_function("their.own", "Self", ["a"], ["b"], [body], [helper.make_opsetid("", 21)])
    made = model([helper.make_node("Self", ["x"], ["y"], domain="their.own")], {"x": [2]}, ["y"], functions=[own])
    with pytest.raises(OnnxImportError, match="deep"):
        from_onnx(made)


def test_values_that_nothing_makes() -> None:
    with pytest.raises(OnnxImportError, match="before anything makes it"):
        from_onnx(model([node("Relu", "gone", "y")], {"x": [2]}, ["y"]))


def test_an_opset_that_is_not_known() -> None:
    with pytest.raises(OnnxImportError, match="opset 999"):
        from_onnx(model([node("Relu", "x", "y")], {"x": [2]}, ["y"], opset=999))


def test_shapes_that_do_not_fit_name_the_node() -> None:
    with pytest.raises(OnnxImportError, match="MatMul at node 'y'"):
        from_onnx(model([node("MatMul", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": np.ones((4, 4), "float32")}))
