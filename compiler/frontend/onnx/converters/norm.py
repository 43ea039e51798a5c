"""Normalisation."""

from __future__ import annotations

from typing import Any

from compiler.frontend.onnx.converters.conv import channel_vector
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import i64
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.operation import reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr


def _wide(g: GraphBuilder, x: RelaxExpr) -> RelaxExpr:
    """Numbers in float32 where they are narrower."""
    return g.emit(op.astype(x, "float32")) if g.info(x).dtype in ("float16", "bfloat16") else x


def _as(g: GraphBuilder, x: RelaxExpr, dtype: str) -> RelaxExpr:
    return x if g.info(x).dtype == dtype else g.emit(op.astype(x, dtype))


@converter("BatchNormalization")
def batch_norm(g: GraphBuilder, node: Node) -> Result:
    """Normalise each channel by given statistics, or in training mode by its own."""
    x = node.value(0)
    gamma, beta, mean, variance = (node.value(k) for k in range(1, 5))
    epsilon, rank = node.float("epsilon", 1e-5), g.rank(x)
    if node.int("training_mode", 0):
        return _batch_norm_training(g, node, x, epsilon)
    if rank >= 2 and x.dtype == gamma.dtype == mean.dtype:
        made = g.emit(
            op.nn.batch_norm(
                g.expr(x), g.expr(gamma), g.expr(beta), g.expr(mean), g.expr(variance), 1, epsilon, training=False
            )
        )
        return [g.items(made)[0]]
    data = _wide(g, g.expr(x))
    dtype = g.info(data).dtype
    parts = [_as(g, channel_vector(g, v, max(rank, 2)), dtype) for v in (gamma, beta, mean, variance)]
    return [_as(g, _normalised(g, data, parts[2], parts[3], parts[0], parts[1], epsilon), x.dtype)]


def _normalised(
    g: GraphBuilder, x: RelaxExpr, mean: RelaxExpr, variance: RelaxExpr, gamma: RelaxExpr | None,
    beta: RelaxExpr | None, epsilon: float,
) -> RelaxExpr:  # fmt: skip
    dtype = g.info(x).dtype
    scale = g.emit(op.rsqrt(g.emit(op.add(variance, g.full(epsilon, dtype)))))
    made = g.emit(op.multiply(g.emit(op.subtract(x, mean)), scale))
    if gamma is not None:
        made = g.emit(op.multiply(made, gamma))
    return made if beta is None else g.emit(op.add(made, beta))


def _batch_norm_training(g: GraphBuilder, node: Node, x: TensorValue, epsilon: float) -> Result:
    rank, momentum = g.rank(x), node.float("momentum", 0.9)
    data = _wide(g, g.expr(x))
    dtype = g.info(data).dtype
    axes = [d for d in range(rank) if d != 1]
    mean = g.emit(op.mean(data, axes, True))
    variance = g.emit(op.variance(data, axes, True))
    gamma, beta = (_as(g, channel_vector(g, node.value(k), rank), dtype) for k in (1, 2))
    made = _as(g, _normalised(g, data, mean, variance, gamma, beta, epsilon), x.dtype)
    found: list[RelaxExpr] = [made]
    for index, own in ((3, mean), (4, variance)):
        old = g.expr(node.value(index))
        kind = g.info(old).dtype
        flat = _as(g, g.emit(op.squeeze(own, axes)), kind)
        kept = g.emit(op.multiply(old, g.full(momentum, kind)))
        found.append(g.emit(op.add(kept, g.emit(op.multiply(flat, g.full(1 - momentum, kind))))))
    return found[: max(len(node.outputs), 1)]


@converter("InstanceNormalization")
def instance_norm(g: GraphBuilder, node: Node) -> Result:
    """Normalise each channel of each instance."""
    x = g.expr(node.value(0))
    axes = list(range(2, g.rank(x)))
    gamma, beta = g.expr(node.value(1)), g.expr(node.value(2))
    return op.nn.instance_norm(x, gamma, beta, 1, axes, node.float("epsilon", 1e-5))


@converter("LayerNormalization")
def layer_norm(g: GraphBuilder, node: Node) -> Result:
    """Normalise over the last dimensions. The mean and the inverse deviation are results too."""
    x, gamma, beta = node.value(0), node.value(1), node.optional(2)
    rank = g.rank(x)
    axis = node.int("axis", -1) % rank
    epsilon = node.float("epsilon", 1e-5)
    axes = list(range(axis, rank))
    simple = g.rank(gamma) == len(axes) and x.dtype == gamma.dtype and not node.wanted(1) and not node.wanted(2)
    if simple and beta is not None and g.rank(beta) == len(axes):
        return op.nn.layer_norm(g.expr(x), g.expr(gamma), g.expr(beta), axes, epsilon)
    data = _wide(g, g.expr(x))
    dtype = g.info(data).dtype
    mean = g.emit(op.mean(data, axes, True))
    centred = g.emit(op.subtract(data, mean))
    variance = g.emit(op.mean(g.emit(op.square(centred)), axes, True))
    inverse = g.emit(op.rsqrt(g.emit(op.add(variance, g.full(epsilon, dtype)))))
    made = _as(g, g.emit(op.multiply(centred, inverse)), x.dtype)
    made = g.emit(op.multiply(made, g.expr(gamma)))
    if beta is not None:
        made = g.emit(op.add(made, g.expr(beta)))
    return [made, mean, inverse][: max(len(node.outputs), 1)]


@converter("RMSNormalization")
def rms_norm(g: GraphBuilder, node: Node) -> Result:
    """Divide by the root of the mean square over the last dimensions, and scale."""
    x, gamma = node.value(0), node.value(1)
    rank = g.rank(x)
    axes = list(range(node.int("axis", -1) % rank, rank))
    epsilon = node.float("epsilon", 1e-5)
    if g.rank(gamma) == len(axes) and x.dtype == gamma.dtype:
        return op.nn.rms_norm(g.expr(x), g.expr(gamma), axes, epsilon)
    data = _wide(g, g.expr(x))
    mean = g.emit(op.mean(g.emit(op.square(data)), axes, True))
    inverse = g.emit(op.rsqrt(g.emit(op.add(mean, g.full(epsilon, g.info(data).dtype)))))
    made = _as(g, g.emit(op.multiply(data, inverse)), gamma.dtype)
    return op.multiply(made, g.expr(gamma))


@converter("GroupNormalization", since=18)
def group_norm_by_groups(g: GraphBuilder, node: Node) -> Result:
    """Normalise groups of channels; scale and bias have one number a group."""
    return _group_norm(g, node, by_group=True)


@converter("GroupNormalization", since=21)
def group_norm(g: GraphBuilder, node: Node) -> Result:
    """Normalise groups of channels; scale and bias have one number a channel."""
    return _group_norm(g, node, by_group=False)


def _group_norm(g: GraphBuilder, node: Node, by_group: bool) -> Result:
    x, gamma, beta = node.value(0), node.value(1), node.value(2)
    groups, epsilon = node.int("num_groups", 1), node.float("epsilon", 1e-5)
    dims = g.shape(x)
    data = _wide(g, g.expr(x))
    grouped = g.emit(op.reshape(data, g.shape_expr([dims[0], groups, -1])))
    mean = g.emit(op.mean(grouped, [2], True))
    variance = g.emit(op.variance(grouped, [2], True))
    made = _normalised(g, grouped, mean, variance, None, None, epsilon)
    parts = [_as(g, g.expr(value), g.info(data).dtype) for value in (gamma, beta)]
    if by_group:
        scale, bias = (g.emit(op.reshape(part, (1, groups, 1))) for part in parts)
        made = g.emit(op.add(g.emit(op.multiply(made, scale)), bias))
        return _as(g, g.emit(op.reshape(made, g.shape_expr(dims))), x.dtype)
    made = g.emit(op.reshape(made, g.shape_expr(dims)))
    scale, bias = (g.emit(op.reshape(part, (1, -1, *[1] * (len(dims) - 2)))) for part in parts)
    return _as(g, g.emit(op.add(g.emit(op.multiply(made, scale)), bias)), x.dtype)


@converter("LRN")
def local_response(g: GraphBuilder, node: Node) -> Result:
    """Divide by a power of the sum of squares over nearby channels."""
    size = node.int("size", 1)
    return g.te(
        _local_response, node.value(0), size, node.float("alpha", 1e-4), node.float("beta", 0.75),
        node.float("bias", 1.0), name="lrn",
    )  # fmt: skip


def _local_response(x: Tensor, size: int, alpha: float, beta: float, bias: float) -> Tensor:
    near = reduce_axis((i64(0), i64(size)), "c")
    first = (size - 1) // 2

    def summed(*i: PrimExpr) -> Any:
        channel = i[1] + near.var - first
        inside = ops.logical_and(ops.greater_equal(channel, 0), ops.less(channel, ops.as_expr(x.shape[1])))
        value = x(i[0], channel, *i[2:])
        return te_sum(intrin.if_then_else(inside, value * value, ops.const(0, x.dtype)), [near])

    total = elements(x.shape, summed, name="squares")

    def at(*i: PrimExpr) -> Any:
        base = total(*i) * ops.const(alpha / size, x.dtype) + ops.const(bias, x.dtype)
        return x(*i) / intrin.power(base, ops.const(beta, x.dtype))

    return elements(x.shape, at, name="lrn")


@converter("LpNormalization")
def lp_norm(g: GraphBuilder, node: Node) -> Result:
    """Divide by the p-norm along an axis; where that is 0, the result is 0."""
    x, axis, p = g.expr(node.value(0)), node.int("axis", -1), node.int("p", 2)
    dtype = node.value(0).dtype
    if p == 1:
        size = g.emit(op.sum(g.emit(op.abs(x)), [axis], True))
    else:
        size = g.emit(op.sqrt(g.emit(op.sum(g.emit(op.square(x)), [axis], True))))
    zero = g.emit(op.equal(size, g.full(0, dtype)))
    safe = g.emit(op.where(zero, g.full(1, dtype), size))
    return op.where(zero, g.full(0, dtype), g.emit(op.divide(x, safe)))


@converter("MeanVarianceNormalization")
def mean_variance_norm(g: GraphBuilder, node: Node) -> Result:
    """Take (x - mean) / deviation over axes."""
    x, axes = g.expr(node.value(0)), node.ints("axes") or [0, 2, 3]
    dtype = node.value(0).dtype
    centred = g.emit(op.subtract(x, g.emit(op.mean(x, axes, True))))
    variance = g.emit(op.mean(g.emit(op.square(centred)), axes, True))
    return op.divide(centred, g.emit(op.add(g.emit(op.sqrt(variance)), g.full(1e-9, dtype))))
