"""ONNX graphs under construction, with random weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Value = str
_OPSET = 20


class Graph:
    """A graph under construction. Its nodes are added by operator name; weights come from a seed."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._rng = np.random.default_rng(seed)

    def __call__(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def constant(self, data: Any) -> Value:
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def weight(self, *shape: int, fan_in: int) -> Value:
        """Normal, so that a value's variance stays near 1 from layer to layer."""
        return self.constant((self._rng.standard_normal(shape) / math.sqrt(fan_in)).astype("float32"))

    def near(self, middle: float, *shape: int) -> Value:
        return self.constant((middle + 0.1 * self._rng.standard_normal(shape)).astype("float32"))

    def ints(self, *values: int) -> Value:
        return self.constant(np.array(values, "int64"))

    def model(self, inputs: dict[Value, tuple[str, tuple[int, ...]]], output: Value, shape: tuple[int, ...]) -> Any:
        types = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
        taken = [helper.make_tensor_value_info(name, types[kind], size) for name, (kind, size) in inputs.items()]
        given = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, self.name, taken, [given], self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)
        onnx.checker.check_model(made)
        return made

    # --- layers -------------------------------------------------------------------------------------------------

    def convolution(
        self, data: Value, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, norm: bool = True
    ) -> Value:
        fan = inputs // groups * size * size
        kernel = self.weight(outputs, inputs // groups, size, size, fan_in=fan)
        pads = [size // 2] * 4 if norm else [0] * 4
        sizes = {"kernel_shape": [size, size], "strides": [stride, stride], "pads": pads, "group": groups}
        if not norm:
            return self("Conv", data, kernel, self.near(0, outputs), **sizes)
        parts = [self.near(middle, outputs) for middle in (1, 0, 0)] + [self.near(1.5, outputs)]
        return self("BatchNormalization", self("Conv", data, kernel, **sizes), *parts)

    def linear(self, data: Value, inputs: int, outputs: int) -> Value:
        product = self("MatMul", data, self.weight(inputs, outputs, fan_in=inputs))
        return self("Add", product, self.near(0, outputs))

    def layer_norm(self, data: Value, width: int) -> Value:
        return self("LayerNormalization", data, self.near(1, width), self.near(0, width), axis=-1, epsilon=1e-6)

    def attention(self, data: Value, tokens: int, width: int, heads: int) -> Value:
        """Attention of every token to all, written out as exporters write it."""
        size = width // heads
        parts = self.ints(1, tokens, heads, size)

        def head(order: list[int]) -> Value:
            return self("Transpose", self("Reshape", self.linear(data, width, width), parts), perm=order)

        query, key, value = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
        scores = self("Div", self("MatMul", query, key), self.constant(np.float32(math.sqrt(size))))
        mixed = self("Transpose", self("MatMul", self("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return self.linear(self("Reshape", mixed, self.ints(1, tokens, width)), width, width)

    def wide(self, data: Value, width: int) -> Value:
        return self.linear(self("Gelu", self.linear(data, width, 4 * width)), 4 * width, width)
