"""Conversions between element types, small floats and small integers included."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from compiler.dtype import parse_dtype
from compiler.frontend.onnx.element_types import SMALL_FLOATS, SMALL_INTS, SmallFloat, dtype_of
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Select


@converter("Cast")
def cast(g: GraphBuilder, node: Node) -> Result:
    """Convert elements to the type `to`."""
    to = node.attr("to", 1)
    if isinstance(to, str):  # before opset 6
        to = TensorProto.DataType.Value(to)
    return converted(g, node.value(0), int(to), bool(node.int("saturate", 1)), node.text("round_mode", "up"))


@converter("CastLike")
def cast_like(g: GraphBuilder, node: Node) -> Result:
    """Convert elements to the type of another tensor."""
    saturate, mode = bool(node.int("saturate", 1)), node.text("round_mode", "up")
    return converted(g, node.value(0), node.value(1).elem, saturate, mode)


def converted(g: GraphBuilder, x: TensorValue, to: int, saturate: bool = True, mode: str = "up") -> TensorValue:
    """A value in another ONNX type."""
    if x.elem == to:
        return x
    expr = plain_numbers(g, x)
    if to in SMALL_FLOATS:
        return g.value(small_float(g, expr, to, saturate, mode), to)
    wanted = dtype_of(to)
    have = g.info(expr).dtype
    if to in SMALL_INTS:
        bits = SMALL_INTS[to][2].removeprefix("u").removeprefix("int")
        return g.value(g.te(_wrapped, expr, int(bits), wanted), to)
    if wanted == have:
        return g.value(expr, to)
    if wanted == "bool":
        zero = g.full(0, have)
        return g.value(op.not_equal(expr, zero), to)
    source = parse_dtype(have)
    if source.is_float and parse_dtype(wanted).is_int and parse_dtype(wanted).bits < 32:
        expr = g.emit(op.astype(expr, "int32"))  # wraps around, as others do
    return g.value(op.astype(expr, wanted), to)


def plain_numbers(g: GraphBuilder, x: TensorValue) -> RelaxExpr:
    """The numbers of a value in a type that the compiler computes with: small floats as float32."""
    expr = g.expr(x)
    if x.elem not in SMALL_FLOATS:
        return expr
    return g.te(from_bits, expr, SMALL_FLOATS[x.elem], name="from_" + SMALL_FLOATS[x.elem].numpy)


def small_float(g: GraphBuilder, x: RelaxExpr, to: int, saturate: bool = True, mode: str = "up") -> RelaxExpr:
    """Numbers rounded to a small float, as its bits."""
    if g.info(x).dtype != "float32":
        x = g.emit(op.astype(x, "float32"))
    kind = SMALL_FLOATS[to]
    if kind.mantissa == 0:
        return g.te(_to_power_of_two, x, mode, saturate, name="to_float8_e8m0")
    return g.te(to_bits, x, kind, saturate, name="to_" + kind.numpy)


def _and(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a & b


def _or(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a | b


def _left(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a << b


def _right(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a >> b


def _wrapped(x: Tensor, bits: int, dtype: str) -> Tensor:
    """Integers of few bits: the lowest bits of a number."""
    keep = (1 << bits) - 1
    half = 1 << (bits - 1)

    def element(*i: PrimExpr) -> Any:
        value = x(*i).astype("int32")
        low = _and(value, ops.const(keep, "int32"))
        if dtype == "int8":
            low = Select(ops.greater_equal(low, ops.const(half, "int32")), low - (keep + 1), low)
        return low.astype(dtype)

    return elements(x.shape, element, name="small_int")


def from_bits(x: Tensor, kind: SmallFloat) -> Tensor:
    """The numbers that bits of a small float stand for, exactly, in float32."""
    top = (1 << kind.exponent) - 1

    def element(*i: PrimExpr) -> Any:
        bits = x(*i).astype("int32")
        nan = ops.const(float("nan"), "float32")
        if kind.mantissa == 0:
            smallest = ops.const(0x00400000, "int32")  # 2 ** -127 is below the normal numbers
            word: PrimExpr = Select(ops.equal(bits, 0), smallest, _left(bits, ops.const(23, "int32")))
            return Select(ops.equal(bits, ops.const(255, "int32")), nan, intrin.reinterpret("float32", word))
        mantissa = _and(bits, ops.const((1 << kind.mantissa) - 1, "int32"))
        exponent = _and(_right(bits, ops.const(kind.mantissa, "int32")), ops.const(top, "int32"))
        negative = ops.not_equal(_and(bits, ops.const(1 << (kind.bits - 1), "int32")), 0)
        word = _left(exponent + (127 - kind.bias), ops.const(23, "int32"))
        word = _or(word, _left(mantissa, ops.const(23 - kind.mantissa, "int32")))
        normal = intrin.reinterpret("float32", word)
        least = 2.0 ** (1 - kind.bias - kind.mantissa)
        small = mantissa.astype("float32") * ops.const(least, "float32")
        size = Select(ops.equal(exponent, 0), small, normal)
        value: PrimExpr = Select(negative, ops.const(0.0, "float32") - size, size)
        value = Select(ops.logical_and(negative, ops.equal(size, ops.const(0.0, "float32"))),
                       ops.const(-0.0, "float32"), value)  # fmt: skip
        if kind.infinity:
            infinite = Select(negative, ops.const(float("-inf"), "float32"), ops.const(float("inf"), "float32"))
            value = Select(ops.equal(exponent, top), Select(ops.equal(mantissa, 0), infinite, nan), value)
        elif kind.unsigned_zero:
            value = Select(ops.equal(bits, ops.const(1 << (kind.bits - 1), "int32")), nan, value)
        elif kind.bits == 8:
            value = Select(ops.equal(_and(bits, ops.const(127, "int32")), 127), nan, value)
        return value

    return elements(x.shape, element, name="from_bits")


def to_bits(x: Tensor, kind: SmallFloat, saturate: bool) -> Tensor:
    """Round float32 to the nearest small float, ties to even. Returns its bits."""
    sign_bit = 1 << (kind.bits - 1)
    if kind.unsigned_zero:
        nan, overflow = sign_bit, sign_bit
    elif kind.infinity:
        nan, overflow = ((1 << kind.exponent) - 1) << kind.mantissa | ((1 << kind.mantissa) - 1), (
            (1 << kind.exponent) - 1
        ) << kind.mantissa
    else:
        nan = overflow = (1 << (kind.bits - 1)) - 1

    def const(value: int) -> PrimExpr:
        return ops.const(value, "int32")

    def element(*i: PrimExpr) -> Any:
        value = x(*i)
        word = intrin.reinterpret("int32", value)
        negative = ops.less(word, 0)
        size = _and(word, const(0x7FFFFFFF))
        exponent = _right(size, const(23)) - (127 - kind.bias)  # of the small float
        # Below the least normal one the mantissa moves down, its leading one written out.
        full = Select(ops.greater(size, const(0x007FFFFF)),
                      _or(_and(size, const(0x7FFFFF)), const(0x800000)),
                      _and(size, const(0x7FFFFF)))  # fmt: skip
        drop = const(23 - kind.mantissa)
        down = drop + ops.maximum(const(1) - exponent, const(0))
        down = ops.minimum(down, const(26))
        kept = _right(full, down)
        rest = full - _left(kept, down)
        half = _left(const(1), down - 1)
        odd = ops.equal(_and(kept, const(1)), 1)
        up = ops.logical_or(ops.greater(rest, half), ops.logical_and(ops.equal(rest, half), odd))
        kept = kept + up.astype("int32")
        base = _left(ops.maximum(exponent - 1, const(0)), const(kind.mantissa))
        bits = Select(ops.equal(size, 0), const(0), base + kept)
        finite_top = _top_bits(kind)
        is_nan = ops.greater(size, const(0x7F800000))
        beyond = ops.greater(bits, const(finite_top))
        infinite = ops.equal(size, const(0x7F800000))
        if kind.bits == 4:
            limited, over = const(finite_top), const(finite_top)
        else:
            limited = over = const(finite_top) if saturate else const(overflow)
        bits = Select(beyond, limited, bits)
        bits = Select(infinite, over, bits)
        if kind.unsigned_zero:
            plain_nan = ops.equal(bits, const(sign_bit))
            signed = Select(ops.logical_and(negative, ops.greater(bits, const(0))), bits + sign_bit, bits)
            signed = Select(plain_nan, const(nan), signed)
        else:
            signed = Select(negative, bits + sign_bit, bits)
        nan_bits = const(sign_bit) if kind.bits == 4 else const(nan)
        if kind.bits == 8 and not kind.unsigned_zero:
            nan_bits = Select(negative, const(nan | sign_bit), const(nan))
        return Select(is_nan, nan_bits, signed).astype("uint8")

    return elements(x.shape, element, name="to_bits")


def _top_bits(kind: SmallFloat) -> int:
    """The bits of the largest finite number."""
    if kind.infinity:
        return (((1 << kind.exponent) - 1) << kind.mantissa) - 1
    if kind.unsigned_zero or kind.bits == 4:
        return (1 << (kind.bits - 1)) - 1
    return (1 << (kind.bits - 1)) - 2


def _to_power_of_two(x: Tensor, mode: str, saturate: bool) -> Tensor:
    """Hold float32 as the exponent of a power of two; `mode` says how other numbers are rounded."""

    def const(value: int) -> PrimExpr:
        return ops.const(value, "int32")

    def element(*i: PrimExpr) -> Any:
        word = intrin.reinterpret("int32", x(*i))
        size = _and(word, const(0x7FFFFFFF))
        exponent = _right(size, const(23))
        mantissa = _and(size, const(0x7FFFFF))
        if mode == "up":
            more = ops.greater(mantissa, 0)
            if not saturate:
                more = ops.logical_and(more, ops.less(exponent, const(0xFE)))
        elif mode == "nearest":
            more = ops.greater_equal(mantissa, const(0x400000))
        else:
            more = ops.greater(const(0), const(1))
        limited = ops.minimum(exponent + more.astype("int32"), const(0xFE if saturate else 0xFF))
        is_nan = ops.greater(size, const(0x7F800000))
        infinite = ops.equal(size, const(0x7F800000))
        found = Select(infinite, const(0xFE if saturate else 0xFF), limited)
        return Select(is_nan, const(0xFF), found).astype("uint8")

    return elements(x.shape, element, name="to_power_of_two")


__all__ = ["converted", "from_bits", "plain_numbers", "small_float", "to_bits"]
