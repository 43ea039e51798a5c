"""ONNX models as machine code: nothing of them stays with the interpreter, and C gets the bytes that Python gets."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tunefarm as tvm
from compiler.driver.graph import build_graph
from compiler.frontend.onnx.from_onnx import import_model
from compiler.runtime.vm.machine import VirtualMachine
from tests.kit.compiler.c_models import run_in_c
from tests.kit.compiler.library import needs_cc

WIDTH = 16


def weights(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32") / 4


def model(nodes: list[Any], **arrays: Any) -> onnx.ModelProto:
    """A model from x, float32[n, 16], to y of the same shape."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", "y")]
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def perceptron() -> onnx.ModelProto:
    return model(
        [
            helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w2"], ["o"]),
            helper.make_node("Softmax", ["o"], ["y"], axis=-1),
        ],
        w1=weights(32, WIDTH), b1=weights(32), w2=weights(32, WIDTH),
    )  # fmt: skip


def convolutions() -> onnx.ModelProto:
    return model(
        [
            helper.make_node("Reshape", ["x", "image"], ["i"]),
            helper.make_node("Conv", ["i", "k"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
            helper.make_node("Relu", ["n"], ["r"]),
            helper.make_node("ReduceMean", ["r", "axes"], ["p"], keepdims=1),
            helper.make_node("Add", ["r", "p"], ["a"]),
            helper.make_node("Conv", ["a", "last"], ["one"]),
            helper.make_node("Reshape", ["one", "flat"], ["y"]),
        ],
        image=np.array([-1, 1, 4, 4]), k=weights(3, 1, 3, 3), s=weights(3), b=weights(3), m=weights(3),
        v=np.abs(weights(3)) + 1, axes=np.array([2, 3]), last=weights(1, 3, 1, 1), flat=np.array([-1, WIDTH]),
    )  # fmt: skip


@needs_cc
@pytest.mark.parametrize("made", [perceptron, convolutions])
def test_c_gets_the_bytes_that_python_gets(made: Any, tmp_path: Path) -> None:
    executable = build_graph(import_model(made()).module, "llvm", exec_mode="compiled")
    assert executable.interpreted == ()
    x = weights(5, WIDTH)
    got, maps = run_in_c(executable, x, tmp_path)
    assert "libpython" not in maps
    wanted = VirtualMachine(executable, tvm.cpu())["main"](x).numpy()
    np.testing.assert_array_equal(got, wanted)
    from onnx.reference import ReferenceEvaluator

    np.testing.assert_allclose(got, ReferenceEvaluator(made()).run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
