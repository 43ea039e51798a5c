"""Quantised operators: operands are dequantised, the operator is applied, and the result is quantised.

Products, pools and moves stay in integers by the rules that hold between DequantizeLinear and QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.frontend.onnx.converters.integers import matmul_sums
from compiler.frontend.onnx.converters.microsoft.calls import apply
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import MICROSOFT, Converter, Result, converter, find
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op


def _floats(g: GraphBuilder, node: Node, first: int, axis: int = 0) -> TensorValue:
    """Three inputs as floats: integers, a scale, a zero point."""
    inputs = [node.value(first), node.value(first + 1), node.optional(first + 2)]
    return apply(g, node, "DequantizeLinear", inputs, axis=axis)


def _integers(g: GraphBuilder, node: Node, x: TensorValue, scale: int, elem: int) -> TensorValue:
    """Floats as integers: the scale is an input, the zero point the next."""
    zero = node.optional(scale + 1)
    more = {} if zero is not None else {"output_dtype": elem}
    return apply(g, node, "QuantizeLinear", [x, node.value(scale), zero], **more)


@converter("DequantizeLinear", "QuantizeLinear", domain=MICROSOFT)
def linear(g: GraphBuilder, node: Node) -> Result:
    """Quantise or dequantise, as the operators of the default domain do."""
    return apply(g, node, node.op, node.inputs, **dict(node.attrs))


def _binary(name: str) -> Converter:
    def convert(g: GraphBuilder, node: Node) -> Result:
        made = apply(g, node, name, [_floats(g, node, 0), _floats(g, node, 3)])
        return _integers(g, node, made, 6, node.value(0).elem)

    return convert


for _name in ("Add", "Mul"):
    converter(f"QLinear{_name}", domain=MICROSOFT)(_binary(_name))


def _unary(name: str, attributes: Callable[[Node], dict[str, Any]]) -> Converter:
    def convert(g: GraphBuilder, node: Node) -> Result:
        if node.int("channels_last", 0):
            node.fail("channels_last is not supported", hint="quantise without the NHWC transformer of onnxruntime")
        made = apply(g, node, name, [_floats(g, node, 0)], **attributes(node))
        return _integers(g, node, made, 3, node.value(0).elem)

    return convert


def _own(node: Node) -> dict[str, Any]:
    return {name: value for name, value in node.attrs.items() if name not in ("channels_last", "opset")}


for _name in ("Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool", "Softmax"):
    converter(f"QLinear{_name}", domain=MICROSOFT)(_unary(_name, _own))


@converter("QLinearConcat", domain=MICROSOFT)
def concat(g: GraphBuilder, node: Node) -> Result:
    """Put quantised tensors one after another; each has its own scale and zero point."""
    parts = [_floats(g, node, k) for k in range(2, len(node.inputs), 3)]
    return _integers(g, node, apply(g, node, "Concat", parts, axis=node.int("axis", 0)), 0, node.value(2).elem)


@converter("QGemm", domain=MICROSOFT)
def gemm(g: GraphBuilder, node: Node) -> Result:
    """Take alpha * A B + C of quantised matrices; C is int32 in the unit of the sums."""
    turned = node.int("transB", 0)
    a, b = _floats(g, node, 0), _floats(g, node, 3, 0 if turned else 1)
    sa, sb, alpha = node.value(1), node.value(4), node.float("alpha", 1.0)
    bias = None
    if node.given(6):
        unit = g.value(op.multiply(g.expr(sa), g.expr(sb)))
        if sa.is_constant and sb.is_constant and sa.array is not None and sb.array is not None:
            unit = g.known(sa.array.reshape(()) * sb.array)
        bias = apply(g, node, "DequantizeLinear", [node.value(6), unit, None], axis=0)
    attrs = {"transA": node.int("transA", 0), "transB": turned, "alpha": alpha, "beta": alpha}
    made = apply(g, node, "Gemm", [a, b, bias], **attrs)
    return _integers(g, node, made, 7, node.value(0).elem) if node.given(7) else made


def _scaled(g: GraphBuilder, node: Node, total: RelaxExpr, scale: RelaxExpr, bias: int) -> RelaxExpr:
    """int32 sums as floats, and a bias added."""
    made = g.emit(op.multiply(g.emit(op.astype(total, g.info(scale).dtype)), scale))
    return g.emit(op.add(made, g.expr(node.value(bias)))) if node.given(bias) else made


@converter("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_to_float(g: GraphBuilder, node: Node) -> Result:
    """Multiply quantised matrices to floats."""
    total = matmul_sums(g, node.value(0), node.value(1), node.optional(4), node.optional(5))
    scale = g.emit(op.multiply(g.expr(node.value(2)), g.expr(node.value(3))))
    return _scaled(g, node, total, scale, 6)


@converter("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_matmul(g: GraphBuilder, node: Node) -> Result:
    """Quantise the first matrix by its own range, multiply, and give floats."""
    rule = find("", "DynamicQuantizeLinear", 11)
    assert rule is not None
    parts: Any = rule(g, node)
    data, scale, zero = (g.value(part) for part in parts)
    total = matmul_sums(g, data, node.value(1), zero, node.optional(3))
    return _scaled(g, node, total, g.emit(op.multiply(g.expr(scale), g.expr(node.value(2)))), 4)
