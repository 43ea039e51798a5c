"""Networks as ONNX files, with random weights: the same file goes to every compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from model_parts.graph import Graph, Value
from model_parts.more_networks import convnext, densenet, efficientnet_b0, llama, mobilenet_v3, squeezenet


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
    "mobilenet_v3": mobilenet_v3,
    "efficientnet_b0": efficientnet_b0,
    "squeezenet": squeezenet,
    "densenet": densenet,
    "convnext": convnext,
    "llama": llama,
    "small_resnet": lambda: resnet("small_resnet", (1, 1), False, 32),
    "small_vit": lambda: vit(1, 32, 64, 2),
    "small_mobilenet_v3": lambda: mobilenet_v3(32, 4),
    "small_efficientnet": lambda: efficientnet_b0(32, 2),
    "small_squeezenet": lambda: squeezenet(64, 3),
    "small_densenet": lambda: densenet((2, 1), 32),
    "small_convnext": lambda: convnext((1, 1), 32, 32),
    "small_llama": lambda: llama(1, 48, 3, 16, 30000),
}
"""Each network's model, made anew. The small ones show that a run works."""

HELD_OUT = ("mobilenet_v3", "convnext", "vit", "densenet", "llama")
"""Networks whose kernels the shipped cost model has not seen."""
