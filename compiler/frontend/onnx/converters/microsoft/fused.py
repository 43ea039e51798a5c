"""Normalisation, activations, products and convolutions, each fused with neighbouring operators."""

from __future__ import annotations

from typing import Any

from compiler.frontend.onnx.converters.microsoft.calls import apply
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import MICROSOFT, Result, converter
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op


@converter("SimplifiedLayerNormalization")
@converter("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified(g: GraphBuilder, node: Node) -> Result:
    """Divide by the root of the mean square, and scale; the inverse root is a result too."""
    x, epsilon = node.value(0), node.float("epsilon", 1e-5)
    made = apply(g, node, "RMSNormalization", node.inputs[:2], axis=node.int("axis", -1), epsilon=epsilon)
    found: list[Any] = [made]
    if node.wanted(1):
        axis = node.int("axis", -1) % g.rank(x)
        data = g.emit(op.astype(g.expr(x), "float32"))
        mean = g.emit(op.mean(g.emit(op.square(data)), list(range(axis, g.rank(x))), True))
        found.append(g.emit(op.rsqrt(g.emit(op.add(mean, g.full(epsilon, "float32"))))))
    return found


def _with_skip(g: GraphBuilder, node: Node, bias: int) -> TensorValue:
    """The sum of an input, a skip connection and a bias."""
    total = apply(g, node, "Add", [node.value(0), node.value(1)])
    return apply(g, node, "Add", [total, node.value(bias)]) if node.given(bias) else total


@converter("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(g: GraphBuilder, node: Node) -> Result:
    """Add a skip connection and a bias, and normalise; the sum is a result too."""
    total = _with_skip(g, node, 4)
    gamma, beta = node.value(2), node.optional(3)
    made = apply(g, node, "LayerNormalization", [total, gamma, beta], axis=-1, epsilon=node.float("epsilon", 1e-12))
    return _norm_results(node, made, total)


@converter("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified(g: GraphBuilder, node: Node) -> Result:
    """Add a skip connection and a bias, and divide by the root of the mean square.
    The sum is a result too."""
    total = _with_skip(g, node, 3)
    made = apply(g, node, "RMSNormalization", [total, node.value(2)], axis=-1, epsilon=node.float("epsilon", 1e-12))
    return _norm_results(node, made, total)


def _norm_results(node: Node, made: TensorValue, total: TensorValue) -> Result:
    if node.wanted(1) or node.wanted(2):
        node.fail("the mean and the deviation as results, which only training needs")
    return [made, None, None, total]


@converter("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(g: GraphBuilder, node: Node) -> Result:
    """Add the embeddings of words, places and segments, and normalise."""
    ids, words, places = node.value(0), node.value(2), node.value(3)
    total = apply(g, node, "Gather", [words, ids], axis=0)
    if node.given(8):
        total = apply(g, node, "Add", [total, apply(g, node, "Gather", [places, node.value(8)], axis=0)])
    else:
        length = g.shape(ids)[1]
        rows = g.emit(op.arange(0, length, 1, "int64"))
        total = apply(g, node, "Add", [total, apply(g, node, "Gather", [places, g.value(rows)], axis=0)])
    if node.given(1) and node.given(4):
        total = apply(g, node, "Add", [total, apply(g, node, "Gather", [node.value(4), node.value(1)], axis=0)])
    norm = [total, node.value(5), node.value(6)]
    made = apply(g, node, "LayerNormalization", norm, axis=-1, epsilon=node.float("epsilon", 1e-12))
    found: list[Any] = [made]
    if len(node.outputs) > 1:
        batch = g.shape(ids)[0]
        if node.given(7):
            lengths = g.emit(op.sum(g.emit(op.astype(g.expr(node.value(7)), "int32")), [1]))
        else:
            lengths = g.emit(op.zeros(g.shape_expr([batch]), "int32"))
        found += [lengths, total]
    return found


@converter("BiasGelu", domain=MICROSOFT)
def bias_gelu(g: GraphBuilder, node: Node) -> Result:
    """Add a bias, and take Gelu."""
    return op.nn.gelu(g.expr(apply(g, node, "Add", [node.value(0), node.value(1)])))


@converter("FastGelu", domain=MICROSOFT)
def fast_gelu(g: GraphBuilder, node: Node) -> Result:
    """Add a bias where there is one, and take Gelu's approximation by tanh."""
    total = apply(g, node, "Add", [node.value(0), node.value(1)]) if node.given(1) else node.value(0)
    return op.nn.gelu_tanh(g.expr(total))


@converter("QuickGelu", domain=MICROSOFT)
def quick_gelu(g: GraphBuilder, node: Node) -> Result:
    """Take x * sigmoid(alpha * x)."""
    x = node.value(0)
    bent = g.emit(op.multiply(g.expr(x), g.full(node.float("alpha", 1.702), x.dtype)))
    return op.multiply(g.expr(x), g.emit(op.sigmoid(bent)))


@converter("BiasAdd", domain=MICROSOFT)
def bias_add(g: GraphBuilder, node: Node) -> Result:
    """Add a bias and a skip connection."""
    total = apply(g, node, "Add", [node.value(0), node.value(1)])
    return apply(g, node, "Add", [total, node.value(2)])


@converter("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(g: GraphBuilder, node: Node) -> Result:
    """Add a bias, and multiply the first half of the last dimension by Gelu of the second."""
    total = g.expr(apply(g, node, "Add", [node.value(0), node.value(1)]))
    first, second = g.items(g.emit(op.split(total, 2, g.rank(total) - 1)))
    return op.multiply(first, g.emit(op.nn.gelu(second)))


def _activated(g: GraphBuilder, node: Node, x: TensorValue) -> Result:
    """The activation that a node names, with its parameters."""
    name = node.text("activation", "")
    if not name:
        return x
    given = [float(value) for value in node.attr("activation_params") or []]
    if "activation_alpha" in node.attrs:
        given = [node.float("activation_alpha", 0.0), node.float("activation_beta", 0.0)]
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Elu": ("alpha",)}
    if name == "Clip" and len(given) == 2:
        return op.clip(g.expr(x), given[0], given[1])
    if name not in ("Relu", "Tanh", "Sigmoid", "HardSwish", "Softplus", *names):
        node.fail(f"the activation {name!r}")
    return apply(g, node, name, [x], **dict(zip(names.get(name, ()), given)))


@converter("FusedConv", domain=MICROSOFT)
def fused_conv(g: GraphBuilder, node: Node) -> Result:
    """Move filters over images, add a bias and another tensor, and apply an activation."""
    made = apply(g, node, "Conv", node.inputs[:3], **dict(node.attrs))
    if node.given(3):
        made = apply(g, node, "Add", [made, node.value(3)])
    return _activated(g, node, made)


@converter("FusedGemm", domain=MICROSOFT)
def fused_gemm(g: GraphBuilder, node: Node) -> Result:
    """Take alpha * A B + beta * C, and apply an activation."""
    return _activated(g, node, apply(g, node, "Gemm", node.inputs, **dict(node.attrs)))


@converter("GroupNorm", domain=MICROSOFT)
def group_norm(g: GraphBuilder, node: Node) -> Result:
    """Normalise groups of channels; SiLU follows if asked for.
    Channels are the last dimension unless told otherwise."""
    x: RelaxExpr = g.expr(node.value(0))
    last = bool(node.int("channels_last", 1))
    if last:
        x = g.emit(op.permute_dims(x, [0, 3, 1, 2]))
    attrs = {"num_groups": int(node.required("groups")), "epsilon": node.float("epsilon", 1e-5)}
    made = g.expr(apply(g, node, "GroupNormalization", [g.value(x), node.value(1), node.value(2)], **attrs))
    if node.int("activation", 0):
        made = g.emit(op.nn.silu(made))
    return op.permute_dims(made, [0, 2, 3, 1]) if last else made
