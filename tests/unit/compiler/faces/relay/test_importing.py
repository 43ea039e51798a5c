"""Models of other programs through relay.frontend, relay.build and GraphModule."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tunefarm as tvm
from compiler.errors import ArgumentError
from tunefarm import relay
from tunefarm.contrib import graph_executor

WEIGHT = np.random.default_rng(0).random((4, 3), dtype=np.float32)


def _model() -> onnx.ModelProto:
    shape = {"x": ["n", 4], "y": ["n", 3]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in shape.items())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("freeze", [True, False])
def test_an_onnx_model_is_imported_built_and_run(freeze: bool) -> None:
    mod, params = relay.frontend.from_onnx(_model(), shape={"x": [2, 4]}, freeze_params=freeze)
    assert list(params) == ([] if freeze else ["w"])
    module = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    given = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    module.run(x=given)
    assert module.get_num_inputs() == 1
    np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(given @ WEIGHT, 0), rtol=1e-5)


def test_what_cannot_be_imported_says_what_to_do() -> None:
    with pytest.raises(ArgumentError, match="takes an exported program, not a list") as refused:
        relay.frontend.from_pytorch([], [("x", (1, 2))])
    assert "torch.export.export" in str(refused.value.hint)
    frontend: Any = relay.frontend
    with pytest.raises(AttributeError, match="export the model to ONNX, then from_onnx"):
        frontend.from_keras
