"""More networks: those that the shipped cost model has seen no kernel of, and two with squeeze-and-excitation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from model_parts.graph import Graph, Value

_TOKENS, _VOCABULARY = 128, 32000


def _scaled(g: Graph, data: Value, width: int, inner: int, gate: str) -> Value:
    """Squeeze and excitation: each channel scaled by what two small layers make of all channels' means."""
    mean = g("GlobalAveragePool", data)
    first = g.convolution(mean, width, inner, 1, norm=False)
    first = g("Relu", first) if gate == "HardSigmoid" else _silu(g, first)
    second = g.convolution(first, inner, width, 1, norm=False)
    told = g(gate, second, alpha=1 / 6, beta=0.5) if gate == "HardSigmoid" else g(gate, second)
    return g("Mul", data, told)


def _silu(g: Graph, data: Value) -> Value:
    return g("Mul", data, g("Sigmoid", data))


def _classified(g: Graph, data: Value, width: int, size: int) -> Any:
    flat = g("Flatten", g("GlobalAveragePool", data))
    out = g("Gemm", flat, g.weight(1000, width, fan_in=width), g.near(0, 1000), transB=1)
    return g.model({"x": ("float32", (1, 3, size, size))}, out, (1, 1000))


def mobilenet_v3(size: int = 224, parts: int = 15) -> Any:
    """MobileNetV3-Large; the last layers are one."""
    g = Graph("mobilenet_v3")
    data, inputs = g("HardSwish", g.convolution("x", 3, 16, 3, 2)), 16
    for kernel, width, outputs, scaled, swish, step in (
        (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
        (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
        (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2),
        (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1),
    )[:parts]:  # fmt: skip
        active = "HardSwish" if swish else "Relu"
        inner = data if width == inputs else g(active, g.convolution(data, inputs, width, 1))
        inner = g(active, g.convolution(inner, width, width, kernel, step, groups=width))
        inner = _scaled(g, inner, width, max(8, width // 4 // 8 * 8), "HardSigmoid") if scaled else inner
        inner = g.convolution(inner, width, outputs, 1)
        data = g("Add", data, inner) if step == 1 and inputs == outputs else inner
        inputs = outputs
    return _classified(g, g("HardSwish", g.convolution(data, inputs, 960, 1)), 960, size)


def efficientnet_b0(size: int = 224, parts: int = 7) -> Any:
    g = Graph("efficientnet_b0")
    data, inputs = _silu(g, g.convolution("x", 3, 32, 3, 2)), 32
    for wider, kernel, outputs, count, stride in (
        (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    )[:parts]:  # fmt: skip
        for block in range(count):
            step, width = stride if block == 0 else 1, inputs * wider
            inner = _silu(g, g.convolution(data, inputs, width, 1)) if wider > 1 else data
            inner = _silu(g, g.convolution(inner, width, width, kernel, step, groups=width))
            inner = _scaled(g, inner, width, max(1, inputs // 4), "Sigmoid")
            inner = g.convolution(inner, width, outputs, 1)
            data = g("Add", data, inner) if step == 1 and inputs == outputs else inner
            inputs = outputs
    return _classified(g, _silu(g, g.convolution(data, inputs, 1280, 1)), 1280, size)


def squeezenet(size: int = 224, parts: int = 8) -> Any:
    """SqueezeNet 1.1."""
    g = Graph("squeezenet")
    sizes = {"kernel_shape": [3, 3], "strides": [2, 2]}
    weight, bias = g.weight(64, 3, 3, 3, fan_in=27), g.near(0, 64)
    data, inputs = g("MaxPool", g("Relu", g("Conv", "x", weight, bias, **sizes)), **sizes), 64
    for number, (few, many) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))[:parts]
    ):
        if number in (2, 4):
            data = g("MaxPool", data, **sizes)
        inner = g("Relu", g.convolution(data, inputs, few, 1, norm=False))
        wide = g("Conv", inner, g.weight(many, few, 3, 3, fan_in=9 * few), g.near(0, many), pads=[1] * 4)
        data = g("Concat", g("Relu", g.convolution(inner, few, many, 1, norm=False)), g("Relu", wide), axis=1)
        inputs = 2 * many
    last = g("Relu", g.convolution(data, inputs, 1000, 1, norm=False))
    flat = g("Flatten", g("GlobalAveragePool", last))
    return g.model({"x": ("float32", (1, 3, size, size))}, flat, (1, 1000))


def densenet(blocks: tuple[int, ...] = (6, 12, 24, 16), size: int = 224) -> Any:
    """DenseNet-121: norms come before convolutions."""
    g = Graph("densenet")

    def normed(data: Value, width: int) -> Value:
        parts = [g.near(middle, width) for middle in (1, 0, 0)] + [g.near(1.5, width)]
        return g("Relu", g("BatchNormalization", data, *parts))

    def plain(data: Value, inputs: int, outputs: int, kernel: int) -> Value:
        weight = g.weight(outputs, inputs, kernel, kernel, fan_in=inputs * kernel**2)
        return g("Conv", data, weight, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)

    data, width = g("Relu", g.convolution("x", 3, 64, 7, 2)), 64
    data = g("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, count in enumerate(blocks):
        for _ in range(count):
            inner = plain(normed(data, width), width, 128, 1)
            data = g("Concat", data, plain(normed(inner, 128), 128, 32, 3), axis=1)
            width += 32
        if stage + 1 < len(blocks):
            data = plain(normed(data, width), width, width // 2, 1)
            data, width = g("AveragePool", data, kernel_shape=[2, 2], strides=[2, 2]), width // 2
    return _classified(g, normed(data, width), width, size)


def convnext(blocks: tuple[int, ...] = (3, 3, 9, 3), width: int = 96, size: int = 224) -> Any:
    """ConvNeXt-T: depthwise 7×7, then a norm and two products in the layout with channels last."""
    g = Graph("convnext")

    def normed(data: Value, width: int) -> Value:
        last = g.layer_norm(g("Transpose", data, perm=[0, 2, 3, 1]), width)
        return g("Transpose", last, perm=[0, 3, 1, 2])

    def cut(data: Value, inputs: int, outputs: int, step: int) -> Value:
        weight = g.weight(outputs, inputs, step, step, fan_in=inputs * step**2)
        return g("Conv", data, weight, g.near(0, outputs), kernel_shape=[step] * 2, strides=[step] * 2)

    data = normed(cut("x", 3, width, 4), width)
    for stage, count in enumerate(blocks):
        if stage:
            data, width = cut(normed(data, width), width, 2 * width, 2), 2 * width
        for _ in range(count):
            weight = g.weight(width, 1, 7, 7, fan_in=49)
            inner = g("Conv", data, weight, g.near(0, width), kernel_shape=[7, 7], pads=[3] * 4, group=width)
            inner = g.wide(g.layer_norm(g("Transpose", inner, perm=[0, 2, 3, 1]), width), width)
            inner = g("Mul", inner, g.near(0.1, width))
            data = g("Add", data, g("Transpose", inner, perm=[0, 3, 1, 2]))
    flat = g.layer_norm(g("Flatten", g("GlobalAveragePool", data)), width)
    return g.model({"x": ("float32", (1, 3, size, size))}, g.linear(flat, width, 1000), (1, 1000))


def llama(
    layers: int = 12, width: int = 576, heads: int = 9, tokens: int = _TOKENS, vocabulary: int = _VOCABULARY
) -> Any:
    """A decoder's first step: all tokens of a prompt, and what follows the last. A third as many heads of keys."""
    g = Graph("llama")
    few, size, inner = max(1, heads // 3), width // heads, 8 * width // 3
    angles = np.outer(np.arange(tokens), 10000.0 ** (-np.arange(0, size, 2) / size))
    cos, sin = (g.constant(np.tile(f(angles), 2).astype("float32")[None, None]) for f in (np.cos, np.sin))
    mask = g.constant(np.triu(np.full((tokens, tokens), -1e9, "float32"), 1)[None, None])

    def normed(data: Value) -> Value:
        square = g("ReduceMean", g("Mul", data, data), g.ints(-1), keepdims=1)
        scale = g("Sqrt", g("Add", square, g.constant(np.float32(1e-6))))
        return g("Mul", g("Div", data, scale), g.near(1, width))

    def product(data: Value, inputs: int, outputs: int) -> Value:
        return g("MatMul", data, g.weight(inputs, outputs, fan_in=inputs))

    def head(data: Value, count: int) -> Value:
        cut = g("Reshape", product(data, width, count * size), g.ints(1, tokens, count, size))
        return g("Transpose", cut, perm=[0, 2, 1, 3])

    def turned(data: Value) -> Value:
        """Rotary embedding: pairs of numbers turned by angles that grow with the position."""
        low, high = (g("Slice", data, g.ints(at), g.ints(at + size // 2), g.ints(3)) for at in (0, size // 2))
        return g("Add", g("Mul", data, cos), g("Mul", g("Concat", g("Neg", high), low, axis=3), sin))

    def repeated(data: Value) -> Value:
        apart = g("Unsqueeze", data, g.ints(2))
        spread = g("Expand", apart, g.ints(1, few, heads // few, tokens, size))
        return g("Reshape", spread, g.ints(1, heads, tokens, size))

    data = g("Gather", g.weight(vocabulary, width, fan_in=1), "ids", axis=0)
    for _ in range(layers):
        given = normed(data)
        query, key, value = turned(head(given, heads)), repeated(turned(head(given, few))), repeated(head(given, few))
        scores = g("MatMul", query, g("Transpose", key, perm=[0, 1, 3, 2]))
        scores = g("Add", g("Div", scores, g.constant(np.float32(math.sqrt(size)))), mask)
        mixed = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        data = g("Add", data, product(g("Reshape", mixed, g.ints(1, tokens, width)), width, width))
        given = normed(data)
        gated = g("Mul", _silu(g, product(given, width, inner)), product(given, width, inner))
        data = g("Add", data, product(gated, inner, width))
    last = g("Gather", normed(data), g.constant(np.int64(tokens - 1)), axis=1)
    return g.model({"ids": ("int64", (1, tokens))}, product(last, width, vocabulary), (1, vocabulary))
