"""ONNX files that stand for much more than they say: they are refused soon, and little memory is taken."""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.onnx import importer
from compiler.frontend.onnx.errors import OnnxImportError
from compiler.frontend.onnx.from_onnx import from_onnx

FLOAT = TensorProto.FLOAT


def model(nodes: list[Any], weights: dict[str, Any] | None = None, functions: Any = ()) -> onnx.ModelProto:
    """From x, two floats, to y."""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [2])], [helper.make_value_info("y", onnx.TypeProto())],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def laughs(levels: int) -> onnx.ModelProto:
    """Each function calls the next twice: 2 to the power of `levels` nodes in few lines."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(levels):
        name, more = (f"F{level + 1}", "own") if level + 1 < levels else ("Relu", "")
        calls = [helper.make_node(name, ["a"], ["b"], domain=more), helper.make_node(name, ["b"], ["c"], domain=more)]
        functions.append(helper.make_function("own", f"F{level}", ["a"], ["c"], calls, opsets))
    return model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=functions)


def loops(depth: int) -> onnx.ModelProto:
    """Loops of 16 steps inside of each other, each of which would be written out."""
    body: Any = [helper.make_node("Relu", ["a"], ["b"])]
    for _ in range(depth):
        graph = helper.make_graph(
            [*body, helper.make_node("Identity", ["go"], ["on"])], "body",
            [helper.make_tensor_value_info("n", TensorProto.INT64, []),
             helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("a", FLOAT, [2])],
            [helper.make_value_info("on", onnx.TypeProto()), helper.make_value_info("b", onnx.TypeProto())],
        )  # fmt: skip
        body = [helper.make_node("Loop", ["times", "", "a"], ["b"], body=graph)]
    body[0].input[2], body[0].output[0] = "x", "y"
    return model(body, {"times": np.array(16)})


def sparse() -> onnx.ModelProto:
    values = helper.make_tensor("v", FLOAT, [1], [1.0])
    tensor = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [0]), [1 << 40])
    return model([helper.make_node("Constant", [], ["y"], sparse_value=tensor)])


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def of(op: str, inputs: str, weights: dict[str, Any], **attrs: Any) -> onnx.ModelProto:
    return model([helper.make_node(op, inputs.split(), ["y"], **attrs)], weights)


WRONG = {
    "functions": laughs(40),
    "loops": loops(8),
    "sparse": sparse(),
    "range": of("Range", "a b c", {"a": np.int64(0), "b": np.int64(1 << 40), "c": np.int64(1)}),
    "range of reals": of("Range", "a b c", {"a": np.float32(0), "b": np.float32(1e30), "c": np.float32(1e-30)}),
    "tile": of("Tile", "a n", {"a": ints(1), "n": ints(-1)}),
    "reshape": of("Reshape", "a n", {"a": ints(1), "n": ints(0, 0, 0)}),
    "gather": of("Gather", "a n", {"a": ints(1), "n": ints(99)}),
    "split": of("Split", "x", {}, num_outputs=1 << 40),
    "sequence": model([
        helper.make_node("Expand", ["x", "n"], ["wide"]), helper.make_node("SplitToSequence", ["wide"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ], {"n": ints(1 << 40, 2)}),
}  # fmt: skip
LARGE = {  # right, and left for the program to compute
    "fill": of("ConstantOfShape", "n", {"n": ints(1 << 32, 1 << 32)}),
    "expand": of("Expand", "a n", {"a": ints(1), "n": ints(1 << 32, 1 << 32)}),
    "tile": of("Tile", "a n", {"a": np.ones((1, 1), np.int64), "n": ints(1 << 32, 1 << 32)}),
}


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    """Neither time nor memory is taken for what the file only names."""
    monkeypatch.setattr(importer, "MAX_EXPANDED", 500)  # what it is bounded by is tried, not how far it goes
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10
    assert time.process_time() - began < 20


@pytest.mark.parametrize("name", WRONG)
def test_what_stands_for_too_much_is_refused(name):
    with pytest.raises(OnnxImportError):
        from_onnx(WRONG[name])


@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_not_made_by_the_importer(name):
    assert from_onnx(LARGE[name])["main"] is not None
