"""Networks as ONNX files, with random weights: the same file goes to every compiler."""

from __future__ import annotations

import math
from collections.abc import Callable
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


def resnet(name: str, blocks: tuple[int, ...], bottleneck: bool, size: int = 224) -> Any:
    g = Graph(name)
    data = g("Relu", g.convolution("x", 3, 64, 7, 2))
    data = g("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inputs, grown = 64, 4 if bottleneck else 1
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512))):
        for block in range(count):
            step = 2 if block == 0 and stage else 1
            if bottleneck:
                inner = g("Relu", g.convolution(data, inputs, width, 1))
                inner = g("Relu", g.convolution(inner, width, width, 3, step))
                inner = g.convolution(inner, width, 4 * width, 1)
            else:
                inner = g("Relu", g.convolution(data, inputs, width, 3, step))
                inner = g.convolution(inner, width, width, 3)
            if block == 0 and (step != 1 or inputs != grown * width):
                data = g.convolution(data, inputs, grown * width, 1, step)
            data, inputs = g("Relu", g("Add", inner, data)), grown * width
    flat = g("Flatten", g("GlobalAveragePool", data))
    out = g("Gemm", flat, g.weight(1000, inputs, fan_in=inputs), g.near(0, 1000), transB=1)
    return g.model({"x": ("float32", (1, 3, size, size))}, out, (1, 1000))


def mobilenet_v2(size: int = 224) -> Any:
    g = Graph("mobilenet_v2")

    def relu6(data: Value) -> Value:
        return g("Clip", data, g.constant(np.float32(0)), g.constant(np.float32(6)))

    data, inputs = relu6(g.convolution("x", 3, 32, 3, 2)), 32
    for wider, outputs, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):  # fmt: skip
        for block in range(count):
            step, width = stride if block == 0 else 1, inputs * wider
            inner = relu6(g.convolution(data, inputs, width, 1)) if wider > 1 else data
            inner = relu6(g.convolution(inner, width, width, 3, step, groups=width))
            inner = g.convolution(inner, width, outputs, 1)
            data = g("Add", data, inner) if step == 1 and inputs == outputs else inner
            inputs = outputs
    data = relu6(g.convolution(data, inputs, 1280, 1))
    flat = g("Flatten", g("GlobalAveragePool", data))
    out = g("Gemm", flat, g.weight(1000, 1280, fan_in=1280), g.near(0, 1000), transB=1)
    return g.model({"x": ("float32", (1, 3, size, size))}, out, (1, 1000))


def bert(layers: int = 12, tokens: int = 128, width: int = 768, heads: int = 12) -> Any:
    g = Graph("bert")
    words = g("Gather", g.weight(30522, width, fan_in=1), "ids", axis=0)
    data = g.layer_norm(g("Add", words, g.weight(1, tokens, width, fan_in=1)), width)
    for _ in range(layers):
        data = g.layer_norm(g("Add", g.attention(data, tokens, width, heads), data), width)
        data = g.layer_norm(g("Add", g.wide(data, width), data), width)
    first = g("Gather", data, g.constant(np.int64(0)), axis=1)
    out = g("Tanh", g.linear(first, width, width))
    return g.model({"ids": ("int64", (1, tokens))}, out, (1, width))


def vit(layers: int = 12, size: int = 224, width: int = 768, heads: int = 12) -> Any:
    g = Graph("vit")
    tokens = (size // 16) ** 2 + 1
    kernel = g.weight(width, 3, 16, 16, fan_in=768)
    cut = g("Conv", "x", kernel, g.near(0, width), kernel_shape=[16, 16], strides=[16, 16])
    cut = g("Transpose", g("Reshape", cut, g.ints(1, width, tokens - 1)), perm=[0, 2, 1])
    data = g("Concat", g.near(0, 1, 1, width), cut, axis=1)
    data = g("Add", data, g.near(0, 1, tokens, width))
    for _ in range(layers):
        data = g("Add", g.attention(g.layer_norm(data, width), tokens, width, heads), data)
        data = g("Add", g.wide(g.layer_norm(data, width), width), data)
    first = g("Gather", g.layer_norm(data, width), g.constant(np.int64(0)), axis=1)
    return g.model({"x": ("float32", (1, 3, size, size))}, g.linear(first, width, 1000), (1, 1000))


NETWORKS: dict[str, Callable[[], Any]] = {
    "resnet18": lambda: resnet("resnet18", (2, 2, 2, 2), False),
    "resnet50": lambda: resnet("resnet50", (3, 4, 6, 3), True),
    "mobilenet_v2": mobilenet_v2,
    "bert": bert,
    "vit": vit,
    "small_resnet": lambda: resnet("small_resnet", (1, 1), False, 32),
    "small_vit": lambda: vit(1, 32, 64, 2),
}
"""Each network's model, made anew. The small ones show that a run works."""
