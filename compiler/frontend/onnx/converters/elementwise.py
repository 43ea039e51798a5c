"""Operators that work element by element, with broadcasting: arithmetic, comparisons, logic, bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import topi
from compiler.dtype import parse_dtype
from compiler.frontend.onnx.element_types import dtype_of
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Converter, Result, converter
from compiler.frontend.onnx.run_time import broadcast
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op

__all__: list[str] = []


def is_float(value: TensorValue) -> bool:
    """Whether a tensor holds floating point numbers."""
    return parse_dtype(value.dtype).is_float


def _unary(rule: Callable[[Any], RelaxExpr]) -> Converter:
    def convert(g: GraphBuilder, node: Node) -> Result:
        return rule(g.expr(node.value(0)))

    return convert


for _name, _rule in {
    "Abs": op.abs, "Acos": op.acos, "Acosh": op.acosh, "Asin": op.asin, "Asinh": op.asinh, "Atan": op.atan,
    "Atanh": op.atanh, "Ceil": op.ceil, "Cos": op.cos, "Cosh": op.cosh, "Erf": op.erf, "Exp": op.exp,
    "Floor": op.floor, "Log": op.log, "Neg": op.negative, "Not": op.logical_not, "Round": op.round, "Sin": op.sin,
    "Sinh": op.sinh, "Sqrt": op.sqrt, "Tan": op.tan, "Tanh": op.tanh, "IsNaN": op.isnan, "Sigmoid": op.sigmoid,
    "Sign": op.sign, "BitwiseNot": op.bitwise_not,
}.items():  # fmt: skip
    converter(_name)(_unary(_rule))


@converter("Identity")
def identity(g: GraphBuilder, node: Node) -> Result:
    """Give the input itself, whatever it is."""
    found = node.inputs[0]
    assert found is not None
    return found


@converter("Reciprocal")
def reciprocal(g: GraphBuilder, node: Node) -> Result:
    """Take 1 / x."""
    x = node.value(0)
    return op.divide(g.full(1, x.dtype), g.expr(x))


def broadcast_operands(g: GraphBuilder, node: Node) -> tuple[RelaxExpr, RelaxExpr]:
    """The two operands. Before opset 7 the second may be aligned at `axis` of the first."""
    a, b = g.expr(node.value(0)), g.expr(node.value(1))
    if node.opset < 7 and "axis" in node.attrs and g.rank(b) < g.rank(a):
        axis = node.int("axis", 0) % g.rank(a)
        behind = g.rank(a) - axis - g.rank(b)
        if behind > 0:
            b = g.emit(op.expand_dims(b, [g.rank(b) + k for k in range(behind)]))
    left, right = broadcast(g, [a, b])
    return left, right


def _binary(rule: Callable[[Any, Any], RelaxExpr]) -> Converter:
    def convert(g: GraphBuilder, node: Node) -> Result:
        return rule(*broadcast_operands(g, node))

    return convert


for _name, _pair in {
    "Add": op.add, "Sub": op.subtract, "Mul": op.multiply, "And": op.logical_and, "Or": op.logical_or,
    "Xor": op.logical_xor, "Equal": op.equal, "Greater": op.greater, "Less": op.less,
    "GreaterOrEqual": op.greater_equal, "LessOrEqual": op.less_equal, "BitwiseAnd": op.bitwise_and,
    "BitwiseOr": op.bitwise_or, "BitwiseXor": op.bitwise_xor,
}.items():  # fmt: skip
    converter(_name)(_binary(_pair))


@converter("Div")
def divide(g: GraphBuilder, node: Node) -> Result:
    """Divide; integers towards zero."""
    a, b = broadcast_operands(g, node)
    return op.divide(a, b) if is_float(node.value(0)) else g.te(topi.trunc_divide, a, b)


@converter("Mod")
def mod(g: GraphBuilder, node: Node) -> Result:
    """Take the remainder, with the sign of the divisor. With fmod=1 it has the sign of the dividend."""
    a, b = broadcast_operands(g, node)
    if not node.int("fmod", 0):
        return op.floor_mod(a, b)
    return g.te(topi.fmod if is_float(node.value(0)) else topi.trunc_mod, a, b)


@converter("Pow")
def power(g: GraphBuilder, node: Node) -> Result:
    """Raise to a power, in the base's type."""
    base, exponent = node.value(0), node.value(1)
    if exponent.is_constant and exponent.array is not None and exponent.array.size == 1 and is_float(base):
        known = float(exponent.array.reshape(-1)[0])
        if exponent.array.ndim <= g.rank(base):
            if known == 2.0:
                return op.square(g.expr(base))
            if known == 0.5:
                return op.sqrt(g.expr(base))
            if known == 1.0:
                return base
    a, b = broadcast_operands(g, node)
    if base.dtype == exponent.dtype and is_float(base):
        return op.power(a, b)
    wide = base.dtype if is_float(base) and base.dtype != "float16" else "float64"
    made = op.power(g.emit(op.astype(a, wide)), g.emit(op.astype(b, wide)))
    if not is_float(base):
        made = op.round(g.emit(made)) if is_float(exponent) is False else made
    return op.astype(g.emit(made), base.dtype)


def _variadic(rule: Callable[[Any, Any], RelaxExpr]) -> Converter:
    def convert(g: GraphBuilder, node: Node) -> Result:
        operands = broadcast(g, [g.expr(node.value(k)) for k in range(len(node.inputs))])
        total = operands[0]
        for other in operands[1:]:
            total = g.emit(rule(total, other))
        return total

    return convert


converter("Sum")(_variadic(op.add))


def _extremum(g: GraphBuilder, node: Node, larger: bool) -> Result:
    """The largest or smallest of several tensors; NaN wins over numbers."""
    operands = broadcast(g, [g.expr(node.value(k)) for k in range(len(node.inputs))])
    total = operands[0]
    for other in operands[1:]:
        if is_float(node.value(0)):
            pick = op.greater if larger else op.less
            wins = g.emit(op.logical_or(g.emit(pick(total, other)), g.emit(op.isnan(total))))
            total = g.emit(op.where(wins, total, other))
        else:
            total = g.emit((op.maximum if larger else op.minimum)(total, other))
    return total


@converter("Max")
def maximum(g: GraphBuilder, node: Node) -> Result:
    """Take the largest of several tensors."""
    return _extremum(g, node, True)


@converter("Min")
def minimum(g: GraphBuilder, node: Node) -> Result:
    """Take the smallest of several tensors."""
    return _extremum(g, node, False)


@converter("Mean")
def mean(g: GraphBuilder, node: Node) -> Result:
    """Take the mean of several tensors."""
    total = _variadic(op.add)(g, node)
    assert isinstance(total, RelaxExpr)
    return op.divide(total, g.full(len(node.inputs), node.value(0).dtype))


@converter("Where")
def where(g: GraphBuilder, node: Node) -> Result:
    """Choose elements by a condition."""
    condition, a, b = broadcast(g, [g.expr(node.value(k)) for k in range(3)])
    return g.value(op.where(condition, a, b), node.value(1).elem)


@converter("BitShift")
def bit_shift(g: GraphBuilder, node: Node) -> Result:
    """Move bits; by the width or more, all go."""
    a, b = broadcast_operands(g, node)
    dtype = node.value(0).dtype
    bits = parse_dtype(dtype).bits
    left = node.text("direction", "LEFT") == "LEFT"
    moved = g.emit((op.left_shift if left else op.right_shift)(a, g.emit(op.minimum(b, g.full(bits - 1, dtype)))))
    if not left and parse_dtype(dtype).is_signed:
        return moved  # the sign fills in
    return op.where(g.emit(op.less(b, g.full(bits, dtype))), moved, g.full(0, dtype))


@converter("IsInf")
def is_inf(g: GraphBuilder, node: Node) -> Result:
    """Tell which elements are infinite, of either sign or of one."""
    x = g.expr(node.value(0))
    found: RelaxExpr = op.isinf(x)
    positive, negative = node.int("detect_positive", 1), node.int("detect_negative", 1)
    if positive and negative:
        return found
    zero = g.full(0, node.value(0).dtype)
    sign = g.emit(op.greater(x, zero) if positive else op.less(x, zero))
    if not positive and not negative:
        return op.astype(g.emit(op.zeros_like(x)), "bool")
    return op.logical_and(g.emit(found), sign)


@converter("Clip", since=1)
def clip_by_attributes(g: GraphBuilder, node: Node) -> Result:
    """Limit elements to bounds that are attributes."""
    x = node.value(0)
    return _clip(g, x, g.full(node.attrs["min"], x.dtype) if "min" in node.attrs else None,
                 g.full(node.attrs["max"], x.dtype) if "max" in node.attrs else None)  # fmt: skip


@converter("Clip", since=11)
def clip(g: GraphBuilder, node: Node) -> Result:
    """Limit elements to bounds that are tensors without dimensions."""
    low, high = node.optional(1), node.optional(2)
    x = node.value(0)
    if low is not None and high is not None and low.is_constant and high.is_constant and is_float(x):
        assert low.array is not None
        assert high.array is not None
        first, last = float(low.array.reshape(-1)[0]), float(high.array.reshape(-1)[0])
        if first <= last:
            return op.clip(g.expr(x), first, last)
    return _clip(g, x, None if low is None else g.expr(low), None if high is None else g.expr(high))


def _clip(g: GraphBuilder, x: TensorValue, low: RelaxExpr | None, high: RelaxExpr | None) -> Result:
    found = g.expr(x)
    if low is not None:
        found = g.emit(op.maximum(found, low))
    if high is not None:
        found = g.emit(op.minimum(found, high))
    return found


@converter("BitCast")
def bit_cast(g: GraphBuilder, node: Node) -> Result:
    """Read the bits of elements as another type of the same width."""
    x, to = node.value(0), node.int("to", 1)
    wanted = dtype_of(to)
    if parse_dtype(wanted).bits != parse_dtype(x.dtype).bits:
        node.fail(f"{x.dtype} and {wanted} differ in width")
    if wanted == x.dtype:
        return TensorValue(x.dtype, to, g.expr(x))
    if "bool" in (wanted, x.dtype):
        return g.value(op.astype(g.expr(x), wanted), to)
    return g.value(g.te(topi.reinterpret, x, wanted), to)


