"""Models that onnxruntime quantised stay in integers down to the kernels, and agree with onnxruntime."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from compiler.frontend.onnx.from_onnx import from_onnx
from compiler.relax.analysis.uses import post_order_visit
from compiler.relax.nodes import Call, TensorStructInfo, info_of
from tunefarm.contrib import onnx_backend

SHAPE = (1, 4, 12, 12)
PRODUCTS = ("relax.nn.conv2d", "relax.matmul")


def network() -> onnx.ModelProto:
    """Convolutions with padding, groups and a branch that adds, a pool, a mean and a matrix."""
    rng = np.random.default_rng(3)

    def weights(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)

    held = {
        "w1": weights(8, 4, 3, 3), "b1": weights(8), "w2": weights(8, 2, 3, 3), "b2": weights(8),
        "w3": weights(6, 8, 1, 1), "w4": weights(5, 6), "b4": weights(5),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="c1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], name="p1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], name="c2", pads=[1, 1, 1, 1], group=4),
        helper.make_node("Add", ["c2", "p1"], ["a2"], name="a2"),
        helper.make_node("Conv", ["a2", "w3"], ["c3"], name="c3"),
        helper.make_node("GlobalAveragePool", ["c3"], ["m"], name="m"),
        helper.make_node("Flatten", ["m"], ["f"], name="f"),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], name="y", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def images(count: int) -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(count)]


class Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self._images = iter(images(4))

    def get_next(self) -> Any:
        found = next(self._images, None)
        return None if found is None else {"x": found}


def by_onnxruntime(model: onnx.ModelProto, x: Any) -> Any:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def products(module: Any) -> list[tuple[str, ...]]:
    """The dtypes of the operands and of the result of each product in a module."""
    found = []

    def visit(expr: Any) -> None:
        if isinstance(expr, Call) and getattr(expr.op, "name", "") in PRODUCTS:
            infos = [info_of(item) for item in (*expr.args[:2], expr)]
            found.append(tuple(info.dtype for info in infos if isinstance(info, TensorStructInfo)))

    post_order_visit(module["main"], visit)
    return found


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "float.onnx"
    onnx.save(network(), path)
    return path


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator], ids=["qdq", "qlinear"])
@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8], ids=["uint8", "int8"])
def test_statically_quantised_models_multiply_8_bit_integers(floats: Path, form: Any, activations: Any) -> None:
    made = floats.with_name(f"{form}-{activations}.onnx")
    logging.disable(logging.WARNING)
    quantize_static(
        floats, made, Reader(), quant_format=form, per_channel=True, activation_type=activations,
        weight_type=QuantType.QInt8,
    )  # fmt: skip
    logging.disable(logging.NOTSET)
    model = onnx.load(made)
    kinds = products(from_onnx(model))
    assert len(kinds) == 4
    assert all(a in ("int8", "uint8") and b == "int8" and c == "int32" for a, b, c in kinds), kinds
    rep = onnx_backend.prepare(model)
    x = images(6)[-1]
    (got,), wanted = rep.run([x]), by_onnxruntime(model, x)
    plain = by_onnxruntime(network(), x)
    quantum = np.ptp(plain) / 60  # a few steps of 8 bits
    np.testing.assert_allclose(got, wanted, atol=quantum)
    np.testing.assert_allclose(got, plain, atol=10 * quantum)


def test_dynamically_quantised_models_multiply_8_bit_integers(floats: Path) -> None:
    made = floats.with_name("dynamic.onnx")
    logging.disable(logging.WARNING)
    quantize_dynamic(floats, made, weight_type=QuantType.QUInt8, extra_options={"DefaultTensorType": TensorProto.FLOAT})
    logging.disable(logging.NOTSET)
    model = onnx.load(made)
    kinds = products(from_onnx(model))
    assert kinds
    assert all({a, b} <= {"int8", "uint8"} and c == "int32" for a, b, c in kinds), kinds
    x = images(6)[-1]
    np.testing.assert_allclose(onnx_backend.prepare(model).run([x])[0], by_onnxruntime(model, x), rtol=1e-3, atol=1e-4)


# ------------------------------------------------------------------- products with zero points


def model(nodes: list[Any], inputs: dict[str, Any], weights: dict[str, Any]) -> onnx.ModelProto:
    """A model to y; `inputs` and `weights` are arrays."""
    of = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, of(x.dtype), x.shape) for name, x in inputs.items()],
        [helper.make_value_info("y", onnx.TypeProto())],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def integers(rng: Any, dtype: str, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def convolved(x: Any, w: Any, pads: int, stride: int, groups: int) -> Any:
    """A convolution in numpy's 64-bit integers."""
    x = np.pad(x, [(0, 0), (0, 0), (pads, pads), (pads, pads)])
    outs, each, rows, columns = w.shape
    high, wide = ((size - k) // stride + 1 for size, k in zip(x.shape[2:], (rows, columns)))
    made = np.zeros((x.shape[0], outs, high, wide), np.int64)
    for o in range(outs):
        first = o // (outs // groups) * each
        for i, j in np.ndindex(high, wide):
            part = x[:, first : first + each, i * stride : i * stride + rows, j * stride : j * stride + columns]
            made[:, o, i, j] = (part * w[o]).sum(axis=(1, 2, 3))
    return made


@settings(max_examples=6)
@given(st.data())
def test_convolutions_of_integers_with_zero_points(data: st.DataObject) -> None:
    """Zero points that are known or come when the program runs, one or one a filter; groups, padding, strides."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    groups, each, times = (data.draw(st.integers(1, 2)) for _ in range(3))
    pads, stride, kernel = data.draw(st.integers(0, 2)), data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    kinds = [data.draw(st.sampled_from(["uint8", "int8"])) for _ in range(2)]
    x = integers(rng, kinds[0], 2, groups * each, 5, 4)
    w = integers(rng, kinds[1], groups * times, each, kernel, kernel)
    xz = integers(rng, kinds[0])
    wz = integers(rng, kinds[1], groups * times) if data.draw(st.booleans()) else integers(rng, kinds[1])
    held = {"x": x, "w": w, "xz": xz, "wz": wz}
    known = {name: held[name] for name in held if name != "x" and data.draw(st.booleans())}
    given_ = {name: array for name, array in held.items() if name not in known}
    attrs = {"pads": [pads] * 4, "strides": [stride] * 2, "group": groups, "kernel_shape": [kernel] * 2}
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **attrs)
    shift = wz.astype(np.int64).reshape(-1, 1, 1, 1)
    wanted = convolved(x.astype(np.int64) - xz, w.astype(np.int64) - shift, pads, stride, groups)
    found = onnx_backend.prepare(model([node], given_, known), recompile=False).run(given_)[0]
    np.testing.assert_array_equal(found, wanted)


@settings(max_examples=6)
@given(st.data())
def test_matrices_of_integers_with_zero_points(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    m, k, n = (data.draw(st.integers(1, 5)) for _ in range(3))
    kinds = [data.draw(st.sampled_from(["uint8", "int8"])) for _ in range(2)]
    batch = data.draw(st.sampled_from([(), (2,)]))
    a, b = integers(rng, kinds[0], *batch, m, k), integers(rng, kinds[1], k, n)
    az = integers(rng, kinds[0], m) if data.draw(st.booleans()) else integers(rng, kinds[0])
    bz = integers(rng, kinds[1], n) if data.draw(st.booleans()) else integers(rng, kinds[1])
    held = {"a": a, "b": b, "az": az, "bz": bz}
    known = {name: held[name] for name in held if name != "a" and data.draw(st.booleans())}
    given_ = {name: array for name, array in held.items() if name not in known}
    node = helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])
    wanted = (a.astype(np.int64) - az.reshape(-1, 1)) @ (b.astype(np.int64) - bz)
    found = onnx_backend.prepare(model([node], given_, known), recompile=False).run(given_)[0]
    np.testing.assert_array_equal(found, wanted)


def test_what_moves_integers_makes_no_floats() -> None:
    """Moves, pools, joins and Relu between DequantizeLinear and QuantizeLinear of one scale work on the integers."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["f"]),
        helper.make_node("Transpose", ["f"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("MaxPool", ["t"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("Concat", ["r", "p"], ["c"], axis=1),
        helper.make_node("Flatten", ["c"], ["l"]),
        helper.make_node("QuantizeLinear", ["l", "s", "z"], ["y"]),
    ]
    x = integers(np.random.default_rng(1), "uint8", 2, 4, 6, 3)
    weights = {"s": np.array(0.25, np.float32), "z": np.array(117, np.uint8)}
    made = model(nodes, {"x": x}, weights)
    text = from_onnx(made).script()
    assert "quantize" not in text
    assert "float32" not in text
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_array_equal(onnx_backend.prepare(made).run([x])[0], wanted)
