"""The interpreter's arithmetic against numpy: dtypes and intrinsics."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.interp import interpreter as interp
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from tests.kit.compiler.interp_functions import RNG, elementwise, func_of, loop

# ---------------------------------------------------------------------------------------- dtypes

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def edge_pairs(dtype):
    info = np.iinfo(dtype)
    values = sorted({info.min, info.min + 1, -7, -1, 0, 1, 2, 7, info.max - 1, info.max} & set(_range(info)))
    pairs = [(a, b) for a in values for b in values]
    return np.array([a for a, _ in pairs], dtype), np.array([b for _, b in pairs], dtype)


def _range(info):
    return [v for v in (info.min, info.min + 1, -7, -1, 0, 1, 2, 7, info.max - 1, info.max) if info.min <= v]


@pytest.mark.parametrize("dtype", INTS)
def test_integers_wrap(dtype):
    a, b = edge_pairs(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elementwise(lambda x, y: x + y, a, b), a + b)
        np.testing.assert_array_equal(elementwise(lambda x, y: x - y, a, b), a - b)
        np.testing.assert_array_equal(elementwise(lambda x, y: x * y + x, a, b), a * b + a)
        np.testing.assert_array_equal(elementwise(ops.minimum, a, b), np.minimum(a, b))
        np.testing.assert_array_equal(elementwise(ops.maximum, a, b), np.maximum(a, b))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_divisions(dtype):
    a, b = edge_pairs(dtype)
    keep = b != 0
    a, b = a[keep], b[keep]
    exact = [(int(x), int(y)) for x, y in zip(a, b)]

    def wrapped(f):
        return [ops.wrap_int(f(x, y), dtype) for x, y in exact]

    assert elementwise(ops.floordiv, a, b).tolist() == wrapped(lambda x, y: x // y)
    assert elementwise(ops.floormod, a, b).tolist() == wrapped(lambda x, y: x % y)
    assert elementwise(ops.truncdiv, a, b).tolist() == wrapped(ops.trunc_div_int)
    assert elementwise(ops.truncmod, a, b).tolist() == wrapped(lambda x, y: x - ops.trunc_div_int(x, y) * y)


@pytest.mark.parametrize("dtype", INTS)
def test_bits(dtype):
    a, b = edge_pairs(dtype)
    bits = np.iinfo(dtype).bits
    shift = np.abs(b.astype("float64") % bits).astype(dtype)
    np.testing.assert_array_equal(elementwise(lambda x, y: x & y, a, b), a & b)
    np.testing.assert_array_equal(elementwise(lambda x, y: x | y, a, b), a | b)
    np.testing.assert_array_equal(elementwise(lambda x, y: x ^ y, a, b), a ^ b)
    np.testing.assert_array_equal(elementwise(lambda x: ~x, a), ~a)
    np.testing.assert_array_equal(elementwise(lambda x, y: x << y, a, shift), a << shift)
    np.testing.assert_array_equal(elementwise(lambda x, y: x >> y, a, shift), a >> shift)
    masks = [int(x) & ((1 << bits) - 1) for x in a]
    count = elementwise(lambda x: intrin.call("tir.popcount", "int32", x), a, dtype="int32")
    zeros = elementwise(lambda x: intrin.call("tir.clz", "int32", x), a, dtype="int32")
    assert count.tolist() == [m.bit_count() for m in masks]
    assert zeros.tolist() == [bits - m.bit_length() for m in masks]


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", [*INTS, "float16", "float32", "float64", "bool"])
def test_integer_casts(source, target):
    a, _ = edge_pairs(source)
    with np.errstate(all="ignore"):
        expected = a.astype(target)
    np.testing.assert_array_equal(elementwise(lambda x: ops.cast(target, x), a), expected)


FLOATS = np.array([0.0, -0.0, 1.5, -2.5, 0.1, 3.9, -3.9, 1e-8, 123456.789, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("target", ["int8", "int32", "int64", "uint8"])
def test_float_to_integer_rounds_towards_zero(target):
    a = np.array([0.0, 1.5, 2.5, 3.9, 100.7], "float32")
    np.testing.assert_array_equal(elementwise(lambda x: ops.cast(target, x), a), a.astype(target))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_float_arithmetic_is_numpys(dtype):
    with np.errstate(all="ignore"):
        a, b = (v.ravel().astype(dtype) for v in np.meshgrid(FLOATS, FLOATS))
        for make, expected in [
            (lambda x, y: x + y, a + b),
            (lambda x, y: x - y, a - b),
            (lambda x, y: x * y, a * b),
            (lambda x, y: x / y, a / b),
            (lambda x, y: (x * y + x) * y, (a * b + a) * b),
            (ops.truncmod, np.fmod(a, b)),
        ]:
            np.testing.assert_array_equal(elementwise(make, a, b), expected)
        np.testing.assert_array_equal(elementwise(lambda x, y: x < y, a, b), a < b)
        np.testing.assert_array_equal(elementwise(lambda x, y: n.NE(x, y), a, b), a != b)


def test_random_float32_arithmetic_is_bitwise_numpys():
    bits = RNG.integers(0, 1 << 32, (3, 4000), dtype=np.uint32)
    a, b, c = bits.view(np.float32)
    with np.errstate(all="ignore"):
        expected = (a * b - c) / (a + c)
    found = elementwise(lambda x, y, z: (x * y - z) / (x + z), a, b, c)
    np.testing.assert_array_equal(found, expected)


def test_fma_rounds_once():
    bits = RNG.integers(0x30000000, 0x50000000, (3, 2000), dtype=np.uint32)
    a, b, c = bits.view(np.float32)
    c = -(a * b) * np.float32(1 + 2**-20)
    found = elementwise(intrin.fma, a, b, c)
    wide = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
    np.testing.assert_array_equal(found, wide.astype(np.float32))


def test_bfloat16_is_float32_rounded():
    """Arithmetic on bfloat16 bits, and on float32 arrays standing for bfloat16 values."""
    a, out = n.decl_buffer((64,), "bfloat16", "a"), n.decl_buffer((64,), "bfloat16", "out")
    body = loop(64, lambda i: n.BufferStore(out, a[i] * a[i] + a[i], (i,)))
    func = func_of(body, a, out)
    bits = RNG.integers(0x3F00, 0x4200, 64, dtype=np.uint16)
    values = (bits.astype(np.uint32) << 16).view(np.float32)
    result, as_float = np.zeros(64, np.uint16), np.zeros(64, np.float32)
    interp.run(func, bits, result)
    interp.run(func, values.copy(), as_float)

    def rounded(x):
        raw = x.view(np.uint32)
        return ((raw + 0x7FFF + ((raw >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)

    expected = rounded(values * values + values)
    np.testing.assert_array_equal((result.astype(np.uint32) << 16).view(np.float32), expected)
    np.testing.assert_array_equal(as_float, expected)


def test_bool_buffers():
    a = np.array([0, 1, 5], "int32")
    found = elementwise(lambda x: ops.logical_and(x > 0, ops.logical_not(n.EQ(x, ops.const(5)))), a, dtype="bool")
    assert found.tolist() == [False, True, False]


# ------------------------------------------------------------------------------------ intrinsics

UNARY = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "nearbyint": np.rint, "exp10": lambda x: np.power(10.0, x), "abs": np.abs,
    "round": lambda x: np.copysign(np.where(np.abs(x) % 1 == 0.5, np.ceil(np.abs(x)), np.rint(np.abs(x))), x),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary_intrinsics(name, dtype):
    x = np.array([0, -0.0, 0.5, 1.5, -1.5, 2.5, -2.5, 0.3, -0.7, 7.25, 89, -120, 800, -800, 1e30], dtype)
    x = np.concatenate([x, np.array([np.inf, -np.inf, np.nan], dtype)])
    with np.errstate(all="ignore"):
        expected = UNARY[name](x.astype("float64")).astype(dtype)
    found = elementwise(getattr(intrin, name), x)
    np.testing.assert_allclose(found, expected, rtol=1e-15 if dtype == "float64" else 1e-7)


def test_binary_and_predicate_intrinsics():
    with np.errstate(all="ignore"):
        a, b = (v.ravel() for v in np.meshgrid(FLOATS, FLOATS))
        np.testing.assert_array_equal(elementwise(intrin.power, a, b), np.power(a, b))
        for name, f in {"atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign, "fmod": np.fmod}.items():
            found = elementwise(lambda x, y, name=name: intrin.call(f"tir.{name}", "float64", x, y), a, b)
            np.testing.assert_allclose(found, f(a, b), rtol=1e-15)
    for name, f in {"isnan": np.isnan, "isinf": np.isinf}.items():
        found = elementwise(lambda x, name=name: intrin.call(f"tir.{name}", "bool", x), FLOATS)
        np.testing.assert_array_equal(found, f(FLOATS))


def test_erf():
    from math import erf

    x = np.linspace(-3, 3, 13)
    assert elementwise(intrin.erf, x).tolist() == [erf(v) for v in x]


def test_reinterpret():
    x = np.array([1.5, -0.0, np.inf], "float32")
    found = elementwise(lambda v: intrin.call("tir.reinterpret", "int32", v), x, dtype="int32")
    np.testing.assert_array_equal(found, x.view("int32"))


def test_untaken_branches_are_not_evaluated():
    a, out = n.decl_buffer((4,), name="a"), n.decl_buffer((6,), name="out")
    padded = loop(6, lambda i: n.BufferStore(out, intrin.if_then_else(i < 4, a[i] * a[i] + 1.0, 0.0), (i,)))
    x, result = RNG.random(4, "float32"), np.ones(6, "float32")
    interp.run(func_of(padded, a, out), x, result)
    assert result.tolist() == [*(x * x + np.float32(1)).tolist(), 0, 0]
    lazy = loop(6, lambda i: n.IfThenElse(ops.logical_and(i < 4, a[i] > 0.0), n.BufferStore(out, a[i], (i,))))
    interp.run(func_of(lazy, a, out), x, result)
