"""Activation functions."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import MICROSOFT, Result, converter
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Select


@converter("Relu")
def relu(g: GraphBuilder, node: Node) -> Result:
    """Replace negative elements by 0."""
    return op.nn.relu(g.expr(node.value(0)))


@converter("LeakyRelu")
def leaky_relu(g: GraphBuilder, node: Node) -> Result:
    """Multiply negative elements by alpha."""
    return op.nn.leakyrelu(g.expr(node.value(0)), node.float("alpha", 0.01))


@converter("PRelu")
def prelu(g: GraphBuilder, node: Node) -> Result:
    """Multiply negative elements by the slope that belongs to their place."""
    x, slope = g.expr(node.value(0)), g.expr(node.value(1))
    if node.opset < 7 and g.rank(slope) == 1 and g.rank(x) > 1:  # one number a channel
        slope = g.emit(op.expand_dims(slope, [1 + k for k in range(g.rank(x) - 2)])) if g.rank(x) > 2 else slope
    zero = g.full(0, node.value(0).dtype)
    return op.where(g.emit(op.less(x, zero)), g.emit(op.multiply(slope, x)), x)


@converter("Shrink")
def shrink(g: GraphBuilder, node: Node) -> Result:
    """Move elements beyond ±lambd towards 0 by a bias; those between become 0."""
    x = node.value(0)
    return g.value(g.te(_shrink, x, node.float("lambd", 0.5), node.float("bias", 0.0), name="shrink"), x.elem)


def _shrink(x: Tensor, bound: float, bias: float) -> Tensor:
    wide = x.dtype if x.dtype.startswith(("float", "bfloat")) else "float32"

    def at(*i: PrimExpr) -> Any:
        value, moved, zero = x(*i).astype(wide), ops.const(bias, wide), ops.const(0, wide)
        below, above = ops.less(value, ops.const(-bound, wide)), ops.greater(value, ops.const(bound, wide))
        return Select(below, value + moved, Select(above, value - moved, zero)).astype(x.dtype)

    return elements(x.shape, at, name="shrink")


def _exp_minus_1(g: GraphBuilder, x: RelaxExpr, dtype: str) -> RelaxExpr:
    return g.emit(op.subtract(g.emit(op.exp(x)), g.full(1, dtype)))


@converter("Elu")
def elu(g: GraphBuilder, node: Node) -> Result:
    """Take x, or alpha * (exp(x) - 1) where it is negative."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    bent = g.emit(op.multiply(g.full(node.float("alpha", 1.0), dtype), _exp_minus_1(g, x, dtype)))
    return op.where(g.emit(op.less(x, g.full(0, dtype))), bent, x)


@converter("Celu")
def celu(g: GraphBuilder, node: Node) -> Result:
    """Take max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    alpha = g.full(node.float("alpha", 1.0), dtype)
    bent = g.emit(op.multiply(alpha, _exp_minus_1(g, g.emit(op.divide(x, alpha)), dtype)))
    zero = g.full(0, dtype)
    return op.add(g.emit(op.maximum(x, zero)), g.emit(op.minimum(bent, zero)))


@converter("Selu")
def selu(g: GraphBuilder, node: Node) -> Result:
    """Take gamma * x, or gamma * alpha * (exp(x) - 1) where it is not positive."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    alpha = node.float("alpha", 1.67326319217681884765625)
    gamma = node.float("gamma", 1.05070102214813232421875)
    bent = g.emit(op.multiply(g.full(alpha, dtype), _exp_minus_1(g, x, dtype)))
    chosen = g.emit(op.where(g.emit(op.greater(x, g.full(0, dtype))), x, bent))
    return op.multiply(g.full(gamma, dtype), chosen)


@converter("HardSigmoid")
def hard_sigmoid(g: GraphBuilder, node: Node) -> Result:
    """Take alpha * x + beta between 0 and 1."""
    return _hard_sigmoid(g, node, node.float("alpha", 0.2), node.float("beta", 0.5))


def _hard_sigmoid(g: GraphBuilder, node: Node, alpha: float, beta: float) -> RelaxExpr:
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    line = g.emit(op.add(g.emit(op.multiply(x, g.full(alpha, dtype))), g.full(beta, dtype)))
    return op.clip(line, 0, 1)


@converter("HardSwish")
def hard_swish(g: GraphBuilder, node: Node) -> Result:
    """Take x * clip(x / 6 + 0.5, 0, 1)."""
    return op.multiply(g.expr(node.value(0)), g.emit(_hard_sigmoid(g, node, 1 / 6, 0.5)))


@converter("Softplus")
def softplus(g: GraphBuilder, node: Node) -> Result:
    """Take log(1 + exp(x)), without overflow."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    return op.log_add_exp(x, g.full(0, dtype))


@converter("Softsign")
def softsign(g: GraphBuilder, node: Node) -> Result:
    """Take x / (1 + |x|)."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    return op.divide(x, g.emit(op.add(g.full(1, dtype), g.emit(op.abs(x)))))


@converter("ThresholdedRelu")
def thresholded_relu(g: GraphBuilder, node: Node) -> Result:
    """Take x where it is above alpha, else 0."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    above = g.emit(op.greater(x, g.full(node.float("alpha", 1.0), dtype)))
    return op.where(above, x, g.full(0, dtype))


@converter("Gelu")
@converter("Gelu", domain=MICROSOFT)
def gelu(g: GraphBuilder, node: Node) -> Result:
    """Take x times the share of the normal distribution below x, exactly or by tanh."""
    x = g.expr(node.value(0))
    return op.nn.gelu_tanh(x) if node.text("approximate", "none") == "tanh" else op.nn.gelu(x)


@converter("Swish")
def swish(g: GraphBuilder, node: Node) -> Result:
    """Take x * sigmoid(alpha * x)."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    alpha = node.float("alpha", 1.0)
    if alpha == 1.0:
        return op.nn.silu(x)
    inner = g.emit(op.multiply(g.full(alpha, dtype), x))
    return op.multiply(x, g.emit(op.sigmoid(inner)))


@converter("Mish")
def mish(g: GraphBuilder, node: Node) -> Result:
    """Take x * tanh(softplus(x))."""
    x, dtype = g.expr(node.value(0)), node.value(0).dtype
    soft = g.emit(op.log_add_exp(x, g.full(0, dtype)))
    return op.multiply(x, g.emit(op.tanh(soft)))


@converter("Softmax", since=1)
@converter("LogSoftmax", since=1)
def softmax_flat(g: GraphBuilder, node: Node) -> Result:
    """Take softmax over all dimensions from `axis` on, as before opset 13."""
    x = g.expr(node.value(0))
    shape, axis = g.shape(x), node.int("axis", 1)
    rule = op.nn.softmax if node.op == "Softmax" else op.nn.log_softmax
    axis = axis % len(shape)
    if axis == len(shape) - 1:
        return rule(x, -1)
    flat = g.emit(op.reshape(x, g.shape_expr([*shape[:axis], -1])))
    return op.reshape(g.emit(rule(flat, -1)), g.shape_expr(shape))


@converter("Softmax", since=13)
@converter("LogSoftmax", since=13)
def softmax(g: GraphBuilder, node: Node) -> Result:
    """Take softmax along one dimension."""
    x = node.value(0)
    rule = op.nn.softmax if node.op == "Softmax" else op.nn.log_softmax
    return rule(g.expr(x), node.int("axis", -1))


@converter("Hardmax")
def hardmax(g: GraphBuilder, node: Node) -> Result:
    """Give 1 to the first largest element along `axis`, 0 to the others."""
    x = g.expr(node.value(0))
    shape = g.shape(x)
    axis = node.int("axis", 1 if node.opset < 13 else -1) % len(shape)
    if node.opset < 13 and axis != len(shape) - 1:
        flat = g.emit(op.reshape(x, g.shape_expr([*shape[:axis], -1])))
        return op.reshape(g.te(_hardmax, flat, axis), g.shape_expr(shape))
    return g.te(_hardmax, x, axis)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    first = topi.argmax(x, axis, False)

    def element(*i: PrimExpr) -> Any:
        chosen = ops.equal(first(*i[:axis], *i[axis + 1 :]).astype(i[axis].dtype), i[axis])
        return chosen.astype(x.dtype)

    return elements(x.shape, element, name="hardmax")
