"""A small ONNX model to try things on: a residual network for images of 64 × 64, with random weights.

`python -m compiler.frontend.onnx.sample FILE` writes one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR_VERSION = 17, 8


def write_sample(path: Path, channels: int = 32, classes: int = 10, seed: int = 0) -> None:
    """Write the model: seven convolutions, two of them before an addition, a mean and a matrix product.

    Its input is `image`, float32[1, 3, 64, 64]; its result `scores`, float32[1, `classes`].
    """
    network = _Network(seed)
    value = network.convolution("image", 3, channels, stride=2)
    value = network.residual(value, channels)
    value = network.convolution(value, channels, 2 * channels, stride=2)
    value = network.residual(value, 2 * channels)
    value = network.convolution(value, 2 * channels, 4 * channels, stride=2)
    mean = network.node("GlobalAveragePool", value)
    flat = network.node("Flatten", mean)
    weight, bias = network.weight((4 * channels, classes)), network.weight((classes,))
    network.nodes.append(helper.make_node("Gemm", [flat, weight, bias], ["scores"]))
    ends = (("image", [1, 3, 64, 64]), ("scores", [1, classes]))
    first, last = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends)
    graph = helper.make_graph(network.nodes, "sample", [first], [last], network.weights)
    opsets = [helper.make_opsetid("", _OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION), str(path))


class _Network:
    """Nodes and weights as they are made."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(seed)

    def weight(self, shape: tuple[int, ...]) -> str:
        """The name of a new weight, of a size that keeps values where they are."""
        scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])
        values = (self._rng.standard_normal(shape) * scale).astype("float32")
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The name of a new node's result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def convolution(self, value: str, before: int, after: int, stride: int = 1) -> str:
        """A convolution of 3 × 3 and its ReLU."""
        return self.node("Relu", self._convolution(value, before, after, stride))

    def residual(self, value: str, channels: int) -> str:
        """Two convolutions, whose result is added to what they began with."""
        inner = self.convolution(value, channels, channels)
        return self.node("Relu", self.node("Add", self._convolution(inner, channels, channels, 1), value))

    def _convolution(self, value: str, before: int, after: int, stride: int) -> str:
        weights = self.weight((after, before, 3, 3)), self.weight((after,))
        return self.node("Conv", value, *weights, pads=[1, 1, 1, 1], strides=[stride, stride])


if __name__ == "__main__":
    write_sample(Path(sys.argv[1]))
