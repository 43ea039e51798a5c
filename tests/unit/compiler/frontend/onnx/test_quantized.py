"""Models that onnxruntime quantised stay in integers down to the kernels, and agree with onnxruntime."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from compiler.frontend.onnx.from_onnx import from_onnx
from compiler.relax.analysis.visit import post_order_visit
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
